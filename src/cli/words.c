/* The library names settings, because it knows nothing of command lines. This puts the options in their place. */
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"

static const rc_command *current; /* whose options they are */

void rc_words_begin(const rc_command *command)
{
    current = command;
}

/* The option of the current command that a setting is set with; NULL: there is none. */
static const char *find_option(const char *setting, size_t length)
{
    char name[64];
    if (current == NULL || length >= sizeof name)
        return NULL;
    for (size_t i = 0; i < length; i++)
        name[i] = setting[i] == '_' ? '-' : setting[i];
    name[length] = '\0';
    const char *wanted = strcmp(name, "overwrite") == 0 ? "force" : name;
    for (int i = 0; i < current->options; i++)
        if (strcmp(current->option[i].name, wanted) == 0)
            return current->option[i].name;
    return NULL;
}

/* The next "the setting 'NAME'" of a text, *end behind it, where NAME has an option; NULL: there is none. */
static const char *find_setting(const char *text, const char **end, const char **option)
{
    static const char mark[] = "he setting '"; /* with a t or a T before it */
    for (const char *found = strstr(text, mark); found != NULL; found = strstr(found + 1, mark)) {
        const char *name = found + strlen(mark), *quote = strchr(name, '\'');
        if (found == text || (found[-1] != 't' && found[-1] != 'T') || quote == NULL)
            continue;
        *option = find_option(name, (size_t)(quote - name));
        *end = quote + 1;
        if (*option != NULL)
            return found - 1;
    }
    return NULL;
}

const char *rc_own_words(const char *message, char *words, size_t size)
{
    size_t used = 0;
    const char *end, *option, *found;
    words[0] = '\0';
    while ((found = find_setting(message, &end, &option)) != NULL && used < size) {
        used += (size_t)snprintf(words + used, size - used, "%.*s--%s", (int)(found - message), message, option);
        message = end;
    }
    if (used < size)
        snprintf(words + used, size - used, "%s", message);
    return words;
}
