#include "experiment/run_data.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"

/* Keeps the first `limit` images of every class. */
static rc_status limit_split(rc_split *split, int classes, size_t image, int limit)
{
    int count = 0, *taken = rc_alloc_zeroed(NULL, (size_t)classes, sizeof *taken);
    if (taken == NULL)
        return RC_OUT_OF_MEMORY;
    for (int i = 0; i < split->count; i++) {
        int32_t label = split->labels[i];
        if (taken[label] == limit)
            continue;
        taken[label]++;
        memmove(split->images + (size_t)count * image, split->images + (size_t)i * image, image);
        split->labels[count++] = label;
    }
    split->count = count;
    rc_free(NULL, taken);
    return RC_OK;
}

/* Puts the last `part` of every class's training images, rounded up, in the place of the test images. */
static rc_status hold_out(rc_dataset *data, double part)
{
    size_t image = (size_t)data->h * (size_t)data->w * (size_t)data->c;
    rc_split *train = &data->train, *test = &data->test;
    int *left = rc_alloc_zeroed(NULL, (size_t)data->classes, sizeof *left), kept = 0, held = 0;
    uint8_t *images = rc_alloc(NULL, (size_t)train->count * image);
    int32_t *labels = rc_alloc_zeroed(NULL, (size_t)train->count, sizeof *labels);
    if (left == NULL || images == NULL || labels == NULL) {
        rc_free(NULL, left);
        rc_free(NULL, images);
        rc_free(NULL, labels);
        return RC_OUT_OF_MEMORY;
    }
    for (int i = 0; i < train->count; i++)
        left[train->labels[i]]++;
    for (int k = 0; k < data->classes; k++)
        left[k] -= (int)ceil(part * left[k]);
    for (int i = 0; i < train->count; i++) {
        const uint8_t *pixels = train->images + (size_t)i * image;
        int32_t label = train->labels[i];
        if (left[label]-- > 0) {
            memmove(train->images + (size_t)kept * image, pixels, image);
            train->labels[kept++] = label;
        } else {
            memcpy(images + (size_t)held * image, pixels, image);
            labels[held++] = label;
        }
    }
    train->count = kept;
    rc_free(NULL, left);
    rc_free(NULL, test->images);
    rc_free(NULL, test->labels);
    *test = (rc_split){.count = held, .images = images, .labels = labels};
    return RC_OK;
}

/* How a configuration has images read. `watch` must stay. */
static rc_data_settings reading(const rc_config *c, rc_pool *pool, bool skip_broken, rc_watch *watch)
{
    return (rc_data_settings){.format = c->format,
                              .size = c->size,
                              .resize = c->resize,
                              .interpolation = rc_config_interpolation(c),
                              .channels = c->channels,
                              .ignore_exif = !c->exif,
                              .skip_broken = skip_broken,
                              .stream = strcmp(c->decode, "stream") == 0,
                              .test_part = 0.2,
                              .test_seed = c->settings.seed,
                              .procedural_seed = c->settings.seed,
                              .pool = pool,
                              .log = &watch->log,
                              .progress = rc_watch_reading,
                              .user = watch};
}

static rc_status read_data(const rc_config *c, rc_pool *pool, bool skip_broken, rc_watch watch, rc_dataset *data)
{
    rc_data_settings settings = reading(c, pool, skip_broken, &watch);
    RC_TRY(rc_dataset_open(c->data, &settings, data));
    rc_status status = rc_config_normalisation(c, data->c, data->mean, data->std);
    if (status == RC_OK && (data->train.count == 0 || data->test.count == 0))
        status = rc_fail(RC_INVALID_ARGUMENT, "%s has %d training and %d test images; a run needs both", c->data,
                         data->train.count, data->test.count);
    size_t image = (size_t)data->h * (size_t)data->w * (size_t)data->c;
    if (status == RC_OK && data->train.stream != NULL && (c->test_per_class > 0 || c->validation > 0))
        status = rc_fail(RC_INVALID_ARGUMENT, "the settings '%s' and 'decode: stream' do not go together",
                         c->validation > 0 ? "validation" : "test_per_class");
    if (status == RC_OK && data->pack != NULL && (c->test_per_class > 0 || c->validation > 0))
        status = rc_fail(RC_INVALID_ARGUMENT,
                         "%s is a pack, whose test images stay as they are: the setting '%s' is not for it; pack the "
                         "data in another way",
                         c->data, c->validation > 0 ? "validation" : "test_per_class");
    if (status == RC_OK && c->validation > 0) {
        status = hold_out(data, c->validation);
        size_t length = strlen(data->name);
        snprintf(data->name + length, sizeof data->name - length, "-validation");
    }
    if (status == RC_OK && c->test_per_class > 0) {
        status = limit_split(&data->test, data->classes, image, c->test_per_class);
        size_t length = strlen(data->name); /* accuracies on fewer images must not stand beside those of the set */
        snprintf(data->name + length, sizeof data->name - length, "-part");
    }
    if (status != RC_OK)
        rc_dataset_close(data);
    return status;
}

rc_status rc_run_data_open(const rc_config *config, int threads, bool skip_broken, const rc_watch *watch,
                           rc_dataset *data)
{
    if (config->data[0] == '\0')
        return rc_fail(RC_INVALID_ARGUMENT,
                       "no data: the setting 'data' says where the images are, 'procedural' makes some");
    rc_pool *pool;
    RC_TRY(rc_pool_create(threads, &pool));
    rc_status status = read_data(config, pool, skip_broken, *watch, data);
    rc_pool_destroy(pool);
    return status;
}

rc_status rc_run_data_pack(const rc_config *config, int threads, bool skip_broken, double test_part,
                           const rc_watch *watch, const char *out, rc_pack_result *result)
{
    rc_pool *pool;
    rc_watch own = *watch;
    RC_TRY(rc_pool_create(threads, &pool));
    rc_data_settings settings = reading(config, pool, skip_broken, &own);
    settings.test_part = test_part;
    settings.stream = false;
    rc_status status = rc_pack_write(config->data, &settings, out, result);
    rc_pool_destroy(pool);
    return status;
}
