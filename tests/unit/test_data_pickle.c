/* Pickles: every instruction makes the value that Python would have, and whatever is wrong is named, word for word,
 * with the byte where it was found. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/memory.h"
#include "data/pickle.h"
#include "support/data_files.h"
#include "support/succeeds.h"

/* Bytes of a pickle behind its first two. Octal escapes end after three digits, whatever follows them. */
typedef struct program {
    const char *bytes;
    size_t size;
} program;
#define P(bytes) \
    { \
        "\200\2" bytes, sizeof("\200\2" bytes) - 1 \
    }

static rc_pickle *parse(program p)
{
    rc_pickle *pickle;
    if (rc_pickle_parse("x", (const uint8_t *)p.bytes, p.size, &pickle) != RC_OK)
        fail_msg("%s", rc_message());
    return pickle;
}

/* Parts of programs: an array without a state, the type of unsigned bytes, what makes an array of its bytes, and a
 * storage of numbers. */
#define ARRAY   "cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\0\205U\1b\207R"
#define BYTES   "cnumpy\ndtype\nU\2u1K\0K\1\207R"
#define BUFFER  "cnumpy._core.numeric\n_frombuffer\n"
#define STORAGE "(U\7storagectorch\nFloatStorage\nU\2k7U\3cpuK\4tQ"
#define TENSOR  "ctorch._utils\n_rebuild_tensor_v2\n"

/* ---- what is refused --------------------------------------------------------------------------------------------- */

#define NEAR(words, byte) "'x' is not a pickle that recollect reads: " words " near byte " #byte
#define UNKNOWN(name) \
    "'x' asks for " name ", which recollect does not call: of a file it takes numbers, texts, lists, dictionaries, " \
    "arrays and tensors, and executes nothing"
#define NO_DICTIONARY(kind) "'x' is a pickle of " kind ", expected a dictionary"

