/* The side of the library in the tests with scipy and scikit-learn (analysis.py).
 *
 * usage: analysis densities FILE OUT FILE: p (n, d), q (m, d) f32 and labels of both, i32. OUT: log densities
 *                                                     at p by kernels and tied mixtures of p and of q; D_KL at p
 *        analysis features RUN METHOD TASK OUT        features of the images of a run after a task, and what is stored
 *        analysis next RUN METHOD TASK OUT            of the training images of the task after it
 *        analysis dreams RUN METHOD TASK OUT          of dreams of all losses but DCE, as many as images */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/consistency.h"
#include "analysis/dreams.h"
#include "analysis/mixture.h"
#include "analysis/past_run.h"
#include "base/memory.h"
#include "experiment/run_data.h"
#include "support/divergence.h"

enum { MOST = 16 };

/* Tensors on their way into a file; the program ends before they are freed. */
static rc_named_tensor out[MOST];
static int outs;

static void put(const char *name, rc_dtype type, int64_t rows, int64_t columns, const void *data)
{
    out[outs++] = (rc_named_tensor){
        .name = name, .dtype = type, .dims = columns > 0 ? 2 : 1, .shape = {rows, columns}, .data = data};
}

static int save(const char *path)
{
    rc_json_writer metadata = rc_safetensors_metadata_begin();
    return rc_safetensors_write(path, out, outs, &metadata, true) == RC_OK ? 0 : 1;
}

static const void *copy_of(const rc_safetensors *file, const char *name, int64_t *rows, int64_t *columns)
{
    const rc_named_tensor *tensor = rc_safetensors_find(file, name);
    void *copy = rc_alloc(NULL, rc_named_tensor_bytes(tensor));
    memcpy(copy, tensor->data, rc_named_tensor_bytes(tensor));
    *rows = tensor->shape[0];
    *columns = tensor->dims > 1 ? tensor->shape[1] : 0;
    return copy;
}

/* ---- densities ------------------------------------------------------------------------------------------------ */

static double *densities_at(const rc_mixture *m, int n, const double *points)
{
    double *value = rc_alloc_zeroed(NULL, (size_t)n, sizeof *value);
    return rc_mixture_log_density(NULL, m, n, points, false, value) == RC_OK ? value : NULL;
}

static int densities(const char *path, const char *to)
{
    static const char *const names[3][3] = {{"scott.p", "scott.q", "scott.divergence"},
                                            {"isotropic.p", "isotropic.q", "isotropic.divergence"},
                                            {"tied.p", "tied.q", "tied.divergence"}};
    static rc_divergence divergence[3];
    rc_safetensors *file;
    int64_t n, m, d, none;
    if (rc_safetensors_open(path, &file) != RC_OK)
        return 1;
    const float *p = copy_of(file, "p", &n, &d), *q = copy_of(file, "q", &m, &d);
    const int32_t *label_p = copy_of(file, "p.labels", &n, &none), *label_q = copy_of(file, "q.labels", &m, &none);
    double *points = rc_alloc(NULL, (size_t)(n * d) * sizeof *points);
    for (int64_t i = 0; i < n * d; i++)
        points[i] = (double)p[i];
    for (int kind = 0; kind < 3; kind++) {
        rc_mixture a, b;
        rc_status status = kind < 2 ? rc_mixture_fit_kernels(NULL, (int)n, (int)d, p, (rc_bandwidth)kind, &a)
                                    : rc_mixture_fit_classes(NULL, (int)n, (int)d, p, label_p, 9, &a);
        if (status == RC_OK)
            status = kind < 2 ? rc_mixture_fit_kernels(NULL, (int)m, (int)d, q, (rc_bandwidth)kind, &b)
                              : rc_mixture_fit_classes(NULL, (int)m, (int)d, q, label_q, 9, &b);
        if (status == RC_OK)
            status = divergence_at(&a, &b, (int)n, points, false, &divergence[kind]);
        if (status != RC_OK)
            return 1;
        put(names[kind][0], RC_DTYPE_F64, n, 0, densities_at(&a, (int)n, points));
        put(names[kind][1], RC_DTYPE_F64, n, 0, densities_at(&b, (int)n, points));
        put(names[kind][2], RC_DTYPE_F64, RC_DIVERGENCES, 0, divergence[kind].value);
    }
    return save(to);
}

/* ---- features of a run ------------------------------------------------------------------------------------------ */

