/* D_KL(p || q), put together as analysis/consistency.c does it. */
#ifndef RC_TESTS_SUPPORT_DIVERGENCE_H
#define RC_TESTS_SUPPORT_DIVERGENCE_H

#include "analysis/mixture.h"
#include "base/memory.h"

/* At points (n, d); leave_out as in rc_mixture_log_density. */
static inline rc_status divergence_at(const rc_mixture *p, const rc_mixture *q, int n, const double *points,
                                      bool leave_out, rc_divergence *divergence)
{
    double *log_p = rc_alloc_zeroed(NULL, (size_t)n, 2 * sizeof *log_p);
    if (log_p == NULL)
        return RC_OUT_OF_MEMORY;
    rc_status status = rc_mixture_log_density(NULL, p, n, points, leave_out, log_p);
    if (status == RC_OK)
        status = rc_mixture_log_density(NULL, q, n, points, false, log_p + n);
    if (status == RC_OK)
        *divergence = rc_divergence_of(n, log_p, log_p + n);
    rc_free(NULL, log_p);
    return status;
}

/* On n samples that are drawn from p. */
static inline rc_status divergence_drawn(const rc_mixture *p, const rc_mixture *q, rc_rng rng, int n,
                                         rc_divergence *divergence)
{
    double *points = rc_alloc_zeroed(NULL, (size_t)n, (size_t)p->d * sizeof *points);
    if (points == NULL)
        return RC_OUT_OF_MEMORY;
    rc_mixture_draw(p, rng, n, points);
    rc_status status = divergence_at(p, q, n, points, false, divergence);
    rc_free(NULL, points);
    return status;
}

#endif