static const struct {
    program program;
    const char *words;
} refused[] = {
    {P("cos\nsystem\nq\1U\2lsq\2\205Rq\3."), UNKNOWN("os.system")},
    {P("cnumpy\nload\n."), UNKNOWN("numpy.load")},
    {P("\214\2os\214\6system\223."), UNKNOWN("os.system")},
    {P("c0123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789xyz\n"
       "0123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789xyz\n."),
     UNKNOWN("0123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789."
             "0123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789")},
    {P(""), NEAR("unexpected end", 2)},
    {P("}"), NEAR("unexpected end", 3)},
    {P("}M\1"), NEAR("unexpected end", 4)},
    {P("}J\1\1\1"), NEAR("unexpected end", 4)},
    {P("}G\1\1\1\1\1\1\1"), NEAR("unexpected end", 4)},
    {P("cnumpy\nload"), NEAR("unexpected end", 9)},
    {P("cnumpy"), NEAR("unexpected end", 3)},
    {P("}i."), NEAR("an instruction that data does not need", 4)},
    {P("}\201."), NEAR("an instruction that data does not need", 4)},
    {P("."), NO_DICTIONARY("None")},
    {P("K\1."), NO_DICTIONARY("a number")},
    {P("G\1\1\1\1\1\1\1\1."), NO_DICTIONARY("a number")},
    {P("U\1x."), NO_DICTIONARY("a string")},
    {P("]."), NO_DICTIONARY("a list")},
    {P("\217."), NO_DICTIONARY("a list")},
    {P(")."), NO_DICTIONARY("a tuple")},
    {P("((t."), NO_DICTIONARY("a tuple")},
    {P("(\221."), NO_DICTIONARY("a tuple")},
    {P("cnumpy\ndtype\n."), NO_DICTIONARY("a function")},
    {P(ARRAY "."), NO_DICTIONARY("an array")},
    {P(BYTES "."), NO_DICTIONARY("a type")},
    {P(STORAGE "."), NO_DICTIONARY("a storage")},
    {P(TENSOR "(" STORAGE "K\0))tR."), NO_DICTIONARY("a tensor")},
    {P("(."), NO_DICTIONARY("a mark")},
    {P("}U\4abc"), NEAR("a string longer than the file", 5)},
    {P("}X\4\0\0\0abc"), NEAR("a string longer than the file", 8)},
    {P("}T\377\377\377\377."), NEAR("a string longer than the file", 8)},
    {P("}\226\4\0\0\0\0\0\0\0abc"), NEAR("a string longer than the file", 12)},
    {P("}\226\1\0\0\0\1\0\0\0abc"), NEAR("a string longer than the file", 12)},
    {P("}\226\1\0\0\0\0\0\0"), NEAR("unexpected end", 8)},
    {P("}e."), NEAR("no mark", 4)},
    {P("}u."), NEAR("no mark", 4)},
    {P("}t."), NEAR("no mark", 4)},
    {P("(e."), NEAR("nothing to add values to", 4)},
    {P("}((u."), NEAR("nothing to add values to", 6)},
    {P("}(K\1\220."), NEAR("nothing to add values to", 7)},
    {P("](K\1K\1u."), NEAR("nothing to add values to", 9)},
    {P("}K\1a."), NEAR("nothing to add values to", 6)},
    {P("]K\1K\1s."), NEAR("nothing to add values to", 8)},
    {P("K\1a."), NEAR("nothing to add values to", 5)},
    {P("}(K\1u."), NEAR("a key without a value", 7)},
    {P("](a."), NEAR("misplaced mark", 5)},
    {P("}K\1(s."), NEAR("misplaced mark", 7)},
    {P("}(K\1s."), NEAR("misplaced mark", 7)},
    {P("K\1(\206."), NEAR("misplaced mark", 6)},
    {P("(K\1\206."), NEAR("misplaced mark", 6)},
    {P("\205."), NEAR("too few values for a tuple", 3)},
    {P("K\1\206."), NEAR("too few values for a tuple", 5)},
    {P("K\1K\1\207."), NEAR("too few values for a tuple", 7)},
    {P("h\5."), NEAR("nothing was remembered there", 4)},
    {P("}\224h\1."), NEAR("nothing was remembered there", 6)},
    {P("}q\2h\1."), NEAR("nothing was remembered there", 7)},
    {P("}q\2j\3\0\0\0."), NEAR("nothing was remembered there", 10)},
    {P("q\5."), NEAR("nothing to remember", 4)},
    {P("\224."), NEAR("nothing to remember", 3)},
    {P("}r\0\0\20\0."), NEAR("nothing to remember", 8)},
    {P("}\212\11."), NEAR("unexpected end", 5)},
    {P("}\212\3\1\1"), NEAR("unexpected end", 5)},
    {P("\212\11\0\0\0\0\0\0\0\200\0."), NO_DICTIONARY("a number")},
    {P("I9223372036854775808\n."), NO_DICTIONARY("a number")},
    {P("I-92233720368547758080000\n."), NO_DICTIONARY("a number")},
    {P("}I12"), NEAR("unexpected end", 4)},
    {P("}I\n."), NEAR("a number without digits", 5)},
    {P("}I-\n."), NEAR("a number without digits", 6)},
    {P("}I1-\n."), NEAR("a number of something else than digits", 7)},
    {P("}I1.5\n."), NEAR("a number of something else than digits", 8)},
    {P("\223."), NEAR("a function whose name is no string", 3)},
    {P("U\1x\223."), NEAR("a function whose name is no string", 6)},
    {P("U\1x}\223."), NEAR("a function whose name is no string", 7)},
    {P("}U\1x\223."), NEAR("a function whose name is no string", 7)},
    {P("\225\2\0\0\0\0\0\0\0."), NEAR("a frame longer than the file", 11)},
    {P("\225\0\0\0\0\1\0\0\0."), NEAR("a frame longer than the file", 11)},
    {P("\225\1\0\0\0\0\0\0\0."), NO_DICTIONARY("None")},
    {P("\225\1\0\0\0\0\0\0"), NEAR("unexpected end", 7)},
    {P("cnumpy\nndarray\n)R."), NEAR("a call that recollect does not know", 19)},
    {P("c__builtin__\nset\n)R."), NEAR("a call that recollect does not know", 21)},
    {P("ccollections\nOrderedDict\nK\1\205R."), NEAR("a call that recollect does not know", 31)},
    {P("ccollections\nOrderedDict\n]]\206R."), NEAR("a call that recollect does not know", 31)},
    {P("ccollections\nOrderedDict\n]K\1a\205R."), NEAR("a dictionary of something else than pairs", 33)},
    {P("ccollections\nOrderedDict\n](](K\1K\2K\3ee\205R."), NEAR("a dictionary of something else than pairs", 41)},
    {P("ccollections\nOrderedDict\n](](K\1K\2e](K\1ee\205R."), NEAR("a dictionary of something else than pairs", 44)},
    {P("ctorch\nSize\n]\205R."), NEAR("a call that recollect does not know", 17)},
    {P("ctorch._utils\n_rebuild_parameter\n" STORAGE "\205R."), NEAR("a call that recollect does not know", 80)},
    {P(TENSOR "K\1\205R."), NEAR("a call that recollect does not know", 39)},
    {P("cnumpy.core.multiarray\n_reconstruct\ncnumpy\ndtype\n\205R."), NEAR("a call that recollect does not know", 53)},
    {P("cnumpy\ndtype\n}R."), NEAR("a call of something that is no function", 17)},
    {P("K\1)R."), NEAR("a call of something that is no function", 6)},
    {P(")R."), NEAR("a call of something that is no function", 4)},
    {P("cnumpy\ndtype\nU\2i8\205R."), NEAR("an array of something else than unsigned bytes", 21)},
    {P("cnumpy\ndtype\nK\1\205R."), NEAR("an array of something else than unsigned bytes", 19)},
    {P("c_codecs\nencode\nU\1xU\5utf-8\206R."), NEAR("an encoding other than latin1", 30)},
    {P("c_codecs\nencode\nK\1U\6latin1\206R."), NEAR("an encoding other than latin1", 30)},
    {P("c_codecs\nencode\nU\1xK\1\206R."), NEAR("an encoding other than latin1", 25)},
    {P("c_codecs\nencode\nU\2\304\200U\6latin1\206R."), NEAR("a character that latin1 does not have", 32)},
    {P("c_codecs\nencode\nU\1\303U\6latin1\206R."), NEAR("a character that latin1 does not have", 31)},
    {P("c_codecs\nencode\nU\2\303aU\6latin1\206R."), NEAR("a character that latin1 does not have", 32)},
    {P("}b."), NEAR("a state for something that takes none", 4)},
    {P("})b."), NEAR("a state for something that takes none", 5)},
    {P("K\1}b."), NEAR("a state for something that takes none", 6)},
    {P(ARRAY "}b."), NEAR("a state for something that takes none", 63)},
    {P(ARRAY "(K\1K\2" BYTES "\211U\2abtb."), NEAR("an array that is not (rows, columns) of bytes", 96)},
    {P(ARRAY "(K\1)" BYTES "\211U\2abtb."), NEAR("an array that is not (rows, columns) of bytes", 95)},
    {P(ARRAY "(K\1K\1K\1K\2\207" BYTES "\211U\2abtb."), NEAR("an array that is not (rows, columns) of bytes", 101)},
    {P(ARRAY "(K\1K\2\205K\1\211U\2abtb."), NEAR("an array that is not (rows, columns) of bytes", 76)},
    {P(ARRAY "(K\1K\2\205" BYTES "NU\2abtb."), NEAR("an array that is not (rows, columns) of bytes", 97)},
    {P(ARRAY "(K\1K\2\205" BYTES "\211Ntb."), NEAR("an array that is not (rows, columns) of bytes", 94)},
    {P(ARRAY "(K\1N\205" BYTES "\211U\2abtb."), NEAR("an array without a proper shape", 96)},
    {P(ARRAY "(K\1J\377\377\377\377\205" BYTES "\211U\2abtb."), NEAR("an array without a proper shape", 100)},
    {P(ARRAY "(K\1\212\4\0\0\0\200\205" BYTES "\211U\2abtb."), NEAR("an array without a proper shape", 101)},
    {P(ARRAY "(K\1\212\5\0\0\0\200\0\205" BYTES "\211U\2abtb."), NEAR("an array without a proper shape", 102)},
    {P(ARRAY "(K\1K\2N\206" BYTES "\211U\2abtb."), NEAR("an array without a proper shape", 98)},
    {P(ARRAY "(K\1K\2K\2\206" BYTES "\211U\3abctb."), NEAR("an array whose bytes do not fill its shape", 100)},
    {P(ARRAY "(K\1J\377\377\377\177K\2\206" BYTES "\211U\2abtb."),
     NEAR("an array whose bytes do not fill its shape", 102)},
    {P(BUFFER "(C\2ab" BYTES "K\2\205U\1AtR."), NEAR("an array in another order than C or F", 71)},
    {P(BUFFER "(C\2ab" BYTES "K\2\205NtR."), NEAR("an array in another order than C or F", 69)},
    {P(BUFFER "(C\2ab" BYTES "K\2U\1CtR."), NEAR("an array that is not (rows, columns) of bytes", 70)},
    {P(BUFFER "(K\2" BYTES "K\2\205U\1CtR."), NEAR("an array that is not (rows, columns) of bytes", 69)},
    {P(BUFFER "(C\2abNK\2\205U\1CtR."), NEAR("an array that is not (rows, columns) of bytes", 49)},
    {P(BUFFER "(C\2ab" BYTES "K\3\205U\1CtR."), NEAR("an array whose bytes do not fill its shape", 71)},
    {P("Q."), NEAR("a name of something that is no storage of numbers", 3)},
    {P("](K\1e\205Q."), NEAR("a name of something that is no storage of numbers", 9)},
    {P("[Q."), NEAR("an instruction that data does not need", 3)},
    {P("(K\1ctorch\nFloatStorage\nU\2k7U\3cpuK\4tQ."), NEAR("a name of something that is no storage of numbers", 38)},
    {P("(U\7Storagectorch\nFloatStorage\nU\2k7U\3cpuK\4tQ."),
     NEAR("a name of something that is no storage of numbers", 45)},
    {P("(U\7storagectorch\nFloatStorage\nK\7U\3cpuK\4tQ."),
     NEAR("a name of something that is no storage of numbers", 43)},
    {P("(U\7storagectorch\nFloatStorage\nU\2k7U\3cpuNtQ."),
     NEAR("a name of something that is no storage of numbers", 44)},
    {P("(U\7storagectorch\nFloatStorage\nU\2k7U\3cpuJ\377\377\377\377tQ."),
     NEAR("a name of something that is no storage of numbers", 48)},
    {P("(U\7storagectorch\nSize\nU\2k7U\3cpuK\4tQ."), NEAR("a storage without a type", 37)},
    {P("(U\7storageU\5FloatU\2k7U\3cpuK\4tQ."), NEAR("a storage without a type", 32)},
    {P("(U\7storagectorch\nFloatStorage\nU\2k7U\3cpuK\4K\1tQ."), NEAR("a storage that is a part of another", 47)},
};

