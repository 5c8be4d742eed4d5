#include "analysis/consistency.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "analysis/dreams.h"
#include "base/memory.h"

/* Which losses a combination has, besides diversity, which all have. */
static const struct {
    const char *title;
    bool content, bn, dce;
} combinations[RC_COMBINATIONS] = {{"ce + div", true, false, false},
                                   {"stat + div", false, true, false},
                                   {"ce + stat + div", true, true, false},
                                   {"ce + stat + div + dce", true, true, true}};

const char *rc_combination_title(int combination)
{
    return combinations[combination].title;
}

rc_settings rc_combination_settings(const rc_settings *settings, int combination)
{
    rc_settings s = *settings;
    s.weight_content = combinations[combination].content ? s.weight_content : 0;
    s.weight_bn = combinations[combination].bn ? s.weight_bn : 0;
    s.lambda_dce = combinations[combination].dce ? s.lambda_dce : 0;
    return s;
}

/* ---- the real side, which all combinations share ----------------------------------------------------------------- */

typedef struct real_side {
    rc_features features; /* in random order, so that the first ones are a sample */
    rc_mixture density[RC_DENSITY_COUNT];
    int count[RC_SAMPLES_COUNT];                             /* of points */
    double *points[RC_DENSITY_COUNT][RC_SAMPLES_COUNT];      /* (count, d) */
    double *log_density[RC_DENSITY_COUNT][RC_SAMPLES_COUNT]; /* (count) at these points */
} real_side;

static void destroy_real_side(real_side *r)
{
    for (int kind = 0; kind < RC_DENSITY_COUNT; kind++) {
        rc_mixture_destroy(&r->density[kind]);
        for (int at = 0; at < RC_SAMPLES_COUNT; at++) {
            rc_free(NULL, r->points[kind][at]);
            rc_free(NULL, r->log_density[kind][at]);
        }
    }
    rc_features_destroy(&r->features);
}

static rc_status shuffle(rc_features *f, uint64_t seed)
{
    size_t d = (size_t)f->d, n = (size_t)f->n;
    uint32_t *order = rc_alloc_zeroed(NULL, n, sizeof *order);
    rc_features mixed = {.n = f->n, .d = f->d};
    mixed.value = rc_alloc_zeroed(NULL, n, d * sizeof *mixed.value);
    mixed.label = rc_alloc_zeroed(NULL, n, sizeof *mixed.label);
    if (order == NULL || mixed.value == NULL || mixed.label == NULL) {
        rc_free(NULL, order);
        rc_features_destroy(&mixed);
        return RC_OUT_OF_MEMORY;
    }
    rc_rng_permutation((rc_rng){seed, RC_STREAM_ORDER}, (uint32_t)n, order);
    for (size_t i = 0; i < n; i++) {
        memcpy(mixed.value + i * d, f->value + order[i] * d, d * sizeof *mixed.value);
        mixed.label[i] = f->label[order[i]];
    }
    rc_free(NULL, order);
    rc_features_destroy(f);
    *f = mixed;
    return RC_OK;
}

static rc_status fit_density(rc_pool *pool, const rc_features *f, int classes, int kind, rc_mixture *density)
{
    return kind == RC_DENSITY_TIED
               ? rc_mixture_fit_classes(pool, f->n, f->d, f->value, f->label, classes, density)
               : rc_mixture_fit_kernels(pool, f->n, f->d, f->value,
                                        kind == RC_DENSITY_SCOTT ? RC_BANDWIDTH_SCOTT : RC_BANDWIDTH_ISOTROPIC,
                                        density);
}

