#include "cli/csv.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"

static void put(rc_csv *csv, const char *bytes, size_t count)
{
    if (csv->failed || csv->size - csv->used <= count) {
        size_t size = 2 * (csv->used + count) + 64;
        char *grown = csv->failed ? NULL : realloc(csv->text, size);
        csv->failed = grown == NULL;
        if (csv->failed)
            return;
        csv->text = grown;
        csv->size = size;
    }
    memcpy(csv->text + csv->used, bytes, count);
    csv->used += count;
    csv->text[csv->used] = '\0';
}

static void begin(rc_csv *csv)
{
    put(csv, ",", csv->begun ? 1 : 0);
    csv->begun = true;
}

void rc_csv_text(rc_csv *csv, const char *text)
{
    begin(csv);
    put(csv, "\"", 1);
    for (size_t length; *text != '\0'; text += length) {
        length = strcspn(text, "\"");
        put(csv, text, length);
        if (text[length] == '"') {
            put(csv, "\"\"", 2);
            length++;
        }
    }
    put(csv, "\"", 1);
}

void rc_csv_word(rc_csv *csv, const char *word)
{
    begin(csv);
    put(csv, word, strlen(word));
}

void rc_csv_whole(rc_csv *csv, int number)
{
    char text[16];
    snprintf(text, sizeof text, "%d", number);
    rc_csv_word(csv, text);
}

void rc_csv_real(rc_csv *csv, double number)
{
    char text[32];
    snprintf(text, sizeof text, "%.6g", number);
    rc_csv_word(csv, isfinite(number) ? text : "");
}

void rc_csv_empty(rc_csv *csv)
{
    begin(csv);
}

bool rc_csv_end(rc_csv *csv)
{
    bool whole = !csv->failed;
    if (whole)
        rc_print("%s", csv->begun ? csv->text : "");
    csv->used = 0;
    csv->begun = csv->failed = false;
    return whole;
}

void rc_csv_free(rc_csv *csv)
{
    free(csv->text);
    *csv = (rc_csv){0};
}
