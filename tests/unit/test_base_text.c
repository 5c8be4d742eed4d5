/* Text from outside is shown in a form that a terminal prints and does not obey. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/log.h"
#include "base/rng.h"
#include "base/status.h"
#include "base/utf8.h"

/* UTF-8, nothing of it hidden. */
static void assert_harmless(const char *text)
{
    size_t left = strlen(text), length;
    for (; left > 0; text += length, left -= length) {
        unsigned code;
        length = rc_utf8_decode(text, left, &code);
        if (length == 0 || rc_utf8_is_hidden(code))
            fail_msg("byte 0x%02x before '%.20s'", (unsigned char)text[0], text + 1);
    }
}

static const char *shown(const char *text)
{
    static char out[256];
    rc_utf8_escape(text, out, sizeof out);
    return out;
}

static void marks_of_byte_order_are_known(void **state)
{
    (void)state;
    assert_int_equal(rc_utf8_order_mark("\ufeffa", 4), 3);
    assert_int_equal(rc_utf8_order_mark("\ufeff", 3), 3);
    assert_int_equal(rc_utf8_order_mark("\ufeff", 2), 0);
    assert_int_equal(rc_utf8_order_mark("\ufefe", 3), 0);
    assert_int_equal(rc_utf8_order_mark("a\ufeff", 4), 0);
}

static void what_terminals_obey_is_escaped(void **state)
{
    (void)state;
    assert_string_equal(shown("a\nb\tc\rd"), "a\\nb\\tc\\rd");
    assert_string_equal(shown("\x01\x1b[2J\x7f"), "\\u0001\\u001b[2J\\u007f");
    assert_string_equal(shown("\xC2\x80\xC2\x9F\xC2\xA0"), "\\u0080\\u009f\xC2\xA0"); /* C1 ends, a blank follows */
    assert_string_equal(shown("\u200b\u200f\u2010"), "\\u200b\\u200f\u2010");
    assert_string_equal(shown("\u2027\u2028\u2029\u202a\u202e\u202f"), "\u2027\\u2028\\u2029\\u202a\\u202e\u202f");
    assert_string_equal(shown("\u205f\u2060\u2066\u2069\u206f\u2070"), "\u205f\\u2060\\u2066\\u2069\\u206f\u2070");
    assert_string_equal(shown("\u00ad\u061c\u180e\ufeff\ufff9\ufffb\ufffd"),
                        "\\u00ad\\u061c\\u180e\\ufeff\\ufff9\\ufffb\ufffd");
    assert_string_equal(shown("\xEF\xBF\xBE\xEF\xBF\xBF"), "\\ufffe\\uffff");
    assert_string_equal(shown("\u034e\u034f\u0350\u115e\u115f\u1160\u1161"),
                        "\u034e\\u034f\u0350\u115e\\u115f\\u1160\u1161");
    assert_string_equal(shown("\u17b3\u17b4\u17b5\u17b6\u3163\u3164\u3165\uff9f\uffa0\uffa1\ufe0f"),
                        "\u17b3\\u17b4\\u17b5\u17b6\u3163\\u3164\u3165\uff9f\\uffa0\uffa1\ufe0f");
    assert_string_equal(shown("\U0001bc9f\U0001bca0\U0001bca3\U0001d172\U0001d173\U0001d17a\U0001d17b"),
                        "\U0001bc9f\\ud82f\\udca0\\ud82f\\udca3\U0001d172\\ud834\\udd73\\ud834\\udd7a\U0001d17b");
    assert_string_equal(shown("\U000e0001\U000e0fff\U000e1000\U0001f600"),
                        "\\udb40\\udc01\\udb43\\udfff\U000e1000\U0001f600");
    assert_string_equal(shown("\xff\xc3(\xe2\x82 \xed\xa0\x80\xc0\x80"),
                        "\\xff\\xc3(\\xe2\\x82 \\xed\\xa0\\x80\\xc0\\x80");
    assert_string_equal(shown("gr\u00fcn \\ '\"~"), "gr\u00fcn \\ '\"~");
    assert_string_equal(shown(shown("\n\xff\u202e")), "\\n\\xff\\u202e");
    assert_string_equal(shown(""), "");
}

