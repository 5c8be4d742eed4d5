#!/usr/bin/env bash
# What packagers and other projects rely on: flags of the environment and of CMake reach the compiler and stay the last
# word but for the kernels' own, DESTDIR and folders of the distribution hold, BUILD_SHARED_LIBS chooses what is installed,
# BUILD_TESTING=OFF leaves the tests out, and as a part of another project the library is all there is.
#
# Nothing is compiled twice for it: where the build has an object already, it is copied. So flags are read out of the
# commands, and linking, installing and running are tried in earnest.
#
# usage: test_package.sh BUILD_DIRECTORY
set -euo pipefail
build=$(cd "$1" && pwd)
source=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
unset CFLAGS LDFLAGS DESTDIR CMAKE_C_COMPILER_LAUNCHER
version=$("$build/bin/recollect" --version)
fail() { echo "FAILED: $*"; exit 1; }

# The launcher: puts the object of the build in its place, or compiles.
cat >reuse <<LAUNCHER
#!/usr/bin/env bash
output=
for ((i = 1; i < \$#; i++)); do if [ "\${!i}" = -o ]; then next=\$((i + 1)); output=\${!next}; fi; done
made=$build/CMakeFiles/\${output##*CMakeFiles/}
if [[ \$output == *.dir/src/*.o && -e \$made ]]; then exec cp "\$made" "\$output"; fi
exec "\$@"
LAUNCHER
chmod +x reuse

configure() { # configure FOLDER SOURCE ARGUMENT...
    local folder=$1 from=$2
    shift 2
    cmake -S "$from" -B "$folder" -DCMAKE_C_COMPILER_LAUNCHER="$work/reuse" -DCMAKE_EXPORT_COMPILE_COMMANDS=ON "$@" \
        >"$folder.log" 2>&1 || { cat "$folder.log"; fail "cmake does not configure $folder"; }
}
command_of() { # command_of FOLDER FILE: the command that compiles the file
    sed -n 's/^ *"command": "\(.*\)",$/\1/p' "$1/compile_commands.json" | grep -e " -c [^ ]*/$2\$" | sed 1q
}
has() { # has FOLDER FILE FLAG...: the file is compiled with these flags, and -O of the first kind is the last one
    local folder=$1 file=$2 line flag
    shift 2
    line=" $(command_of "$folder" "$file") "
    for flag in "$@"; do
        [[ $line == *" $flag "* ]] || fail "$folder: $file is compiled without $flag: $line"
    done
    flag=$(grep -o ' -O[0-9a-z]*' <<<"$line" | tail -n 1)
    [ "$flag" = " $1" ] || fail "$folder: the last -O of $file is '$flag', expected $1"
}

# ---- packagers: their flags ----------------------------------------------------------------------------------------
flags='-O2 -g1 -fstack-protector-strong'
CFLAGS=$flags configure unset "$source" -DBUILD_TESTING=OFF
has unset base/json.c $flags
CFLAGS=$flags LDFLAGS=-Wl,-z,now configure none "$source" -DCMAKE_BUILD_TYPE=None -DCMAKE_INSTALL_PREFIX=/usr \
    -DCMAKE_INSTALL_LIBDIR=lib/some-machine -DBUILD_SHARED_LIBS=ON -DBUILD_TESTING=OFF
has none base/json.c $flags
has none fast/product/tile.c -O3 -g1 -fstack-protector-strong
configure with-debug "$source" -DCMAKE_BUILD_TYPE=RelWithDebInfo "-DCMAKE_C_FLAGS=-fstack-clash-protection" -DBUILD_TESTING=OFF
has with-debug base/json.c -O2 -g -DNDEBUG -fstack-clash-protection
configure release "$source" -DCMAKE_BUILD_TYPE=Release -DCMAKE_C_FLAGS_RELEASE=-O1 -DBUILD_TESTING=OFF
has release base/json.c -O1
configure plain "$source" -DBUILD_TESTING=OFF
has plain base/json.c -O3 -DNDEBUG
grep -q '^CMAKE_BUILD_TYPE:[A-Z]*=$' unset/CMakeCache.txt || fail "the build type is chosen although there are flags"
for folder in unset none with-debug release plain; do
    if grep -q '/tests/' $folder/compile_commands.json; then fail "$folder: BUILD_TESTING=OFF compiles tests"; fi
done
echo "ok: flags of packagers reach the compiler"

# ---- libraries that a build can do without: switched off, or not there ------------------------------------------------
configure bare "$source" -G Ninja -DRC_WEBP=OFF -DRC_TIFF=OFF -DCMAKE_DISABLE_FIND_PACKAGE_GIF=ON -DBUILD_TESTING=OFF
for format in WEBP TIFF GIF; do
    [[ $(command_of bare data/image_kind.c) == *" -DRC_HAS_$format=0 "* ]] || fail "bare: $format is not left out"
done
if grep -nE 'libwebp|libtiff|libgif' bare/build.ninja bare/recollect.pc | head -n 3 | grep .; then
    fail "bare: a library is linked that was left out"
fi
if cmake -S "$source" -B refused -DRC_GIF=ON -DCMAKE_DISABLE_FIND_PACKAGE_GIF=ON >refused.log 2>&1; then
    fail "RC_GIF=ON is content without giflib"
fi
echo "ok: a build without libwebp, libtiff and giflib"

# ---- what script/build builds: all that is installed (as the package below is), and neither tests nor examples -----------
configure whole "$source" -G Ninja -DBUILD_TESTING=ON
ninja -C whole -t commands recollect_program >whole.build 2>&1 || fail "the target of script/build"
grep -q 'recollect\.3' whole.build || fail "script/build makes no manual pages: $(tail -n 3 whole.build)"
if grep -nE '/tests/|CMakeFiles/(test|example|abi)_' whole.build | head -n 3 | grep .; then
    fail "script/build builds tests or examples"
fi
echo "ok: the program is built without the tests"

# ---- packagers: where things go ------------------------------------------------------------------------------------
cmake --build none --target recollect_program >none.build 2>&1 || { tail -n 30 none.build; fail "the build of a package"; }
DESTDIR=$work/root cmake --install none >install.log
root=$work/root/usr
readelf -d "$root/bin/recollect" | grep 'NOW' >/dev/null || fail "LDFLAGS do not reach the linker"
for file in bin/recollect include/recollect/recollect.h lib/some-machine/librecollect.so share/man/man1/recollect.1 \
    share/man/man1/recollect-learn.1 share/man/man3/recollect.3 share/doc/recollect/docs/learn.md \
    lib/some-machine/pkgconfig/recollect.pc lib/some-machine/cmake/recollect/recollect-config.cmake; do
    [ -e "$root/$file" ] || fail "$file is not installed below DESTDIR"
done
[ -z "$(find "$work/root" -name '*.a')" ] || fail "BUILD_SHARED_LIBS=ON installs a static library"
[ "$(ls "$work/root")" = usr ] || fail "something is installed beside the prefix: $(ls "$work/root")"
PKG_CONFIG_PATH=$root/lib/some-machine/pkgconfig pkg-config --cflags --libs recollect | grep -q "lib/some-machine/pkgconfig/../../..//*lib/some-machine" ||
    fail "recollect.pc does not know the folder of libraries"
configure absolute "$source" -DCMAKE_INSTALL_PREFIX=/opt/it -DCMAKE_INSTALL_LIBDIR=/elsewhere/lib -DBUILD_TESTING=OFF
grep -qx 'libdir=/elsewhere/lib' absolute/recollect.pc || fail "recollect.pc does not bear an absolute CMAKE_INSTALL_LIBDIR"
echo "ok: DESTDIR, CMAKE_INSTALL_LIBDIR, BUILD_SHARED_LIBS, LDFLAGS"

# ---- a part of another project -------------------------------------------------------------------------------------
mkdir other fetched installed
cat >other/main.c <<'C'
#include <recollect/recollect.h>
#include <stdio.h>
int main(void)
{
    return printf("recollect %s\n", recollect_version()) < 0;
}
C
cat >other/CMakeLists.txt <<CMAKE
cmake_minimum_required(VERSION 3.22)
project(other LANGUAGES C)
include(CTest)
add_subdirectory($source recollect)
add_executable(other main.c)
target_link_libraries(other PRIVATE recollect::recollect)
add_test(NAME other COMMAND other)
install(TARGETS other)
CMAKE
cat >fetched/CMakeLists.txt <<CMAKE
cmake_minimum_required(VERSION 3.22)
project(fetched LANGUAGES C)
include(FetchContent)
FetchContent_Declare(recollect SOURCE_DIR $source)
FetchContent_MakeAvailable(recollect)
add_executable(fetched ../other/main.c)
target_link_libraries(fetched PRIVATE recollect::recollect)
CMAKE
cat >installed/CMakeLists.txt <<CMAKE
cmake_minimum_required(VERSION 3.22)
project(installed LANGUAGES C)
find_package(recollect REQUIRED)
add_executable(installed ../other/main.c)
target_link_libraries(installed PRIVATE recollect::recollect)
CMAKE
check() { # check FOLDER PROGRAM
    cmake --build "$1" >"$1.build" 2>&1 || { tail -n 30 "$1.build"; fail "the build of $1"; }
    [ "$("$1/$2")" = "$version" ] || fail "$1/$2 does not print '$version'"
}
configure inside other
check inside other
line=$(command_of inside other/main.c)
if grep -qE -e '-W|-ffp|-std|-f(PIC|visibility)' <<<"$line"; then fail "flags leak into the other project: $line"; fi
grep -q '^CMAKE_BUILD_TYPE:[A-Z]*=$' inside/CMakeCache.txt || fail "the build type of the other project is chosen for it"
[ -z "$(find inside -name 'librecollect.so*' -o -name recollect -type f)" ] || fail "more is built than is linked"
if grep -qE '/(tests|examples)/' inside/compile_commands.json; then fail "tests or examples are part of another project"; fi
tests=$(ctest --test-dir inside -N | sed -n 's/^Total Tests: //p')
[ "$tests" = 1 ] || fail "the other project has $tests tests instead of its own"
cmake --install inside --prefix "$work/inside-prefix" >install.log
[ "$(find inside-prefix -type f)" = inside-prefix/bin/other ] || fail "another project installs $(find inside-prefix -type f)"
configure inside-fetched fetched -DBUILD_SHARED_LIBS=ON
check inside-fetched fetched
[ -n "$(find inside-fetched -name 'librecollect.so')" ] || fail "BUILD_SHARED_LIBS=ON links the static library"
configure with-package installed -Drecollect_DIR="$root/lib/some-machine/cmake/recollect"
check with-package installed
echo "ok: add_subdirectory, FetchContent and find_package with recollect::recollect"
