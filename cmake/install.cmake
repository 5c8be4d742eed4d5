# What `cmake --install` puts where: the program, both libraries, the header, and how others find them.
include(CMakePackageConfigHelpers)

install(TARGETS recollect RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(TARGETS recollect_static recollect_shared rc_libraries EXPORT recollect-targets
        ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY include/recollect DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
if(EXISTS ${PROJECT_SOURCE_DIR}/presets)
    install(DIRECTORY presets DESTINATION ${CMAKE_INSTALL_DATADIR}/recollect)
endif()

# Manual page and completions come out of the program itself, so it must run here: not one for another machine, nor one
# with a sanitizer, which nobody installs and which may not start where addresses are randomised.
if(NOT CMAKE_CROSSCOMPILING AND NOT RC_SANITIZE AND NOT RC_FUZZ)
    set(printed ${PROJECT_BINARY_DIR}/share)
    file(MAKE_DIRECTORY ${printed})
    add_custom_command(OUTPUT ${printed}/recollect.1 DEPENDS recollect
                       COMMAND recollect manual > ${printed}/recollect.1)
    foreach(shell IN ITEMS bash zsh fish)
        add_custom_command(OUTPUT ${printed}/recollect.${shell} DEPENDS recollect
                           COMMAND recollect completion ${shell} > ${printed}/recollect.${shell})
    endforeach()
    add_custom_target(manual_and_completions ALL DEPENDS ${printed}/recollect.1 ${printed}/recollect.bash
                      ${printed}/recollect.zsh ${printed}/recollect.fish)
    install(FILES ${printed}/recollect.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
    install(FILES ${printed}/recollect.bash RENAME recollect
            DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)
    install(FILES ${printed}/recollect.zsh RENAME _recollect DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions)
    install(FILES ${printed}/recollect.fish DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d)
endif()

set(package_directory ${CMAKE_INSTALL_LIBDIR}/cmake/recollect)
install(EXPORT recollect-targets NAMESPACE recollect:: DESTINATION ${package_directory})
configure_package_config_file(cmake/recollect-config.cmake.in recollect-config.cmake
                              INSTALL_DESTINATION ${package_directory})
write_basic_package_version_file(recollect-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/recollect-config.cmake
        ${CMAKE_CURRENT_BINARY_DIR}/recollect-config-version.cmake DESTINATION ${package_directory})

# The prefix is written relative to the file, so that the installed tree can be moved.
file(RELATIVE_PATH prefix_from_pkgconfig /prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig /prefix)
string(REGEX REPLACE "/$" "" prefix_from_pkgconfig "${prefix_from_pkgconfig}")
configure_file(cmake/recollect.pc.in recollect.pc @ONLY)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/recollect.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
