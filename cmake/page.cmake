# Builds the style and the script of reports (src/report/page.css, page.js) into the program, as arrays of their lines, and
# the SHA-256 of the script as a page has it: a line break, then its lines, each with its own.
set(text "#include \"report/page.h\"\n\n")
foreach(part IN ITEMS css js)
    set(file ${PROJECT_SOURCE_DIR}/src/report/page.${part})
    file(READ ${file} lines)
    string(SHA256 hash "\n${lines}")
    string(REPLACE "\\" "\\\\" lines "${lines}")
    string(REPLACE "\"" "\\\"" lines "${lines}")
    string(REGEX REPLACE "\n$" "" lines "${lines}")
    string(REPLACE "\n" "\",\n    \"" lines "${lines}")
    string(APPEND text "const char *const rc_page_${part}[] = {\n    \"${lines}\",\n    0,\n};\n")
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${file})
endforeach()
string(APPEND text "const char rc_page_js_hash[] = \"${hash}\";\n") # js comes last
set(page_source ${PROJECT_BINARY_DIR}/page.c)
file(CONFIGURE OUTPUT ${page_source} CONTENT "${text}" @ONLY)
