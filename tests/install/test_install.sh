#!/usr/bin/env bash
# Installs into an empty folder and builds a program against it in each way a user may: pkg-config with the shared and
# the static library, CMake's find_package, and from C++ where there is a C++ compiler.
#
# usage: test_install.sh BUILD_DIRECTORY
set -euo pipefail
build=$(cd "$1" && pwd)
source=$(cd "$(dirname "$0")/../.." && pwd)
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
# The header needs nothing before it, in any standard from C11 on; the examples need nothing that is not installed.
header='#include <recollect/recollect.h>'
for standard in c11 c17; do
    echo "$header" | "$compiler" -std=$standard -Wall -Wextra -Wpedantic -Werror $(pkg-config --cflags recollect) \
        -fsyntax-only -x c -
done
for example in "$source"/examples/*.c; do
    "$compiler" -std=c11 "$example" $(pkg-config --cflags --libs recollect) -o example
done
echo "ok: header alone, examples against the installed library"
if command -v c++ >/dev/null; then
    for standard in c++11 c++17; do
        echo "$header" | c++ -std=$standard -Wall -Wextra -Wpedantic -Werror $(pkg-config --cflags recollect) \
            -fsyntax-only -x c++ -
    done
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

# Every command has a manual page, and each reads as one and is found by its name. (What they and the documents point to:
# test_documents.sh.)
share=$work/prefix/share
program=$work/prefix/bin/recollect
commands=$("$program" --help | sed '/^examples:/,$d' | awk '/^  [a-z]/ { print $1 }')
pages=("$share/man/man1/recollect.1" "$share/man/man3/recollect.3")
for command in $commands; do pages+=("$share/man/man1/recollect-$command.1"); done
for page in "${pages[@]}"; do
    [ -s "$page" ] || { echo "FAILED: no $page is installed"; exit 1; }
    if command -v lexgrog >/dev/null; then
        lexgrog "$page" >whatis.txt || { echo "FAILED: $page has no name"; exit 1; }
    fi
    if command -v mandoc >/dev/null; then
        mandoc -T lint -W error "$page" || { echo "FAILED: $page has mistakes"; exit 1; }
    fi
    if command -v groff >/dev/null; then
        for width in 60 80 200; do
            groff -man -Tascii -ww -rLL=${width}n "$page" 2>warnings.txt >/dev/null
            [ ! -s warnings.txt ] || { cat warnings.txt; echo "FAILED: $page has mistakes at $width columns"; exit 1; }
        done
    fi
done
[ "$(find "$share/man" -type f | wc -l)" -eq ${#pages[@]} ] || { echo "FAILED: not ${#pages[@]} manual pages"; exit 1; }
# The page of the library has every declaration of the header, and every word that is said about it.
words() { tr '[:upper:]' '[:lower:]' | grep -oE '[a-z_0-9]+' | sort -u; }
sed -n '/^#ifdef __cplusplus/,$p' "$work/prefix/include/recollect/recollect.h" | words >header.txt
sed 's/\\e/\\/g' "$share/man/man3/recollect.3" | words >page.txt
missing=$(comm -23 header.txt page.txt | tr '\n' ' ')
[ "$missing" = "__cplusplus endif extern ifdef recollect_api " ] ||
    { echo "FAILED: recollect.3 lacks words of the header: $missing"; exit 1; }
grep -qF 'escaped (\en, \eu001b, ' "$share/man/man3/recollect.3" || { echo "FAILED: recollect.3 loses backslashes"; exit 1; }
# Its comments are text, its lists are lists, and what is not filled ends.
header=$work/prefix/include/recollect/recollect.h page=$share/man/man3/recollect.3
[ "$(grep -cx '\.nf' "$page")" = "$(grep -cx '\.fi' "$page")" ] || { echo "FAILED: recollect.3: .nf without .fi"; exit 1; }
! grep -nE '^ \*|^/\*|\*/$' "$page" | grep -v ';' | grep -vE '^[0-9]+: {4}' ||
    { echo "FAILED: recollect.3 has marks of comments in its text"; exit 1; }
sed -nE 's/^ \* {3,9}([A-Za-z_]+)  .*/\1/p' "$header" >listed.txt
sed -nE '/^\.TP 12$/{n;s/^\.B "(.*)"$/\1/p;}' "$page" >items.txt
cmp listed.txt items.txt && [ "$(wc -l <items.txt)" -gt 10 ] || { echo "FAILED: recollect.3 has other lists than the header"; exit 1; }
sed -nE 's/^ \* {12,}//p' "$header" | sed 's/-/\\-/g' >behind.txt
while read -r line; do
    grep -qxF -- "$line" "$page" || { echo "FAILED: recollect.3 does not fill '$line'"; exit 1; }
