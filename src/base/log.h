/* Leveled log by callback. The library itself never prints: the program that uses it decides where the lines go. */
#ifndef RC_BASE_LOG_H
#define RC_BASE_LOG_H

typedef enum rc_log_level {
    RC_LOG_DEBUG,
    RC_LOG_INFO,
    RC_LOG_WARN,
    RC_LOG_ERROR,
} rc_log_level;

/* Lines below `level` are dropped. `write` gets one line without its newline, control characters in it escaped
   (rc_utf8_escape), and must copy what it keeps. */
typedef struct rc_log {
    void (*write)(void *user, int level, const char *text);
    void *user;
    int level;
} rc_log;

/* Lines longer than this are cut. */
#define RC_LOG_LINE_SIZE 4096

/* `log` and `log->write` may be NULL: then nothing happens. */
void rc_log_write(const rc_log *log, int level, const char *format, ...) __attribute__((format(printf, 3, 4)));

#endif