static void what_is_refused_is_named(void **state)
{
    (void)state;
    int wrong = 0;
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        rc_pickle *pickle;
        size_t before = rc_bytes_allocated(), size = refused[i].program.size;
        uint8_t *copy = malloc(size); /* so that a sanitizer sees its end */
        assert_non_null(copy);
        memcpy(copy, refused[i].program.bytes, size);
        rc_status status = rc_pickle_parse("x", copy, size, &pickle);
        bool unknown = strstr(refused[i].words, "which recollect does not call") != NULL;
        if (status != (unknown ? RC_UNSUPPORTED : RC_FORMAT) || strcmp(rc_message(), refused[i].words) != 0) {
            print_error("program %zu: status %d, \"%s\", expected \"%s\"\n", i, status,
                        status != RC_OK ? rc_message() : "", refused[i].words);
            wrong++;
        }
        assert_null(pickle);
        free(copy);
        assert_int_equal(rc_bytes_allocated(), before);
    }
    assert_int_equal(wrong, 0);
}

static void only_some_protocols_are_read(void **state)
{
    (void)state;
    static const char good[] = "\200\5}.";
    rc_pickle *pickle;
    for (int protocol = 0; protocol < 8; protocol++) {
        const uint8_t bytes[] = {0x80, (uint8_t)protocol, '}', '.'};
        bool read = protocol >= 2 && protocol <= 5;
        assert_int_equal(rc_pickle_parse("x", bytes, sizeof bytes, &pickle), read ? RC_OK : RC_FORMAT);
        if (!read)
            data_assert_words("'x' is not a pickle of protocol 2 to 5");
        rc_pickle_free(pickle);
    }
    for (size_t kept = 0; kept < 2; kept++)
        assert_int_equal(rc_pickle_parse("x", (const uint8_t *)good, kept, &pickle), RC_FORMAT);
    data_assert_words("'x' is not a pickle of protocol 2 to 5");
    assert_int_equal(rc_pickle_parse("x", (const uint8_t *)"}..", 3, &pickle), RC_FORMAT);
}

