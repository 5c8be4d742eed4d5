/* Command lines as they could be typed again, for the files that say how they were made, and for people. */
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"

/* A line that grows; while it only counts, `text` is NULL. */
typedef struct command_line {
    char *text;
    size_t used;
} command_line;

static void add_character(command_line *line, char c)
{
    if (line->text != NULL)
        line->text[line->used] = c;
    line->used++;
}

/* A blank and a word, quoted if a shell would not take it as it is. */
static void add_word(command_line *line, const char *before, const char *word)
{
    static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-+=./,:@%";
    bool quoted = word[0] == '\0' || word[strspn(word, plain)] != '\0';
    for (const char *p = before; *p != '\0'; p++)
        add_character(line, *p);
    if (quoted)
        add_character(line, '\'');
    for (; *word != '\0'; word++) {
        for (const char *p = *word == '\'' ? "'\\'" : ""; *p != '\0'; p++) /* outside of quotes, which begin again */
            add_character(line, *p);
        add_character(line, *word);
    }
    if (quoted)
        add_character(line, '\'');
}

static void add_command(command_line *line, const rc_command *command, const rc_option_value *value,
                        const char *argument)
{
    add_word(line, "recollect ", command->name);
    add_word(line, " ", argument);
    for (int i = 0; i < command->options; i++) {
        const rc_option *option = &command->option[i];
        bool list = option->type == RC_OPTION_LIST;
        for (int k = 0; value[i].given && k < (list ? value[i].repeats : 1); k++) {
            add_word(line, " --", option->name);
            if (option->type != RC_OPTION_FLAG)
                add_word(line, " ", list ? value[i].each[k] : value[i].text);
        }
    }
    add_character(line, '\0');
}

char *rc_command_line(const rc_command *command, const rc_option_value *value, const char *argument)
{
    command_line line = {0};
    add_command(&line, command, value, argument);
    line.text = malloc(line.used);
    line.used = 0;
    if (line.text != NULL)
        add_command(&line, command, value, argument);
    return line.text;
}

static void add_only(command_line *line, const char *word)
{
    add_word(line, "", word);
    add_character(line, '\0');
}

char *rc_shell_word(const char *word)
{
    command_line line = {0};
    add_only(&line, word);
    line.text = malloc(line.used);
    line.used = 0;
    if (line.text != NULL)
        add_only(&line, word);
    return line.text;
}
