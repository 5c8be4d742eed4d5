/* The table of 'predict --csv'. */
#ifndef RC_CLI_PREDICT_CSV_H
#define RC_CLI_PREDICT_CSV_H

#include "cli/csv.h"
#include "recollect/recollect.h"

/* Prints the row of a prediction with its `top` best classes; NULL: the names of the columns. false: there was no
 * memory for it. */
bool rc_predict_csv(rc_csv *line, const recollect_model *model, const recollect_prediction *prediction, int top);

#endif
