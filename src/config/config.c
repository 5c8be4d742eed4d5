#include "config/config.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/ascii.h"
#include "base/memory.h"
#include "base/nearest.h"
#include "base/number.h"
#include "base/utf8.h"
#include "data/class_order.h"
#include "data/dataset.h"

#define ROW(...) RC_SETTING_ROW(rc_config, __VA_ARGS__)
static const rc_setting own[] = {RC_CONFIG_SETTINGS(ROW)};

enum { OWN = sizeof own / sizeof *own };

/* A row of either list, and where the structure of its list begins in rc_config. */
typedef struct item {
    const rc_setting *row; /* NULL: there is no such item */
    size_t base;
} item;

static item item_at(int index)
{
    if (index >= 0 && index < OWN)
        return (item){&own[index], 0};
    return (item){rc_settings_row(index - OWN), offsetof(rc_config, settings)};
}

rc_config rc_config_default(void)
{
    return (rc_config){.settings = rc_settings_default(), RC_CONFIG_SETTINGS(RC_SETTING_DEFAULT)};
}

/* ---- one value ----------------------------------------------------------------------------------------------- */

static item find_item(const char *name)
{
    item it;
    for (int i = 0; (it = item_at(i)).row != NULL; i++)
        if (strcmp(it.row->name, name) == 0)
            break;
    return it;
}

static const char *item_name(const void *unused, int index)
{
    (void)unused;
    const rc_setting *row = item_at(index).row;
    return row != NULL ? row->name : NULL;
}

/* What other tools call a setting, where the nearest name would be another one, or none. */
static const char *own_word(const char *key)
{
    static const char *const words[][2] = {
        {"lr", "learning_rate"},
        {"bs", "batch"},
        {"batch_size", "batch"},
        {"wd", "weight_decay"},
        {"l2", "weight_decay"},
        {"max_iter", "epochs"},
        {"random_state", "seed"},
        {"model", "net"},
        {"arch", "net"},
        {"backbone", "net"},
        {"img_size", "size"},
        {"image_size", "size"},
        {"imgsz", "size"},
        {"gamma", "decay"},
        {"lr_decay", "decay"},
        {"scheduler", "cosine"},
        {"memory_size", "buffer_size"},
        {"label_smoothing", "smoothing"},
        {"hflip", "flip"},
    };
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strcmp(words[i][0], key) == 0)
            return words[i][1];
    return NULL;
}

static rc_status unknown(const char *key)
{
    const char *word = own_word(key), *nearest = word != NULL ? word : rc_nearest(key, item_name, NULL);
    return nearest != NULL ? rc_fail(RC_INVALID_ARGUMENT, "there is no setting '%s'; did you mean '%s'?", key, nearest)
                           : rc_fail(RC_INVALID_ARGUMENT, "there is no setting '%s'; docs/settings.md lists them", key);
}

static rc_status wrong(const rc_setting *row, const char *value)
{
    const char *article = row->kind == RC_SETTING_SWITCH ? "" : "a ";
    return rc_fail(RC_INVALID_ARGUMENT, "%s is '%s', expected %s%s", row->name, value, article, rc_setting_type(row));
}

static rc_status parse_long(const rc_setting *row, const char *value, long long *out)
{
    char *end;
    errno = 0;
    *out = strtoll(value, &end, 10);
    return end == value || *end != '\0' || errno != 0 ? wrong(row, value) : RC_OK;
}

static rc_status set_text(const rc_setting *row, char *field, const char *value)
{
    if (strlen(value) >= row->size)
        return rc_fail(RC_INVALID_ARGUMENT, "%s has %zu characters, at most %zu fit", row->name, strlen(value),
                       row->size - 1);
    if (row->choices != NULL)
        RC_TRY(rc_setting_check_choice(row, value));
    snprintf(field, row->size, "%s", value);
    return RC_OK;
}

static rc_status set_integer(const rc_setting *row, int *field, const char *value)
{
    long long number;
    RC_TRY(parse_long(row, value, &number));
    if (number < -INT_MAX || number > INT_MAX)
        return wrong(row, value);
    *field = (int)number;
    return RC_OK;
}

static rc_status set_seed(const rc_setting *row, uint64_t *field, const char *value)
{
    long long number;
    RC_TRY(parse_long(row, value, &number));
    if (number < 0)
        return wrong(row, value);
    *field = (uint64_t)number;
    return RC_OK;
}

static rc_status set_number(const rc_setting *row, double *field, const char *value)
{
    char *end;
    double number = rc_number_read(value, &end);
    if (end == value || *end != '\0' || !isfinite(number))
        return wrong(row, value);
    *field = number;
    return RC_OK;
}

