# What makes a fault of the program harder to use: stacks that are guarded, buffers whose size the C library knows, no code
# on the stack, tables of the loader that are read-only, jumps that land where they may. Not with sanitizers, which do more.
# tests/install/test_hardening.sh looks at what is installed. A build for a folder has the bytes of one for another: no path
# of this machine gets into it.
include(CheckCCompilerFlag)
include(CheckLinkerFlag)

# rc_flags(COMPILE|LINK flag...) adds those that the compiler knows.
function(rc_flags kind)
    foreach(flag IN LISTS ARGN)
        string(MAKE_C_IDENTIFIER "rc_takes${flag}" known)
        if(kind STREQUAL "LINK")
            check_linker_flag(C ${flag} ${known})
        else()
            set(CMAKE_REQUIRED_FLAGS -Werror)
            check_c_compiler_flag(${flag} ${known})
            unset(CMAKE_REQUIRED_FLAGS)
        endif()
        if(${known} AND kind STREQUAL "LINK")
            add_link_options($<$<LINK_LANGUAGE:C>:${flag}>)
        elseif(${known})
            add_compile_options($<$<COMPILE_LANGUAGE:C>:${flag}>)
        endif()
    endforeach()
endfunction()

if(NOT RC_MUTATE AND NOT RC_COVERAGE) # gcov names files as they are
    rc_flags(COMPILE -ffile-prefix-map=${PROJECT_BINARY_DIR}=build -ffile-prefix-map=${PROJECT_SOURCE_DIR}=.)
endif()
if(NOT RC_SANITIZE AND NOT RC_FUZZ AND NOT RC_MUTATE)
    rc_flags(COMPILE -fstack-protector-strong -fstack-clash-protection)
    if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(aarch64|arm64)$")
        rc_flags(COMPILE -mbranch-protection=standard)
    elseif(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|amd64|AMD64)$")
        rc_flags(COMPILE -fcf-protection=full)
    endif()
    if(CMAKE_BUILD_TYPE MATCHES "^(Release|RelWithDebInfo|MinSizeRel)$") # it takes an optimised build
        add_compile_options($<$<COMPILE_LANGUAGE:C>:-U_FORTIFY_SOURCE> $<$<COMPILE_LANGUAGE:C>:-D_FORTIFY_SOURCE=2>)
    endif()
    rc_flags(LINK -Wl,-z,relro -Wl,-z,now -Wl,-z,noexecstack)
endif()
