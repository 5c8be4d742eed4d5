/* What the files of the program share: exit codes, the description of a command, and where text goes. Results go to
 * stdout, everything else to stderr. */
#ifndef RC_CLI_CLI_H
#define RC_CLI_CLI_H

#include <stdbool.h>
#include <stdint.h>

#include "recollect/recollect.h"

/* DOUBTFUL: done, but --strict was given and there are warnings, or files were left out. */
enum { RC_EXIT_DONE = 0, RC_EXIT_FAILED = 1, RC_EXIT_USAGE = 2, RC_EXIT_DOUBTFUL = 3, RC_EXIT_INTERRUPTED = 130 };

/* ---- options -------------------------------------------------------------------------------------------------- */

typedef enum rc_option_type {
    RC_OPTION_FLAG,
    RC_OPTION_INTEGER, /* in low .. high */
    RC_OPTION_SIZE,    /* of memory, in bytes: 512M, 2G */
    RC_OPTION_TEXT,
    RC_OPTION_OUTPUT, /* text: the file or folder that is written; '-', which is stdout elsewhere, is refused */
    RC_OPTION_LIST    /* text, any number of times */
} rc_option_type;

/* One row of a command's table: serves parsing and --help. */
typedef struct rc_option {
    const char *name; /* without the dashes */
    rc_option_type type;
    const char *argument; /* how help shows its value: "N", "NAME", or the choices, "cpu|reference"; then the value
                             must be one of them */
    const char *fallback; /* the default as it would be typed; NULL: none */
    const char *help;
    int64_t low, high;
} rc_option;

enum { RC_MAX_OPTIONS = 32, RC_MAX_REPEATS = 64 };

typedef struct rc_option_value {
    bool given; /* on the command line; flags: set */
    int64_t integer;
    const char *text;                 /* NULL: neither given nor default */
    const char *each[RC_MAX_REPEATS]; /* lists: in the order of the command line */
    int repeats;
} rc_option_value;

/* A whole text as a number from `low` to `high`; false: it is none. */
bool rc_read_number(const char *text, double low, double high, double *number);

/* What --backend takes. */
#define RC_BACKENDS "cpu|reference|cuda"

/* The rows of --precision and --device-memory, which every command with --backend has, one after the other in its
 * table, and what rc_backend_open() calls the three. The text is valid until the next call. */
/* clang-format off */
#define RC_OPTION_PRECISION \
    {"precision", RC_OPTION_TEXT, "bf16|fp32", NULL, "of activations; bf16 only on cuda, its default", 0, 0}
#define RC_OPTION_DEVICE_MEMORY \
    {"device-memory", RC_OPTION_SIZE, "SIZE", NULL, "limit of the GPU's memory, such as 512M or 2G", 0, 0}
/* clang-format on */
const char *rc_backend_name(const rc_option_value *backend);

/* The row of --threads. */
/* clang-format off */
#define RC_OPTION_THREADS {"threads", RC_OPTION_INTEGER, "N", "0", "threads to use; 0: all cores", 0, 1024}
/* clang-format on */

/* The row of --max-memory, which every command has that takes memory as a file or a preset asks for it. */
/* clang-format off */
#define RC_OPTION_MAX_MEMORY \
    {"max-memory", RC_OPTION_SIZE, "SIZE", NULL, "limit of memory, such as 512M or 2G; else 80 % of what is free", 0, 0}
/* clang-format on */

/* The row of --verbose, of commands that tell how far they are (rc_progress_verbose). */
/* clang-format off */
#define RC_OPTION_VERBOSE {"verbose", RC_OPTION_FLAG, NULL, NULL, "show the losses, too, while it works", 0, 0}
/* clang-format on */

typedef struct rc_command {
    const char *name, *summary;
    const char *arguments;                 /* "IMAGE..." in the usage line; NULL: takes none */
    const char *(*argument_at)(int index); /* what an argument may be; NULL when there are no more, or no such list */
    const char *details;                   /* more help; NULL: none */
    const char *examples;                  /* lines of the help; NULL: none */
    const rc_option *option;
    int options;
    /* Gets the value of each option in the order of the table, and what else was on the line. Returns the exit code. */
    int (*run)(const rc_option_value *value, int count, char **arguments);
} rc_command;

/* What an option takes where the library has the list (its methods, say), item 0, 1, ...: NULL when there are no more.
 * Of a list (--set) these are the names before the equals sign, which recollect(1) explains. The text is valid until
 * the next call. */
const char *rc_option_choice(const rc_command *command, const rc_option *option, int index);

/* Every command; NULL when there are no more. */
const rc_command *rc_command_at(int index);