/* A million values are enough: more of them take memory, and are refused. */
static void values_are_counted(void **state)
{
    (void)state;
    enum { MOST = 1 << 20 };
    rc_pickle *pickle;
    size_t used;
    uint8_t *bytes = malloc(MOST + 4);
    assert_non_null(bytes);
    memset(bytes, 'N', MOST + 4);
    memcpy(bytes, "\200\2", 2);
    bytes[2 + MOST - 1] = '.';
    SUCCEEDS(rc_pickle_parse_first("x", bytes, MOST + 4, &used, &pickle));
    assert_int_equal(used, 2 + MOST);
    rc_pickle_free(pickle);
    bytes[2 + MOST - 1] = 'N';
    bytes[2 + MOST] = '.';
    assert_int_equal(rc_pickle_parse_first("x", bytes, MOST + 4, &used, &pickle), RC_FORMAT);
    data_assert_words("'x' is not a pickle that recollect reads: too many values near byte 1048578");
    assert_int_equal(used, 0);
    free(bytes);
    rc_pickle *memo = parse((program)P("}r\377\377\17\0j\377\377\17\0U\1aK\1s."));
    int64_t value;
    SUCCEEDS(rc_pickle_get_integer(memo, "a", &value));
    assert_int_equal(value, 1);
    rc_pickle_free(memo);
}

