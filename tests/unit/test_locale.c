/* The library inside a program whose locale writes 0,5 for a half, or ı for a small I: settings are read as they are,
 * and files are the same bytes. Skipped where there is no such locale and none can be made. */
#include <locale.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/file.h"
#include "base/memory.h"
#include "data/image_kind.h"
#include "support/api_checks.h"
#include "support/api_data.h"

static char folder[] = "/tmp/recollect-test-XXXXXX";

static int set_up(void **state)
{
    (void)state;
    return mkdtemp(folder) != NULL ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    char command[64];
    snprintf(command, sizeof command, "rm -r %s", folder);
    return system(command) == 0 ? 0 : -1;
}

static bool has_comma(const char *name)
{
    char text[8];
    if (setlocale(LC_ALL, name) == NULL)
        return false;
    snprintf(text, sizeof text, "%.1f", 0.5);
    return strcmp(text, "0,5") == 0;
}

/* The program's locale has a comma from here on; false: there is none to be had. */
static bool use_comma(void)
{
    static const char *const names[] = {"de_DE.UTF-8", "fr_FR.UTF-8", "es_ES.UTF-8", "ru_RU.UTF-8"};
    char command[128];
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (has_comma(names[i]))
            return true;
    snprintf(command, sizeof command, "localedef -i de_DE -f UTF-8 %s/comma.UTF-8 >/dev/null 2>&1", folder);
    return system(command) >= 0 && setenv("LOCPATH", folder, 1) == 0 && has_comma("comma.UTF-8");
}

/* A model that has learnt by settings with fractions, as the bytes of its file. */
static void learn(const char *name, char **bytes, size_t *size)
{
    char path[64], text[64];
    recollect_context *context;
    recollect_model *model;
    api_data data;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    api_data_make(&data, 0, 2, 8, 1);
    SUCCEEDS(recollect_context_create(NULL, &context));
    SUCCEEDS(recollect_model_create(context, &model));
    api_set_quick(model, 2);
    SUCCEEDS(recollect_model_set(model, "learning_rate", "0.0625"));
    SUCCEEDS(recollect_model_set(model, "mean", "0.25"));
    SUCCEEDS(recollect_model_set(model, "std", "0.5"));
    SUCCEEDS(recollect_model_get(model, "learning_rate", text, sizeof text));
    assert_string_equal(text, "0.0625");
    assert_int_equal(recollect_model_set(model, "learning_rate", "0,5"), RECOLLECT_INVALID_ARGUMENT);
    SUCCEEDS(recollect_learn(model, &data.images, data.labels, data.names, data.classes, NULL));
    SUCCEEDS(recollect_model_save(model, path, 0));
    recollect_model_destroy(&model);
    SUCCEEDS(recollect_model_load(context, path, &model));
    recollect_model_destroy(&model);
    recollect_context_destroy(&context);
    api_data_free(&data);
    assert_int_equal(rc_file_read(path, (size_t)1 << 24, bytes, size), RC_OK);
}

static void the_decimal_comma_of_a_program_changes_nothing(void **state)
{
    (void)state;
    char *with_point, *with_comma, text[8];
    size_t size, other_size;
    if (!use_comma())
        skip();
    learn("comma.safetensors", &with_comma, &other_size);
    snprintf(text, sizeof text, "%.1f", 0.5);
    assert_string_equal(text, "0,5"); /* and the program keeps it */
    assert_non_null(setlocale(LC_ALL, "C"));
    learn("point.safetensors", &with_point, &size);
    assert_int_equal(size, other_size);
    assert_memory_equal(with_point, with_comma, size);
    rc_free(NULL, with_point);
    rc_free(NULL, with_comma);
}

/* Where the small letter of I has no dot, names of files and identifiers are those of ASCII all the same. */
static void capitals_of_a_program_change_nothing(void **state)
{
    (void)state;
    char command[160], path[64], *text;
    size_t size;
    recollect_context *context;
    recollect_model *model;
    api_data data;
    snprintf(command, sizeof command, "localedef -i tr_TR -f UTF-8 %s/turkish.UTF-8 >/dev/null 2>&1", folder);
    if (system(command) < 0 || setenv("LOCPATH", folder, 1) != 0 || setlocale(LC_ALL, "turkish.UTF-8") == NULL ||
        strcasecmp("I", "i") == 0)
        skip();
    assert_true(rc_image_name("IMG.GIF") == rc_image_name("img.gif") &&
                rc_image_name("IMG.TIF") == rc_image_name("img.tif"));
    assert_true(rc_image_kind_beside("DESKTOP.INI"));
    api_data_make(&data, 0, 2, 8, 1);
    SUCCEEDS(recollect_context_create(NULL, &context));
    SUCCEEDS(recollect_model_create(context, &model));
    api_set_quick(model, 2);
    SUCCEEDS(recollect_learn(model, &data.images, data.labels, data.names, data.classes, NULL));
    snprintf(path, sizeof path, "%s/IMAGES.h", folder);
    SUCCEEDS(recollect_model_export(model, "c", path, 0));
    assert_int_equal(rc_file_read(path, (size_t)1 << 24, &text, &size), RC_OK);
    assert_non_null(strstr(text, "#ifdef IMAGES_IMPLEMENTATION"));
    assert_non_null(strstr(text, "int images_predict("));
    rc_free(NULL, text);
    recollect_model_destroy(&model);
    recollect_context_destroy(&context);
    api_data_free(&data);
    assert_non_null(setlocale(LC_ALL, "C"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_decimal_comma_of_a_program_changes_nothing),
        cmocka_unit_test(capitals_of_a_program_change_nothing),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
