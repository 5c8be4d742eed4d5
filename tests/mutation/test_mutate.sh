#!/usr/bin/env bash
# The tool that breaks the library, on a toy: each mutant that must be there is there and ends as it must, what must not be
# touched is not, a stopped run goes on, reasons count. Skipped (77) without Python, gcov or ctest.
#
# usage: test_mutate.sh COMPILER
set -euo pipefail
tool=$(cd "$(dirname "$0")" && pwd)/mutate.py
compiler=$1
if ! command -v python3 >/dev/null || ! command -v gcov >/dev/null || ! command -v ctest >/dev/null; then
    echo "skipped: needs python3, gcov and ctest"
    exit 77
fi
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
mkdir -p src/toy build/bin build/lib
cat >src/toy/toy.h <<'END'
typedef struct toy_row {
    int first, second;
    double rate; /* that nobody reads */
} toy_row;
enum { RC_TOY_A = 5, RC_TOY_B = 7 };
int toy_mix(toy_row row);
int toy_cut(int x);
int toy_count(volatile unsigned *n);
int toy_alone(int x);
END
cat >src/toy/toy.c <<'END'
#include "toy.h"
#define TWO (1 + 1)
_Static_assert(sizeof(int) > 1 + 1, "1 + 1");
/* 1 + 1 */
static const toy_row rows[] = {{.first = RC_TOY_A, .second = 3, .rate = 0.5}};

static int take(int a, int b)
{
    return a - TWO * b;
}

int toy_mix(toy_row row)
{
    int sum = 0;
    sum += take(row.first, row.second);
    return sum + rows[0].first * rows[0].second;
}

int toy_cut(int x)
{
    return x > 10 ? 9 : x;
}

int toy_count(volatile unsigned *n)
{
    int steps = 0;
    while (*n > 0) {
        --*n;
        steps++;
    }
    return steps;
}

int toy_alone(int x)
{
    return x + 1;
}
END
cat >test.c <<'END'
#include <stdlib.h>
#include "toy.h"

int main(void)
{
    volatile unsigned n = 3;
    if (system("true") != 0) /* which starts with the mutant in front, too */
        return 1;
    if (toy_mix((toy_row){.first = 40, .second = 2}) != 51)
        return 1;
    if (toy_cut(3) != 3 || toy_cut(12) != 9)
        return 1;
    return toy_count(&n) != 3 || n != 0;
}
END
"$compiler" -Isrc/toy -fPIC -shared src/toy/toy.c -o build/lib/librecollect.so
"$compiler" -Isrc/toy test.c -Lbuild/lib -lrecollect -Wl,-rpath,"$folder/build/lib" -o build/bin/test_toy
echo "add_test(test_toy $folder/build/bin/test_toy)" >build/CTestTestfile.cmake
cat >build/compile_commands.json <<END
[{"directory": "$folder/build", "file": "$folder/src/toy/toy.c",
  "command": "$compiler -I$folder/src/toy -O3 -g -o toy.o -c $folder/src/toy/toy.c"},
 {"directory": "$folder/build", "file": "$folder/src/cil/rules.c", "command": "$compiler -c $folder/src/cil/rules.c"},
 {"directory": "$folder/build", "file": "$folder/src/nn/rules.c", "command": "$compiler -c $folder/src/nn/rules.c"}]
END
mutate() { python3 "$tool" src/toy/toy.c --build build --out out --accepted accepted.txt --test test_toy --jobs 2 "$@"; }
fail() {
    echo "FAILED: $1"
    cat log
    exit 1
}
# status LINE KIND OLD NEW: how that mutant ended
status() {
    python3 - "$@" <<'END'
import json, sys
for row in map(json.loads, open("out/results.jsonl")):
    if [str(row["line"]), row["kind"], row["old"], row["new"]] == sys.argv[1:]:
        print(row["status"])
END
}
expect() { # STATUS LINE KIND OLD NEW; another mutant may come to the same
    local got
    got=$(status "${@:2}")
    [ "$got" = "$1" ] || { [ "$1" = killed ] && [ "$got" = duplicate ]; } || fail "mutant '${*:2}' is '$got', expected '$1'"
}

mutate --list >log
! grep -E ':[1-4]: |TWO' log || fail "directives, static assertions or comments are changed"
[ "$(mutate --list --shard 1/2 | cat - <(mutate --list --shard 2/2) | sort | cksum)" = "$(sort log | cksum)" ] ||
    fail "two halves are not the whole"
