#!/usr/bin/env bash
# An installed recollect points to nothing that is not there: every document, preset and example that help, manual pages,
# messages and documents name is installed, below a DESTDIR that holds nothing else. Headings that documents link to are
# there, too.
#
# usage: test_documents.sh BUILD_DIRECTORY
set -uo pipefail
build=$(cd "$1" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
failures=0 looked=0
fail() {
    echo "FAILED: $*"
    failures=$((failures + 1))
}

DESTDIR=$work/root cmake --install "$build" --prefix /usr >install.log || { cat install.log; exit 1; }
root=$work/root/usr
documents=$root/share/doc/recollect
program=$root/bin/recollect

# ---- what the program says ---------------------------------------------------------------------------------------------
# All that can be printed is a text in the program: messages of every kind, help, manual pages.
"$program" --help >said || fail "no help"
for command in $("$program" --help | sed '/^examples:/,$d' | awk '/^  [a-z]/ { print $1 }'); do
    "$program" "$command" --help >>said || fail "$command has no help"
done
strings -d "$program" >>said || fail "no texts are found in the program"
find "$root/share/man" -type f -exec cat {} + | sed 's/\\-/-/g' >>said
# Paths below the prefix, names of folders of the source, and any page.
grep -oE '(share/[a-z]+/recollect/|\b(docs|presets|examples)/)[A-Za-z0-9_./-]*|[A-Za-z0-9_./-]+\.md\b' said |
    sed 's/[.]*$//' | sort -u >names
while read -r name; do
    looked=$((looked + 1))
    case $name in
        share/*) path=$root/$name ;;
        presets/*) path=$root/share/recollect/$name ;;
        *) path=$documents/$name ;;
    esac
    [ -e "$path" ] || fail "the program names '$name', which is not installed"
done <names
for name in share/doc/recollect/docs/learn.md share/doc/recollect/docs/methods share/doc/recollect/README.md; do
    grep -qx "$name" names || fail "the program does not name $name (of $looked names)"
done

# ---- what the documents say --------------------------------------------------------------------------------------------
# Links of one document to another. What leads into the source is not installed, and says so by its name.
links=0
while read -r page; do
    folder=$(dirname "$page")
    while read -r link; do
        links=$((links + 1))
        case $(realpath -m --relative-to="$documents" "$folder/$link") in
            src* | tests* | bench* | script* | cmake* | include* | presets* | python* | docs/results/* | .*) ;;
            *) [ -e "$folder/$link" ] || fail "${page#"$documents"/} links to '$link', which is not installed" ;;
        esac
    done < <(grep -oE '\]\([^)# ]+' "$page" | sed 's/^](//' | grep -vE '^[a-z]+:')
done < <(find "$documents" -name '*.md')
[ $links -gt 100 ] || fail "only $links links were looked at"
# Links to a heading: its words in small letters, with dashes between them, and without anything else.
anchors() { # of a page
    LC_ALL=C awk '/^```/ { code = !code }
        !code && /^#+ / {
            sub(/^#+ /, "")
            gsub(/\]\([^)]*\)/, "")
            $0 = tolower($0)
            gsub(/[^a-z0-9_ -]/, "")
            gsub(/ /, "-")
            print $0 (seen[$0]++ ? "-" seen[$0] - 1 : "")
        }' "$1"
}
headings=0
while read -r page; do
    while IFS='#' read -r link heading; do
        headings=$((headings + 1))
        target=$page
        [ -z "$link" ] || target=$(dirname "$page")/$link
        [ ! -f "$target" ] || anchors "$target" | grep -xF "$(LC_ALL=C tr -cd 'a-z0-9_-' <<<"$heading")" >/dev/null ||
            fail "${page#"$documents"/} links to '$link#$heading', and there is no such heading"
    done < <(grep -oE '\]\([^)# ]*#[^) ]+' "$page" | sed 's/^](//' | grep -vE '^[a-z]+:')
done < <(find "$documents" -name '*.md')
[ $headings -gt 50 ] || fail "only $headings links to headings were looked at"
[ -z "$(find "$documents" -name '*.json')" ] || fail "records of single runs are installed"
[ -e "$documents/examples/01_train_and_predict.c" ] || fail "examples are not installed"

[ $failures -eq 0 ] || { echo "$failures failure(s)"; exit 1; }
echo "ok: $looked names in the program, $links links in the documents, $headings of them to headings"