/* ---- values ------------------------------------------------------------------------------------------------------ */

/* The list under "a", as text. */
static void assert_list(program p, const char *expected)
{
    rc_pickle *pickle = parse(p);
    rc_pickle_list list;
    char found[2048] = "";
    size_t used = 0;
    SUCCEEDS(rc_pickle_get_list(pickle, "a", &list));
    int count = list.count;
    for (int i = 0; i < count; i++) {
        int64_t number;
        const char *text;
        size_t length;
        if (rc_pickle_next_integer(&list, &number) == RC_OK)
            used += (size_t)snprintf(found + used, sizeof found - used, "%lld ", (long long)number);
        else if (rc_pickle_next_string(&list, &text, &length) == RC_OK)
            used += (size_t)snprintf(found + used, sizeof found - used, "'%.*s' ", (int)length, text);
        else
            fail_msg("%s", rc_message());
    }
    assert_string_equal(found, expected);
    int64_t beyond;
    assert_int_equal(rc_pickle_next_integer(&list, &beyond), RC_FORMAT);
    data_assert_words("'x': 'a' has an element that is None, expected a number");
    rc_pickle_free(pickle);
}

static void every_instruction_makes_its_value(void **state)
{
    (void)state;
    assert_list((program)P("}U\1a](K\377M\377\376J\376\377\377\377J\1\2\3\4\210\211es."), "255 65279 -2 67305985 1 0 ");
    assert_list(
        (program)P("}U\1a](\212\0\212\1\377\212\1\177\212\2\0\200\212\7\1\2\3\4\5\6\7\212\10\1\2\3\4\5\6\7\200es."),
        "0 -1 127 -32768 1976943448883713 -9221395093405892095 ");
    assert_list((program)P("}U\1a](I140234567890123\nI-5000000000\nI9223372036854775807\nI-9223372036854775808\n"
                           "I007\nes."),
                "140234567890123 -5000000000 9223372036854775807 -9223372036854775808 7 ");
    assert_list((program)P("}U\1a](U\2abC\1c\214\0T\3\0\0\0defB\1\0\0\0gX\2\0\0\0\303\251es."),
                "'ab' 'c' '' 'def' 'g' '\u00e9' ");
    assert_list((program)P("}U\1a]K\1aK\2as."), "1 2 ");
    assert_list((program)P("}U\1a\217(K\3K\2\220s."), "3 2 ");
    assert_list((program)P("}(U\1bK\5U\1a](K\1eU\1c}u."), "1 ");
    assert_list(
        (program)P("}\2250\0\0\0\0\0\0\0U\1aq\7](K\7q\1h\1K\10\224r\0\1\0\0j\0\1\0\0h\10h\7es......................"),
        "7 7 8 8 8 'a' ");
    assert_list((program)P("}U\1a]c_codecs\nencode\nX\5\0\0\0x\303\251\302\200U\6latin1\206Rac_codecs\nencode\nU\1yU\6"
                           "latin1\206Ras."),
                "'x\xE9\x80' 'y' ");
    assert_list((program)P("}U\1ac__builtin__\nset\n](K\1K\2e\205Rs."), "1 2 ");
    assert_list((program)P("}U\1acbuiltins\nfrozenset\n]K\3a\205Rs."), "3 ");
    assert_list((program)P("ccollections\nOrderedDict\n)RU\1a]K\4as}b."), "4 ");
    assert_list((program)P("ccollections\nOrderedDict\n](](U\1bK\5eU\1a](K\6K\7e\206e\205RU\1cK\1s."), "6 7 ");
    assert_list((program)P("ccollections\nOrderedDict\n]\205RU\1a]K\4as."), "4 ");
}

/* More values than any block begins with. */
static void long_lists_are_whole(void **state)
{
    (void)state;
    enum { COUNT = 300 };
    data_bytes bytes = {0};
    rc_pickle_list list;
    rc_pickle *pickle;
    data_add(&bytes, "\200\2}U\1a](", 8);
    for (int i = 0; i < COUNT; i++) {
        data_add(&bytes, "M", 1);
        data_add(&bytes, (uint8_t[2]){(uint8_t)(7 * i), (uint8_t)(7 * i >> 8)}, 2);
        data_add(&bytes, "\224", 1);
    }
    data_add(&bytes, "j\144\0\0\0es.", 8);
    SUCCEEDS(rc_pickle_parse("x", bytes.data, bytes.size, &pickle));
    SUCCEEDS(rc_pickle_get_list(pickle, "a", &list));
    assert_int_equal(list.count, COUNT + 1);
    for (int i = 0; i <= COUNT; i++) {
        int64_t value;
        SUCCEEDS(rc_pickle_next_integer(&list, &value));
        assert_int_equal(value, i < COUNT ? 7 * i : 700);
    }
    rc_pickle_free(pickle);
    free(bytes.data);
}

