/* Changes to a YAML text, line by line: left out, twice, moved, deeper, another key or value. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "fuzz/mutate.h"

enum { MOST_LINES = 2048 };
typedef struct line {
    size_t at, size; /* with its end */
} line;

static int split(const fuzz_input *in, line *lines)
{
    int count = 0;
    for (size_t at = 0; at < in->size && count < MOST_LINES; count++) {
        const uint8_t *end = memchr(in->bytes + at, '\n', in->size - at);
        lines[count] = (line){.at = at, .size = (end != NULL ? (size_t)(end - in->bytes) + 1 : in->size) - at};
        at += lines[count].size;
    }
    return count;
}

/* What stands behind the colon, or all of a line that has none. */
static line value_of(const fuzz_input *in, line l)
{
    const uint8_t *colon = memchr(in->bytes + l.at, ':', l.size);
    size_t end = l.at + l.size - (in->bytes[l.at + l.size - 1] == '\n');
    size_t first = colon != NULL ? (size_t)(colon - in->bytes) + 1 : l.at;
    return (line){.at = first, .size = first < end ? end - first : 0};
}

static void other_value(fuzz_input *in, line v)
{
    static const char *const values[] = {
        " ~",          " .inf",    " .nan",      " 1e999",      " 0x10",       " 0o17",        " 1_000",
        " yes",        " True",    " \"\\x41\"", " 'it''s'",    " [1, 2, 3]",  " {a: b}",      " &a 1",
        " *a",         " !!int 3", " |\n  text", " >-\n  text", " # none",     " - 1",         "",
        " ''",         " -0",      " +1",        " 1.5",        " 2026-01-01", " \"\\u2028\"", " ? x",
        " \"a\n  b\"", " <<",      " 010",       " 1:30"};
    char text[32];
    if (fuzz_one_in(in, 3)) {
        snprintf(text, sizeof text, " %" PRId64, (int64_t)fuzz_odd_number(in));
        fuzz_replace_text(in, v.at, v.size, text);
    } else {
        fuzz_replace_text(in, v.at, v.size, values[fuzz_roll(in, sizeof values / sizeof *values)]);
    }
}

void fuzz_mutate_yaml(fuzz_input *in)
{
    static line lines[MOST_LINES];
    int count = split(in, lines);
    if (count == 0 || fuzz_one_in(in, 6)) {
        in->size = LLVMFuzzerMutate(in->bytes, in->size, in->limit);
        return;
    }
    line l = lines[fuzz_roll(in, (size_t)count)], other = lines[fuzz_roll(in, (size_t)count)], v = value_of(in, l);
    line w = value_of(in, other);
    switch (fuzz_roll(in, 8)) {
    case 0: fuzz_replace(in, l.at, l.size, "", 0); break;
    case 1: fuzz_copy(in, l.at, l.size, other.at); break;
    case 2: /* moved */
        if (fuzz_copy(in, l.at, l.size, other.at))
            fuzz_replace(in, l.at + (other.at <= l.at ? l.size : 0), l.size, "", 0);
        break;
    case 3: fuzz_replace_text(in, l.at, 0, fuzz_one_in(in, 2) ? "  " : fuzz_one_in(in, 2) ? "- " : "\t"); break;
    case 4: /* the value of another line */
        if (v.at + v.size <= w.at || w.at + w.size <= v.at)
            if (fuzz_copy(in, w.at, w.size, v.at))
                fuzz_replace(in, v.at + w.size, v.size, "", 0);
        break;
    case 5: fuzz_mutate_part(in, v.at, v.size); break;
    default: other_value(in, v);
    }
}
