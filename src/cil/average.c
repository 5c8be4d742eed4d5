#include "cil/average.h"

#include "base/memory.h"

/* to += share (from - to), by the host: this happens once an epoch at most. */
static rc_status approach(rc_backend *be, void *to, const void *from, size_t count, double share)
{
    double *values = rc_alloc_zeroed(NULL, 2 * count, sizeof *values);
    if (values == NULL)
        return RC_OUT_OF_MEMORY;
    be->read_real64(be, values, to, count);
    be->read_real64(be, values + count, from, count);
    rc_status status = be->sync(be);
    for (size_t i = 0; i < count; i++)
        values[i] += share * (values[count + i] - values[i]);
    if (status == RC_OK) {
        be->write_real64(be, to, values, count);
        status = be->sync(be);
    }
    rc_free(NULL, values);
    return status;
}

/* The parts of a classifier, as far as its head has `classes` rows. */
static void find_parts(const rc_classifier *c, int classes, rc_average *a)
{
    const rc_head *head = &c->head;
    *a = (rc_average){.backend = head->backend,
                      .part = {{.now = c->backbone.param, .count = c->backbone.net->params},
                               {.now = c->backbone.running, .count = c->backbone.net->running},
                               {.now = head->weight, .count = (size_t)classes * (size_t)head->d},
                               {.now = head->bias, .count = (size_t)classes}}};
    for (int i = 0; i < RC_AVERAGE_PARTS; i++)
        if (a->part[i].count == 0)
            a->part[i].now = NULL;
}

rc_status rc_average_create(rc_average *a, const rc_classifier *classifier)
{
    find_parts(classifier, classifier->head.classes, a);
    rc_backend *be = a->backend;
    rc_status status = RC_OK;
    for (int i = 0; status == RC_OK && i < RC_AVERAGE_PARTS; i++) {
        if (a->part[i].now != NULL)
            status = be->alloc(be, a->part[i].count * be->real_bytes, &a->part[i].mean);
    }
    if (status != RC_OK)
        rc_average_destroy(a);
    return status;
}

void rc_average_destroy(rc_average *a)
{
    for (int i = 0; a->backend != NULL && i < RC_AVERAGE_PARTS; i++)
        a->backend->release(a->backend, a->part[i].mean);
    *a = (rc_average){0};
}

size_t rc_average_bytes(const rc_classifier *classifier)
{
    rc_average a;
    size_t count = 0;
    find_parts(classifier, classifier->head.classes, &a);
    for (int i = 0; i < RC_AVERAGE_PARTS; i++)
        count += a.part[i].now != NULL ? a.part[i].count : 0;
    return count * a.backend->real_bytes;
}

size_t rc_average_scratch(const rc_classifier *classifier)
{
    rc_average a;
    size_t most = 0;
    find_parts(classifier, classifier->head.classes, &a);
    for (int i = 0; i < RC_AVERAGE_PARTS; i++)
        most = a.part[i].now != NULL && a.part[i].count > most ? a.part[i].count : most;
    return 2 * most * sizeof(double);
}

rc_status rc_average_register(const rc_average *a, rc_state *state)
{
    static const char *const name[RC_AVERAGE_PARTS] = {"average.param", "average.running", "average.head",
                                                       "average.bias"};
    for (int i = 0; i < RC_AVERAGE_PARTS; i++)
        if (a->part[i].now != NULL)
            RC_TRY(rc_state_add(state, name[i], RC_STATE_REAL, a->part[i].mean, a->part[i].count));
    return RC_OK;
}

rc_status rc_average_add(rc_average *a, int number)
{
    for (int i = 0; i < RC_AVERAGE_PARTS; i++)
        if (a->part[i].now != NULL)
            RC_TRY(approach(a->backend, a->part[i].mean, a->part[i].now, a->part[i].count, 1.0 / number));
    return RC_OK;
}

void rc_average_apply(const rc_average *a)
{
    for (int i = 0; i < RC_AVERAGE_PARTS; i++)
        if (a->part[i].now != NULL)
            a->backend->copy(a->backend, a->part[i].now, a->part[i].mean, a->part[i].count * a->backend->real_bytes);
}

rc_status rc_average_with(rc_classifier *classifier, const rc_classifier *old, double share)
{
    rc_average to, from;
    find_parts(classifier, old->head.classes, &to);
    find_parts(old, old->head.classes, &from);
    for (int i = 0; i < RC_AVERAGE_PARTS; i++)
        if (to.part[i].now != NULL && from.part[i].now != NULL)
            RC_TRY(approach(to.backend, to.part[i].now, from.part[i].now, to.part[i].count, share));
    return RC_OK;
}
