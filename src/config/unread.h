/* Settings that somebody gave and nobody reads: a mistake that changes nothing, which is why it must be said. */
#ifndef RC_CONFIG_UNREAD_H
#define RC_CONFIG_UNREAD_H

#include "cil/methods.h"
#include "config/config.h"

/* Warns of every "name=value" whose setting none of the methods reads. Pairs that name no setting are passed over. */
void rc_config_warn_unread(const rc_config *config, const rc_method *const *method, int methods,
                           const char *const *pair, int pairs, const rc_log *log);

/* The same for a lesson of the head alone, which has no method. */
void rc_config_warn_unread_by_head(const char *const *pair, int pairs, const rc_log *log);

/* Does `recollect run` alone read this setting? */
bool rc_config_is_of_experiments(const char *key);

#endif