done <behind.txt
completes() { # completes WORD...: what bash offers for the last word of a command line
    bash -c 'source "$0"; compopt() { :; }; COMP_WORDS=(recollect "$@"); COMP_CWORD=$#; _recollect
        printf "%s\n" "${COMPREPLY[@]}"' "$share/bash-completion/completions/recollect" "$@"
}
# grep reads to the end here: with -q it leaves at the first match, and who writes on fails.
options=0
for command in $commands; do
    completes "${command:0:2}" | grep -xF "$command" >/dev/null || { echo "FAILED: bash does not complete $command"; exit 1; }
    "$program" "$command" --help | grep '^examples:' >/dev/null || { echo "FAILED: $command --help has no example"; exit 1; }
    for option in $("$program" "$command" --help | awk '/^  --/ && $1 != "--help" { print $1 }'); do
        for file in "$share/man/man1/recollect-$command.1:.B \"${option//-/\\-}" "$share/zsh/site-functions/_recollect:$option[" \
            "$share/fish/vendor_completions.d/recollect.fish:-l ${option#--} "; do
            grep -qF -- "${file#*:}" "${file%%:*}" || { echo "FAILED: ${file%%:*} lacks $command $option"; exit 1; }
        done
        completes "$command" "$option" | grep -xF -- "$option" >/dev/null ||
            { echo "FAILED: bash does not complete $command $option"; exit 1; }
        options=$((options + 1))
    done
    # What an option takes is there to its end, however long it is.
    "$program" "$command" --help >helped
    sed -nE 's/^\.B "(\\-\\-.*)"$/\1/p' "$share/man/man1/recollect-$command.1" | sed 's/\\://g; s/\\-/-/g' >headings
    while read -r heading; do
        grep -F -- "  $heading" helped >/dev/null || { echo "FAILED: $command --help lacks '$heading'"; exit 1; }
    done <headings
done
[ $options -gt 40 ] || { echo "FAILED: only $options options were looked at"; exit 1; }
# What learn offers, in completion and in its help, is what learn takes: with it the folder is what is missing (1), not the
# value that is wrong (2).
for option in method net preset; do
    completes learn --$option '' >offered
    "$program" learn --help | awk -v option="--$option" '$1 == option { on = 1; next } $1 ~ /^--/ { on = 0 }
        on { for (i = 1; i <= NF; i++) print $i }' | sed '1,/^are$/d' >helped
    cmp offered helped || { echo "FAILED: help and completion offer different values of --$option"; exit 1; }
    while read -r choice; do
        code=0
        "$program" learn no-folder --out no.safetensors --$option "$choice" >/dev/null 2>message || code=$?
        [ $code -eq 1 ] || { cat message; echo "FAILED: learn offers --$option $choice and exits with $code"; exit 1; }
    done <offered
done
completes learn --method cw | grep -xF cwd >/dev/null || { echo "FAILED: bash does not complete methods"; exit 1; }
completes learn --set '' >offered
completes run --set '' >all
[ "$(comm -13 <(sort offered) <(sort all) | tr '\n' ' ')" = "class_order= data= decode= first_task= images_per_class= order= task_sizes= tasks= test_per_class= validation= " ] ||
    { echo "FAILED: learn offers settings that it does not read"; exit 1; }
completes analyze led | grep -xF ledger >/dev/null || { echo "FAILED: bash does not complete analyses"; exit 1; }
[ "$(completes manual l | grep -xE 'learn|library' | sort | tr '\n' ' ')" = "learn library " ] ||
    { echo "FAILED: bash does not complete pages of the manual"; exit 1; }
completes completion zs | grep -xF zsh >/dev/null || { echo "FAILED: bash does not complete shells"; exit 1; }
completes run --method jo | grep -xF joint >/dev/null || { echo "FAILED: bash does not complete methods of run"; exit 1; }
for method in joint real-hkd real-cwd real-lce; do
    code=0
    "$program" learn no-folder --out no.safetensors --method $method >/dev/null 2>message || code=$?
    if [ $code -ne 2 ] || ! grep -q "'$method' needs the images of old classes.*; a model learns with .*cwd" message; then
        cat message; echo "FAILED: learn --method $method exits with $code"; exit 1
    fi
done
awk '/^    run\)/ { on = 1 } on { print } on && /;;$/ { exit }' "$share/zsh/site-functions/_recollect" |
    grep -F 'cifar100-5 ' | grep -F _files >/dev/null || { echo "FAILED: zsh does not complete files for run"; exit 1; }
for shell in zsh fish; do
    file=$(find "$share/$shell" -type f)
    if command -v $shell >/dev/null; then $shell -n "$file"; fi
done
echo "ok: manual page and completions, $options options"
