/* Lines of CSV (RFC 4180, lines end in a line feed). Every command that prints CSV does it with these. */
#ifndef RC_CLI_CSV_H
#define RC_CLI_CSV_H

#include <stdbool.h>
#include <stddef.h>

/* A line as it grows. Starts cleared. */
typedef struct rc_csv {
    char *text;
    size_t used, size;
    bool begun;  /* it has a cell */
    bool failed; /* there was no memory for it */
} rc_csv;

/* The next cell: a text from outside, in quotes; a word or a number of the program's own, as it is; a real number,
 * empty if it is none; nothing. */
void rc_csv_text(rc_csv *csv, const char *text);
void rc_csv_word(rc_csv *csv, const char *word);
void rc_csv_whole(rc_csv *csv, int number);
void rc_csv_real(rc_csv *csv, double number);
void rc_csv_empty(rc_csv *csv);

/* Prints the line and begins the next one. As everywhere in what the program prints, control characters are escaped, so
 * a line break in a name begins no line. false: there was no memory for the line, and it is left out. */
bool rc_csv_end(rc_csv *csv);
void rc_csv_free(rc_csv *csv);

#endif