static void values_are_asked_for_by_key_and_kind(void **state)
{
    (void)state;
    rc_pickle *pickle = parse(
        (program)P("}(K\1K\2U\1s\212\11\0\0\0\0\0\0\0\200\0U\1nK\5U\1l](U\1xG\0\0\0\0\0\0\0\0eU\1t)U\1n}u."));
    rc_pickle_list list;
    rc_pickle_array array;
    int64_t value;
    const char *text;
    size_t length, used;
    SUCCEEDS(rc_pickle_get_integer(pickle, "n", &value));
    assert_int_equal(value, 5);
    assert_int_equal(rc_pickle_get_integer(pickle, "none", &value), RC_FORMAT);
    data_assert_words("'x' has no 'none'");
    assert_int_equal(rc_pickle_get_integer(pickle, "t", &value), RC_FORMAT);
    data_assert_words("'x': 't' is a tuple, expected a number");
    assert_int_equal(rc_pickle_get_integer(pickle, "s", &value), RC_FORMAT); /* too long for us */
    data_assert_words("'x': 's' is a number, expected a number");
    assert_int_equal(rc_pickle_get_list(pickle, "n", &list), RC_FORMAT);
    data_assert_words("'x': 'n' is a number, expected a list");
    assert_int_equal(rc_pickle_get_array(pickle, "l", &array), RC_FORMAT);
    data_assert_words("'x': 'l' is a list, expected an array");
    assert_int_equal(rc_pickle_integer(pickle, &value), RC_FORMAT);
    data_assert_words("'x' is a pickle of a dictionary, expected a number");
    assert_int_equal(rc_pickle_list_of(pickle, &list), RC_FORMAT);
    data_assert_words("'x' is a pickle of a dictionary, expected a list");
    SUCCEEDS(rc_pickle_get_list(pickle, "l", &list));
    assert_int_equal(list.count, 2);
    assert_int_equal(rc_pickle_next_integer(&list, &value), RC_FORMAT);
    data_assert_words("'x': 'l' has an element that is a string, expected a number");
    SUCCEEDS(rc_pickle_next_string(&list, &text, &length));
    assert_true(length == 1 && text[0] == 'x');
    assert_int_equal(rc_pickle_next_string(&list, &text, &length), RC_FORMAT);
    data_assert_words("'x': 'l' has an element that is a number, expected a string");
    rc_pickle_free(pickle);
    static const uint8_t several[] = "\200\2K\7.\200\2](K\1K\2e.rest";
    SUCCEEDS(rc_pickle_parse_first("y", several, sizeof several - 1, &used, &pickle));
    assert_int_equal(used, 5);
    SUCCEEDS(rc_pickle_integer(pickle, &value));
    assert_int_equal(value, 7);
    rc_pickle_free(pickle);
    SUCCEEDS(rc_pickle_parse_first("y", several + 5, sizeof several - 6, &used, &pickle));
    assert_int_equal(used, 10);
    SUCCEEDS(rc_pickle_list_of(pickle, &list));
    SUCCEEDS(rc_pickle_next_integer(&list, &value));
    assert_true(list.count == 2 && value == 1);
    assert_int_equal(rc_pickle_next_string(&list, &text, &length), RC_FORMAT);
    data_assert_words("'y': 'the list' has an element that is a number, expected a string");
    rc_pickle_free(pickle);
}

static void assert_array(program p, rc_pickle_array expected)
{
    rc_pickle *pickle = parse(p);
    rc_pickle_array found;
    SUCCEEDS(rc_pickle_get_array(pickle, "a", &found));
    assert_int_equal(found.rows, expected.rows);
    assert_int_equal(found.columns, expected.columns);
    assert_int_equal(found.row_step, expected.row_step);
    assert_int_equal(found.column_step, expected.column_step);
    assert_memory_equal(found.bytes, expected.bytes, (size_t)(found.rows * found.columns));
    rc_pickle_free(pickle);
}

