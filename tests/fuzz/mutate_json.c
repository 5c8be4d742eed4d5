/* Changes to a JSON text that leave it JSON, most of the time: another value, an element twice, left out, moved. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "fuzz/mutate.h"

enum { MOST_TOKENS = 2048 };
typedef struct token {
    size_t at, size;
} token;

/* Strings, words and numbers, and signs by themselves. */
static int split(const fuzz_input *in, size_t at, size_t size, token *tokens)
{
    int count = 0;
    for (size_t i = at, end = at + size; i < end && count < MOST_TOKENS;) {
        size_t first = i;
        uint8_t c = in->bytes[i++];
        if (c == '"') {
            while (i < end && in->bytes[i] != '"')
                i += in->bytes[i] == '\\' && i + 1 < end ? 2 : 1;
            i += i < end;
        } else if (strchr("{}[],: \n\t\r", c) == NULL || c == 0) {
            while (i < end && strchr("{}[],: \n\t\r\"", in->bytes[i]) == NULL && in->bytes[i] != 0)
                i++;
        } else if (strchr(" \n\t\r", c) != NULL) {
            continue;
        }
        tokens[count++] = (token){.at = first, .size = i - first};
    }
    return count;
}

/* The last token of the value that begins with this one. */
static int value_end(const fuzz_input *in, const token *tokens, int count, int first)
{
    int depth = 0;
    for (int i = first; i < count; i++) {
        uint8_t c = in->bytes[tokens[i].at];
        depth += (c == '{' || c == '[') - (c == '}' || c == ']');
        if (depth <= 0)
            return i;
    }
    return count - 1;
}

static void other_value(fuzz_input *in, token t)
{
    static const char *const values[] = {"null",   "true", "{}",     "[]",          "\"\"",    "-0",      "1e308",
                                         "1e-400", "0.5",  "[[[]]]", "\"\\u0000\"", "\"F32\"", "\"I64\"", "{\"a\":1}"};
    char text[32];
    if (fuzz_one_in(in, 2)) {
        uint64_t odd = fuzz_odd_number(in);
        if (fuzz_one_in(in, 4))
            snprintf(text, sizeof text, "%" PRId64, (int64_t)odd);
        else
            snprintf(text, sizeof text, "%" PRIu64, odd);
        fuzz_replace_text(in, t.at, t.size, text);
    } else {
        fuzz_replace_text(in, t.at, t.size, values[fuzz_roll(in, sizeof values / sizeof *values)]);
    }
}

size_t fuzz_mutate_json(fuzz_input *in, size_t at, size_t size)
{
    static token tokens[MOST_TOKENS];
    int count = split(in, at, size, tokens);
    size_t before = in->size;
    if (count == 0 || fuzz_one_in(in, 6))
        return fuzz_mutate_part(in, at, size);
    int first = (int)fuzz_roll(in, (size_t)count), last = value_end(in, tokens, count, first);
    int other = (int)fuzz_roll(in, (size_t)count), other_last = value_end(in, tokens, count, other);
    token t = {.at = tokens[first].at, .size = tokens[last].at + tokens[last].size - tokens[first].at};
    token o = {.at = tokens[other].at, .size = tokens[other_last].at + tokens[other_last].size - tokens[other].at};
    switch (fuzz_roll(in, 6)) {
    case 0:
    case 1: other_value(in, t); break;
    case 2: /* left out, with the comma behind it */
        fuzz_replace(in, t.at, t.size + (last + 1 < count && in->bytes[tokens[last + 1].at] == ','), "", 0);
        break;
    case 3: /* twice */
        if (fuzz_copy(in, t.at, t.size, t.at))
            fuzz_replace_text(in, t.at + t.size, 0, ",");
        break;
    case 4: /* another value in its place */
        if (o.at + o.size <= t.at || t.at + t.size <= o.at)
            if (fuzz_copy(in, o.at, o.size, t.at))
                fuzz_replace(in, t.at + o.size, t.size, "", 0);
        break;
    default: /* a part of a string or of a number */ fuzz_mutate_part(in, tokens[first].at, tokens[first].size);
    }
    return size + in->size - before;
}

size_t fuzz_mutate_header(uint8_t *data, size_t size, size_t limit, unsigned seed)
{
    fuzz_input in = fuzz_input_of(data, size, limit, seed);
    const uint8_t *zero = size > 0 ? memchr(data, 0, size) : NULL;
    if (fuzz_one_in(&in, 6))
        return LLVMFuzzerMutate(data, size, limit);
    fuzz_mutate_json(&in, 0, zero != NULL ? (size_t)(zero - data) : size);
    return in.size;
}
