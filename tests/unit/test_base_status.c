/* Status names, the message of the last failure, and the log. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/log.h"
#include "base/status.h"
#include "base/utf8.h"

static void every_public_status_has_a_short_name(void **state)
{
    (void)state;
#define CHECK(name, text) assert_int_equal(RC_##name, RECOLLECT_##name);
    RECOLLECT_STATUS_LIST(CHECK)
#undef CHECK
}

static void fail_returns_the_code_and_keeps_the_message(void **state)
{
    (void)state;
    rc_clear_message();
    assert_string_equal(rc_message(), "");
    assert_int_equal(rc_fail(RC_FORMAT, "key '%s' is %d", "size", -3), RC_FORMAT);
    assert_string_equal(rc_message(), "key 'size' is -3");
    rc_clear_message();
    assert_string_equal(rc_message(), "");
}

static void fail_may_wrap_the_earlier_message(void **state)
{
    (void)state;
    rc_fail(RC_IO, "disk is full");
    rc_fail(RC_IO, "model.safetensors: %s", rc_message());
    assert_string_equal(rc_message(), "model.safetensors: disk is full");
}

static void long_messages_are_cut_between_characters(void **state)
{
    (void)state;
    /* Each offset puts another byte of the three-byte characters at the place of the cut. */
    for (size_t offset = 0; offset < 3; offset++) {
        char text[2 * RC_MESSAGE_SIZE];
        size_t length = offset;
        memset(text, 'x', offset);
        while (length + 3 < sizeof text) {
            memcpy(text + length, "\xE2\x82\xAC", 3);
            length += 3;
        }
        text[length] = '\0';
        rc_fail(RC_IO, "%s", text);
        size_t kept = strlen(rc_message());
        assert_in_range(kept, RC_MESSAGE_SIZE - 6, RC_MESSAGE_SIZE - 1);
        assert_string_equal(rc_message() + kept - 3, "...");
        assert_int_equal((kept - 3 - offset) % 3, 0);
        assert_memory_equal(rc_message(), text, kept - 3);
    }
    char exact[RC_MESSAGE_SIZE];
    memset(exact, 'y', sizeof exact - 1);
    exact[sizeof exact - 1] = '\0';
    rc_fail(RC_IO, "%s", exact);
    assert_string_equal(rc_message(), exact);
}

static void *fail_elsewhere(void *ignored)
{
    (void)ignored;
    const char *before = rc_message();
    int was_empty = before[0] == '\0';
    rc_fail(RC_INTERNAL, "from the other thread");
    return was_empty ? "yes" : NULL;
}

static void each_thread_has_its_own_message(void **state)
{
    (void)state;
    rc_fail(RC_IO, "from this thread");
    pthread_t thread;
    void *was_empty;
    assert_int_equal(pthread_create(&thread, NULL, fail_elsewhere, NULL), 0);
    assert_int_equal(pthread_join(thread, &was_empty), 0);
    assert_non_null(was_empty);
    assert_string_equal(rc_message(), "from this thread");
}

static rc_status count_and_return(rc_status status, int *calls)
{
    ++*calls;
    return status;
}

static rc_status try_two(rc_status first, rc_status second, int *calls)
{
    RC_TRY(count_and_return(first, calls));
    RC_TRY(count_and_return(second, calls));
    return RC_OK;
}

static void try_returns_the_first_failure(void **state)
{
    (void)state;
    int calls = 0;
    assert_int_equal(try_two(RC_OK, RC_OK, &calls), RC_OK);
    assert_int_equal(calls, 2);
    assert_int_equal(try_two(RC_OK, RC_NUMERIC, &calls), RC_NUMERIC);
    assert_int_equal(calls, 4);
    assert_int_equal(try_two(RC_IO, RC_NUMERIC, &calls), RC_IO);
    assert_int_equal(calls, 5);
}

typedef struct lines {
    char text[8192];
} lines;

static void keep_line(void *user, int level, const char *text)
{
    lines *kept = user;
    size_t length = strlen(kept->text);
    snprintf(kept->text + length, sizeof kept->text - length, "%d: %s\n", level, text);
}

static void log_drops_what_is_below_its_level(void **state)
{
    (void)state;
    lines kept = {{0}};
    rc_log log = {keep_line, &kept, RC_LOG_INFO};
    rc_log_write(&log, RC_LOG_DEBUG, "unseen %d", 1);
    rc_log_write(&log, RC_LOG_INFO, "seen %d", 2);
    rc_log_write(&log, RC_LOG_ERROR, "seen %s", "too");
    assert_string_equal(kept.text, "1: seen 2\n3: seen too\n");
}

static void log_is_safe_without_a_receiver(void **state)
{
    (void)state;
    rc_log silent = {NULL, NULL, RC_LOG_DEBUG};
    rc_log_write(NULL, RC_LOG_ERROR, "nobody listens");
    rc_log_write(&silent, RC_LOG_ERROR, "nobody listens");
}

static void columns_count_characters(void **state)
{
    (void)state;
    char text[16];
    assert_string_equal(rc_utf8_column("cat", 5, text, sizeof text), "cat  ");
    assert_string_equal(rc_utf8_column("gr\u00fcn", 5, text, sizeof text), "gr\u00fcn ");
    assert_string_equal(rc_utf8_column("horse", 2, text, sizeof text), "horse");
    assert_string_equal(rc_utf8_column("gr\u00fcn", 0, text, 4), "gr"); /* half of a character is none */
    assert_string_equal(rc_utf8_column("gr\u00fcn", 9, text, 5), "gr\u00fc");
    assert_string_equal(rc_utf8_column("a\xff", 3, text, sizeof text), "a\xff ");
}

static void log_cuts_long_lines(void **state)
{
    (void)state;
    char text[2 * RC_LOG_LINE_SIZE];
    memset(text, 'z', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    lines kept = {{0}};
    rc_log log = {keep_line, &kept, RC_LOG_DEBUG};
    rc_log_write(&log, RC_LOG_WARN, "%s", text);
    assert_int_equal(strlen(kept.text), strlen("2: ") + RC_LOG_LINE_SIZE - 1 + strlen("\n"));
    assert_string_equal(kept.text + strlen("2: ") + RC_LOG_LINE_SIZE - 5, "z...\n");
    /* Between characters: these have two bytes each, after a single one or none. */
    for (int odd = 0; odd < 2; odd++) {
        for (size_t i = 0; i + 2 < sizeof text; i += 2)
            memcpy(text + i, "\xC3\xBC", 2);
        kept.text[0] = '\0';
        rc_log_write(&log, RC_LOG_WARN, "%s%s", odd ? "z" : "", text);
        const char *end = strstr(kept.text, "...\n");
        assert_true(end != NULL && (unsigned char)end[-1] == 0xBC);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_public_status_has_a_short_name),
        cmocka_unit_test(fail_returns_the_code_and_keeps_the_message),
        cmocka_unit_test(fail_may_wrap_the_earlier_message),
        cmocka_unit_test(long_messages_are_cut_between_characters),
        cmocka_unit_test(each_thread_has_its_own_message),
        cmocka_unit_test(try_returns_the_first_failure),
        cmocka_unit_test(log_drops_what_is_below_its_level),
        cmocka_unit_test(log_is_safe_without_a_receiver),
        cmocka_unit_test(columns_count_characters),
        cmocka_unit_test(log_cuts_long_lines),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