/* Capitals are no mistake: Python says True, and files of YAML that it writes may. */
static bool is_word(const char *value, const char *word)
{
    size_t length = strlen(word);
    return strlen(value) == length && rc_ascii_same(value, word, length);
}

static rc_status set_switch(const rc_setting *row, bool *field, const char *value)
{
    static const char *const yes[] = {"true", "yes", "on", "1"}, *const no[] = {"false", "no", "off", "0"};
    for (int i = 0; i < 4; i++) {
        if (is_word(value, yes[i]) || is_word(value, no[i])) {
            *field = is_word(value, yes[i]);
            return RC_OK;
        }
    }
    return wrong(row, value);
}

/* ---- lists such as "80, 120" or "[80, 120]" ------------------------------------------------------------------- */

typedef struct list_text {
    const char *from, *to; /* what is left of it, without brackets */
} list_text;

static const char between_numbers[] = " ,\t\n\v\f\r";

/* false: there is one bracket alone. */
static bool begin_list(const char *text, list_text *list)
{
    list->from = text;
    list->to = text + strlen(text);
    while (isspace((unsigned char)*list->from))
        list->from++;
    while (list->to > list->from && isspace((unsigned char)list->to[-1]))
        list->to--;
    bool opened = list->from < list->to && *list->from == '[', closed = list->from < list->to && list->to[-1] == ']';
    list->from += opened;
    list->to -= closed;
    return opened == closed;
}

/* Reads the next number. *more becomes false after the last. false: something else stands there. */
static bool next_in_list(list_text *list, long *number, bool *more)
{
    list->from += strspn(list->from, between_numbers);
    *more = list->from < list->to;
    if (!*more)
        return true;
    char *end;
    errno = 0;
    *number = strtol(list->from, &end, 10);
    bool whole = isdigit((unsigned char)*list->from) && errno == 0 &&
                 (end == list->to || strchr(between_numbers, *end) != NULL);
    list->from = end;
    return whole;
}

static rc_status parse_list(const char *name, const char *value, int *out, int room, int *count)
{
    list_text list;
    long number;
    bool more = true, good = begin_list(value, &list);
    *count = 0;
    while (good && (good = next_in_list(&list, &number, &more)) && more) {
        if (*count == room)
            return rc_fail(RC_INVALID_ARGUMENT, "%s has more than %d entries", name, room);
        good = number <= INT_MAX;
        if (good)
            out[(*count)++] = (int)number;
    }
    return good ? RC_OK : rc_fail(RC_INVALID_ARGUMENT, "%s is '%s', expected a list of whole numbers", name, value);
}

static rc_status set_item(rc_config *config, item it, const char *value)
{
    const rc_setting *row = it.row;
    char *structure = (char *)config + it.base;
    void *field = structure + row->offset;
    switch (row->kind) {
    case RC_SETTING_TEXT: return set_text(row, field, value);
    case RC_SETTING_WHOLE: return set_integer(row, field, value);
    case RC_SETTING_SEED: return set_seed(row, field, value);
    case RC_SETTING_NUMBER: return set_number(row, field, value);
    case RC_SETTING_SWITCH: return set_switch(row, field, value);
    case RC_SETTING_LIST:
        return parse_list(row->name, value, field, (int)(row->size / sizeof(int)),
                          (void *)(structure + row->count_offset));
    }
    return RC_INTERNAL;
}

/* "0.485, 0.456, 0.406" for mean or std of a set that is known by its name; other values as they are. */
static const char *known_numbers(const char *key, const char *value, char *text, size_t size)
{
    enum { CHANNELS = 3, DIGITS = 4 };
    float mean[CHANNELS], std[CHANNELS];
    bool is_mean = strcmp(key, "mean") == 0;
    if ((!is_mean && strcmp(key, "std") != 0) || !rc_published_normalisation(value, mean, std))
        return value;
    for (size_t c = 0, used = 0; c < CHANNELS && used < size; c++) {
        char number[32];
        rc_number_write((double)(is_mean ? mean : std)[c], DIGITS, number, sizeof number);
        used += (size_t)snprintf(text + used, size - used, "%s%s", c > 0 ? ", " : "", number);
    }
    return text;
}