static void arrays_have_rows_and_columns(void **state)
{
    (void)state;
    const uint8_t *bytes = (const uint8_t *)"abcdef";
    assert_array((program)P("}U\1a" ARRAY "(K\1K\2K\3\206" BYTES "\211U\6abcdeftbs."),
                 (rc_pickle_array){2, 3, 3, 1, bytes});
    assert_array((program)P("}U\1a" ARRAY "(K\1K\2K\3\206" BYTES "\210U\6abcdeftbs."),
                 (rc_pickle_array){2, 3, 1, 2, bytes});
    assert_array((program)P("}U\1a" ARRAY "(K\1K\6\205" BYTES "\211U\6abcdeftbs."),
                 (rc_pickle_array){6, 1, 1, 1, bytes});
    assert_array(
        (program)P("}U\1acnumpy._core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\0\205U\1b\207R(K\1K\0K\3\206"
                   "cnumpy\ndtype\nU\2u1K\0K\1\207R(K\3U\1|tb\211U\0tbs."),
        (rc_pickle_array){0, 3, 3, 1, bytes});
    assert_array((program)P("}U\1a" BUFFER "(\226\6\0\0\0\0\0\0\0abcdef" BYTES "K\2K\3\206U\1CtRs."),
                 (rc_pickle_array){2, 3, 3, 1, bytes});
    assert_array((program)P("}U\1acnumpy.core.numeric\n_frombuffer\n(C\6abcdef" BYTES "K\2K\3\206U\1FtRs."),
                 (rc_pickle_array){2, 3, 1, 2, bytes});
}

/* ---- tensors ----------------------------------------------------------------------------------------------------- */

static void assert_tensor(rc_pickle_tensors *tensors, const char *name, rc_torch_type type, int64_t offset, int dims,
                          const int64_t *shape, const int64_t *stride)
{
    rc_pickle_tensor tensor;
    bool more;
    SUCCEEDS(rc_pickle_next_tensor(tensors, &tensor, &more));
    assert_true(more);
    assert_int_equal(tensor.name_length, strlen(name));
    assert_memory_equal(tensor.name, name, strlen(name));
    assert_int_equal(tensor.storage.type, type);
    assert_int_equal(tensor.storage.key_length, 2);
    assert_memory_equal(tensor.storage.key, "k7", 2);
    assert_int_equal(tensor.storage.elements, 4);
    assert_int_equal(tensor.offset, offset);
    assert_int_equal(tensor.dims, dims);
    assert_memory_equal(tensor.shape, shape, (size_t)dims * sizeof *shape);
    assert_memory_equal(tensor.stride, stride, (size_t)dims * sizeof *stride);
}

static void tensors_are_found(void **state)
{
    (void)state;
    rc_pickle *pickle = parse(
        (program)P("}(U\1n" TENSOR "(" STORAGE "K\3K\5K\6\206K\7K\10\206\211)tRU\1pctorch._utils\n_rebuild_parameter\n"
                   "ctorch._utils\n_rebuild_tensor\n(" STORAGE "K\0))tR\210)\207RK\1K\2U\1zK\0U\1m}(U\1q" TENSOR
                   "(" STORAGE "K\1ctorch\nSize\nK\4\205\205RK\1\205\211)tRuu."));
    rc_pickle_tensors tensors;
    rc_pickle_tensor tensor;
    bool more;
    static const char *const inside[] = {"z", "m", "k"};
    SUCCEEDS(rc_pickle_get_tensors(pickle, inside, 1, &tensors)); /* what is there is no dictionary */
    assert_tensor(&tensors, "n", RC_TORCH_FLOAT, 3, 2, (int64_t[]){5, 6}, (int64_t[]){7, 8});
    assert_tensor(&tensors, "p", RC_TORCH_FLOAT, 0, 0, (int64_t[]){0}, (int64_t[]){0});
    SUCCEEDS(rc_pickle_next_tensor(&tensors, &tensor, &more));
    assert_false(more);
    SUCCEEDS(rc_pickle_get_tensors(pickle, inside, 3, &tensors));
    assert_tensor(&tensors, "q", RC_TORCH_FLOAT, 1, 1, (int64_t[]){4}, (int64_t[]){1});
    SUCCEEDS(rc_pickle_next_tensor(&tensors, &tensor, &more));
    assert_false(more);
    rc_pickle_storage storage;
    uint32_t at = 0;
    int storages = 0;
    for (; rc_pickle_next_storage(pickle, &at, &storage); storages++)
        assert_true(storage.elements == 4 && storage.key_length == 2 && memcmp(storage.key, "k7", 2) == 0);
    assert_int_equal(storages, 3);
    rc_pickle_free(pickle);
    pickle = parse((program)P("}."));
    SUCCEEDS(rc_pickle_get_tensors(pickle, inside, 3, &tensors));
    SUCCEEDS(rc_pickle_next_tensor(&tensors, &tensor, &more));
    assert_false(more);
    rc_pickle_free(pickle);
    size_t used;
    SUCCEEDS(rc_pickle_parse_first("x", (const uint8_t *)"\200\2K\1.", 5, &used, &pickle));
    assert_int_equal(rc_pickle_get_tensors(pickle, inside, 3, &tensors), RC_FORMAT);
    data_assert_words("'x' is a pickle of a number, expected a dictionary");
    rc_pickle_free(pickle);
}

