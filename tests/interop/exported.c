/* A model to be exported and what the reference backend says about images: the side of the library in exported.py and
 * in both test_export.sh. Weights, statistics and pixels are random, class names are hostile.
 *
 * usage: exported NET SIZE CHANNELS CLASSES IMAGES FOLDER
 *        writes FOLDER/model.safetensors, pixels (images, h, w, c) as bytes, logits (images, classes) as floats */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/predictor.h"
#include "base/file.h"
#include "base/memory.h"
#include "cil/scorer.h"
#include "model/model_file.h"

enum { STREAM_PARAM, STREAM_RUNNING, STREAM_HEAD, STREAM_BIAS, STREAM_PIXELS, SEED = 21 };

static int failed(void)
{
    fprintf(stderr, "%s\n", rc_message());
    return 1;
}

/* Numbers of U(low, high). */
static rc_status fill(rc_backend *be, void *memory, size_t count, uint64_t stream, double low, double high)
{
    float *values = rc_alloc_zeroed(NULL, count, sizeof *values);
    if (values == NULL)
        return RC_OUT_OF_MEMORY;
    rc_rng_fill_uniform((rc_rng){SEED, stream}, 0, values, count);
    for (size_t i = 0; i < count; i++)
        values[i] = (float)(low + (high - low) * (double)values[i]);
    be->write_real(be, memory, values, count);
    rc_status status = be->sync(be);
    rc_free(NULL, values);
    return status;
}

/* Every normalisation gets factors, shifts, means and variances of its own. */
static rc_status fill_normalisations(rc_model *model)
{
    rc_backend *be = model->backend;
    for (int i = 0; i < model->net->layers; i++) {
        const rc_layer *layer = &model->net->layer[i];
        uint64_t stream = 100 + 4 * (uint64_t)i;
        size_t channels = (size_t)layer->c_out;
        if (layer->bias)
            RC_TRY(fill(be, rc_real_at(be, model->param, layer->bias_at), channels, stream + 4096, -0.2, 0.2));
        if (!layer->bn.on)
            continue;
        RC_TRY(fill(be, rc_real_at(be, model->param, layer->gamma), channels, stream, 0.6, 1.4));
        RC_TRY(fill(be, rc_real_at(be, model->param, layer->beta), channels, stream + 1, -0.4, 0.4));
        RC_TRY(fill(be, rc_real_at(be, model->running, layer->running_mean), channels, stream + 2, -0.3, 0.3));
        RC_TRY(fill(be, rc_real_at(be, model->running, layer->running_var), channels, stream + 3, 0.5, 2));
    }
    return RC_OK;
}

static rc_status set_names(rc_saved_model *model, int classes)
{
    static const char *const hostile[] = {
        "cat",    "\"); system(\"id", "*/ #error ?\?/", "back\\slash\\", "\xC3\xA4pfel \xE7\x8C\xAB",
        "%s%n{}", "7\" 0x1",          "<b>&amp;'"};
    enum { HOSTILE = sizeof hostile / sizeof *hostile, ROOM = 64 };
    model->class_name = rc_alloc_zeroed(NULL, (size_t)classes, sizeof *model->class_name);
    for (int i = 0; model->class_name != NULL && i < classes; i++) {
        if ((model->class_name[i] = rc_alloc_zeroed(NULL, ROOM, 1)) == NULL)
            return RC_OUT_OF_MEMORY;
        if (i < HOSTILE)
            snprintf(model->class_name[i], ROOM, "%s", hostile[i]);
        else
            snprintf(model->class_name[i], ROOM, "class %d", i);
    }
    return model->class_name != NULL ? RC_OK : RC_OUT_OF_MEMORY;
}

