# What `cmake --install` puts where: the program, the libraries, the header, and how others find them.
include(CMakePackageConfigHelpers)

install(TARGETS recollect RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
# Both libraries, or the one that BUILD_SHARED_LIBS asks for.
set(rc_installed recollect_static recollect_shared rc_libraries)
if(DEFINED BUILD_SHARED_LIBS AND BUILD_SHARED_LIBS)
    set(rc_installed recollect_shared)
elseif(DEFINED BUILD_SHARED_LIBS)
    set(rc_installed recollect_static rc_libraries)
endif()
install(TARGETS ${rc_installed} EXPORT recollect-targets
        ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY include/recollect DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
if(EXISTS ${PROJECT_SOURCE_DIR}/presets)
    install(DIRECTORY presets DESTINATION ${CMAKE_INSTALL_DATADIR}/recollect)
endif()

# What people read, with the links from one page to the other: README.md beside docs/ and examples/. The records of single
# runs stay in the source.
install(FILES README.md CONTRIBUTING.md SECURITY.md LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(DIRECTORY docs examples DESTINATION ${CMAKE_INSTALL_DOCDIR} PATTERN results EXCLUDE)

# What `cmake --install` needs, and no more: script/build builds it.
add_custom_target(recollect_program DEPENDS recollect recollect_static recollect_shared)
if(RC_CUDA)
    add_dependencies(recollect_program recollect_cuda)
endif()
if(TARGET recollect_mpi)
    add_dependencies(recollect_program recollect_mpi)
endif()

# Manual pages and completions come out of the program itself, so it must run here: not one for another machine, nor one
# with a sanitizer, which nobody installs and which may not start where addresses are randomised.
if(NOT CMAKE_CROSSCOMPILING AND NOT RC_SANITIZE AND NOT RC_FUZZ)
    set(printed ${PROJECT_BINARY_DIR}/share)
    file(MAKE_DIRECTORY ${printed})
    # rc_printed(FILE ARGUMENT...) adds what the program prints to the list of printed files.
    set(printed_files "")
    function(rc_printed file)
        add_custom_command(OUTPUT ${printed}/${file} DEPENDS recollect COMMAND recollect ${ARGN} > ${printed}/${file})
        set(printed_files ${printed_files} ${printed}/${file} PARENT_SCOPE)
    endfunction()
    # A page for the program, one for each command, whose files are named like it, and one for the library.
    rc_printed(recollect.1 manual)
    rc_printed(recollect.3 manual library)
    foreach(source IN LISTS cli_sources)
        if(source MATCHES "/cmd_([a-z]+)[.]c$")
            rc_printed(recollect-${CMAKE_MATCH_1}.1 manual ${CMAKE_MATCH_1})
        endif()
    endforeach()
    foreach(section IN ITEMS 1 3)
        set(pages ${printed_files})
        list(FILTER pages INCLUDE REGEX "[.]${section}$")
        install(FILES ${pages} DESTINATION ${CMAKE_INSTALL_MANDIR}/man${section})
    endforeach()
    foreach(shell IN ITEMS bash zsh fish)
        rc_printed(recollect.${shell} completion ${shell})
    endforeach()
    install(FILES ${printed}/recollect.bash RENAME recollect
            DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)
    install(FILES ${printed}/recollect.zsh RENAME _recollect DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions)
    install(FILES ${printed}/recollect.fish DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d)
    add_custom_target(rc_manual_and_completions ALL DEPENDS ${printed_files})
    add_dependencies(recollect_program rc_manual_and_completions)
endif()

set(package_directory ${CMAKE_INSTALL_LIBDIR}/cmake/recollect)
install(EXPORT recollect-targets NAMESPACE recollect:: DESTINATION ${package_directory})
configure_package_config_file(cmake/recollect-config.cmake.in recollect-config.cmake
                              INSTALL_DESTINATION ${package_directory})
write_basic_package_version_file(recollect-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/recollect-config.cmake
        ${CMAKE_CURRENT_BINARY_DIR}/recollect-config-version.cmake cmake/libraries.cmake DESTINATION ${package_directory})

# The prefix is written relative to the file, so that the installed tree can be moved; unless its folders are absolute.
if(IS_ABSOLUTE "${CMAKE_INSTALL_LIBDIR}" OR IS_ABSOLUTE "${CMAKE_INSTALL_INCLUDEDIR}")
    set(pkgconfig_prefix ${CMAKE_INSTALL_PREFIX})
    set(pkgconfig_libdir ${CMAKE_INSTALL_FULL_LIBDIR})
    set(pkgconfig_includedir ${CMAKE_INSTALL_FULL_INCLUDEDIR})
else()
    file(RELATIVE_PATH pkgconfig_prefix /prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig /prefix)
    string(REGEX REPLACE "/$" "" pkgconfig_prefix "\${pcfiledir}/${pkgconfig_prefix}")
    set(pkgconfig_libdir "\${prefix}/${CMAKE_INSTALL_LIBDIR}")
    set(pkgconfig_includedir "\${prefix}/${CMAKE_INSTALL_INCLUDEDIR}")
endif()
set(pkgconfig_optional "")
foreach(format IN ITEMS WEBP TIFF)
    if(RC_HAS_${format})
        string(REPLACE ">=" " >= " module "${RC_${format}_MODULE}")
        string(APPEND pkgconfig_optional ", ${module}")
    endif()
endforeach()
set(pkgconfig_gif "")
if(RC_HAS_GIF)
    set(pkgconfig_gif " -lgif")
endif()
configure_file(cmake/recollect.pc.in recollect.pc @ONLY)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/recollect.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