/* The command line as it could be typed again, to be freed; NULL: no memory. argument: what is no option. */
char *rc_command_line(const rc_command *command, const rc_option_value *value, const char *argument);
/* A word of it, in quotes if a shell would not take it as it is; to be freed; NULL: no memory. */
char *rc_shell_word(const char *word);

/* Parses and runs. argv[0] is the command's name. */
int rc_command_main(const rc_command *command, int argc, char **argv);

extern const rc_command rc_command_analyze, rc_command_bench, rc_command_completion, rc_command_dream, rc_command_eval,
    rc_command_export, rc_command_import, rc_command_info, rc_command_learn, rc_command_manual, rc_command_methods,
    rc_command_pack, rc_command_predict, rc_command_report, rc_command_reproduce, rc_command_run, rc_command_selftest,
    rc_command_watch;

/* ---- text ----------------------------------------------------------------------------------------------------- */

/* A line of results. Control characters in it are escaped (rc_utf8_show), as they are by all of these. */
void rc_print(const char *format, ...) __attribute__((format(printf, 1, 2)));
void rc_print_line(void *unused, const char *text); /* the same as a callback */
/* The same for JSON of one or several lines, which means the same afterwards: its strings hold no raw line breaks, and
 * the escapes are its own. */
void rc_print_json(void *unused, const char *text);
/* Text of the program's own, of one or several lines, as it is: help, scripts, the manual. Nothing from outside goes
 * here, where nothing is escaped. */
void rc_print_own(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Columns of the terminal that a file is, now; usual: where it is none, or does not say. */
int rc_terminal_columns(int file, int usual);
/* Words of help in lines that fit the terminal, beside `left`; they begin in column `indent`. */
void rc_print_beside(const char *left, int indent, const char *text);
/* The live line: overwritten by the next, gone when anything else is printed, absent if stderr is not a terminal that
 * can overwrite lines (a pipe, TERM=dumb). It never wraps, however wide the window is by now. */
void rc_show_progress(void *unused, const char *text);
/* The same for work of minutes, laid out for people. Where there is no such terminal: a plain line every ten seconds
 * and at the end of a stage. `where` says which of several runs; else "". */
void rc_tell_progress(void *unused, const char *where, const recollect_progress *progress);
void rc_progress_verbose(bool on);  /* losses, too, though there is little room */
void rc_put_live(const char *text); /* for these: a text that was escaped and fits */
/* A line on stderr that is neither a result nor a complaint. */
void rc_note(const char *format, ...) __attribute__((format(printf, 1, 2)));
void rc_note_log(void *unused, int level, const char *text); /* the same for a log of the library, in our words */
/* "recollect: ..." on stderr. */
void rc_complain(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Complains of the failure of a function of the library, whose message it puts in our words; `command` may be NULL.
 * Returns the exit code. */
int rc_failed(const char *command, recollect_status status);
/* Complains about wrong usage, points to the help of the command (NULL: the program's), returns RC_EXIT_USAGE. */
int rc_wrong_usage(const rc_command *command, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The same about settings that the library could not take, for the reason in its message; but a lack of memory, or a
 * file of settings that cannot be read, is a failure like others. Returns the exit code. */
int rc_wrong_settings(const rc_command *command, recollect_status status);
/* `code`, or RC_EXIT_FAILED if the work went well, but its results did not reach their destination (a full disk, a
 * closed pipe). */
int rc_finish_output(int code);

/* A message of the library in the words of the command line: "the setting 'max_memory'" becomes "--max-memory" where
 * the command has that option. Returns `words`. */
enum { RC_WORDS_SIZE = 2048 };
const char *rc_own_words(const char *message, char *words, size_t size);
void rc_words_begin(const rc_command *command); /* whose options they are from here on */

/* Columns that a text takes in a terminal: Chinese characters take two, accents of their own none. The text must have
 * been escaped. cut: to that many columns, with dots at its end. */
int rc_columns(const char *text);
void rc_cut_columns(char *text, int columns);

/* The text in at least `width` columns: blanks behind it. At most `size` bytes with the zero byte; more is cut
 * between characters. Returns `out`. */
const char *rc_column(const char *text, int width, char *out, size_t size);

/* ---- interrupts ----------------------------------------------------------------------------------------------- */

/* From here on a signal that asks the program to end (SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGXCPU, SIGALRM) is
 * only noted, for long work to stop at its next boundary; a second SIGINT or SIGTERM ends the program at once. */
void rc_catch_interrupts(void);
bool rc_interrupted(void *unused); /* as a callback */
/* For work whose results are files: the program goes on when nobody reads what it prints any more ("... | head"), and
 * ends with RC_EXIT_FAILED (rc_finish_output). */
void rc_outlive_readers(void);
/* Lets a limit on the size of files make a write fail, instead of ending the program. */
void rc_outlive_limits(void);

#endif
