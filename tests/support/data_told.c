#include "support/data_told.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/memory.h"
#include "data/image.h"

enum { MOST = 12 };

static char told[16384];
static int wrong;

static void tell(const char *format, ...) __attribute__((format(printf, 1, 2)));

static void tell(const char *format, ...)
{
    size_t used = strlen(told);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(told + used, sizeof told - used, format, arguments);
    va_end(arguments);
}

static void tell_line(void *user, int level, const char *text)
{
    (void)user;
    tell("%s: %s\n", level == RC_LOG_WARN ? "warning" : "log", text);
}

bool told_progress(void *user, const char *what, int done, int total)
{
    tell("%s: %d of %d\n", what, done, total);
    return user == NULL || done < *(const int *)user;
}

int told_size(const rc_data_seen *seen)
{
    tell("asked: %d %dx%d%s\n", seen->images, seen->h, seen->w, seen->same ? " same" : "");
    return 10;
}

static void tell_split(const char *name, const rc_dataset *d, const rc_split *split)
{
    tell("\n%s:", name);
    for (int i = 0; i < split->count && i < MOST; i++)
        tell(" %d=%d", split->images[(size_t)i * (size_t)(d->h * d->w * d->c)], (int)split->labels[i]);
    if (split->count > MOST)
        tell(" of %d", split->count);
}

static void tell_set(const rc_dataset *d)
{
    tell("%s %s %dx%dx%d", d->format, d->name, d->h, d->w, d->c);
    for (int i = 0; i < d->classes && i < MOST; i++)
        tell(" '%s'", d->class_name[i]);
    if (d->classes > MOST)
        tell(" of %d", d->classes);
    tell_split("train", d, &d->train);
    tell_split("test", d, &d->test);
    tell("\nseen %d %dx%d%s", d->seen.images, d->seen.h, d->seen.w, d->seen.same ? " same" : "");
    tell(", mean %.4f +- %.4f", (double)d->mean[0], (double)d->std[0]);
    tell(", broken %d, left out %d, no pictures %d", d->broken, d->left_out, d->not_pictures);
}

void told_at(int line, const char *path, const rc_data_settings *settings, const char *expected)
{
    const rc_log log = {tell_line, NULL, RC_LOG_INFO};
    rc_data_settings own = settings != NULL ? *settings : (rc_data_settings){0};
    rc_dataset d;
    size_t before = rc_bytes_allocated();
    own.log = &log;
    told[0] = '\0';
    rc_status status = rc_dataset_open(path, &own, &d);
    if (status == RC_OK)
        tell_set(&d);
    else
        tell("%d %s", (int)status, rc_message());
    rc_dataset_close(&d);
    assert_int_equal(rc_bytes_allocated(), before);
    for (char *at; (at = strstr(told, RC_IMAGE_ENDINGS)) != NULL;) {
        *at = '*';
        memmove(at + 1, at + sizeof RC_IMAGE_ENDINGS - 1, strlen(at + sizeof RC_IMAGE_ENDINGS - 1) + 1);
    }
    if (strcmp(told, expected) == 0)
        return;
    fprintf(stderr, "line %d, '%.200s':\n%s\n-- expected:\n%s\n--\n", line, path, told, expected);
    wrong++;
}

void told_is_right(void)
{
    int found = wrong;
    wrong = 0;
    assert_int_equal(found, 0);
}
