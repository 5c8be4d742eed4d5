/* Command lines: one table of options per command serves parsing and --help alike. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"

/* ---- help ----------------------------------------------------------------------------------------------------- */

enum { COLUMN = 31 }; /* where the help of an option begins */

/* Columns of a line of help: those of the terminal, but lines that are too long or too short are hard to read. */
static int help_columns(void)
{
    enum { NARROWEST = 60, WIDEST = 100 };
    int columns = rc_terminal_columns(STDOUT_FILENO, WIDEST);
    return columns < NARROWEST ? NARROWEST : columns > WIDEST ? WIDEST : columns;
}

/* A line that is filled with words. */
typedef struct line {
    int indent, columns; /* where its words begin and end */
    size_t used;
    char text[256];
} line;

/* A line whose words stand beside `left`, or below it where that is too long. */
static line begin_line(const char *left, int indent)
{
    line l = {.indent = indent, .columns = help_columns()};
    if (strlen(left) >= (size_t)indent && indent > 0) {
        rc_print_own("%s", left);
        left = "";
    }
    l.used = (size_t)snprintf(l.text, sizeof l.text, "%-*s", indent, left);
    return l;
}

static void end_line(line *l)
{
    if (l->used > (size_t)l->indent)
        rc_print_own("%s", l->text);
    l->used = (size_t)snprintf(l->text, sizeof l->text, "%*s", l->indent, "");
}

static void add_word(line *l, const char *word, size_t length)
{
    bool first = l->used == (size_t)l->indent;
    if (!first && l->used + 1 + length > (size_t)l->columns) {
        end_line(l);
        first = true;
    }
    int used = snprintf(l->text + l->used, sizeof l->text - l->used, "%s%.*s", first ? "" : " ", (int)length, word);
    l->used = l->used + (size_t)used < sizeof l->text ? l->used + (size_t)used : sizeof l->text - 1;
}

/* Words, in as many lines as they take. What begins with a blank in its own line is laid out already. */
static void add_words(line *l, const char *text)
{
    while (*text != '\0') {
        size_t length = strcspn(text, " \n");
        add_word(l, text, length);
        text += length;
        if (*text == '\n' && text[1] == ' ') {
            length = strcspn(text + 1, "\n");
            end_line(l);
            rc_print_own("%.*s", (int)length, text + 1);
            text += 1 + length;
        }
        text += strspn(text, *text == '\n' && text[1] == ' ' ? "" : " \n");
    }
}

/* Where the library has a list of what the option takes: that list, in lines below the help. */
static void print_choices(const rc_command *command, const rc_option *o)
{
    line l = begin_line("", COLUMN);
    const char *choice;
    add_words(&l, "there are");
    for (int i = 0; (choice = rc_option_choice(command, o, i)) != NULL; i++)
        add_word(&l, choice, strlen(choice));
    end_line(&l);
}

static void print_option(const rc_command *command, const rc_option *o)
{
    char left[160], fallback[80];
    snprintf(left, sizeof left, "  --%s%s%s", o->name, o->argument ? " " : "", o->argument ? o->argument : "");
    line l = begin_line(left, COLUMN);
    add_words(&l, o->help);
    if (o->fallback) {
        snprintf(fallback, sizeof fallback, "(default: %s)", o->fallback);
        add_word(&l, fallback, strlen(fallback));
    }
    end_line(&l);
    if (o->type != RC_OPTION_LIST && rc_option_choice(command, o, 0) != NULL)
        print_choices(command, o);
}

void rc_print_beside(const char *left, int indent, const char *text)
{
    line l = begin_line(left, indent);
    add_words(&l, text);
    end_line(&l);
}

static void print_paragraph(const char *text)
{
    rc_print_own("%s", "");
    rc_print_beside("", 0, text);
}

