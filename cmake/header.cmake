# The public header as an array of its lines, which the program turns into the manual page of the library.
set(header ${PROJECT_SOURCE_DIR}/include/recollect/recollect.h)
file(READ ${header} text)
string(REPLACE "\\" "\\\\" text "${text}")
string(REPLACE "\"" "\\\"" text "${text}")
string(REGEX REPLACE "\n$" "" text "${text}")
string(REPLACE "\n" "\",\n    \"" text "${text}")
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${header})
set(header_source ${PROJECT_BINARY_DIR}/header.c)
file(CONFIGURE OUTPUT ${header_source} @ONLY CONTENT
     "#include \"cli/manual_library.h\"\n\nconst char *const rc_header_lines[] = {\n    \"${text}\",\n    0,\n};\n")