static rc_status make(rc_backend *be, char **a, rc_saved_model *model)
{
    const rc_method *method;
    int size = atoi(a[2]), channels = atoi(a[3]), classes = atoi(a[4]);
    rc_augment image = {.h = size, .w = size, .c = channels, .mean = {0.4f, 0.45f, 0.5f}, .std = {0.2f, 0.25f, 0.3f}};
    model->config = rc_config_default();
    RC_TRY(rc_config_set(&model->config, "net", a[1]));
    RC_TRY(rc_config_set(&model->config, "net_width", "4"));
    RC_TRY(rc_config_set(&model->config, "generator", "generator-small"));
    RC_TRY(rc_method_find("finetune", &method));
    RC_TRY(rc_learner_create(&model->learner, be, &model->config.settings, method, &image));
    rc_classifier *student = &model->learner.student;
    RC_TRY(rc_model_init(&student->backbone, (rc_rng){SEED, STREAM_PARAM}));
    RC_TRY(fill_normalisations(&student->backbone));
    RC_TRY(rc_head_grow(&student->head, classes - 1, (rc_rng){SEED, STREAM_HEAD}));
    RC_TRY(rc_head_grow(&student->head, 1, (rc_rng){SEED, STREAM_HEAD}));
    size_t rows = (size_t)classes * (size_t)student->head.d;
    RC_TRY(fill(be, student->head.weight, rows, STREAM_HEAD, -0.05, 0.05));
    if (strcmp(a[1], "resnet-small") != 0) { /* whose head has none */
        RC_TRY(rc_head_add_bias(&student->head));
        RC_TRY(fill(be, student->head.bias, (size_t)classes, STREAM_BIAS, -2, 2));
    }
    return set_names(model, classes);
}

static rc_status write_into(const char *folder, const char *name, const void *data, size_t size)
{
    char path[RC_PATH_SIZE];
    RC_TRY(rc_path_in(folder, name, path));
    return rc_file_write_atomic(path, data, size);
}

static rc_status write_all(rc_backend *be, const rc_saved_model *model, int images, const char *folder)
{
    const rc_learner *l = &model->learner;
    size_t bytes = (size_t)images * (size_t)l->augment.h * (size_t)l->augment.w * (size_t)l->augment.c;
    size_t numbers = (size_t)images * (size_t)l->student.head.classes;
    uint8_t *pixels = rc_alloc_zeroed(NULL, bytes, 1);
    float *logits = rc_alloc_zeroed(NULL, numbers, sizeof *logits);
    rc_scorer *scorer = NULL;
    char path[RC_PATH_SIZE];
    rc_status status = pixels != NULL && logits != NULL ? rc_path_in(folder, "model.safetensors", path)
                                                        : RC_OUT_OF_MEMORY;
    for (size_t i = 0; status == RC_OK && i < bytes; i++)
        pixels[i] = (uint8_t)rc_rng_below((rc_rng){SEED, STREAM_PIXELS}, i, 256);
    if (status == RC_OK)
        status = rc_scorer_create(be, &l->student, 1, &l->augment, &scorer);
    if (status == RC_OK)
        status = rc_scorer_run(scorer, pixels, NULL, images, logits, NULL);
    if (status == RC_OK)
        status = rc_model_file_save(path, model, true);
    if (status == RC_OK)
        status = write_into(folder, "pixels", pixels, bytes);
    if (status == RC_OK)
        status = write_into(folder, "logits", logits, numbers * sizeof *logits);
    rc_scorer_destroy(scorer);
    rc_free(NULL, pixels);
    rc_free(NULL, logits);
    return status;
}

int main(int count, char **a)
{
    rc_backend *be;
    rc_saved_model model = {0};
    if (count != 7) {
        fprintf(stderr, "usage: exported NET SIZE CHANNELS CLASSES IMAGES FOLDER\n");
        return 2;
    }
    if (rc_backend_open("reference", 1, NULL, &be) != RC_OK)
        return failed();
    rc_status status = make(be, a, &model);
    if (status == RC_OK)
        status = write_all(be, &model, atoi(a[5]), a[6]);
    int code = status == RC_OK ? 0 : failed();
    rc_saved_model_destroy(&model);
    rc_backend_close(be);
    return code;
}
