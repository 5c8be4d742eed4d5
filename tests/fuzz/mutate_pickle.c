/* Changes to a pickle, instruction by instruction: left out, twice, exchanged, put in, another argument. */
#include <string.h>

#include "fuzz/mutate.h"

enum { MOST_CODES = 4096, LINE = 90, LINES = 91, SIZED = 100 };
typedef struct code {
    size_t at, size;
    int argument; /* how many bytes its argument or the length of it has */
} code;

/* The form of the argument: so many bytes, one or two lines, or SIZED + the bytes of its length. */
static int argument_of(uint8_t instruction)
{
    static const struct {
        const char *instructions;
        int form;
    } forms[] = {{"K\x80h\x82q", 1},         {"M\x83", 2}, {"JjRr\x84", 4},           {"G\x95", 8},
                 {"FIiLPSVgp", LINE},        {"c", LINES}, {"UC\x8a\x8c", SIZED + 1}, {"TXB\x8b", SIZED + 4},
                 {"\x8d\x8e\x96", SIZED + 8}};
    for (size_t i = 0; i < sizeof forms / sizeof *forms && instruction != 0; i++)
        if (strchr(forms[i].instructions, instruction) != NULL)
            return forms[i].form == LINE && instruction == 'i' ? LINES : forms[i].form;
    return 0;
}

static size_t size_of_code(const uint8_t *bytes, size_t left, int form)
{
    size_t size = 1;
    if (form >= SIZED) {
        uint64_t length = 0;
        for (int i = 0; i < form - SIZED && size < left; i++)
            length |= (uint64_t)bytes[size++] << (8 * i);
        return length < left - size ? size + (size_t)length : left;
    }
    for (int lines = form == LINES ? 2 : form == LINE; lines > 0; lines--) {
        const uint8_t *end = size < left ? memchr(bytes + size, '\n', left - size) : NULL;
        size = end != NULL ? (size_t)(end - bytes) + 1 : left;
    }
    if (form < LINE)
        size += (size_t)form;
    return size < left ? size : left;
}

static int split(const fuzz_input *in, size_t at, size_t size, code *codes)
{
    int count = 0;
    for (size_t i = at, end = at + size; i < end && count < MOST_CODES; count++) {
        int form = argument_of(in->bytes[i]);
        codes[count] = (code){.at = i, .size = size_of_code(in->bytes + i, end - i, form), .argument = form};
        i += codes[count].size;
    }
    return count;
}

static void put_code(fuzz_input *in, size_t at)
{
    static const struct {
        const char *bytes;
        size_t size;
    } codes[] = {{"(", 1},
                 {"]", 1},
                 {"}", 1},
                 {")", 1},
                 {"N", 1},
                 {"K\1", 2},
                 {"\x88", 1},
                 {"0", 1},
                 {"2", 1},
                 {"1", 1},
                 {"a", 1},
                 {"e", 1},
                 {"s", 1},
                 {"u", 1},
                 {"t", 1},
                 {"\x85", 1},
                 {"\x86", 1},
                 {"\x87", 1},
                 {"R", 1},
                 {"b", 1},
                 {"Q", 1},
                 {"q\0", 2},
                 {"h\0", 2},
                 {"\x94", 1},
                 {"X\1\0\0\0a", 6},
                 {"\x8c\1a", 3},
                 {"U\1a", 3},
                 {"J\xff\xff\xff\xff", 5},
                 {"\x8a\1\x80", 3},
                 {"\x8a\x9\0\0\0\0\0\0\0\x80\0", 11},
                 {".", 1},
                 {"r\xff\xff\xff\x7f", 5},
                 {"j\xff\xff\xff\x7f", 5},
                 {"ccollections\nOrderedDict\n", 25},
                 {"\x8f", 1}};
    size_t which = fuzz_roll(in, sizeof codes / sizeof *codes);
    fuzz_replace(in, at, 0, codes[which].bytes, codes[which].size);
}

/* Another number for the argument, or for its length. */
static void other_argument(fuzz_input *in, code c)
{
    int bytes = c.argument >= SIZED ? c.argument - SIZED : c.argument;
    if (c.argument == LINE || c.argument == LINES || bytes == 0 || (c.argument >= SIZED && fuzz_one_in(in, 2))) {
        size_t head = 1 + (size_t)(c.argument >= SIZED ? bytes : 0);
        if (c.size > head)
            fuzz_mutate_part(in, c.at + head, c.size - head);
        return;
    }
    uint64_t odd = fuzz_odd_number(in);
    for (int i = 0; i < bytes && c.at + 1 + (size_t)i < in->size; i++)
        in->bytes[c.at + 1 + (size_t)i] = (uint8_t)(odd >> (8 * i));
}

size_t fuzz_mutate_pickle(fuzz_input *in, size_t at, size_t size)
{
    static code codes[MOST_CODES];
    int count = split(in, at, size, codes);
    size_t before = in->size;
    if (count == 0 || fuzz_one_in(in, 8))
        return fuzz_mutate_part(in, at, size);
    code c = codes[fuzz_roll(in, (size_t)count)], other = codes[fuzz_roll(in, (size_t)count)];
    switch (fuzz_roll(in, 6)) {
    case 0: fuzz_replace(in, c.at, c.size, "", 0); break;
    case 1: fuzz_copy(in, c.at, c.size, other.at); break;
    case 2: /* moved */
        if (fuzz_copy(in, c.at, c.size, other.at))
            fuzz_replace(in, c.at + (other.at <= c.at ? c.size : 0), c.size, "", 0);
        break;
    case 3: put_code(in, c.at); break;
    default: other_argument(in, c);
    }
    return size + in->size - before;
}
