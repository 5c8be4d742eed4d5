/* The figures of a report. Each function appends one figure, or nothing where there is nothing to draw. */
#ifndef RC_REPORT_CHARTS_H
#define RC_REPORT_CHARTS_H

#include "report/log.h"
#include "report/set.h"
#include "report/text.h"

/* Of a set: all its variants. */
void rc_chart_accuracy(const rc_report_set *set, rc_text *out); /* after each task */
void rc_chart_paper(const rc_report_set *set, rc_text *out);    /* last accuracies beside the paper's */
void rc_chart_old_new(const rc_report_set *set, rc_text *out);  /* old and new classes after the last task */
void rc_chart_time(const rc_report_set *set, rc_text *out);     /* by stage */

/* Of a variant. */
void rc_chart_matrix(const rc_report_set *set, const rc_report_variant *variant, rc_text *out); /* task by task */
void rc_chart_confusion(const rc_report_variant *variant, bool cell_hints, rc_text *out);
void rc_chart_classes(const rc_report_variant *variant, rc_text *out);   /* accuracy of each class */
void rc_chart_norms(const rc_report_variant *variant, rc_text *out);     /* of the head's rows, class by class */
void rc_chart_norm_bias(const rc_report_variant *variant, rc_text *out); /* of old and new rows after each task */
/* Where accuracy is lost. */
void rc_chart_ledger(const rc_report_set *set, const rc_report_variant *variant, rc_text *out);
void rc_chart_losses(const rc_report_log *log, rc_text *out);

/* Cells of the confusion matrix that are not zero: what hints for each of them would cost. */
int rc_chart_confusion_cells(const rc_report_variant *variant);

#endif