all=$(wc -l <log)
some=$(mutate --list --sample 0.3 --seed 2 | wc -l)
[ "$some" -gt 0 ] && [ "$some" -lt "$all" ] || fail "a sample of 0.3 has $some of $all mutants"

# Lines of the library that are new since a commit, alone; a mutant of several lines counts by any of them.
mkdir -p src/cli && echo 'int program(int x) { return x; }' >src/cli/program.c
git init -q . && git add src && git -c user.name=toy -c user.email=toy commit -qm toy
mutate_new() { python3 "$tool" --build build --out out --test test_toy "$@"; }
if mutate_new --list --since HEAD 2>log; then fail "nothing is new, and it goes on"; fi
grep -q 'no C file of the library has changed since HEAD' log || fail "it does not say that nothing is new"
if mutate_new --list --since nowhere 2>log; then fail "a commit that is not there is taken"; fi
grep -q "error: .*nowhere" log || fail "it does not say which commit is not there"
cp src/toy/toy.c toy.was
sed -i -e '5i /* new */' -e 's/x > 10/x > 11/' -e 's/    sum += take(row.first,/&\n               /' src/toy/toy.c
echo 'int program(int x) { return x + 1; }' >src/cli/program.c
mutate_new --list --since HEAD >log
[ "$(cut -d: -f2 log | sort -nu | tr '\n' ' ')" = '16 17 23 ' ] || fail "lines that are not new, or not all that are"
grep -q 'toy.c:16: statement dropped' log || fail "a mutant that begins in a line and goes on in the next is left out"
mutate --list --since HEAD >again
cmp -s log again || fail "a file that is named has other new lines"
cp toy.was src/toy/toy.c

# What nothing can show is not tried, and only that.
mkdir -p src/cil src/nn
cat >src/cil/rules.h <<'END'
typedef struct net {
    int h, w, c;
    long act_bytes, real_bytes, other_bytes;
} net;
END
cat >src/cil/rules.c <<'END'
#include "rules.h"
void rules(net *n, object *be, object *t)
{
    a = rc_alloc_zeroed(p, 3, q);
    a = rc_arena_take_array(p, q, r);
    a = grow(p, q, r, s);
    be->run(be, t);
    t->backend->run(t->backend, be);
    t->backend->run(be, t);
    be->run(t->be, 7);
    a = rc_alloc_zeroed(NULL, 1, sizeof *a);
    a = take(NULL, 1, sizeof *a);
    a = size(n->h, n->w, n->c);
    a = size(h, w, c);
    a = size(n->h, be->w, width);
    a = n->act_bytes;
    a = n->real_bytes;
    pass p = {.constant_model = true};
    pass q = {.update = true};
    char one[3], two[2 * q[4]];
}
END
cp src/cil/rules.h src/cil/rules.c src/nn
rules() { python3 "$tool" "src/$1/rules.c" --build build --out out --test test_toy --list >log; }
there() { grep -qxF "src/$1/rules.c:$2" log || fail "mutant '$2' is not made"; }
absent() { ! grep -qxF "src/cil/rules.c:$1" log || fail "mutant '$1' is made"; }
rules cil
there cil '4: arguments swapped: p, 3 -> 3, p'
absent '4: arguments swapped: 3, q -> q, 3'
there cil '5: arguments swapped: p, q -> q, p'
absent '5: arguments swapped: q, r -> r, q'
there cil '6: arguments swapped: q, r -> r, q'
absent '6: arguments swapped: r, s -> s, r'
there cil '7: argument: t -> 1'
absent '7: argument: be -> 1'
there cil '7: arguments swapped: be, t -> t, be'
there cil '8: argument: be -> 1'
absent '8: argument: t->backend -> 1'
there cil '9: argument: be -> 1'
there cil '10: argument: t->be -> 1'
there cil '11: constant: 1 -> 0'
absent '11: constant: 1 -> 2'
there cil '12: constant: 1 -> 2'
there cil '13: arguments swapped: n->w, n->c -> n->c, n->w'
absent '13: arguments swapped: n->h, n->w -> n->w, n->h'
there cil '13: another field: w -> c'
absent '13: another field: h -> w'
there cil '13: argument: n->h -> 1'
absent '14: arguments swapped: h, w -> w, h'
there cil '14: arguments swapped: w, c -> c, w'
there cil '15: arguments swapped: n->h, be->w -> be->w, n->h'
there cil '15: arguments swapped: be->w, width -> width, be->w'
absent '16: another field: act_bytes -> real_bytes'
there cil '17: another field: real_bytes -> other_bytes'
absent '18: constant: true -> false'
absent '18: field dropped: .constant_model = true -> '
there cil '19: constant: true -> false'
there cil '19: field dropped: .update = true -> '
! grep ':20: ' log || fail "sizes of arrays are changed"
rules nn
there nn '13: arguments swapped: n->h, n->w -> n->w, n->h'
there nn '13: another field: h -> w'

