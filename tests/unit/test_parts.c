/* Which parts a method has (cil/parts.h): as docs/settings.md says, and as settings give and take them. What is set and
 * read by none of them is said. (test_settings looks at the bits.) */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/memory.h"
#include "cil/parts.h"
#include "config/unread.h"
#include "support/learning.h"
#include "support/page.h"
#include "support/succeeds.h"

/* ---- the page --------------------------------------------------------------------------------------------------- */

/* Does the text of docs/settings.md name `method` in the row of `part`, or all? */
static bool page_says(const char *text, const char *part, const char *method)
{
    char row[64], name[64];
    snprintf(row, sizeof row, "\n| %s | ", part);
    snprintf(name, sizeof name, "`%s`", method);
    const char *start = strstr(text, row);
    if (start == NULL)
        fail_msg("docs/settings.md has no row for '%s'", part);
    const char *methods = strchr(start + strlen(row), '|'), *end = strchr(start + 1, '\n');
    assert_true(methods != NULL && end != NULL && methods < end);
    const char *all = strstr(methods, "| all |"), *named = strstr(methods, name);
    return (all != NULL && all < end) || (named != NULL && named < end);
}

/* Is there such a part, and does a method with the settings of these tests have it? */
static bool find_part(const rc_method *method, const rc_settings *settings, const char *name, bool *there)
{
    rc_part part[RC_PARTS];
    rc_method_parts(method, settings, part);
    for (int i = 0; i < RC_PARTS; i++)
        if (strcmp(part[i].name, name) == 0) {
            *there = part[i].there;
            return true;
        }
    return false;
}

static void every_setting_is_read_by_a_part(void **state)
{
    (void)state;
    rc_settings settings = learning_settings();
    rc_config_item item;
    bool there;
    for (int i = 0; rc_config_item_at(i, &item); i++)
        if (!find_part(rc_method_at(0), &settings, item.readers, &there))
            fail_msg("%s is read by '%s', which is no part", item.name, item.readers);
}

static void the_page_names_the_methods_that_have_a_part(void **state)
{
    (void)state;
    rc_settings settings = learning_settings();
    char *text = page_read("docs/settings.md");
    for (int m = 0; rc_method_at(m) != NULL; m++) {
        rc_part part[RC_PARTS];
        rc_method_parts(rc_method_at(m), &settings, part);
        for (int k = 0; k < RC_PARTS; k++)
            if (page_says(text, part[k].name, rc_method_at(m)->name) != part[k].there)
                fail_msg("%s has '%s': %d, docs/settings.md says something else", rc_method_at(m)->name, part[k].name,
                         part[k].there);
    }
    rc_free(NULL, text);
}

/* What a method has depends on its settings, too. */
static void settings_give_and_take_parts(void **state)
{
    (void)state;
    static const struct {
        const char *method, *name, *value, *part;
        bool before;
    } turns[] = {
        {"cwd", "net", "resnet32", "resnet-small", true},
        {"cwd", "generator", "generator", "generator-small", true},
        {"cwd", "paper_no_refinement", "true", "refinement", true},
        {"cwd+", "plus_kd_new", "1", "kd", false},
        {"cwd+", "plus_kd_dreams", "1", "kd", false},
    };
    for (size_t i = 0; i < sizeof turns / sizeof *turns; i++) {
        rc_config config = rc_config_default();
        const rc_method *method;
        bool before, after;
        config.settings = learning_settings();
        SUCCEEDS(rc_method_find(turns[i].method, &method));
        assert_true(find_part(method, &config.settings, turns[i].part, &before));
        SUCCEEDS(rc_config_set(&config, turns[i].name, turns[i].value));
        assert_true(find_part(method, &config.settings, turns[i].part, &after));
        if (before != turns[i].before || after == before)
            fail_msg("%s = %s: %s has '%s': %d, then %d", turns[i].name, turns[i].value, turns[i].method, turns[i].part,
                     before, after);
    }
}

/* ---- what nobody reads ------------------------------------------------------------------------------------------ */

static char heard[2048];

static void hear(void *user, int level, const char *text)
{
    (void)user;
    size_t used = strlen(heard);
    assert_int_equal(level, RC_LOG_WARN);
    snprintf(heard + used, sizeof heard - used, "%s\n", text);
}

static const char *warn_unread(const char *const *method, int methods, const char *const *pair, int pairs)
{
    const rc_method *row[4];
    rc_config config = rc_config_default();
    rc_log log = {.write = hear, .level = RC_LOG_WARN};
    for (int i = 0; i < methods; i++)
        SUCCEEDS(rc_method_find(method[i], &row[i]));
    heard[0] = '\0';
    rc_config_warn_unread(&config, row, methods, pair, pairs, &log);
    return heard;
}

static void what_no_method_reads_is_said(void **state)
{
    (void)state;
    static const char *const methods[] = {"finetune", "abd", "er"};
    static const char *const pairs[] = {"epochs=3", "feature_weight=1", "buffer_size=3", "format=idx", "order=1"};
    assert_string_equal(warn_unread(methods, 3, pairs, 5), ""); /* one of them reads it */
    assert_string_equal(
        warn_unread(methods, 1, pairs, 3),
        "warning: feature_weight changes nothing here; only these read it: abd, cwd-abd\n"
        "warning: buffer_size changes nothing here; only these read it: er, er-5120, lode, lode-5120\n");
    static const char *const small[] = {"net_width=8", "no_such=1"};
    static const char *const by_head[] = {"seed=3",   "format=idx", "test_mirror=true",
                                          "epochs=4", "no=1",       "profile=code"};
    const rc_log log = {.write = hear, .level = RC_LOG_WARN};
    assert_string_equal(warn_unread(methods, 3, small, 2),
                        "warning: net_width changes nothing here; only these read it: resnet-small\n");
    heard[0] = '\0';
    rc_config_warn_unread_by_head(by_head, 6, &log);
    assert_string_equal(
        heard, "warning: epochs changes nothing in a lesson of the head alone; with the setting 'adapt' as all "
               "it does\n");
    assert_true(rc_config_is_of_experiments("tasks"));
    assert_false(rc_config_is_of_experiments("task"));
    assert_false(rc_config_is_of_experiments("epochs"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_setting_is_read_by_a_part),
        cmocka_unit_test(the_page_names_the_methods_that_have_a_part),
        cmocka_unit_test(settings_give_and_take_parts),
        cmocka_unit_test(what_no_method_reads_is_said),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
