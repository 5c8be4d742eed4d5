/* Cases of the optimisers. */
#include "check/case.h"
#include "nn/optimiser.h"

typedef struct optimiser_case {
    rc_sgd sgd;
    rc_adam adam;
    int count, step, param, grad, first, second;
} optimiser_case;

static void draw_buffers(rc_case *c, optimiser_case *p)
{
    c->step.learning_rate = (float)rc_case_uniform(c, 0.001, 0.2);
    c->step.step = RC_CHOOSE(c, 0, 1, 10, 5000);
    p->step = rc_case_buffer(c, "step", RC_BUFFER_STEP, RC_IN, 1, 1, 1, 1);
    rc_case_say(c, "%d parameters, step %u", p->count, c->step.step);
    p->param = rc_case_parameter(c, "param", RC_IN_OUT, 1, p->count, 1);
    p->grad = rc_case_parameter(c, "grad", RC_IN, 1, p->count, 1);
    p->first = rc_case_parameter(c, "first", RC_IN_OUT, 1, p->count, c->step.step ? 0.5 : 0);
}

static void draw_sgd(rc_case *c)
{
    optimiser_case *p = rc_case_parameters(c);
    p->count = RC_CHOOSE(c, 1, 3, 17, 100, 4099);
    p->sgd = (rc_sgd){rc_case_chance(c, 70) ? 0.9f : 0, rc_case_chance(c, 70) ? 5e-4f : 0};
    draw_buffers(c, p);
}

static void run_sgd(rc_run *r)
{
    const optimiser_case *p = rc_run_parameters(r);
    r->be->sgd(r->be, &p->sgd, rc_at(r, p->step), (size_t)p->count, rc_at(r, p->param), rc_at(r, p->grad),
               rc_at(r, p->first));
}

static void draw_second(rc_case *c, optimiser_case *p)
{
    p->second = rc_case_parameter(c, "second", RC_IN_OUT, 1, p->count, 0);
    for (int i = 0; c->step.step && i < p->count; i++) /* a mean of squares */
        rc_case_set(c, p->second, (size_t)i, rc_case_uniform(c, 0.01, 1));
}

static void draw_adam(rc_case *c)
{
    optimiser_case *p = rc_case_parameters(c);
    p->count = RC_CHOOSE(c, 1, 3, 17, 100, 4099);
    p->adam = rc_adam_default;
    if (!rc_case_chance(c, 80))
        p->adam.beta1 = 0.5f;
    draw_buffers(c, p);
    draw_second(c, p);
}

static void run_adam(rc_run *r)
{
    const optimiser_case *p = rc_run_parameters(r);
    r->be->adam(r->be, &p->adam, rc_at(r, p->step), (size_t)p->count, rc_at(r, p->param), rc_at(r, p->grad),
                rc_at(r, p->first), rc_at(r, p->second));
}

/* Classifiers are trained by SGD, generators by Adam. */
static bool bench_sgd(rc_case *c, int index, int n)
{
    optimiser_case *p = rc_case_parameters(c);
    (void)n;
    if (index > 0 || c->net->layer[0].kind != RC_LAYER_CONV)
        return false;
    p->count = (int)c->net->params;
    p->sgd = (rc_sgd){0.9f, 5e-4f};
    draw_buffers(c, p);
    c->bytes = 5.0 * 4 * p->count; /* three read, two written */
    return true;
}

static bool bench_adam(rc_case *c, int index, int n)
{
    optimiser_case *p = rc_case_parameters(c);
    (void)n;
    if (index > 0 || c->net->layer[0].kind != RC_LAYER_LINEAR)
        return false;
    p->count = (int)c->net->params;
    p->adam = rc_adam_default;
    draw_buffers(c, p);
    draw_second(c, p);
    c->bytes = 7.0 * 4 * p->count; /* four read, three written */
    return true;
}

static const rc_operation operations[] = {
    {"sgd", "sgd", 10, 80, sizeof(optimiser_case), draw_sgd, NULL, run_sgd, bench_sgd},
    {"adam", "adam", 10, 80, sizeof(optimiser_case), draw_adam, NULL, run_adam, bench_adam},
};
const rc_operation_list rc_cases_optimisers = {operations, sizeof operations / sizeof *operations};