if mutate --time-limit 0.001 >log; then fail "a run that was cut off is not a success"; fi
grep -q ' [1-9][0-9]* were not run' log || fail "it does not say that mutants are left"
if mutate >log; then fail "survivors without a reason are not a success"; fi
grep -q "$all mutants, [0-9]* known; tests: 1" log || fail "expected $all mutants"
expect killed 5 'another constant' RC_TOY_A RC_TOY_B
expect killed 5 'field dropped' '.second = 3,' ''
expect equivalent 5 constant 0.5 1.0
expect killed 9 operator - +
expect killed 15 'statement dropped' 'sum += take(row.first, row.second)' ''
expect killed 15 'arguments swapped' 'row.first, row.second' 'row.second, row.first'
expect killed 15 'another field' second first
expect killed 15 argument row.first 1
expect survived 21 operator '>' '>='
expect killed 21 'condition is true' x 9
expect killed 21 'condition is false' 9 x
expect timeout 28 'statement dropped' '--*n' ''
expect survived 36 operator + -
grep -q 'toy.c:36 (no test runs this line)' out/survivors.txt || fail "it does not say that no test runs line 36"

# Each of several tests is seen to run the file.
cp build/bin/test_toy build/bin/test_twin
echo "add_test(test_twin $folder/build/bin/test_twin)" >>build/CTestTestfile.cmake
mutate --test test_twin --time-limit 0.001 >log || true
python3 - <<'END' || fail "it does not see what the second test runs"
import glob, json, sys
rows = json.load(open(glob.glob("build/mutation/reach-*.json")[0]))
sys.exit(not all(any(row["lines"]["src/toy/toy.c"]["lines"].values()) for row in rows.values()) or len(rows) != 2)
END

# A script's programs run with the mutant, and the script itself without; its environment is what ctest says.
cat >program.c <<'END'
#include <stdlib.h>
#include "toy.h"

int main(int count, char **words)
{
    return count == 2 ? toy_alone(atoi(words[1])) : 99;
}
END
"$compiler" -Isrc/toy program.c -Lbuild/lib -lrecollect -Wl,-rpath,"$folder/build/lib" -o build/bin/program
cat >toy.sh <<'END'
[ -z "${LD_PRELOAD:-}" ] || exit 1
"$1" "$NUMBER"
[ $? -eq 6 ]
END
cat >>build/CTestTestfile.cmake <<END
add_test(cli_toy "bash" "$folder/toy.sh" "$folder/build/bin/program")
set_tests_properties(cli_toy PROPERTIES ENVIRONMENT "NUMBER=5" LABELS "cli")
END
python3 "$tool" src/toy/toy.c --build build --out with_script --accepted accepted.txt --jobs 2 >log || true
grep -q 'tests: 1$' log || fail "without names it does not take the tests with a label"
mv out without && mv with_script out
expect killed 36 operator + -
rm -r out && mv without out

# A mutant that lives is given so much time, and goes on where more is given.
mkdir -p src/few
echo 'int few(int x); int few(int x) { return x > 10 ? 9 : x; }' >src/few/few.c
echo 'int few(int x); int main(void) { return few(3) != 3 || few(12) != 9; }' >few_test.c
"$compiler" -fPIC -shared src/toy/toy.c src/few/few.c -o build/lib/librecollect.so
for test in test_few test_again; do
    "$compiler" few_test.c -Lbuild/lib -lrecollect -Wl,-rpath,"$folder/build/lib" -o build/bin/$test
    echo "add_test($test $folder/build/bin/$test)" >>build/CTestTestfile.cmake
done
cp build/compile_commands.json all.json
echo "[{\"directory\": \"$folder\", \"file\": \"src/few/few.c\", \"command\": \"$compiler -c src/few/few.c\"}]" >build/compile_commands.json
few() { # few MOST OPTION...: how many tests the mutant that lives has met
    python3 "$tool" src/few/few.c --build build --out few --test test_few --test test_again --jobs 2 "${@:2}" >log || true
    python3 - "$1" <<'END' || fail "expected a mutant that has met $1 tests"
import json, sys
rows = {row["key"]: row for row in map(json.loads, open("few/results.jsonl"))}
sys.exit(max(len(row.get("lives", {})) for row in rows.values()) != int(sys.argv[1]))
END
}
few 1 --budget 0.0000001
few 1 --budget 0.0000001
grep -qE ': ([0-9]+) mutants, \1 known' log || fail "what had its time is tried again"
few 2
mv all.json build/compile_commands.json

