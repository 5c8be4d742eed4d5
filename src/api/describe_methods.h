/* The rows of the method table for people and programs. */
#ifndef RC_API_DESCRIBE_METHODS_H
#define RC_API_DESCRIBE_METHODS_H

#include <stdbool.h>

#include "api/describe.h"
#include "cil/methods.h"

/* A line per method: name, title, whether it is data-free, what it does; as JSON an array with what it stores, too. */
rc_status rc_describe_methods(bool json, rc_describe_line *line, void *user);

/* Finds a method by a name that a user typed; the message suggests the nearest name, or lists all. */
rc_status rc_method_choose(const char *name, const rc_method **method);

#endif