static rc_status take_dreams(const rc_past_run *run, const rc_past_method *past, int task, rc_backend *be)
{
    static rc_features train, dreams;
    static rc_saved_model model;
    const rc_watch nobody = {0};
    RC_TRY(rc_past_method_model(run, past, task, be, &model));
    int classes = model.learner.student.head.classes, d = model.learner.student.head.d;
    RC_TRY(rc_features_create(run, &model, &(rc_feature_request){.end = classes}, &nobody, &train));
    rc_settings settings = rc_combination_settings(&run->config.settings, 2);
    RC_TRY(rc_dream_features_create(&model, &settings, train.n, &nobody, &dreams));
    put("train", RC_DTYPE_F32, train.n, d, train.value);
    put("train.labels", RC_DTYPE_I32, train.n, 0, train.label);
    put("dreams", RC_DTYPE_F32, dreams.n, d, dreams.value);
    put("dreams.labels", RC_DTYPE_I32, dreams.n, 0, dreams.label);
    return RC_OK;
}

static rc_status take_features(const rc_past_run *run, const rc_past_method *past, int task, bool next, rc_backend *be)
{
    static rc_features train, test;
    static rc_saved_model model;
    const rc_watch nobody = {0};
    RC_TRY(rc_past_method_model(run, past, task, be, &model));
    int classes = model.learner.student.head.classes, d = model.learner.student.head.d;
    rc_feature_request wanted = {.end = classes};
    if (next)
        wanted = (rc_feature_request){.first = classes, .end = run->stream.task_end[task]};
    RC_TRY(rc_features_create(run, &model, &wanted, &nobody, &train));
    RC_TRY(rc_features_create(run, &model, &(rc_feature_request){.end = classes, .test = true}, &nobody, &test));
    put("train", RC_DTYPE_F32, train.n, d, train.value);
    put("train.labels", RC_DTYPE_I32, train.n, 0, train.label);
    put("test", RC_DTYPE_F32, test.n, d, test.value);
    put("test.labels", RC_DTYPE_I32, test.n, 0, test.label);
    if (model.learner.class_mean == NULL)
        return RC_OK;
    float *mean = rc_alloc(NULL, (size_t)classes * (size_t)d * sizeof *mean),
          *covariance = rc_alloc(NULL, (size_t)d * (size_t)d * sizeof *covariance);
    be->read_real(be, mean, model.learner.class_mean, (size_t)classes * (size_t)d);
    be->read_real(be, covariance, model.learner.covariance, (size_t)d * (size_t)d);
    put("stored.mean", RC_DTYPE_F32, classes, d, mean);
    put("stored.covariance", RC_DTYPE_F32, d, d, covariance);
    return be->sync(be);
}

static int features(const char *command, char **arguments)
{
    static rc_past_run run;
    static rc_past_method past;
    static rc_dataset data;
    const rc_method *method;
    const rc_watch nobody = {0};
    rc_backend *be;
    rc_status status = rc_past_run_open(arguments[0], &run);
    if (status == RC_OK)
        status = rc_config_set(&run.config, "data", rc_json_string(rc_json_member(run.identity, "data")));
    if (status == RC_OK)
        status = rc_run_data_open(&run.config, 1, false, &nobody, &data);
    if (status == RC_OK)
        status = rc_past_run_take_data(&run, &data);
    if (status == RC_OK)
        status = rc_method_find(arguments[1], &method);
    if (status == RC_OK)
        status = rc_past_method_open(&run, method, &past);
    if (status == RC_OK)
        status = rc_backend_open("cpu", 1, NULL, &be);
    if (status == RC_OK)
        status = strcmp(command, "dreams") == 0
                     ? take_dreams(&run, &past, atoi(arguments[2]), be)
                     : take_features(&run, &past, atoi(arguments[2]), strcmp(command, "next") == 0, be);
    return status == RC_OK ? save(arguments[3]) : 1;
}

int main(int count, char **arguments)
{
    const char *command = count > 1 ? arguments[1] : "";
    int code = 2;
    if (strcmp(command, "densities") == 0 && count == 4)
        code = densities(arguments[2], arguments[3]);
    else if (count == 6)
        code = features(command, arguments + 2);
    if (code != 0)
        fprintf(stderr, "%s\n",
                code == 2 ? "usage: analysis densities|features|next|dreams ARGUMENT..." : rc_message());
    return code;
}
