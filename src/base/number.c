#include "base/number.h"

#include <locale.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

static pthread_once_t once = PTHREAD_ONCE_INIT;
static locale_t with_point; /* kept until the process ends; 0 if there was no memory: then the program's locale is
                               used */

static void make_locale(void)
{
    with_point = newlocale(LC_NUMERIC_MASK, "C", (locale_t)0);
}

/* For this thread; returns what it had. */
static locale_t use_point(void)
{
    pthread_once(&once, make_locale);
    return uselocale(with_point);
}

double rc_number_read(const char *text, char **end)
{
    locale_t before = use_point();
    double value = strtod(text, end);
    uselocale(before);
    return value;
}

void rc_number_write(double value, int digits, char *text, size_t size)
{
    locale_t before = use_point();
    snprintf(text, size, "%.*g", digits, value);
    uselocale(before);
}
