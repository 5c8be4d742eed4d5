#include "base/log.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

void rc_log_write(const rc_log *log, int level, const char *format, ...)
{
    if (log == NULL || log->write == NULL || level < log->level)
        return;
    char text[RC_LOG_LINE_SIZE];
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (length >= 0)
        log->write(log->user, level, text);
}
