# The CUDA module, librecollect_cuda.so: opened at run time, so that one program runs with and without a driver.
if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
    set(CMAKE_CUDA_ARCHITECTURES 80-real 90a-real 90-virtual) # newer cards compile what is there for 90
endif()
enable_language(CUDA)
find_package(CUDAToolkit REQUIRED)
file(GLOB cuda_sources CONFIGURE_DEPENDS src/backend/cuda/*.cu src/backend/cuda/*/*.cu)
if(NOT cuda_sources)
    message(FATAL_ERROR "RC_CUDA is on, but src/backend/cuda has no source files")
endif()
add_library(recollect_cuda MODULE ${cuda_sources})
set_target_properties(recollect_cuda PROPERTIES CUDA_STANDARD 17 CUDA_VISIBILITY_PRESET hidden)
# Not -Wundef, since CUDA's own headers test macros that are not defined, and not -Wshadow, since they take names such as
# `half`: the emulation (tests/emulation) compiles the same files with both.
target_compile_options(recollect_cuda PRIVATE
                       $<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-Wall,-Wextra,-Wcast-qual,-Wmissing-declarations>)
if(RC_WERROR)
    target_compile_options(recollect_cuda PRIVATE "$<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-Werror;-Werror=all-warnings>")
endif()
target_link_libraries(recollect_cuda PRIVATE rc_inside CUDA::cudart_static)
install(TARGETS recollect_cuda LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