static rc_status take_points(rc_pool *pool, real_side *r, int kind, int at, uint64_t seed)
{
    size_t d = (size_t)r->features.d, count = (size_t)r->count[at];
    double *points = rc_alloc_zeroed(NULL, count, d * sizeof *points);
    double *value = rc_alloc_zeroed(NULL, count, sizeof *value);
    r->points[kind][at] = points;
    r->log_density[kind][at] = value;
    if (points == NULL || value == NULL)
        return RC_OUT_OF_MEMORY;
    if (at == RC_SAMPLES_DRAWN)
        rc_mixture_draw(&r->density[kind], (rc_rng){seed, RC_STREAM_SAMPLE + 2 * (uint64_t)kind}, (int)count, points);
    for (size_t i = 0; at == RC_SAMPLES_REAL && i < count * d; i++)
        points[i] = (double)r->features.value[i];
    return rc_mixture_log_density(pool, &r->density[kind], (int)count, points, at == RC_SAMPLES_REAL, value);
}

static rc_status make_real_side(const rc_past_run *run, const rc_saved_model *model, int samples, rc_pool *pool,
                                const rc_watch *watch, real_side *r)
{
    int classes = model->learner.student.head.classes;
    uint64_t seed = run->config.settings.seed;
    rc_feature_request all = {.end = classes};
    RC_TRY(rc_features_create(run, model, &all, watch, &r->features));
    RC_TRY(shuffle(&r->features, seed));
    r->count[RC_SAMPLES_DRAWN] = samples;
    r->count[RC_SAMPLES_REAL] = samples < r->features.n ? samples : r->features.n;
    for (int kind = 0; kind < RC_DENSITY_COUNT; kind++) {
        RC_TRY(fit_density(pool, &r->features, classes, kind, &r->density[kind]));
        for (int at = 0; at < RC_SAMPLES_COUNT; at++)
            RC_TRY(take_points(pool, r, kind, at, seed));
    }
    return RC_OK;
}

/* ---- a combination ----------------------------------------------------------------------------------------------- */

static rc_status compare(rc_pool *pool, const real_side *r, const rc_features *dreams, int classes,
                         rc_consistency_row *row)
{
    double *value = rc_alloc_zeroed(NULL, (size_t)r->count[RC_SAMPLES_DRAWN], sizeof *value);
    rc_status status = value != NULL ? RC_OK : RC_OUT_OF_MEMORY;
    for (int kind = 0; status == RC_OK && kind < RC_DENSITY_COUNT; kind++) {
        rc_mixture density;
        status = fit_density(pool, dreams, classes, kind, &density);
        for (int at = 0; status == RC_OK && at < RC_SAMPLES_COUNT; at++) {
            status = rc_mixture_log_density(pool, &density, r->count[at], r->points[kind][at], false, value);
            if (status == RC_OK)
                row->divergence[kind][at] = rc_divergence_of(r->count[at], r->log_density[kind][at], value);
        }
        row->ridge[kind] = density.ridge;
        rc_mixture_destroy(&density);
    }
    rc_free(NULL, value);
    return status;
}

static rc_status count_empty(const rc_features *dreams, int classes, int *empty)
{
    bool *seen = rc_alloc_zeroed(NULL, (size_t)classes, sizeof *seen);
    if (seen == NULL)
        return RC_OUT_OF_MEMORY;
    for (int i = 0; i < dreams->n; i++)
        seen[dreams->label[i]] = true;
    *empty = 0;
    for (int k = 0; k < classes; k++)
        *empty += !seen[k];
    rc_free(NULL, seen);
    return RC_OK;
}

static rc_status try_combination(rc_saved_model *model, const rc_settings *settings, int combination,
                                 const real_side *r, rc_pool *pool, const rc_watch *watch, rc_consistency *c)
{
    rc_learner *l = &model->learner;
    rc_consistency_row *row = &c->row[combination];
    rc_features dreams;
    rc_watch named = *watch;
    named.where = combinations[combination].title;
    if (combinations[combination].dce && l->statistics_classes != c->classes)
        return RC_OK;
    RC_TRY(rc_dream_features_create(model, settings, c->dreams, &named, &dreams));
    rc_status status = count_empty(&dreams, c->classes, &row->empty_classes);
    if (status == RC_OK)
        status = compare(pool, r, &dreams, c->classes, row);
    row->done = status == RC_OK;
    rc_features_destroy(&dreams);
    return status;
}

