#include "base/log.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include "base/utf8.h"

void rc_log_write(const rc_log *log, int level, const char *format, ...)
{
    if (log == NULL || log->write == NULL || level < log->level)
        return;
    char text[RC_LOG_LINE_SIZE], shown[RC_LOG_LINE_SIZE];
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (length >= (int)sizeof text)
        rc_utf8_mark_cut(text, sizeof text);
    if (length < 0)
        return;
    rc_utf8_escape(text, shown, sizeof shown);
    log->write(log->user, level, shown);
}
