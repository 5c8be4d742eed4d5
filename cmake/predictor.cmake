# Builds the predictor of exported C headers (src/export/predictor.h.in) into the program, as an array of its lines.
set(file ${PROJECT_SOURCE_DIR}/src/export/predictor.h.in)
file(READ ${file} lines)
string(REPLACE "\\" "\\\\" lines "${lines}")
string(REPLACE "\"" "\\\"" lines "${lines}")
string(REGEX REPLACE "\n$" "" lines "${lines}")
string(REPLACE "\n" "\",\n    \"" lines "${lines}")
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${file})
set(predictor_source ${PROJECT_BINARY_DIR}/predictor.c)
file(CONFIGURE OUTPUT ${predictor_source} CONTENT
     "#include \"export/predictor.h\"\n\nconst char *const rc_predictor_lines[] = {\n    \"${lines}\",\n    0,\n};\n" @ONLY)
