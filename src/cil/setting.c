#include "cil/setting.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/number.h"

const char *rc_setting_type(const rc_setting *row)
{
    static const char *const type[] = {[RC_SETTING_TEXT] = "text",
                                       [RC_SETTING_WHOLE] = "whole number",
                                       [RC_SETTING_SEED] = "whole number",
                                       [RC_SETTING_NUMBER] = "number",
                                       [RC_SETTING_SWITCH] = "true or false",
                                       [RC_SETTING_LIST] = "list of whole numbers"};
    return type[row->kind];
}

/* ---- checks --------------------------------------------------------------------------------------------------- */

enum { NUMBER = 32, DIGITS = 10 };

static void write_range(double low, double high, char *text, size_t size)
{
    char lowest[NUMBER], highest[NUMBER];
    rc_number_write(low, DIGITS, lowest, sizeof lowest);
    rc_number_write(high, DIGITS, highest, sizeof highest);
    snprintf(text, size, "%s to %s", lowest, highest);
}

static rc_status in_range(const char *name, double value, double low, double high)
{
    if (isfinite(value) && value >= low && value <= high)
        return RC_OK;
    char given[NUMBER], range[2 * NUMBER + 8];
    rc_number_write(value, DIGITS, given, sizeof given);
    write_range(low, high, range, sizeof range);
    return rc_fail(RC_INVALID_ARGUMENT, "%s is %s, expected %s", name, given, range);
}

/* The first `shown` of `all` choices. Returns the bytes that it takes, which may be more than there are. */
static size_t write_first_choices(const char *choices, int shown, int all, char *text, size_t size)
{
    size_t used = 0;
    const char *p = choices;
    for (int i = 0; i < shown; i++, p += strcspn(p, "|") + 1) {
        const char *before = i == 0 ? "" : i == all - 1 ? " or " : ", ";
        used += (size_t)snprintf(used < size ? text + used : NULL, used < size ? size - used : 0, "%s%.*s", before,
                                 (int)strcspn(p, "|"), p);
    }
    if (shown < all)
        used += (size_t)snprintf(used < size ? text + used : NULL, used < size ? size - used : 0,
                                 " or one of %d others", all - shown);
    return used + 1;
}

/* "0|1|3" as "0, 1 or 3"; where they do not all fit, as "0 or one of 2 others". */
static void write_choices(const char *choices, char *text, size_t size)
{
    int all = 1, shown;
    for (const char *p = choices; (p = strchr(p, '|')) != NULL; p++)
        all++;
    for (shown = all; shown > 0 && write_first_choices(choices, shown, all, text, size) > size;)
        shown--;
    if (shown == 0)
        write_first_choices(choices, all, all, text, size);
}

rc_status rc_setting_check_choice(const rc_setting *row, const char *value)
{
    for (const char *p = row->choices, *next; p != NULL; p = next) {
        size_t length = strcspn(p, "|");
        next = p[length] == '|' ? p + length + 1 : NULL;
        if (strlen(value) == length && memcmp(p, value, length) == 0)
            return RC_OK;
    }
    char choices[512];
    write_choices(row->choices, choices, sizeof choices);
    const char *quote = row->kind == RC_SETTING_TEXT ? "'" : "";
    return rc_fail(RC_INVALID_ARGUMENT, "%s is %s%s%s, expected %s", row->name, quote, value, quote, choices);
}

static rc_status check_number(const rc_setting *row, double value)
{
    RC_TRY(in_range(row->name, value, row->low, row->high));
    if (row->multiple_of > 0 && fmod(value, row->multiple_of) != 0)
        return rc_fail(RC_INVALID_ARGUMENT, "%s is %.0f, expected a multiple of %d", row->name, value,
                       row->multiple_of);
    return RC_OK;
}

static rc_status check_list(const rc_setting *row, const int *entry, int entries)
{
    for (int i = 0; i < entries; i++) {
        RC_TRY(in_range(row->name, entry[i], row->low, row->high));
        if (i > 0 && entry[i] < entry[i - 1])
            return rc_fail(RC_INVALID_ARGUMENT, "%s has %d after %d, expected rising numbers", row->name, entry[i],
                           entry[i - 1]);
    }
    return RC_OK;
}

rc_status rc_setting_check(const rc_setting *row, const void *structure)
{
    const char *start = structure;
    const void *field = start + row->offset;
    char text[16];
    switch (row->kind) {
    case RC_SETTING_TEXT: return row->choices != NULL ? rc_setting_check_choice(row, field) : RC_OK;
    case RC_SETTING_WHOLE:
        if (row->choices == NULL)
            return check_number(row, *(const int *)field);
        snprintf(text, sizeof text, "%d", *(const int *)field);
        return rc_setting_check_choice(row, text);
    case RC_SETTING_NUMBER: return check_number(row, *(const double *)field);
    case RC_SETTING_LIST: return check_list(row, field, *(const int *)(const void *)(start + row->count_offset));
    case RC_SETTING_SEED:
    case RC_SETTING_SWITCH: return RC_OK;
    }
    return RC_INTERNAL;
}

/* ---- description ---------------------------------------------------------------------------------------------- */

void rc_setting_range(const rc_setting *row, char *text, size_t size)
{
    char range[2 * NUMBER + 8], multiple[48] = "";
    write_range(row->low, row->high, range, sizeof range);
    if (row->multiple_of > 0)
        snprintf(multiple, sizeof multiple, ", a multiple of %d", row->multiple_of);
    if (row->choices != NULL)
        write_choices(row->choices, text, size);
    else if (row->kind == RC_SETTING_SWITCH)
        snprintf(text, size, "%s", rc_setting_type(row));
    else if (row->kind == RC_SETTING_TEXT)
        snprintf(text, size, "at most %.0f characters", row->high);
    else
        snprintf(text, size, "%s%s%s", range, multiple, row->kind == RC_SETTING_LIST ? ", rising" : "");
}
