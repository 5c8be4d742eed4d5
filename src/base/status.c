#include "base/status.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/utf8.h"

static _Thread_local char last_message[RC_MESSAGE_SIZE];

int rc_set_message(const char *format, ...)
{
    /* Formatted aside first, because the arguments may point into the old message. */
    char text[RC_MESSAGE_SIZE];
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (length < 0)
        text[0] = '\0';
    else if ((size_t)length >= sizeof text)
        rc_utf8_mark_cut(text, sizeof text);
    rc_utf8_escape(text, last_message, sizeof last_message);
    return length;
}

const char *rc_message(void)
{
    return last_message;
}

void rc_clear_message(void)
{
    last_message[0] = '\0';
}
