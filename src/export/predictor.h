/* The predictor of exported C headers. */
#ifndef RC_EXPORT_PREDICTOR_H
#define RC_EXPORT_PREDICTOR_H

/* Its lines, NULL behind the last. cmake/predictor.cmake makes the file that defines them from predictor.h.in. A line
 * that begins with % is a place for what belongs to one model; `prefix` and `PREFIX` stand for its name. */
extern const char *const rc_predictor_lines[];

#endif
