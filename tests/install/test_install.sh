#!/usr/bin/env bash
# Installs into an empty folder and builds a program against it in each way a user may: pkg-config with the shared and
# the static library, CMake's find_package, and from C++ where there is a C++ compiler.
#
# usage: test_install.sh BUILD_DIRECTORY
set -euo pipefail
build=$(cd "$1" && pwd)
compiler=${CC:-cc}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

cmake --install "$build" --prefix "$work/prefix" >install.log
version=$("$work/prefix/bin/recollect" --version)
libdir=$(dirname "$(find "$work/prefix" -name librecollect.a)")
export PKG_CONFIG_PATH="$libdir/pkgconfig"

cat >main.c <<'C'
#include <recollect/recollect.h>
#include <stdio.h>
int main(void)
{
    recollect_settings settings;
    recollect_context *context;
    recollect_model *model;
    recollect_settings_default(&settings, sizeof settings);
    settings.threads = 1;
    if (recollect_context_create(&settings, &context) != RECOLLECT_OK ||
        recollect_model_create(context, &model) != RECOLLECT_OK ||
        recollect_model_set(model, "epochs", "3") != RECOLLECT_OK) {
        printf("%s\n", recollect_last_message());
        return 1;
    }
    recollect_model_destroy(&model);
    recollect_context_destroy(&context);
    return printf("recollect %s\n", recollect_version()) < 0;
}
C
check() { # check WHAT COMMAND...: the command prints the version
    local what=$1 output
    shift
    output=$("$@")
    if [ "$output" != "$version" ]; then
        echo "FAILED: $what prints '$output' instead of '$version'"
        exit 1
    fi
    echo "ok: $what"
}

"$compiler" main.c $(pkg-config --cflags --libs recollect) -o shared
check "shared library through pkg-config" env LD_LIBRARY_PATH="$libdir" ./shared
"$compiler" main.c $(pkg-config --cflags recollect) "$libdir/librecollect.a" \
    $(pkg-config --static --libs recollect | sed 's/-lrecollect//') -o static
check "static library through pkg-config" ./static
if command -v c++ >/dev/null; then
    cp main.c main.cc
    c++ -Wall -Wextra -Wpedantic -Werror main.cc $(pkg-config --cflags --libs recollect) -o cxx
    check "header from C++" env LD_LIBRARY_PATH="$libdir" ./cxx
fi

cat >CMakeLists.txt <<'CMAKE'
cmake_minimum_required(VERSION 3.22)
project(consumer LANGUAGES C)
find_package(recollect 0.1 REQUIRED)
add_executable(consumer_shared main.c)
target_link_libraries(consumer_shared PRIVATE recollect::recollect_shared)
add_executable(consumer_static main.c)
target_link_libraries(consumer_static PRIVATE recollect::recollect_static)
CMAKE
cmake -S . -B consumer -DCMAKE_PREFIX_PATH="$work/prefix" >cmake.log
cmake --build consumer >build.log
check "shared library through find_package" ./consumer/consumer_shared
check "static library through find_package" ./consumer/consumer_static
