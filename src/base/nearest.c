#include "base/nearest.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "base/ascii.h"

enum { LONGEST = 63 };

static int least(int a, int b)
{
    return a < b ? a : b;
}

/* Capitals are no mistake. */
static bool same(char a, char b)
{
    return rc_ascii_same(&a, &b, 1);
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

/* How far away a candidate may be; further away it is a guess, not help. Who mistypes a name seldom mistypes its first
 * letter, and who makes one up often puts words before it or after it. */
static int limit(const char *name, const char *text)
{
    int length = (int)strlen(name);
    return same(name[0], text[0]) || strstr(name, text) != NULL ? length / 2 : (length + 1) / 3;
}

const char *rc_nearest(const char *name, const char *(*candidate)(const void *context, int index), const void *context)
{
    const char *best = NULL, *text;
    int best_distance = LONGEST;
    for (int i = 0; (text = candidate(context, i)) != NULL; i++) {
        int d = distance(name, text);
        if (d < best_distance && d <= limit(name, text)) {
            best = text;
            best_distance = d;
        }
    }
    return best;
}