static void shapes_of_tensors_are_checked(void **state)
{
    (void)state;
    static const program programs[] = {
        P("}U\1n" TENSOR "(" STORAGE "NK\1\205K\1\205tRs."),
        P("}U\1n" TENSOR "(" STORAGE "J\377\377\377\377K\1\205K\1\205tRs."),
        P("}U\1n" TENSOR "(" STORAGE "K\0K\1K\1\205tRs."),
        P("}U\1n" TENSOR "(" STORAGE "K\0K\1\205K\1tRs."),
        P("}U\1n" TENSOR "(" STORAGE "K\0K\1\205)tRs."),
        P("}U\1n" TENSOR "(" STORAGE "K\0N\205K\1\205tRs."),
        P("}U\1n" TENSOR "(" STORAGE "K\0K\1\205J\377\377\377\377\205tRs."),
        P("}U\1n" TENSOR "(" STORAGE "K\0(K\1K\1K\1K\1K\1K\1K\1K\1K\1t(K\1K\1K\1K\1K\1K\1K\1K\1K\1ttRs."),
    };
    rc_pickle_tensors tensors;
    rc_pickle_tensor tensor;
    bool more;
    for (size_t i = 0; i < sizeof programs / sizeof *programs; i++) {
        rc_pickle *pickle = parse(programs[i]);
        SUCCEEDS(rc_pickle_get_tensors(pickle, NULL, 0, &tensors));
        if (rc_pickle_next_tensor(&tensors, &tensor, &more) != RC_FORMAT)
            fail_msg("program %zu is read", i);
        data_assert_words("'x': the shape of tensor 'n' is damaged, or has more than 8 dimensions");
        rc_pickle_free(pickle);
    }
    rc_pickle *pickle = parse((program)P("}U\1n" TENSOR "(" STORAGE
                                         "K\0(K\1K\1K\1K\1K\1K\1K\1K\2t(K\1K\1K\1K\1K\1K\1K\1K\1ttRs."));
    SUCCEEDS(rc_pickle_get_tensors(pickle, NULL, 0, &tensors));
    assert_tensor(&tensors, "n", RC_TORCH_FLOAT, 0, 8, (int64_t[]){1, 1, 1, 1, 1, 1, 1, 2},
                  (int64_t[]){1, 1, 1, 1, 1, 1, 1, 1});
    rc_pickle_free(pickle);
}

static void every_type_has_its_storage(void **state)
{
    (void)state;
    static const char *const names[] = {"Float", "Double", "Half", "BFloat16", "Long",
                                        "Int",   "Short",  "Char", "Byte",     "Bool"};
    for (int type = RC_TORCH_FLOAT; type <= RC_TORCH_BOOL; type++) {
        char text[256];
        int length = snprintf(text, sizeof text, "%c%c(U%cstoragectorch\n%sStorage\nU%ck7U%ccpuK%ctQ.", 0x80, 2, 7,
                              names[type], 2, 3, 9);
        rc_pickle *pickle;
        rc_pickle_storage storage;
        size_t used;
        uint32_t at = 0;
        SUCCEEDS(rc_pickle_parse_first("x", (const uint8_t *)text, (size_t)length, &used, &pickle));
        assert_true(rc_pickle_next_storage(pickle, &at, &storage));
        assert_true((int)storage.type == type && storage.elements == 9);
        rc_pickle_free(pickle);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_refused_is_named),
        cmocka_unit_test(only_some_protocols_are_read),
        cmocka_unit_test(values_are_counted),
        cmocka_unit_test(every_instruction_makes_its_value),
        cmocka_unit_test(long_lists_are_whole),
        cmocka_unit_test(values_are_asked_for_by_key_and_kind),
        cmocka_unit_test(arrays_have_rows_and_columns),
        cmocka_unit_test(tensors_are_found),
        cmocka_unit_test(shapes_of_tensors_are_checked),
        cmocka_unit_test(every_type_has_its_storage),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
