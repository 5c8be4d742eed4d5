#include "config/unread.h"

#include <stdio.h>
#include <string.h>

#include "cil/parts.h"

/* The setting's row, by the first `length` bytes of `name`. */
static bool find(const char *name, size_t length, rc_config_item *item)
{
    for (int i = 0; rc_config_item_at(i, item); i++)
        if (strlen(item->name) == length && memcmp(item->name, name, length) == 0)
            return true;
    return false;
}

static bool has_part(const rc_method *method, const rc_settings *settings, const char *name)
{
    rc_part part[RC_PARTS];
    rc_method_parts(method, settings, part);
    for (int i = 0; i < RC_PARTS; i++)
        if (strcmp(part[i].name, name) == 0)
            return part[i].there;
    return false;
}

/* The methods that have the part, "rdfcil, cwd, ...": none where it is a net or a generator that was not chosen. */
static void list_readers(const rc_settings *settings, const char *part, char *text, size_t size)
{
    size_t used = 0;
    const rc_method *method;
    text[0] = '\0';
    for (int i = 0; (method = rc_method_at(i)) != NULL && used < size; i++)
        if (has_part(method, settings, part))
            used += (size_t)snprintf(text + used, size - used, "%s%s", used > 0 ? ", " : "", method->name);
}

void rc_config_warn_unread(const rc_config *config, const rc_method *const *method, int methods,
                           const char *const *pair, int pairs, const rc_log *log)
{
    for (int i = 0; i < pairs; i++) {
        rc_config_item item;
        char readers[512];
        bool read = !find(pair[i], strcspn(pair[i], "="), &item);
        for (int k = 0; k < methods && !read; k++)
            read = has_part(method[k], &config->settings, item.readers);
        if (read)
            continue;
        list_readers(&config->settings, item.readers, readers, sizeof readers);
        rc_log_write(log, RC_LOG_WARN, "warning: %s changes nothing here; only these read it: %s", item.name,
                     readers[0] != '\0' ? readers : item.readers);
    }
}

void rc_config_warn_unread_by_head(const char *const *pair, int pairs, const rc_log *log)
{
    static const char *const read[] = {"data", "evaluation", "everything"};
    for (int i = 0; i < pairs; i++) {
        rc_config_item item;
        bool unread = find(pair[i], strcspn(pair[i], "="), &item);
        for (size_t k = 0; k < sizeof read / sizeof *read && unread; k++)
            unread = strcmp(item.readers, read[k]) != 0;
        if (unread)
            rc_log_write(log, RC_LOG_WARN,
                         "warning: %s changes nothing in a lesson of the head alone; with the setting 'adapt' as all "
                         "it does",
                         item.name);
    }
}

bool rc_config_is_of_experiments(const char *key)
{
    rc_config_item item;
    return find(key, strlen(key), &item) && strcmp(item.readers, RC_PART_EXPERIMENTS) == 0;
}
