/* What the stages of a method cost, as a multiple of ER: as measured, and by the formulas of the paper's section on
 * overhead.
 *
 * With c_p and c_b the cost of a batch forward and backward through the classifier, g_p and g_b through the generator,
 * M batches an epoch:
 *
 *   inversion    N_inv (g_p + g_b + c_p + c_b)
 *   training     N_e M (g_p + 2 (c_p + c_b))
 *   estimation   M (|C_old| / |C_new| (g_p + c_p) + c_p)
 *
 * Costs are multiply-adds, backward twice forward. What a method does not have costs nothing: without dreams there is
 * no g_p, without a second half of the batch c_p + c_b counts once. The paper has no refinement; it counts g_p + 2 c_p
 * a step, because the backbone is frozen. Evaluation is not counted. */
#ifndef RC_ANALYSIS_COST_H
#define RC_ANALYSIS_COST_H

#include "analysis/past_run.h"
#include "analysis/table.h"

typedef struct rc_cost {
    const rc_method *method;
    int tasks;                       /* that are counted */
    double seconds[RC_STAGE_COUNT];  /* measured; NaN: not known */
    double formula[RC_STAGE_COUNT];  /* multiply-adds */
    double all_seconds, all_formula; /* sums */
} rc_cost;

/* Of the tasks that the method has finished, at most `tasks`; 0: all of them. The run's data must be there. A method
 * that was never run costs by the formula what it would cost: past NULL. */
rc_status rc_cost_of(const rc_past_run *run, const rc_method *method, const rc_past_method *past, int tasks,
                     rc_cost *cost);

/* One row a method, for people and as members of the JSON object that is open. er: what is compared with, of as many
 * tasks; its seconds are NaN if it was not run. */
void rc_costs_print(const rc_cost *costs, int count, const rc_cost *er, rc_analysis_line *line, void *user);
void rc_costs_put(const rc_cost *costs, int count, const rc_cost *er, rc_json_writer *w);

#endif