static int print_help(const rc_command *command)
{
    rc_print_own("usage: recollect %s%s%s%s", command->name, command->arguments ? " " : "",
                 command->arguments ? command->arguments : "", command->options ? " [OPTION]..." : "");
    print_paragraph(command->summary);
    if (command->details)
        print_paragraph(command->details);
    rc_print_own("\noptions:");
    for (int i = 0; i < command->options; i++)
        print_option(command, &command->option[i]);
    rc_print_beside("  --help", COLUMN, "show this text");
    if (command->examples)
        rc_print_own("\nexamples:\n%s", command->examples);
    return RC_EXIT_DONE;
}

/* ---- values --------------------------------------------------------------------------------------------------- */

bool rc_read_number(const char *text, double low, double high, double *number)
{
    char *end;
    *number = strtod(text, &end);
    return end != text && *end == '\0' && *number >= low && *number <= high;
}

static bool parse_integer(const rc_option *o, const char *text, int64_t *value)
{
    char *end;
    errno = 0;
    long long number = strtoll(text, &end, 10);
    *value = number;
    return end != text && *end == 0 && errno == 0 && number >= o->low && number <= o->high;
}

/* A whole number of bytes, or of k (or K), M, G or T of them, by 1024. */
static bool parse_size(const char *text, int64_t *bytes)
{
    static const char units[] = "KMGT";
    char *end;
    errno = 0;
    long long number = strtoll(text, &end, 10);
    const char *unit = *end != '\0' ? strchr(units, *end == 'k' ? 'K' : *end) : NULL;
    int shift = unit ? 10 * (int)(unit - units + 1) : 0;
    *bytes = errno == 0 && number > 0 && number <= INT64_MAX >> shift ? number << shift : 0;
    return text[0] >= '0' && text[0] <= '9' && *bytes > 0 && end[unit != NULL] == '\0';
}

/* Is text one of "a|b|c"? */
static bool is_choice(const char *choices, const char *text)
{
    size_t length = strlen(text);
    for (const char *p = choices; *p;) {
        size_t size = strcspn(p, "|");
        if (size == length && memcmp(p, text, size) == 0)
            return true;
        p += size + (p[size] == '|');
    }
    return false;
}

/* Returns NULL, or what was expected. */
static const char *set_value(const rc_option *o, const char *text, rc_option_value *value, char *room, size_t size)
{
    value->text = text;
    if (o->type == RC_OPTION_LIST) {
        if (value->repeats == RC_MAX_REPEATS) {
            snprintf(room, size, "at most %d of them", RC_MAX_REPEATS);
            return room;
        }
        value->each[value->repeats++] = text;
    }
    if (o->type == RC_OPTION_INTEGER && !parse_integer(o, text, &value->integer)) {
        snprintf(room, size, "a whole number from %lld to %lld", (long long)o->low, (long long)o->high);
        return room;
    }
    if (o->type == RC_OPTION_SIZE && !parse_size(text, &value->integer))
        return "a size such as 512M or 2G";
    if (o->type == RC_OPTION_OUTPUT && strcmp(text, "-") == 0) {
        snprintf(room, size, "%s; '-' does not stand for stdout here (a %s of that name is './-')", o->argument,
                 o->argument);
        return room;
    }
    if (o->type == RC_OPTION_TEXT && strchr(o->argument, '|') && !is_choice(o->argument, text))
        return o->argument;
    return NULL;
}

static const char *option_name(const void *context, int index)
{
    const rc_command *command = context;
    if (index == command->options)
        return "help";
    return index < command->options ? command->option[index].name : NULL;
}

