#include "support/oracle_net.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

const double oracle_net_tolerance[2] = {1e-4, 1e-11};

static oracle *fixture, *large, *published, *deep; /* the last two have classifiers alone */

void oracle_net_open(const char *name)
{
    fixture = oracle_open(name);
    large = oracle_light() ? NULL : oracle_open("large.txt");
    published = oracle_light() ? NULL : oracle_open("published_nets.txt");
    deep = oracle_light() ? NULL : oracle_open("deep_nets.txt");
}

void oracle_net_close(void)
{
    oracle_close(fixture);
    oracle_close(large);
    oracle_close(published);
    oracle_close(deep);
}

void oracle_net_run(const char *prefix, void (*test)(subject *))
{
    subject_run(fixture, prefix, oracle_net_tolerance, test);
    if (large)
        subject_run_fast(large, prefix, oracle_net_tolerance, test);
    if (published && strcmp(prefix, "classifier/") == 0)
        subject_run_fast(published, prefix, oracle_net_tolerance, test);
    if (deep && strcmp(prefix, "classifier/") == 0)
        subject_run_double(deep, prefix, oracle_net_tolerance, test);
}

double oracle_net_moved(const subject *s)
{
    if (s->be->real_bytes == sizeof(double))
        return 1e-10;
    return oracle_int(s->c, "steps") == 1 ? 5e-3 : 3e-2;
}

/* Input of the case for a slice; the caller frees it. */
static double *initial(const subject *s, const rc_slice *slice, const char *prefix)
{
    char name[256];
    snprintf(name, sizeof name, "%s%s", prefix, slice->name);
    return oracle_parameter(s->c, name, slice->shape, slice->dims);
}

void oracle_net_fill(subject *s, rc_model *model, const char *prefix)
{
    rc_slice slice;
    for (int i = 0; rc_net_slice(model->net, i, &slice); i++) {
        double *values = initial(s, &slice, prefix);
        void *to = slice.running ? model->running : model->param;
        s->be->write_real64(s->be, rc_real_at(s->be, to, slice.offset), values, slice.count);
        free(values);
    }
}

void oracle_net_expect(subject *s, const rc_net *net, const char *prefix, const void *reals, bool running,
                       double tolerance)
{
    rc_slice slice;
    for (int i = 0; rc_net_slice(net, i, &slice); i++) {
        if (slice.running != running)
            continue;
        char name[256];
        snprintf(name, sizeof name, "%s%s", prefix, slice.name);
        double *values = malloc(slice.count * sizeof *values);
        assert_non_null(values);
        s->be->read_real64(s->be, values, rc_real_at(s->be, reals, slice.offset), slice.count);
        oracle_expect(s->c, s->be->about.name, name, values, slice.count, tolerance);
        free(values);
    }
}

void oracle_net_expect_moved(subject *s, const rc_model *model, const char *prefix)
{
    rc_slice slice;
    for (int i = 0; rc_net_slice(model->net, i, &slice); i++) {
        if (slice.running)
            continue;
        char name[256];
        snprintf(name, sizeof name, "%smoved/%s", prefix, slice.name);
        double *begin = initial(s, &slice, prefix), *values = malloc(slice.count * sizeof *values);
        assert_non_null(values);
        s->be->read_real64(s->be, values, rc_real_at(s->be, model->param, slice.offset), slice.count);
        for (size_t k = 0; k < slice.count; k++)
            values[k] -= begin[k];
        oracle_expect(s->c, s->be->about.name, name, values, slice.count, oracle_net_moved(s));
        free(values);
        free(begin);
    }
}