rc_status rc_config_set(rc_config *config, const char *key, const char *value)
{
    char numbers[128];
    item it = find_item(key);
    if (it.row == NULL)
        return unknown(key);
    RC_TRY(set_item(config, it, known_numbers(key, value, numbers, sizeof numbers)));
    if (strcmp(key, "profile") == 0)
        (strcmp(value, "paper") == 0 ? rc_settings_paper_profile : rc_settings_code_profile)(&config->settings);
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

static void get_list(const int *entry, int entries, char *text, size_t size)
{
    size_t used = (size_t)snprintf(text, size, "[");
    for (int i = 0; i < entries && used < size; i++)
        used += (size_t)snprintf(text + used, size - used, "%s%d", i ? ", " : "", entry[i]);
    if (used < size)
        snprintf(text + used, size - used, "]");
}

/* With as few digits as read back as the same number, but 9 at least. */
static void get_number(double value, char *text, size_t size)
{
    enum { USUAL = 9, MOST = 17 };
    char *end;
    int digits = USUAL;
    do
        rc_number_write(value, digits, text, size);
    while (rc_number_read(text, &end) != value && digits++ < MOST);
}

static void get_item(const rc_config *config, item it, char *text, size_t size)
{
    const char *structure = (const char *)config + it.base;
    const void *field = structure + it.row->offset, *count = structure + it.row->count_offset;
    switch (it.row->kind) {
    case RC_SETTING_TEXT: snprintf(text, size, "%s", (const char *)field); break;
    case RC_SETTING_WHOLE: snprintf(text, size, "%d", *(const int *)field); break;
    case RC_SETTING_SEED: snprintf(text, size, "%llu", (unsigned long long)*(const uint64_t *)field); break;
    case RC_SETTING_NUMBER: get_number(*(const double *)field, text, size); break;
    case RC_SETTING_SWITCH: snprintf(text, size, "%s", *(const bool *)field ? "true" : "false"); break;
    case RC_SETTING_LIST: get_list(field, *(const int *)count, text, size); break;
    }
}

rc_status rc_config_get(const rc_config *config, const char *key, char *text, size_t size)
{
    item it = find_item(key);
    if (it.row == NULL)
        return unknown(key);
    get_item(config, it, text, size);
    return RC_OK;
}

/* ---- all values ---------------------------------------------------------------------------------------------- */

/* A text as YAML: in single quotes, its own doubled, or in double quotes if something in it must be escaped. YAML
 * cannot hold what is not UTF-8: that becomes an empty text and a comment, so that the rest can be read. */
static void quote(const char *value, char *text, size_t size)
{
    enum { MOST = 12 }; /* an escape, a quote and the end */
    size_t used = 1, length;
    bool escaped = false;
    unsigned code;
    for (const char *p = value; *p != '\0'; p += length) {
        length = rc_utf8_decode(p, strlen(p), &code);
        if (length == 0) {
            used = (size_t)snprintf(text, size, "'' # not UTF-8: ");
            rc_utf8_escape(value, text + used, size - used);
            return;
        }
        escaped = escaped || rc_utf8_is_hidden(code);
    }
    text[0] = escaped ? '"' : '\'';
    for (const char *p = value; *p != '\0' && used + MOST < size; p += length) {
        length = rc_utf8_decode(p, strlen(p), &code);
        if (rc_utf8_is_hidden(code)) {
            used += (size_t)snprintf(text + used, size - used, "\\U%08x", code);
            continue;
        }
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
    item it;
    for (int i = 0; (it = item_at(i)).row != NULL; i++) {
        get_item(config, it, value, sizeof value);
        bool is_text = it.row->kind == RC_SETTING_TEXT;
        if (is_text)
            quote(value, quoted, sizeof quoted);
        snprintf(text, sizeof text, "%s: %s", it.row->name, is_text ? quoted : value);
        line(user, text);
    }
    return RC_OK;
}

void rc_config_put_json(const rc_config *config, const char *except, rc_json_writer *w)
{
    char value[RC_CONFIG_VALUE];
    item it;
    for (int i = 0; (it = item_at(i)).row != NULL; i++) {
        if (except != NULL && strcmp(it.row->name, except) == 0)
            continue;
        get_item(config, it, value, sizeof value);
        rc_json_put_text(w, it.row->name, value);
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
        item it = find_item(key);
        if (it.row == NULL)
            return rc_fail(RC_FORMAT, "the configuration has a setting '%s' that this version does not know", key);
        RC_TRY(set_item(config, it, rc_json_string(value)));
    }
    return RC_OK;
}

bool rc_config_item_at(int index, rc_config_item *out)
{
    const rc_setting *row = item_at(index).row;
    if (row == NULL)
        return false;
    *out = (rc_config_item){.name = row->name,
                            .type = rc_setting_type(row),
                            .help = row->help,
                            .low = row->low,
                            .high = row->high,
                            .choices = row->choices,
                            .default_value = row->default_value,
                            .readers = row->readers};
    rc_setting_range(row, out->range, sizeof out->range);
    return true;
}

/* ---- meaning ------------------------------------------------------------------------------------------------- */

static const double LOWEST_MEAN = 0, LOWEST_STD = 1e-6;

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
               ? RC_OK
               : rc_fail(RC_INVALID_ARGUMENT, "%s is '%s', expected %d numbers", name, text, channels);
}

rc_interpolation rc_config_interpolation(const rc_config *config)
{
    return strcmp(config->interpolation, "bicubic") == 0 ? RC_BICUBIC : RC_BILINEAR;
}

rc_views rc_config_views(const rc_config *config)
{
    return (rc_views){.mirror = config->test_mirror, .shift = config->test_shift};
}

rc_status rc_config_normalisation(const rc_config *config, int channels, float *mean, float *std)
{
    RC_TRY(parse_channels("mean", config->mean, channels, LOWEST_MEAN, mean));
    return parse_channels("std", config->std, channels, LOWEST_STD, std);
}

rc_status rc_config_split(const rc_config *config, rc_task_split *split)
{
    *split = (rc_task_split){.tasks = config->tasks, .first = config->first_task};
    RC_TRY(parse_list("task_sizes", config->task_sizes, split->size, RC_MAX_TASKS, &split->sizes));
    for (int i = 0; i < split->sizes; i++)
        if (split->size[i] < 1)
            return rc_fail(RC_INVALID_ARGUMENT, "task_sizes is '%s', expected 1 class or more for every task",
                           config->task_sizes);
    return RC_OK;
}

/* A list of classes. *count: how many it has, of which the first `room` are in order. */
static rc_status parse_order(const char *text, int room, int *order, int *count)
{
    list_text list;
    long class;
    bool more = true, good = begin_list(text, &list);
    for (*count = 0; good && (good = next_in_list(&list, &class, &more)) && more; ++*count) {
        good = class < RC_DATA_MAX_CLASSES;
        if (good && *count < room)
            order[*count] = (int)class;
    }
    return good ? RC_OK
                : rc_fail(RC_INVALID_ARGUMENT,
                          "class_order is '%s', expected published, numpy, natural, seed or a list of numbers from 0 "
                          "to %d",
                          text, RC_DATA_MAX_CLASSES - 1);
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

bool rc_config_has_orders(const rc_config *config)
{
    const char *kind = config->class_order;
    return strcmp(kind, "published") == 0 || strcmp(kind, "numpy") == 0 || strcmp(kind, "seed") == 0;
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

/* The numbers of mean or std, before the data has said how many channels there are. */
static rc_status check_channels(const char *name, const char *text, double low)
{
    float grey[1], colour[3];
    if (parse_channels(name, text, 1, low, grey) == RC_OK || parse_channels(name, text, 3, low, colour) == RC_OK)
        return RC_OK;
    return rc_fail(RC_INVALID_ARGUMENT, "%s is '%s', expected 1 or 3 numbers from %g to 1", name, text, low);
}

static rc_status check_mean(const rc_config *config)
{
    return check_channels("mean", config->mean, LOWEST_MEAN);
}

static rc_status check_std(const rc_config *config)
{
    return check_channels("std", config->std, LOWEST_STD);
}

static rc_status check_format(const rc_config *config)
{
    return rc_dataset_check_format(config->format);
}

static rc_status check_sizes(const rc_config *config)
{
    rc_task_split split;
    return rc_config_split(config, &split);
}

/* Texts that mean something. */
static const struct {
    size_t offset;
    rc_status (*check)(const rc_config *config);
} meanings[] = {{offsetof(rc_config, format), check_format},
                {offsetof(rc_config, mean), check_mean},
                {offsetof(rc_config, std), check_std},
                {offsetof(rc_config, class_order), check_order},
                {offsetof(rc_config, task_sizes), check_sizes}};

static rc_status check_item(const rc_config *config, item it)
{
    RC_TRY(rc_setting_check(it.row, (const char *)config + it.base));
    for (size_t i = 0; i < sizeof meanings / sizeof *meanings; i++)
        if (meanings[i].offset == it.base + it.row->offset)
            return meanings[i].check(config);
    return RC_OK;
}

rc_status rc_config_check_one(const rc_config *config, const char *key)
{
    item it = find_item(key);
    return it.row != NULL ? check_item(config, it) : unknown(key);
}

rc_status rc_config_check_each(const rc_config *config)
{
    item it;
    for (int i = 0; (it = item_at(i)).row != NULL; i++)
        RC_TRY(check_item(config, it));
    return RC_OK;
}

rc_status rc_config_check(const rc_config *config)
{
    RC_TRY(rc_settings_check(&config->settings));
    RC_TRY(rc_config_check_each(config));
    if (config->resize > 0 && config->resize < config->size)
        return rc_fail(RC_INVALID_ARGUMENT, "resize is %d, expected 0, or size (%d) and more", config->resize,
                       config->size);
    return RC_OK;
}