static void accents_are_taken_off(void **state)
{
    (void)state;
    static const struct {
        unsigned code, plain;
    } pairs[] = {{0, 0},       {'a', 'a'},  {0x7F, 0x7F}, {0x9F, 0x9F},   {0xA0, ' '},    {0xA1, 0xA1},
                 {0xBF, 0xBF}, {0xC0, 'A'}, {0xFC, 'u'},  {0x17F, 's'},   {0x180, 0x180}, {0x2FF, 0x2FF},
                 {0x300, 0},   {0x308, 0},  {0x36F, 0},   {0x370, 0x370}, {0x3B1, 0x3B1}, {0x732B, 0x732B}};
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
        assert_int_equal(rc_utf8_plain(pairs[i].code), pairs[i].plain);
}

static void a_text_is_cut_between_escapes(void **state)
{
    (void)state;
    const char *text = "ab\u202e\xff\u00fc.";
    const char *whole = "ab\\u202e\\xff\u00fc."; /* 15 bytes */
    static const char *const cut[] = {"...",   "a...",  "ab...",        "ab...",        "ab...",        "ab...",
                                      "ab...", "ab...", "ab\\u202e...", "ab\\u202e...", "ab\\u202e...", "ab\\u202e..."};
    for (size_t size = 4; size < 16; size++) {
        char out[32];
        memset(out, '#', sizeof out);
        rc_utf8_escape(text, out, size);
        assert_string_equal(out, cut[size - 4]);
        assert_int_equal(out[size], '#');
    }
    char out[16];
    rc_utf8_escape(text, out, sizeof out);
    assert_string_equal(out, whole);
}

static void keep_line(void *user, int level, const char *text)
{
    (void)level;
    snprintf(user, RC_LOG_LINE_SIZE, "%s", text);
}

/* Random bytes with many that mean something, as a name in a message, in a message around it, and in the log. */
static void messages_and_logs_are_one_harmless_line(void **state)
{
    (void)state;
    static const char *const pieces[] = {"\n",     "\r",     "\x1b[31m", "\x7f",       "\xC2\x9b", "\u202e",
                                         "\u2066", "\u200b", "\ufeff",   "\U000e0041", "\xE2\x80", "\xff",
                                         "\\",     "a",      "\u00fc",   "%s"};
    enum { PIECES = sizeof pieces / sizeof *pieces };
    char line[RC_LOG_LINE_SIZE];
    rc_log log = {keep_line, line, RC_LOG_DEBUG};
    for (uint64_t run = 0; run < 3000; run++) {
        char name[1500];
        size_t used = 0;
        rc_rng rng = {7, run};
        size_t wanted = (size_t)(rc_rng_bits(rng, 0) % (run % 10 == 0 ? sizeof name - 16 : 60));
        for (uint64_t i = 1; used < wanted; i++) {
            uint32_t bits = rc_rng_bits(rng, i);
            char byte[2] = {(char)(bits >> 8 | 1), '\0'};
            used += (size_t)snprintf(name + used, sizeof name - used, "%s",
                                     bits % 3 != 0 ? pieces[bits / 3 % PIECES] : byte);
        }
        name[used] = '\0';
        rc_fail(RC_IO, "cannot open '%s': %d", name, 5);
        assert_harmless(rc_message());
        assert_memory_equal(rc_message(), "cannot open '", 13);
        char inner[RC_MESSAGE_SIZE];
        snprintf(inner, sizeof inner, "%s", rc_message());
        rc_fail(RC_IO, "%s", rc_message());
        assert_string_equal(rc_message(), inner);
        rc_log_write(&log, RC_LOG_WARN, "skipped: %s", name);
        assert_harmless(line);
        if (strlen(name) < 100) {
            rc_log_write(&log, RC_LOG_WARN, "%s", inner);
            assert_string_equal(line, inner);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(marks_of_byte_order_are_known),
        cmocka_unit_test(what_terminals_obey_is_escaped),
        cmocka_unit_test(accents_are_taken_off),
        cmocka_unit_test(a_text_is_cut_between_escapes),
        cmocka_unit_test(messages_and_logs_are_one_harmless_line),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
