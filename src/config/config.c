#include "config/config.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/nearest.h"
#include "base/number.h"
#include "base/utf8.h"
#include "data/class_order.h"
#include "data/dataset.h"

typedef enum type { TEXT, INTEGER, SEED, NUMBER, SWITCH, MILESTONES } type;

typedef struct item {
    const char *name;
    type type;
    size_t offset, size;
    const char *help;
} item;

#define FIELD(kind, name, help) {#name, kind, offsetof(rc_config, name), sizeof(((rc_config *)0)->name), help}
#define SETTING(kind, name, help) \
    {#name, kind, offsetof(rc_config, settings.name), sizeof(((rc_config *)0)->settings.name), help}

static const item items[] = {
    FIELD(TEXT, data, "folder, archive or list of images; 'procedural' makes them"),
    FIELD(TEXT, format, "format of the data; empty: recognised by looking"),
    FIELD(INTEGER, size, "height and width of the images in pixels; 0: as they are"),
    FIELD(INTEGER, resize, "shorter side before the centre crop; 0: size"),
    FIELD(INTEGER, channels, "1 or 3; 0: as they are"),
    FIELD(SWITCH, exif, "turn photographs as their EXIF orientation says"),
    FIELD(TEXT, mean, "mean of the pixels, 0 to 1, one number a channel; empty: of the data set"),
    FIELD(TEXT, std, "standard deviation of the pixels, likewise"),
    FIELD(TEXT, class_order, "published, numpy (ImageNet-100), natural, seed, or a list of classes"),
    FIELD(INTEGER, order, "which published order (0, 1, 2; numpy: 1993), or the seed of a random one"),
    FIELD(INTEGER, tasks, "number of tasks"),
    FIELD(INTEGER, first_task, "classes of the first task; 0: as many as the others"),
    FIELD(TEXT, task_sizes, "classes of every task, as in 6,2,2; empty: by number of tasks"),
    FIELD(TEXT, profile, "code (as published numbers were made) or paper (as printed)"),
    FIELD(INTEGER, images_per_class, "training images used of each class; 0: all"),
    FIELD(INTEGER, test_batch, "images scored at a time"),
    SETTING(SEED, seed, "of every random number"),
    SETTING(TEXT, net, "backbone: resnet32, resnet18, resnet-small, ..."),
    SETTING(INTEGER, net_width, "channels of the first stage of resnet-small"),
    SETTING(INTEGER, net_blocks, "blocks a stage of resnet-small"),
    SETTING(TEXT, generator, "generator or generator-small"),
    SETTING(INTEGER, generator_width, "channels of generator-small"),
    SETTING(INTEGER, noise, "inputs of generator-small"),
    SETTING(INTEGER, batch, "real samples a step; as many dreams"),
    SETTING(INTEGER, crop_pad, "random crops after zero padding by so many pixels"),
    SETTING(SWITCH, flip, "random horizontal flips"),
    SETTING(INTEGER, epochs, "epochs a task, refinement included"),
    SETTING(INTEGER, refine_epochs, "the last of them refine the head"),
    SETTING(INTEGER, min_steps, "at least so many steps of training and of refinement, however small the task"),
    SETTING(NUMBER, learning_rate, "of main training"),
    SETTING(MILESTONES, milestone, "epochs at which the learning rate is multiplied by decay"),
    SETTING(NUMBER, decay, "of the learning rate at a milestone"),
    SETTING(NUMBER, refine_rate, "learning rate of refinement"),
    SETTING(NUMBER, momentum, "of SGD"),
    SETTING(NUMBER, weight_decay, "of SGD"),
    SETTING(NUMBER, lambda_ce, "weight of cross entropy"),
    SETTING(NUMBER, lambda_hkd, "weight of hard distillation"),
    SETTING(NUMBER, lambda_rkd, "weight of relational distillation"),
    SETTING(NUMBER, lambda_war, "weight of the alignment of norms (CwD)"),
    SETTING(NUMBER, kd_temperature, "of the distillation of softened logits (LwF, DeepInversion, SS-IL)"),
    SETTING(NUMBER, kd_weight, "weight of that distillation"),
    SETTING(NUMBER, feature_weight, "weight of the distillation of features (ABD)"),
    SETTING(INTEGER, buffer_size, "images that ER and LODE keep, at most"),
    SETTING(NUMBER, lode_rho, "weight of new against old in LODE, over the number of old tasks"),
    SETTING(INTEGER, vae_width, "channels of the smallest map of DGR's autoencoder; the others go with it"),
    SETTING(INTEGER, inversion_steps, "steps of inversion a task"),
    SETTING(NUMBER, inversion_rate, "learning rate of Adam in inversion"),
    SETTING(NUMBER, temperature, "of the content loss"),
    SETTING(NUMBER, weight_content, "weight of the content loss"),
    SETTING(NUMBER, weight_diversity, "weight of the diversity loss"),
    SETTING(NUMBER, weight_bn, "weight of the BN statistics loss"),
    SETTING(NUMBER, weight_prior, "weight of the smoothing prior"),
    SETTING(NUMBER, lambda_dce, "weight of the consistency of dreams (CwD)"),
    SETTING(NUMBER, dce_momentum, "moving average of the dreams' statistics"),
    SETTING(NUMBER, diversity_epsilon, "inside the logarithm of the diversity loss"),
    SETTING(INTEGER, pixel_batches, "batches of images that DeepInversion on pixels makes a task"),
    SETTING(INTEGER, pixel_steps, "steps for each of them"),
    SETTING(INTEGER, pixel_jitter, "pixels that the images are moved by at most before every step"),
    SETTING(NUMBER, pixel_rate, "learning rate of Adam for pixels"),
    SETTING(NUMBER, pixel_bn, "weight of the BN statistics for pixels"),
    SETTING(NUMBER, pixel_variation, "weight of the total variation of pixels"),
    SETTING(NUMBER, pixel_norm, "weight of the norm of pixels"),
    SETTING(SWITCH, paper_dce, "DCE as printed: sum of norms of batch statistics"),
    SETTING(SWITCH, paper_bn_sum, "BN loss summed over layers, as printed"),
    SETTING(SWITCH, paper_war_mean, "WAR divided by the number of classes, as printed"),
    SETTING(SWITCH, paper_constant_scale, "loss weights not scaled by class counts, as printed"),
    SETTING(SWITCH, paper_no_refinement, "no head refinement, as printed"),
};

enum { ITEMS = sizeof items / sizeof *items };

static const char *const type_name[] = {"text", "whole number", "whole number", "number", "true or false",
                                        "list of whole numbers"};

rc_config rc_config_default(void)
{
    rc_config config = {.settings = rc_settings_default(), .exif = true, .tasks = 5, .test_batch = 250};
    snprintf(config.profile, sizeof config.profile, "code");
    snprintf(config.class_order, sizeof config.class_order, "natural");
    return config;
}

/* ---- one value ----------------------------------------------------------------------------------------------- */

static const item *find_item(const char *name)
{
    for (int i = 0; i < ITEMS; i++)
        if (strcmp(items[i].name, name) == 0)
            return &items[i];
    return NULL;
}

static const char *item_name(const void *unused, int index)
{
    (void)unused;
    return index < ITEMS ? items[index].name : NULL;
}

static rc_status unknown(const char *key)
{
    const char *nearest = rc_nearest(key, item_name, NULL);
    return nearest != NULL
               ? rc_fail(RC_INVALID_ARGUMENT, "there is no setting '%s'; did you mean '%s'?", key, nearest)
               : rc_fail(RC_INVALID_ARGUMENT, "there is no setting '%s'; --print-config lists them", key);
}

static rc_status wrong(const item *it, const char *value)
{
    return rc_fail(RC_INVALID_ARGUMENT, "%s is '%s', expected a %s", it->name, value, type_name[it->type]);
}

static rc_status parse_long(const item *it, const char *value, long long *out)
{
    char *end;
    errno = 0;
    *out = strtoll(value, &end, 10);
    return end == value || *end != '\0' || errno != 0 ? wrong(it, value) : RC_OK;
}

static rc_status set_integer(const item *it, void *field, const char *value)
{
    long long number;
    RC_TRY(parse_long(it, value, &number));
    if (number < -2147483647 || number > 2147483647)
        return wrong(it, value);
    *(int *)field = (int)number;
    return RC_OK;
}

static rc_status set_number(const item *it, void *field, const char *value)
{
    char *end;
    double number = rc_number_read(value, &end);
    if (end == value || *end != '\0' || !isfinite(number))
        return wrong(it, value);
    *(double *)field = number;
    return RC_OK;
}

static rc_status set_switch(const item *it, void *field, const char *value)
{
    static const char *const yes[] = {"true", "yes", "on", "1"}, *const no[] = {"false", "no", "off", "0"};
    for (int i = 0; i < 4; i++) {
        if (strcmp(value, yes[i]) == 0 || strcmp(value, no[i]) == 0) {
            *(bool *)field = strcmp(value, yes[i]) == 0;
            return RC_OK;
        }
    }
    return wrong(it, value);
}

/* A list such as "80, 120" or "[80, 120]" into at most `room` numbers. */
static rc_status parse_list(const item *it, const char *value, int *out, int room, int *count)
{
    *count = 0;
    const char *p = value;
    while (*p != '\0') {
        while (isspace((unsigned char)*p) || *p == ',' || *p == '[' || *p == ']')
            p++;
        if (*p == '\0')
            break;
        char *end;
        errno = 0;
        long number = strtol(p, &end, 10);
        if (end == p || errno != 0 || number < 0 || number > 2147483647)
            return rc_fail(RC_INVALID_ARGUMENT, "%s is '%s', expected a %s", it->name, value, type_name[MILESTONES]);
        if (*count == room)
            return rc_fail(RC_INVALID_ARGUMENT, "%s has more than %d entries", it->name, room);
        out[(*count)++] = (int)number;
        p = end;
    }
    return RC_OK;
}

static rc_status set_item(rc_config *config, const item *it, const char *value)
{
    void *field = (char *)config + it->offset;
    long long number;
    switch (it->type) {
    case TEXT:
        if (strlen(value) >= it->size)
            return rc_fail(RC_INVALID_ARGUMENT, "%s has %zu characters, at most %zu fit", it->name, strlen(value),
                           it->size - 1);
        snprintf(field, it->size, "%s", value);
        return RC_OK;
    case INTEGER: return set_integer(it, field, value);
    case SEED:
        RC_TRY(parse_long(it, value, &number));
        if (number < 0)
            return wrong(it, value);
        *(uint64_t *)field = (uint64_t)number;
        return RC_OK;
    case NUMBER: return set_number(it, field, value);
    case SWITCH: return set_switch(it, field, value);
    case MILESTONES:
        return parse_list(it, value, config->settings.milestone, RC_MAX_MILESTONES, &config->settings.milestones);
    }
    return RC_INTERNAL;
}

rc_status rc_config_set(rc_config *config, const char *key, const char *value)
{
    const item *it = find_item(key);
    if (it == NULL)
        return unknown(key);
    bool is_profile = strcmp(key, "profile") == 0, paper = strcmp(value, "paper") == 0;
    if (is_profile && !paper && strcmp(value, "code") != 0)
        return rc_fail(RC_INVALID_ARGUMENT, "profile is '%s', expected code or paper", value);
    RC_TRY(set_item(config, it, value));
    if (is_profile)
        (paper ? rc_settings_paper_profile : rc_settings_code_profile)(&config->settings);
    return RC_OK;
}

rc_status rc_config_set_pair(rc_config *config, const char *pair)
{
    char key[64];
    const char *equals = strchr(pair, '=');
    if (equals == NULL || equals == pair || (size_t)(equals - pair) >= sizeof key)
        return rc_fail(RC_INVALID_ARGUMENT, "'%s' sets nothing, expected key=value", pair);
    snprintf(key, sizeof key, "%.*s", (int)(equals - pair), pair);
    return rc_config_set(config, key, equals + 1);
}

static void get_item(const rc_config *config, const item *it, char *text, size_t size)
{
    const void *field = (const char *)config + it->offset;
    switch (it->type) {
    case TEXT: snprintf(text, size, "%s", (const char *)field); break;
    case INTEGER: snprintf(text, size, "%d", *(const int *)field); break;
    case SEED: snprintf(text, size, "%llu", (unsigned long long)*(const uint64_t *)field); break;
    case NUMBER: rc_number_write(*(const double *)field, 9, text, size); break;
    case SWITCH: snprintf(text, size, "%s", *(const bool *)field ? "true" : "false"); break;
    case MILESTONES: {
        size_t used = (size_t)snprintf(text, size, "[");
        for (int i = 0; i < config->settings.milestones && used < size; i++)
            used += (size_t)snprintf(text + used, size - used, "%s%d", i ? ", " : "", config->settings.milestone[i]);
        if (used < size)
            snprintf(text + used, size - used, "]");
        break;
    }
    }
}

rc_status rc_config_get(const rc_config *config, const char *key, char *text, size_t size)
{
    const item *it = find_item(key);
    if (it == NULL)
        return unknown(key);
    get_item(config, it, text, size);
    return RC_OK;
}

/* ---- all values ---------------------------------------------------------------------------------------------- */


/* A text as YAML: in single quotes, its own doubled, or in double quotes if something in it must be escaped. */
static void quote(const char *value, char *text, size_t size)
{
    enum { MOST = 12 }; /* an escape, a quote and the end */
    size_t used = 1, length;
    bool escaped = false;
    unsigned code;
    for (const char *p = value; *p != '\0'; p += length > 0 ? length : 1) {
        length = rc_utf8_decode(p, strlen(p), &code);
        escaped = escaped || (length > 0 && rc_utf8_is_hidden(code));
    }
    text[0] = escaped ? '"' : '\'';
    for (const char *p = value; *p != '\0' && used + MOST < size; p += length) {
        length = rc_utf8_decode(p, strlen(p), &code);
        if (length > 0 && rc_utf8_is_hidden(code)) {
            used += (size_t)snprintf(text + used, size - used, "\\U%08x", code);
            continue;
        }
        length = length > 0 ? length : 1;
        if (*p == text[0] || (escaped && *p == '\\'))
            text[used++] = escaped ? '\\' : '\'';
        memcpy(text + used, p, length);
        used += length;
    }
    text[used++] = text[0];
    text[used] = '\0';
}

rc_status rc_config_print(const rc_config *config, void (*line)(void *user, const char *text), void *user)
{
    /* An escape takes ten bytes in place of one. */
    char value[RC_CONFIG_VALUE], quoted[10 * RC_CONFIG_VALUE + 16], text[sizeof quoted + 64];
    for (int i = 0; i < ITEMS; i++) {
        get_item(config, &items[i], value, sizeof value);
        bool is_text = items[i].type == TEXT;
        if (is_text)
            quote(value, quoted, sizeof quoted);
        snprintf(text, sizeof text, "%s: %s", items[i].name, is_text ? quoted : value);
        line(user, text);
    }
    return RC_OK;
}

void rc_config_put_json(const rc_config *config, const char *except, rc_json_writer *w)
{
    char value[RC_CONFIG_VALUE];
    for (int i = 0; i < ITEMS; i++) {
        if (except != NULL && strcmp(items[i].name, except) == 0)
            continue;
        get_item(config, &items[i], value, sizeof value);
        rc_json_put_text(w, items[i].name, value);
    }
}

rc_status rc_config_from_json(rc_config *config, const rc_json *json)
{
    if (!rc_json_is(json, RC_JSON_OBJECT))
        return rc_fail(RC_FORMAT, "the configuration is not an object");
    for (const rc_json *value = NULL; (value = rc_json_next(json, value)) != NULL;) {
        const char *key = rc_json_key(value);
        if (!rc_json_is(value, RC_JSON_STRING))
            return rc_fail(RC_FORMAT, "the configuration's %s is not a text", key);
        const item *it = find_item(key);
        if (it == NULL)
            return rc_fail(RC_FORMAT, "the configuration has a setting '%s' that this version does not know", key);
        RC_TRY(set_item(config, it, rc_json_string(value)));
    }
    return RC_OK;
}

bool rc_config_item_at(int index, rc_config_item *out)
{
    if (index < 0 || index >= ITEMS)
        return false;
    *out = (rc_config_item){items[index].name, type_name[items[index].type], items[index].help};
    return true;
}

/* ---- meaning ------------------------------------------------------------------------------------------------- */

/* "0.5, 0.4, 0.3": one number a channel; nothing is written for an empty text. */
static rc_status parse_channels(const char *name, const char *text, int channels, double low, float *out)
{
    const char *p = text;
    for (int c = 0; text[0] != '\0' && c < channels; c++) {
        char *end;
        double value = rc_number_read(p, &end);
        if (end == p || !(value >= low && value <= 1))
            return rc_fail(RC_INVALID_ARGUMENT, "%s is '%s', expected %d numbers from %g to 1", name, text, channels,
                           low);
        out[c] = (float)value;
        p = end + strspn(end, " ,");
    }
    return text[0] == '\0' || *p == '\0'
               ? RC_OK : rc_fail(RC_INVALID_ARGUMENT, "%s is '%s', expected %d numbers", name, text, channels);
}

rc_status rc_config_normalisation(const rc_config *config, int channels, float *mean, float *std)
{
    RC_TRY(parse_channels("mean", config->mean, channels, 0, mean));
    return parse_channels("std", config->std, channels, 1e-6, std);
}

rc_status rc_config_split(const rc_config *config, rc_task_split *split)
{
    *split = (rc_task_split){.tasks = config->tasks, .first = config->first_task};
    return parse_list(find_item("task_sizes"), config->task_sizes, split->size, RC_MAX_TASKS, &split->sizes);
}

/* A list of classes. *count: how many it has, of which the first `room` are in order. */
static rc_status parse_order(const char *text, int room, int *order, int *count)
{
    *count = 0;
    for (const char *p = text + strspn(text, " ,[]"); *p != '\0'; p += strspn(p, " ,[]")) {
        char *end;
        errno = 0;
        long class = strtol(p, &end, 10);
        if (end == p || errno != 0 || class < 0 || class >= RC_DATA_MAX_CLASSES)
            return rc_fail(RC_INVALID_ARGUMENT,
                           "class_order is '%s', expected published, numpy, natural, seed or a list of numbers from 0 "
                           "to %d",
                           text, RC_DATA_MAX_CLASSES - 1);
        if (*count < room)
            order[*count] = (int)class;
        ++*count;
        p = end;
    }
    return RC_OK;
}

static const char *const orders[] = {"published", "numpy", "natural", "seed"};

/* What can be seen of it before the data is. */
static rc_status check_order(const rc_config *config)
{
    int count;
    for (size_t i = 0; i < sizeof orders / sizeof *orders; i++)
        if (strcmp(orders[i], config->class_order) == 0)
            return RC_OK;
    return parse_order(config->class_order, 0, NULL, &count);
}

rc_status rc_config_class_order(const rc_config *config, int classes, int **order)
{
    *order = rc_alloc_zeroed(NULL, (size_t)classes, sizeof **order);
    uint32_t *scratch = rc_alloc_zeroed(NULL, (size_t)classes, sizeof *scratch);
    rc_status status = *order != NULL && scratch != NULL ? RC_OK : RC_OUT_OF_MEMORY;
    const char *kind = config->class_order;
    int count = classes;
    if (status == RC_OK && strcmp(kind, "published") == 0)
        rc_class_order_python((uint32_t)config->order, classes, *order);
    else if (status == RC_OK && strcmp(kind, "numpy") == 0)
        rc_class_order_numpy((uint32_t)config->order, classes, *order);
    else if (status == RC_OK && strcmp(kind, "seed") == 0)
        rc_class_order_seeded((uint64_t)config->order, classes, *order, scratch);
    else if (status == RC_OK && strcmp(kind, "natural") == 0)
        for (int i = 0; i < classes; i++)
            (*order)[i] = i;
    else if (status == RC_OK)
        status = parse_order(kind, classes, *order, &count);
    if (status == RC_OK && count != classes)
        status = rc_fail(RC_INVALID_ARGUMENT, "class_order lists %d classes, the data has %d", count, classes);
    rc_free(NULL, scratch);
    if (status != RC_OK) {
        rc_free(NULL, *order);
        *order = NULL;
    }
    return status;
}

rc_status rc_config_check(const rc_config *config)
{
    RC_TRY(rc_settings_check(&config->settings));
    const struct {
        const char *name;
        int value, low, high;
    } ranges[] = {
        {"size", config->size, 0, RC_DATA_MAX_SIDE},
        {"resize", config->resize, 0, RC_DATA_MAX_RESIZE},
        {"order", config->order, 0, INT_MAX},
        {"tasks", config->tasks, 1, RC_MAX_TASKS},
        {"first_task", config->first_task, 0, RC_DATA_MAX_CLASSES},
        {"images_per_class", config->images_per_class, 0, 100000000},
        {"test_batch", config->test_batch, 1, 65536},
    };
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++)
        if (ranges[i].value < ranges[i].low || ranges[i].value > ranges[i].high)
            return rc_fail(RC_INVALID_ARGUMENT, "%s is %d, expected %d to %d", ranges[i].name, ranges[i].value,
                           ranges[i].low, ranges[i].high);
    if (config->resize > 0 && config->resize < config->size)
        return rc_fail(RC_INVALID_ARGUMENT, "resize is %d, expected 0, or size (%d) and more", config->resize,
                       config->size);
    if (config->channels != 0 && config->channels != 1 && config->channels != 3)
        return rc_fail(RC_INVALID_ARGUMENT, "channels is %d, expected 0, 1 or 3", config->channels);
    RC_TRY(check_order(config));
    rc_task_split split;
    return rc_config_split(config, &split);
}
