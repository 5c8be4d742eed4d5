/* A setting is one row of a list: X(kind, name, default, takes, read by, help). RC_SETTINGS (cil/settings.h) lists
 * those of the methods, RC_CONFIG_SETTINGS (config/config.h) those of an experiment. The macros here make of a list the
 * fields of a structure, its defaults, and the table from which values are checked, read, written and described.
 *
 *   kind     field          takes
 *   TEXT     char name[]    CHARACTERS(most), ONE_OF("a|b")
 *   WHOLE    int            RANGE(low, high), MULTIPLES(of, high), ONE_OF("0|1|3")
 *   SEED     uint64_t       RANGE(low, high): only a text is held against it, because the field may hold more
 *   NUMBER   double         RANGE(low, high)
 *   SWITCH   bool           EITHER
 *   LIST     int names, name[]   RANGE(low, high) of each entry, none below the one before it. The default stands in
 *                                parentheses.
 *
 * "read by" names the part that has a use for the setting; docs/settings.md says which methods have that part. */
#ifndef RC_CIL_SETTING_H
#define RC_CIL_SETTING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "nn/schedule.h"

typedef enum rc_setting_kind {
    RC_SETTING_TEXT,
    RC_SETTING_WHOLE,
    RC_SETTING_SEED,
    RC_SETTING_NUMBER,
    RC_SETTING_SWITCH,
    RC_SETTING_LIST
} rc_setting_kind;

typedef struct rc_setting {
    const char *name;
    rc_setting_kind kind;
    size_t offset, size;       /* of the field in its structure */
    size_t count_offset;       /* of the number of entries of a list */
    const char *default_value; /* as text, the way rc_config_set takes it */
    double low, high;          /* ends of the range, both allowed; for a text: its characters; both 0 if there are
                                  choices */
    int multiple_of;           /* 0: any */
    const char *choices;       /* "code|paper": the only values allowed; NULL: no such list */
    const char *readers, *help;
} rc_setting;

/* ---- the fields of a structure: RC_SETTINGS(RC_SETTING_FIELD) ------------------------------------------------- */

#define RC_SETTING_FIELD(kind, name, value, takes, ...) RC_FIELD_##kind(name, RC_SIZE_##takes)
#define RC_FIELD_TEXT(name, bytes)                      char name[bytes];
#define RC_FIELD_WHOLE(name, bytes)                     int name;
#define RC_FIELD_SEED(name, bytes)                      uint64_t name;
#define RC_FIELD_NUMBER(name, bytes)                    double name;
#define RC_FIELD_SWITCH(name, bytes)                    bool name;
#define RC_FIELD_LIST(name, bytes)                      int name##s, name[RC_MAX_MILESTONES];
#define RC_SIZE_CHARACTERS(most)                        ((most) + 1)
#define RC_SIZE_ONE_OF(choices)                         32
#define RC_SIZE_RANGE(low, high)
#define RC_SIZE_MULTIPLES(of, high)
#define RC_SIZE_EITHER

/* ---- its defaults, as members of an initialiser: RC_SETTINGS(RC_SETTING_DEFAULT) ------------------------------ */

#define RC_SETTING_DEFAULT(kind, name, value, ...) RC_DEFAULT_##kind(name, value)
#define RC_DEFAULT_TEXT(name, value)               .name = value,
#define RC_DEFAULT_WHOLE(name, value)              .name = value,
#define RC_DEFAULT_SEED(name, value)               .name = value,
#define RC_DEFAULT_NUMBER(name, value)             .name = value,
#define RC_DEFAULT_SWITCH(name, value)             .name = value,
#define RC_DEFAULT_LIST(name, value) \
    .name = {RC_LIST_ENTRIES value}, .name##s = sizeof(int[]){RC_LIST_ENTRIES value} / sizeof(int),
#define RC_LIST_ENTRIES(...) __VA_ARGS__

/* ---- its table; RC_SETTING_ROW(structure, ...) is wrapped for the structure of the list ----------------------- */

#define RC_SETTING_ROW(structure, kind, name, value, takes, readers, help) \
    {#name, \
     RC_SETTING_##kind, \
     offsetof(structure, name), \
     sizeof(((structure *)0)->name), \
     RC_COUNT_##kind(structure, name), \
     RC_WRITTEN_##kind(#value, value), \
     RC_TAKES_##takes, \
     readers, \
     help},
#define RC_COUNT_TEXT(structure, name)   0
#define RC_COUNT_WHOLE(structure, name)  0
#define RC_COUNT_SEED(structure, name)   0
#define RC_COUNT_NUMBER(structure, name) 0
#define RC_COUNT_SWITCH(structure, name) 0
#define RC_COUNT_LIST(structure, name)   offsetof(structure, name##s)
#define RC_WRITTEN_TEXT(text, value)     value
#define RC_WRITTEN_WHOLE(text, value)    text
#define RC_WRITTEN_SEED(text, value)     text
#define RC_WRITTEN_NUMBER(text, value)   text
#define RC_WRITTEN_SWITCH(text, value)   ((value) ? "true" : "false")
#define RC_WRITTEN_LIST(text, value)     RC_WRITTEN_ENTRIES value
#define RC_WRITTEN_ENTRIES(...)          "[" #__VA_ARGS__ "]"
#define RC_TAKES_CHARACTERS(most)        0, most, 0, NULL
#define RC_TAKES_ONE_OF(choices)         0, 0, 0, choices
#define RC_TAKES_RANGE(low, high)        low, high, 0, NULL
#define RC_TAKES_MULTIPLES(of, high)     of, high, of, NULL
#define RC_TAKES_EITHER                  0, 1, 0, NULL

/* ---- what a table is good for --------------------------------------------------------------------------------- */

/* "whole number", "true or false", ... */
const char *rc_setting_type(const rc_setting *row);
/* Is the value of the field in its range? The message names the setting, its value and what was expected. */
rc_status rc_setting_check(const rc_setting *row, const void *structure);
/* The same for a given value. */
rc_status rc_setting_check_choice(const rc_setting *row, const char *value);
/* What it takes: "1 to 4096", "0, 1 or 3", "8 to 4096, a multiple of 8", "at most 31 characters", "true or false". */
void rc_setting_range(const rc_setting *row, char *text, size_t size);

#endif