/* Many options of other tools are settings here. --set also knows what others call them. */
static int unknown_option(const rc_command *command, const char *name)
{
    const char *nearest = recollect_nearest(name, option_name, command), *setting;
    const rc_option *set = NULL;
    char wanted[64];
    snprintf(wanted, sizeof wanted, "%s", name);
    for (char *dash = wanted; (dash = strchr(dash, '-')) != NULL;)
        *dash = '_';
    for (int i = 0; i < command->options; i++)
        if (strcmp(command->option[i].name, "set") == 0)
            set = &command->option[i];
    for (int i = 0; set != NULL && (setting = rc_option_choice(command, set, i)) != NULL; i++)
        if (strcmp(setting, wanted) == 0)
            return rc_wrong_usage(command, "unknown option '--%s'; did you mean '--set %s=VALUE'?", name, setting);
    if (nearest != NULL)
        return rc_wrong_usage(command, "unknown option '--%s'; did you mean '--%s'?", name, nearest);
    return rc_wrong_usage(command, "unknown option '--%s'%s", name, set ? "; --set NAME=VALUE changes a setting" : "");
}

/* One "--name", "--name value" or "--name=value"; *used is how many arguments that took. */
static int parse_option(const rc_command *command, int left, char **argv, rc_option_value *values, int *used)
{
    const char *text = argv[0] + 2, *equals = strchr(text, '=');
    char name[64], room[96];
    snprintf(name, sizeof name, "%.*s", equals ? (int)(equals - text) : (int)strlen(text), text);
    int i = 0;
    while (i < command->options && strcmp(command->option[i].name, name) != 0)
        i++;
    if (i == command->options)
        return unknown_option(command, name);
    const rc_option *o = &command->option[i];
    *used = 1;
    values[i].given = true;
    if (o->type == RC_OPTION_FLAG)
        return equals ? rc_wrong_usage(command, "option '--%s' takes no value", name) : RC_EXIT_DONE;
    if (!equals && left < 2)
        return rc_wrong_usage(command, "option '--%s' needs a value: %s", name, o->argument);
    const char *value = equals ? equals + 1 : argv[1];
    *used = equals ? 1 : 2;
    const char *expected = set_value(o, value, &values[i], room, sizeof room);
    return expected ? rc_wrong_usage(command, "option '--%s' is '%s', expected %s", name, value, expected)
                    : RC_EXIT_DONE;
}

int rc_command_main(const rc_command *command, int argc, char **argv)
{
    rc_option_value values[RC_MAX_OPTIONS] = {{0}};
    char room[96];
    int count = 0; /* arguments that are no options move to the front */
    bool options_end = false;
    for (int i = 0; i < command->options; i++)
        if (command->option[i].fallback)
            set_value(&command->option[i], command->option[i].fallback, &values[i], room, sizeof room);
    for (int i = 1; i < argc;) {
        if (!options_end && (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0))
            return rc_finish_output(print_help(command));
        int used = 1;
        if (!options_end && strcmp(argv[i], "--") == 0) {
            options_end = true;
        } else if (!options_end && strncmp(argv[i], "--", 2) == 0) {
            int code = parse_option(command, argc - i, argv + i, values, &used);
            if (code != RC_EXIT_DONE)
                return code;
        } else if (!options_end && argv[i][0] == '-' && argv[i][1] != '\0') {
            return rc_wrong_usage(command,
                                  "unknown option '%s': options have two dashes, and names that begin with one come "
                                  "after '--'",
                                  argv[i]);
        } else {
            argv[count++] = argv[i];
        }
        i += used;
    }
    rc_words_begin(command);
    if (count && !command->arguments)
        return rc_wrong_usage(command, "unexpected argument '%s'", argv[0]);
    return rc_finish_output(command->run(values, count, argv));
}

/* ---- backends ------------------------------------------------------------------------------------------------- */

const char *rc_backend_name(const rc_option_value *backend)
{
    static char name[64];
    const rc_option_value *precision = &backend[1], *memory = &backend[2];
    if (!precision->text && !memory->given)
        return backend->text;
    int length = snprintf(name, sizeof name, "%s:%s", backend->text, precision->text ? precision->text : "");
    if (memory->given)
        snprintf(name + length, sizeof name - (size_t)length, ":%lld", (long long)memory->integer);
    return name;
}
