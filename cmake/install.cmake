# What `cmake --install` puts where: the program, both libraries, the header, and how others find them.
include(CMakePackageConfigHelpers)

install(TARGETS recollect RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(TARGETS recollect_static recollect_shared rc_libraries EXPORT recollect-targets
        ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY include/recollect DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
if(EXISTS ${PROJECT_SOURCE_DIR}/presets)
    install(DIRECTORY presets DESTINATION ${CMAKE_INSTALL_DATADIR}/recollect)
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
