# Cross build for x86-64 with the libraries that script/test-x86 unpacks into .deps/x86_64, run by qemu.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR x86_64)
set(CMAKE_C_COMPILER x86_64-linux-gnu-gcc)
find_program(QEMU_X86_64 NAMES qemu-x86_64 qemu-x86_64-static REQUIRED)

get_filename_component(deps ${CMAKE_CURRENT_LIST_DIR}/../.deps/x86_64/root ABSOLUTE)
set(library_path ${deps}/usr/lib/x86_64-linux-gnu:${deps}/lib/x86_64-linux-gnu)
set(ENV{PKG_CONFIG_LIBDIR} ${deps}/usr/lib/x86_64-linux-gnu/pkgconfig)
set(ENV{PKG_CONFIG_SYSROOT_DIR} ${deps})
string(APPEND CMAKE_C_FLAGS_INIT " -isystem ${deps}/usr/include/x86_64-linux-gnu") # jconfig.h
string(REPLACE ":" ";" library_folders ${library_path})
foreach(folder IN LISTS library_folders)
    string(APPEND CMAKE_EXE_LINKER_FLAGS_INIT " -Wl,-rpath-link,${folder}")
endforeach()

set(CMAKE_CROSSCOMPILING_EMULATOR ${QEMU_X86_64} -cpu max -L /usr/x86_64-linux-gnu -E LD_LIBRARY_PATH=${library_path})
# What qemu's TCG can run; AVX-512 it cannot.
set(RC_EMULATED_INSTRUCTION_SETS sse2 avx2)
