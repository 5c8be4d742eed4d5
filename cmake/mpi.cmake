# The MPI module, librecollect_mpi.so: opened at run time, so that the program itself needs no MPI. RC_MPI: AUTO builds it
# where MPI is found, ON asks for it, OFF leaves it out.
set(demand REQUIRED)
if(RC_MPI STREQUAL "AUTO")
    if(CMAKE_CROSSCOMPILING) # the MPI that is found would be this machine's
        return()
    endif()
    set(demand QUIET)
endif()
find_package(MPI ${demand} COMPONENTS C)
if(MPI_C_FOUND)
    add_library(recollect_mpi MODULE src/backend/mpi/module.c)
    target_link_libraries(recollect_mpi PRIVATE rc_inside MPI::MPI_C)
    if(RC_INSTALL)
        install(TARGETS recollect_mpi LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
    endif()
endif()
