/* Letters and digits of ASCII, whatever the locale of the program: in a Turkish one the small letter of I is no i. */
#ifndef RC_BASE_ASCII_H
#define RC_BASE_ASCII_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

static inline bool rc_ascii_is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static inline bool rc_ascii_is_letter(char c)
{
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
}

static inline char rc_ascii_lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

static inline char rc_ascii_upper(char c)
{
    return c >= 'a' && c <= 'z' ? (char)(c - 'a' + 'A') : c;
}

/* Are these n characters the same, but for capitals? */
static inline bool rc_ascii_same(const char *a, const char *b, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (rc_ascii_lower(a[i]) != rc_ascii_lower(b[i]))
            return false;
    return true;
}

/* Is the text one of these words, which single blanks separate, but for capitals? */
static inline bool rc_ascii_among(const char *text, const char *words)
{
    size_t length;
    for (const char *word = words; *word != '\0'; word += length + (word[length] == ' ')) {
        length = strcspn(word, " ");
        if (strlen(text) == length && rc_ascii_same(text, word, length))
            return true;
    }
    return false;
}

#endif
