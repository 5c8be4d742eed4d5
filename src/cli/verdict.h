/* The verdict of the library for people: what it says, and the next command to try for each warning. */
#ifndef RC_CLI_VERDICT_H
#define RC_CLI_VERDICT_H

#include "cli/cli.h"

/* "12.3 to 45.6 %", the 95 % interval of an accuracy, and whether it tells anything. Returns `text`. */
enum { RC_INTERVAL_SIZE = 64 };
const char *rc_interval_text(double percent, int images, char text[RC_INTERVAL_SIZE]);

/* What suggested commands are made of. */
typedef struct rc_advice {
    const rc_command *command;    /* that was called: learn or eval */
    const rc_option_value *value; /* its options */
    const char *model;            /* its first argument; NULL: a first model was learnt */
    const char *data;             /* its last one */
    const char *out;              /* the model that learn wrote */
    int known;                    /* classes before a lesson */
    int epochs;                   /* twice those of the lesson */
    bool dreams;                  /* the model was taught by CwD */
    bool merged;                  /* images of old classes stood beside the new ones */
    bool head, top;               /* the lesson changed the head alone; and the last stage of the net */
    char text[16384];             /* the command that was made last */
} rc_advice;

/* Fills in what the model says. Before anything that calls back: the library does not answer inside a callback. */
void rc_advice_begin(rc_advice *advice, const recollect_model *model, const recollect_learn_result *lesson);

/* The command to try for a finding, as a recollect_advise whose user is an rc_advice; NULL: there is none. */
const char *rc_advise(void *advice, const recollect_finding *finding);

/* The lesson, gone on with. */
const char *rc_advise_resume(rc_advice *advice);

/* "Verdict: ...". */
void rc_print_verdict(const recollect_review *review);
/* Each warning and its command, by rc_print or rc_note. */
void rc_tell_warnings(const recollect_review *review, rc_advice *advice, void (*print)(const char *format, ...));
/* RC_EXIT_DOUBTFUL, with a note, if there are warnings and --strict is given; else `code`, which is what it is where
 * the work failed. */
int rc_strict_code(const rc_command *command, const recollect_review *review, bool strict, int code);

#endif