# The same again does nothing but report; with reasons for all survivors, enough of them die.
mutate >log || true
grep -q "$all mutants, $all known" log || fail "it forgets what it knows"
sed 's/    reason:$/    reason: a toy/' out/survivors.txt >accepted.txt
mutate >log || fail "all survivors have a reason"
grep -q ' 0 survive without a reason, [1-9]' log || fail "reasons are not counted"
printf 'src/toy/toy.c\n    line: gone\n    mutation: operator: `+` -> `-`\n    reason: a toy\n' >>accepted.txt
if mutate >log; then fail "a reason for what is gone stays"; fi
mutate --since HEAD >log || fail "a reason counts as gone where its line is none of the new ones"

# A comment more changes no code.
sed -i '1i /* a toy */' src/toy/toy.c
mutate >log || true
grep -q "$all mutants, $all known" log || fail "a comment makes it forget what it knows"
# Other code in one function: the results of the others hold. A macro may change all of them.
sed -i 's/return x + 1;/return x + 2;/' src/toy/toy.c
others=$(mutate --list | grep -vc 'toy.c:37: ')
mutate --time-limit 0.001 >log || true
grep -q "mutants, $others known" log || fail "expected to know the $others mutants outside of the last function"
sed -i 's/define TWO (1 + 1)/define TWO (2 + 0)/' src/toy/toy.c
mutate --time-limit 0.001 >log || true
grep -q "mutants, 0 known" log || fail "results of other macros are taken for those of these"

# The heap under the tests: who leaves a block or a part of an arena is found out, nobody else is.
root=$(dirname "$tool")/../..
cat >arena.c <<'END'
#include "base/memory.h"
void *rc_arena_take(rc_arena *arena, size_t bytes)
{
    char *taken = arena->base + arena->used;
    arena->used += (bytes + 63) / 64 * 64;
    return taken;
}
void *rc_arena_take_array(rc_arena *arena, size_t count, size_t size)
{
    return rc_arena_take(arena, count * size);
}
END
cat >heap_user.c <<'END'
#include <stdlib.h>
#include <string.h>
#include "base/memory.h"
int main(int count, char **word)
{
    void *memory, *more;
    if (count != 2 || posix_memalign(&memory, 64, 500) != 0 || posix_memalign(&more, 64, 4096) != 0)
        return 3;
    volatile char *block = memory;
    rc_arena arena = {.base = more, .size = 4096};
    volatile char *first = rc_arena_take(&arena, 10), *second = rc_arena_take_array(&arena, 5, 2);
    int fresh = block[0] != 0 && block[499] != 0;
    block[0] = block[499] = first[0] = first[9] = second[0] = second[9] = 1;
    if (strcmp(word[1], "before") == 0)
        block[-1] = 1;
    else if (strcmp(word[1], "behind") == 0)
        block[500] = 1;
    else if (strcmp(word[1], "far") == 0)
        block[600] = 1;
    else if (strcmp(word[1], "part") == 0)
        first[10] = 1;
    else if (strcmp(word[1], "array") == 0)
        second[10] = 1;
    free(memory);
    if (strcmp(word[1], "freed") == 0)
        block[0] = 1;
    else if (strcmp(word[1], "twice") == 0)
        free(memory);
    free(more);
    return !fresh;
}
END
"$compiler" -D_GNU_SOURCE -I"$root/src" -I"$root/include" "$root/tests/mutation/heap.c" arena.c heap_user.c \
    -Wl,--wrap=posix_memalign,--wrap=malloc,--wrap=calloc,--wrap=realloc,--wrap=free \
    -Wl,--wrap=rc_arena_take,--wrap=rc_arena_take_array -pthread -o heap_user >log 2>&1 || fail "heap.c does not compile"
ulimit -c 0
./heap_user well || fail "the heap ends a program that does nothing wrong"
for fault in before behind far part array freed twice; do
    if { ./heap_user $fault; } 2>/dev/null; then fail "the heap lets '$fault' pass"; fi
done
echo "$all mutants of a toy ended as they must"
