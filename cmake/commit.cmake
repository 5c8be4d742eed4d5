# Keeps commit.c in the build folder up to date: the commit of git that is built, with a "+" where files differ from it.
# Included, it makes the target that does so at every build; run as a script by that target, it writes the file when it
# has changed. -DRC_COMMIT=... says it where the sources are not in git; a commit of a project that holds a copy of them is
# not theirs.
if(CMAKE_SCRIPT_MODE_FILE)
    cmake_minimum_required(VERSION 3.22)
    if(NOT commit AND EXISTS ${source}/.git)
        execute_process(COMMAND git describe --always --abbrev=10 --exclude=* --dirty=+ WORKING_DIRECTORY ${source}
                        OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
    endif()
    file(CONFIGURE OUTPUT ${output} @ONLY CONTENT
         "#include \"experiment/commit.h\"\n\nconst char rc_commit[] = \"@commit@\";\n")
    return()
endif()
set(RC_COMMIT "" CACHE STRING "Commit that results name; empty: git is asked")
set(commit_source ${PROJECT_BINARY_DIR}/commit.c)
add_custom_target(rc_commit_source BYPRODUCTS ${commit_source}
                  COMMAND ${CMAKE_COMMAND} -Dsource=${PROJECT_SOURCE_DIR} -Doutput=${commit_source} -Dcommit=${RC_COMMIT}
                          -P ${PROJECT_SOURCE_DIR}/cmake/commit.cmake)
