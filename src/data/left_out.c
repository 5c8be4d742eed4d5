#include "data/left_out.h"

#include <stdio.h>
#include <string.h>

#include "base/memory.h"

static rc_status copy_text(const char *text, char **copy)
{
    size_t size = strlen(text) + 1;
    *copy = rc_alloc(NULL, size);
    if (*copy == NULL)
        return RC_OUT_OF_MEMORY;
    memcpy(*copy, text, size);
    return RC_OK;
}

/* The kinds are fewer than there is room for; should there ever be more, the last place counts the rest. */
static void count(rc_left_out *left, const char *kind)
{
    int i = 0;
    while (i < left->kinds && strcmp(left->kind[i].name, kind) != 0)
        i++;
    if (i == RC_LEFT_OUT_KINDS)
        i--;
    if (i == left->kinds)
        left->kind[left->kinds++] = (struct rc_left_out_kind){.name = kind};
    left->kind[i].count++;
    left->count++;
}

rc_status rc_left_out_add(rc_left_out *left, const char *path, const char *kind, const char *reason)
{
    char text[RC_LOG_LINE_SIZE], *line;
    snprintf(text, sizeof text, "%.3000s (%.900s)", path, reason);
    RC_TRY(copy_text(text, &line));
    rc_free(NULL, left->latest);
    left->latest = line;
    if (left->lines < RC_LEFT_OUT_NAMED) {
        RC_TRY(copy_text(text, &left->line[left->lines]));
        left->lines++;
    }
    count(left, kind);
    return RC_OK;
}

rc_status rc_left_out_add_harmless(rc_left_out *left, const char *path)
{
    if (left->first_harmless == NULL)
        RC_TRY(copy_text(path, &left->first_harmless));
    left->harmless++;
    return RC_OK;
}

void rc_left_out_tell(const rc_left_out *left, const rc_log *log)
{
    char counts[RC_LEFT_OUT_KINDS * 48] = "";
    size_t used = 0;
    for (int i = 0; i < left->lines; i++)
        rc_log_write(log, RC_LOG_WARN, "left out: %s", left->line[i]);
    if (left->count > left->lines)
        rc_log_write(log, RC_LOG_WARN, "left out: and %d more", left->count - left->lines);
    for (int i = 0; i < left->kinds && used < sizeof counts; i++)
        used += (size_t)snprintf(counts + used, sizeof counts - used, "%s%s: %d", i > 0 ? ", " : "", left->kind[i].name,
                                 left->kind[i].count);
    if (left->count > 0)
        rc_log_write(log, RC_LOG_WARN, "left out in all: %d (%s)", left->count, counts);
    if (left->harmless == 1)
        rc_log_write(log, RC_LOG_INFO, "not read, because it is no picture: %s", left->first_harmless);
    else if (left->harmless > 1)
        rc_log_write(log, RC_LOG_INFO, "not read, because they are no pictures: %s and %d more", left->first_harmless,
                     left->harmless - 1);
}

void rc_left_out_free(rc_left_out *left)
{
    for (int i = 0; i < left->lines; i++)
        rc_free(NULL, left->line[i]);
    rc_free(NULL, left->latest);
    rc_free(NULL, left->first_harmless);
    *left = (rc_left_out){0};
}
