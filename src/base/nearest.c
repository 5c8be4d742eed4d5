#include "base/nearest.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

enum { LONGEST = 63 };

static int least(int a, int b)
{
    return a < b ? a : b;
}

/* Capitals are no mistake. */
static char small(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

static bool same(char a, char b)
{
    return small(a) == small(b);
}

/* Optimal string alignment: insertions, deletions, replacements and swaps of neighbours count 1 each. */
static int distance(const char *a, const char *b)
{
    int rows = (int)strlen(a), columns = (int)strlen(b);
    int before[LONGEST + 1], last[LONGEST + 1], now[LONGEST + 1];
    if (rows > LONGEST || columns > LONGEST)
        return LONGEST;
    for (int j = 0; j <= columns; j++)
        before[j] = last[j] = j;
    for (int i = 1; i <= rows; i++) {
        now[0] = i;
        for (int j = 1; j <= columns; j++) {
            int replaced = last[j - 1] + !same(a[i - 1], b[j - 1]);
            now[j] = least(replaced, least(last[j], now[j - 1]) + 1);
            if (i > 1 && j > 1 && same(a[i - 1], b[j - 2]) && same(a[i - 2], b[j - 1]))
                now[j] = least(now[j], before[j - 2] + 1);
        }
        memcpy(before, last, sizeof before);
        memcpy(last, now, sizeof last);
    }
    return last[columns];
}

const char *rc_nearest(const char *name, const char *(*candidate)(const void *context, int index), const void *context)
{
    const char *best = NULL, *text;
    int best_distance = 1 + (int)strlen(name) / 2; /* further away it is a guess, not help */
    for (int i = 0; (text = candidate(context, i)) != NULL; i++) {
        int d = distance(name, text);
        if (d < best_distance || (d == best_distance && !best)) {
            best = text;
            best_distance = d;
        }
    }
    return best;
}