static rc_status try_all(const rc_past_run *run, rc_saved_model *model, const rc_consistency_settings *settings,
                         rc_pool *pool, const rc_watch *watch, rc_consistency *c)
{
    real_side *r = rc_alloc_zeroed(NULL, 1, sizeof *r);
    if (r == NULL)
        return RC_OUT_OF_MEMORY;
    rc_status status = make_real_side(run, model, settings->samples, pool, watch, r);
    c->images = r->features.n;
    c->dreams = settings->dreams > 0 ? settings->dreams : c->images;
    for (int kind = 0; kind < RC_DENSITY_COUNT; kind++)
        c->real_ridge[kind] = r->density[kind].ridge;
    for (int i = 0; status == RC_OK && i < RC_COMBINATIONS; i++) {
        rc_settings changed = rc_combination_settings(&settings->changed, i);
        status = try_combination(model, &changed, i, r, pool, watch, c);
    }
    destroy_real_side(r);
    rc_free(NULL, r);
    return status;
}

rc_status rc_consistency_create(const rc_past_run *run, const rc_method *method,
                                const rc_consistency_settings *settings, rc_backend *backend, rc_pool *pool,
                                const rc_watch *watch, rc_consistency *c)
{
    rc_saved_model model;
    *c = (rc_consistency){.method = method, .task = settings->task, .steps = settings->changed.inversion_steps};
    if (settings->samples < 2)
        return rc_fail(RC_INVALID_ARGUMENT, "%d samples, expected 2 or more", settings->samples);
    RC_TRY(rc_past_task_model(run, method, settings->task, backend, &model));
    c->classes = model.learner.student.head.classes;
    rc_status status = try_all(run, &model, settings, pool, watch, c);
    rc_saved_model_destroy(&model);
    return status;
}

/* ---- text and JSON ----------------------------------------------------------------------------------------------- */

static const char *const density_key[RC_DENSITY_COUNT] = {"gaussian", "kde_scott", "kde_isotropic"};
static const char *const density_title[RC_DENSITY_COUNT] = {"Gaussian", "KDE", "KDE isotropic"};
static const char *const samples_key[RC_SAMPLES_COUNT] = {"drawn", "real"};

const char *rc_density_key(int density)
{
    return density_key[density];
}

const char *rc_density_title(int density)
{
    return density_title[density];
}

const char *rc_samples_key(int samples)
{
    return samples_key[samples];
}

enum { NAME = 32, COLUMN = 24 };

/* One way of taking samples: a line of names, then a line for each combination. */
static void print_samples(const rc_consistency *c, int at, const char *name, rc_analysis_line *line, void *user)
{
    char text[64];
    rc_row r = {0};
    rc_row_text(&r, -NAME, name);
    for (int kind = 0; kind < RC_DENSITY_COUNT; kind++)
        rc_row_text(&r, COLUMN, density_title[kind]);
    rc_row_end(&r, line, user);
    for (int i = 0; i < RC_COMBINATIONS; i++) {
        rc_row_text(&r, -NAME, combinations[i].title);
        for (int kind = 0; kind < RC_DENSITY_COUNT; kind++) {
            const rc_divergence *d = &c->row[i].divergence[kind][at];
            if (fabs(d->value[0]) < 1e5)
                snprintf(text, sizeof text, "%.4f +- %.4f", d->value[0], d->error[0]);
            else
                snprintf(text, sizeof text, "%.5g +- %.3g", d->value[0], d->error[0]);
            rc_row_text(&r, COLUMN, c->row[i].done ? text : "-");
        }
        rc_row_end(&r, line, user);
    }
}

