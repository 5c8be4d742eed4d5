/* The library names settings, because it knows nothing of command lines. This puts the options in their place. */
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"

static const rc_command *current; /* whose options they are */

void rc_words_begin(const rc_command *command)
{
    current = command;
}

/* The option of the current command that sets this setting; NULL: there is none. */
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

/* Does the word end where `end` is? */
static bool ends_with(const char *text, const char *end, const char *word)
{
    size_t length = strlen(word);
    return (size_t)(end - text) >= length && memcmp(end - length, word, length) == 0;
}

/* The next "the setting 'NAME'" or "another setting 'NAME'" of a text where NAME has an option. What the option takes
 * the place of begins at what is returned and ends before *end; NULL: there is none. */
static const char *find_setting(const char *text, const char **end, const char **option)
{
    static const char mark[] = "setting '";
    for (const char *found = strstr(text, mark); found != NULL; found = strstr(found + 1, mark)) {
        const char *name = found + strlen(mark), *quote = strchr(name, '\'');
        bool the = ends_with(text, found, "the ") || ends_with(text, found, "The ");
        if (quote == NULL || (!the && !ends_with(text, found, "another ")))
            continue;
        *option = find_option(name, (size_t)(quote - name));
        *end = quote + 1;
        if (*option != NULL)
            return the ? found - strlen("the ") : found;
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
