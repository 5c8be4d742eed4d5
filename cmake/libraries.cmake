# The libraries that recollect needs, found by pkg-config: for the build, and for who links the installed static library.
# The prefix keeps the variables apart from those of CMake's own modules, such as FindZLIB.
pkg_check_modules(RC_YAML REQUIRED IMPORTED_TARGET yaml-0.1)
pkg_check_modules(RC_JPEG REQUIRED IMPORTED_TARGET libjpeg)
pkg_check_modules(RC_PNG REQUIRED IMPORTED_TARGET libpng)
pkg_check_modules(RC_ZLIB REQUIRED IMPORTED_TARGET zlib)
