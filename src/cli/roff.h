/* Text for manual pages, which roff formats. */
#ifndef RC_CLI_ROFF_H
#define RC_CLI_ROFF_H

/* A line of the program's own text, or several: what means something to roff is escaped. */
void rc_roff_line(const char *text);
void rc_roff_text(const char *text);
/* The same for lines that are not filled: examples. */
void rc_roff_code(const char *text);
/* A macro, .SH say, and its one argument, which has no quotes. */
void rc_roff_macro(const char *macro, const char *argument);
/* The beginning of a page: its name, section ("1", "3"), and one line about it. */
void rc_roff_begin(const char *name, const char *section, const char *about);

#endif
