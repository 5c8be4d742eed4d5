#include "analysis/cost.h"

#include <math.h>
#include <stdio.h>

#include "base/memory.h"
#include "cil/learner.h"
#include "cil/sources.h"

/* Multiply-adds of a batch. */
typedef struct batch_cost {
    double classifier, generator; /* forward; backward is twice that */
} batch_cost;

static rc_status cost_of_batch(const rc_past_run *run, bool dreams, batch_cost *b)
{
    const rc_settings *s = &run->config.settings;
    const rc_augment image = {.h = run->data->h, .w = run->data->w, .c = run->data->c};
    rc_net *net = rc_alloc_zeroed(NULL, 1, sizeof *net);
    if (net == NULL)
        return RC_OUT_OF_MEMORY;
    *b = (batch_cost){0};
    rc_status status = rc_learner_net(s, &image, net);
    if (status == RC_OK)
        b->classifier = s->batch * rc_net_macs(net);
    if (status == RC_OK && dreams) {
        status = rc_generator_net(s, &image, net);
        b->generator = status == RC_OK ? s->batch * rc_net_macs(net) : 0;
    }
    rc_free(NULL, net);
    return status;
}

static rc_status batches_of(const rc_past_run *run, const rc_method *method, int task, int *batches)
{
    int32_t *index;
    int count, first = rc_method_trains_on_old_images(method) ? 0 : rc_task_first(&run->stream, task);
    RC_TRY(rc_past_run_images(run, first, run->stream.task_end[task], &index, &count));
    rc_free(NULL, index);
    *batches = rc_epoch_batches(count, run->config.settings.batch);
    return RC_OK;
}

static void add_task(const rc_past_run *run, int task, int batches, const batch_cost *b, rc_cost *cost)
{
    const rc_settings *s = &run->config.settings;
    int n_old = rc_task_first(&run->stream, task), n_new = rc_task_classes(&run->stream, task);
    const rc_task_size size = {s, cost->method, n_old, n_new, batches};
    double c = b->classifier, g = rc_method_dreams(cost->method, n_old) ? b->generator : 0;
    double halves = rc_method_replays(cost->method, n_old) ? 2 : 1;
    double steps[RC_STAGE_COUNT];
    for (int i = 0; i < RC_STAGE_COUNT; i++)
        steps[i] = rc_task_steps(&size, (rc_stage)i);
    cost->formula[RC_STAGE_INVERSION] += steps[RC_STAGE_INVERSION] * (3 * g + 3 * c);
    cost->formula[RC_STAGE_TRAINING] += steps[RC_STAGE_TRAINING] * (g + halves * 3 * c);
    cost->formula[RC_STAGE_REFINEMENT] += steps[RC_STAGE_REFINEMENT] * (g + halves * c);
    if (steps[RC_STAGE_ESTIMATION] > 0)
        cost->formula[RC_STAGE_ESTIMATION] += batches * ((double)n_old / n_new * (g + c) + c);
}

rc_status rc_cost_of(const rc_past_run *run, const rc_method *method, const rc_past_method *past, int tasks,
                     rc_cost *cost)
{
    batch_cost batch;
    int done = past != NULL ? past->done : run->stream.tasks;
    *cost = (rc_cost){.method = method, .tasks = tasks > 0 && tasks < done ? tasks : done};
    RC_TRY(cost_of_batch(run, method->replay->dreams, &batch));
    for (int task = 0; task < cost->tasks; task++) {
        int batches;
        RC_TRY(batches_of(run, method, task, &batches));
        add_task(run, task, batches, &batch, cost);
        for (int i = 0; i < RC_STAGE_COUNT; i++)
            cost->seconds[i] += past != NULL ? past->seconds[task][i] : (double)NAN;
    }
    for (int i = 0; i < RC_STAGE_COUNT; i++) {
        cost->all_seconds += cost->seconds[i];
        cost->all_formula += cost->formula[i];
    }
    return RC_OK;
}

/* ---- text and JSON ----------------------------------------------------------------------------------------------- */

enum { NAME = 18, COLUMN = 12 };

static void print_row(const rc_cost *c, const double *value, double all, const double of, int digits,
                      rc_analysis_line *line, void *user)
{
    rc_row r = {0};
    rc_row_text(&r, -NAME, c->method->title);
    for (int i = 0; i < RC_STAGE_COUNT; i++)
        rc_row_number(&r, COLUMN, digits, value[i] / of);
    rc_row_number(&r, COLUMN, digits, all / of);
    rc_row_end(&r, line, user);
}

static void print_titles(const char *first, rc_analysis_line *line, void *user)
{
    rc_row r = {0};
    rc_row_text(&r, -NAME, first);
    for (int i = 0; i < RC_STAGE_COUNT; i++)
        rc_row_text(&r, COLUMN, rc_stage_name((rc_stage)i));
    rc_row_text(&r, COLUMN, "all");
    rc_row_end(&r, line, user);
}

void rc_costs_print(const rc_cost *costs, int count, const rc_cost *er, rc_analysis_line *line, void *user)
{
    char text[160];
    snprintf(text, sizeof text, "cost of %d task%s", er->tasks, er->tasks == 1 ? "" : "s");
    line(user, text);
    print_titles("seconds", line, user);
    for (int i = 0; i < count; i++)
        print_row(&costs[i], costs[i].seconds, costs[i].all_seconds, 1, 1, line, user);
    if (isnan(er->all_seconds)) {
        line(user, "ER was not run here, so there are no multiples of its seconds: the run lacks the method 'er'");
    } else {
        print_titles("measured / ER", line, user);
        for (int i = 0; i < count; i++)
            print_row(&costs[i], costs[i].seconds, costs[i].all_seconds, er->all_seconds, 3, line, user);
    }
    print_titles("formula / ER", line, user);
    for (int i = 0; i < count; i++)
        print_row(&costs[i], costs[i].formula, costs[i].all_formula, er->all_formula, 3, line, user);
}

static void put_stages(rc_json_writer *w, const char *key, const double *value, double all, double of)
{
    rc_json_begin_object(w, key);
    for (int i = 0; i < RC_STAGE_COUNT; i++)
        rc_json_put_real(w, rc_stage_name((rc_stage)i), value[i] / of);
    rc_json_put_real(w, "all", all / of);
    rc_json_end(w);
}

void rc_costs_put(const rc_cost *costs, int count, const rc_cost *er, rc_json_writer *w)
{
    rc_json_put_int(w, "tasks", er->tasks);
    rc_json_begin_array(w, "methods");
    for (int i = 0; i < count; i++) {
        const rc_cost *c = &costs[i];
        rc_json_begin_object(w, NULL);
        rc_json_put_text(w, "method", c->method->name);
        put_stages(w, "seconds", c->seconds, c->all_seconds, 1);
        put_stages(w, "measured_over_er", c->seconds, c->all_seconds, er->all_seconds);
        put_stages(w, "multiply_adds", c->formula, c->all_formula, 1);
        put_stages(w, "formula_over_er", c->formula, c->all_formula, er->all_formula);
        rc_json_end(w);
    }
    rc_json_end(w);
}