void rc_consistency_print(const rc_consistency *c, rc_analysis_line *line, void *user)
{
    char text[256];
    snprintf(text, sizeof text,
             "%s, model after task %d (%d classes): D_KL(real || dreams), estimator k1 with its standard error",
             c->method->title, c->task, c->classes);
    line(user, text);
    snprintf(text, sizeof text, "%d real images, %d dreams after %d steps of inversion", c->images, c->dreams,
             c->steps);
    line(user, text);
    for (int at = 0; at < RC_SAMPLES_COUNT; at++) {
        snprintf(text, sizeof text, "%d %s", c->row[0].divergence[0][at].samples,
                 at == RC_SAMPLES_DRAWN ? "samples drawn from the fit" : "real features");
        print_samples(c, at, text, line, user);
    }
    for (int i = 0; i < RC_COMBINATIONS; i++)
        if (c->row[i].done && c->row[i].empty_classes > 0) {
            snprintf(text, sizeof text, "%s: no dream of %d classes", combinations[i].title, c->row[i].empty_classes);
            line(user, text);
        }
    if (c->real_ridge[RC_DENSITY_TIED] > 0) {
        snprintf(text, sizeof text, "the covariance of real images is singular; %g of its diagonal was added",
                 c->real_ridge[RC_DENSITY_TIED]);
        line(user, text);
    }
    for (int i = 0; i < RC_COMBINATIONS; i++)
        if (c->row[i].ridge[RC_DENSITY_TIED] > 0) {
            snprintf(text, sizeof text, "%s: the covariance of dreams is singular; %g of its diagonal was added",
                     combinations[i].title, c->row[i].ridge[RC_DENSITY_TIED]);
            line(user, text);
        }
    if (!c->row[RC_COMBINATIONS - 1].done)
        line(user,
             "The model stores no statistics, so there is no DCE: take one of a method that estimates, such as cwd.");
}

static void put_divergence(rc_json_writer *w, const char *key, const rc_divergence *d)
{
    static const char *const name[RC_DIVERGENCES] = {"k1", "k2", "k3"};
    rc_json_begin_object(w, key);
    rc_json_put_int(w, "samples", d->samples);
    for (int k = 0; k < RC_DIVERGENCES; k++) {
        rc_json_begin_object(w, name[k]);
        rc_json_put_real(w, "value", d->value[k]);
        rc_json_put_real(w, "error", d->error[k]);
        rc_json_end(w);
    }
    rc_json_end(w);
}

static void put_row(const rc_consistency_row *row, rc_json_writer *w)
{
    rc_json_put_int(w, "empty_classes", row->empty_classes);
    for (int kind = 0; kind < RC_DENSITY_COUNT; kind++) {
        rc_json_begin_object(w, density_key[kind]);
        rc_json_put_real(w, "ridge", row->ridge[kind]);
        for (int at = 0; at < RC_SAMPLES_COUNT; at++)
            put_divergence(w, samples_key[at], &row->divergence[kind][at]);
        rc_json_end(w);
    }
}

void rc_consistency_put(const rc_consistency *c, rc_json_writer *w)
{
    rc_json_put_text(w, "method", c->method->name);
    rc_json_put_int(w, "task", c->task);
    rc_json_put_int(w, "classes", c->classes);
    rc_json_put_int(w, "images", c->images);
    rc_json_put_int(w, "dreams", c->dreams);
    rc_json_put_int(w, "inversion_steps", c->steps);
    rc_json_begin_object(w, "real_ridge");
    for (int kind = 0; kind < RC_DENSITY_COUNT; kind++)
        rc_json_put_real(w, density_key[kind], c->real_ridge[kind]);
    rc_json_end(w);
    rc_json_begin_array(w, "rows");
    for (int i = 0; i < RC_COMBINATIONS; i++) {
        rc_json_begin_object(w, NULL);
        rc_json_put_text(w, "losses", combinations[i].title);
        if (c->row[i].done)
            put_row(&c->row[i], w);
        rc_json_end(w);
    }
    rc_json_end(w);
}
