/* Reading configurations: a YAML file or a built-in preset. Of YAML we take maps, lists of scalars and scalars. A file
 * whose keys stand in sections (model, data, trainer) is one of the published CwD or R-DFCIL files. */
#include <stdio.h>
#include <string.h>

#include <yaml.h>

#include "base/file.h"
#include "base/memory.h"
#include "config/config.h"
#include "config/presets.h"

enum { KEY_SIZE = 128, VALUE_SIZE = 4096, DEPTH = 8, MOST_KEYS = 1024 };
static const size_t largest_file = 1 << 20;

/* ---- the published files ------------------------------------------------------------------------------------- */

static const struct {
    const char *theirs, *ours;
} published[] = {
    {"seed_everything", "seed"},
    {"trainer.max_epochs", "epochs"},
    {"model.base_lr", "learning_rate"},
    {"model.momentum", "momentum"},
    {"model.weight_decay", "weight_decay"},
    {"model.lr_factor", "decay"},
    {"model.milestones", "milestone"},
    {"model.finetuning_epochs", "refine_epochs"},
    {"model.finetuning_lr", "refine_rate"},
    {"model.lambda_ce", "lambda_ce"},
    {"model.lambda_hkd", "lambda_hkd"},
    {"model.lambda_rkd", "lambda_rkd"},
    {"model.lambda_norm", "lambda_war"},
    {"model.num_inv_iters", "inversion_steps"},
    {"model.inv_lr", "inversion_rate"},
    {"model.inv_tau", "temperature"},
    {"model.inv_alpha_ce", "weight_content"},
    {"model.inv_alpha_cb", "weight_diversity"},
    {"model.inv_alpha_pr", "weight_prior"},
    {"model.inv_alpha_rf", "weight_bn"},
    {"model.inv_alpha_gem", "lambda_dce"},
    {"model.bn_mmt", "dce_momentum"},
    {"data.batch_size", "batch"},
    {"data.num_tasks", "tasks"},
    {"data.class_order", "class_order"},
    {"data.init_task_splits", "first_task"},
};

/* What the published program derives from the name of the data set. */
static const struct {
    const char *dataset, *net, *size, *resize, *normalised_as;
} published_data[] = {
    {"cifar100", "resnet32", "32", "0", "cifar100"},
    {"tiny-imagenet200", "resnet32", "64", "64", "tiny-imagenet"},
    {"imagenet100", "resnet18", "224", "256", "imagenet100"},
};

typedef struct reader {
    rc_config *config;
    const char *name;      /* of the file, for messages */
    char root[VALUE_SIZE]; /* data.root and data.dataset come as two keys */
    char dataset[KEY_SIZE];
    char ignored[3072];
    int ignored_count;
    char (*key)[KEY_SIZE]; /* (MOST_KEYS): those that were read, as we call them, which come once */
    int keys;
} reader;

/* What the file says itself stays. */
static rc_status derive(reader *r, const char *key, const char *value)
{
    for (int i = 0; i < r->keys; i++)
        if (strcmp(r->key[i], key) == 0)
            return RC_OK;
    return rc_config_set(r->config, key, value);
}

static rc_status set_published_data(reader *r)
{
    if (r->dataset[0] == '\0')
        return RC_OK;
    char path[VALUE_SIZE + KEY_SIZE + 2];
    snprintf(path, sizeof path, "%s/%s", r->root[0] != '\0' ? r->root : ".", r->dataset);
    RC_TRY(rc_config_set(r->config, "data", path));
    RC_TRY(derive(r, "exif", "false"));
    for (size_t i = 0; i < sizeof published_data / sizeof *published_data; i++) {
        if (strcmp(published_data[i].dataset, r->dataset) != 0)
            continue;
        RC_TRY(derive(r, "net", published_data[i].net));
        RC_TRY(derive(r, "size", published_data[i].size));
        RC_TRY(derive(r, "resize", published_data[i].resize));
        RC_TRY(derive(r, "mean", published_data[i].normalised_as));
        return derive(r, "std", published_data[i].normalised_as);
    }
    return RC_OK;
}

static void ignore(reader *r, const char *key)
{
    size_t used = strlen(r->ignored);
    snprintf(r->ignored + used, sizeof r->ignored - used, "%s%s", r->ignored_count++ ? ", " : "", key);
}

/* Two values for one setting: which is meant? */
static rc_status note_key(reader *r, const char *key)
{
    const char *ours = key;
    for (size_t i = 0; i < sizeof published / sizeof *published; i++)
        if (strcmp(published[i].theirs, key) == 0)
            ours = published[i].ours;
    for (int i = 0; i < r->keys; i++)
        if (strcmp(r->key[i], ours) == 0)
            return rc_fail(RC_FORMAT, "'%s' is set a second time%s%s", key, ours != key ? ", as " : "",
                           ours != key ? ours : "");
    if (r->keys == MOST_KEYS)
        return rc_fail(RC_FORMAT, "more than %d keys", MOST_KEYS);
    snprintf(r->key[r->keys++], KEY_SIZE, "%s", ours);
    return RC_OK;
}

/* One scalar or list, with its section before a dot if it has one. */
static rc_status set_value(reader *r, const char *key, const char *value)
{
    if (strcmp(key, "data.root") == 0) {
        snprintf(r->root, sizeof r->root, "%s", value);
        return RC_OK;
    }
    if (strcmp(key, "data.dataset") == 0) {
        if (strlen(value) >= sizeof r->dataset)
            return rc_fail(RC_FORMAT, "data.dataset has %zu characters, at most %zu fit", strlen(value),
                           sizeof r->dataset - 1);
        snprintf(r->dataset, sizeof r->dataset, "%s", value);
        return RC_OK;
    }
    for (size_t i = 0; i < sizeof published / sizeof *published; i++)
        if (strcmp(published[i].theirs, key) == 0)
            return rc_config_set(r->config, published[i].ours, value);
    if (strchr(key, '.') != NULL) {
        ignore(r, key);
        return RC_OK;
    }
    return rc_config_set(r->config, key, value);
}

/* ---- YAML ---------------------------------------------------------------------------------------------------- */

static rc_status yaml_problem(const reader *r, const yaml_parser_t *parser)
{
    if (parser->error == YAML_MEMORY_ERROR)
        return rc_fail(RC_OUT_OF_MEMORY, "no memory to read %s", r->name);
    return rc_fail(RC_FORMAT, "%s, line %zu, column %zu: %s", r->name, parser->problem_mark.line + 1,
                   parser->problem_mark.column + 1, parser->problem ? parser->problem : "not YAML");
}

static rc_status unexpected(const reader *r, const yaml_event_t *event, const char *what)
{
    return rc_fail(RC_FORMAT, "%s, line %zu, column %zu: %s", r->name, event->start_mark.line + 1,
                   event->start_mark.column + 1, what);
}

/* The next event. Anchors and tags are refused: to ignore them would change what the file means. */
static rc_status next_event(const reader *r, yaml_parser_t *parser, yaml_event_t *event)
{
    if (!yaml_parser_parse(parser, event))
        return yaml_problem(r, parser);
    const yaml_char_t *anchor = NULL, *tag = NULL;
    if (event->type == YAML_SCALAR_EVENT) {
        anchor = event->data.scalar.anchor;
        tag = event->data.scalar.tag;
    } else if (event->type == YAML_SEQUENCE_START_EVENT) {
        anchor = event->data.sequence_start.anchor;
        tag = event->data.sequence_start.tag;
    } else if (event->type == YAML_MAPPING_START_EVENT) {
        anchor = event->data.mapping_start.anchor;
        tag = event->data.mapping_start.tag;
    }
    if (anchor == NULL && tag == NULL)
        return RC_OK;
    rc_status status = unexpected(r, event,
                                  anchor != NULL ? "anchors (&name) are not read" : "tags (!name) are not read");
    yaml_event_delete(event);
    return status;
}

static rc_status take(reader *r, const yaml_event_t *event, const char *key, const char *value)
{
    rc_status status = set_value(r, key, value);
    return status == RC_OK ? RC_OK
                           : rc_fail(status, "%s, line %zu, column %zu: %s", r->name, event->start_mark.line + 1,
                                     event->start_mark.column + 1, rc_message());
}

/* Copies a scalar; a zero byte or too much text is refused. */
static rc_status copy_scalar(const reader *r, const yaml_event_t *event, char *text, size_t size)
{
    const char *value = (const char *)event->data.scalar.value;
    size_t length = event->data.scalar.length;
    if (length >= size || memchr(value, 0, length) != NULL)
        return unexpected(r, event, "a key or value is too long or holds a zero byte");
    memcpy(text, value, length);
    text[length] = '\0';
    return RC_OK;
}

/* Items of a list, joined by commas, up to its end. */
static rc_status read_list(reader *r, yaml_parser_t *parser, char *text, size_t size)
{
    text[0] = '\0';
    for (;;) {
        yaml_event_t event;
        RC_TRY(next_event(r, parser, &event));
        char item[KEY_SIZE];
        rc_status status = RC_OK;
        yaml_event_type_t kind = event.type;
        if (kind == YAML_SCALAR_EVENT)
            status = copy_scalar(r, &event, item, sizeof item);
        else if (kind != YAML_SEQUENCE_END_EVENT)
            status = unexpected(r, &event, "a list may hold plain values only");
        yaml_event_delete(&event);
        if (status != RC_OK || kind == YAML_SEQUENCE_END_EVENT)
            return status;
        size_t used = strlen(text);
        if (used + strlen(item) + 3 > size)
            return rc_fail(RC_FORMAT, "%s: a list is too long", r->name);
        snprintf(text + used, size - used, "%s%s", used ? ", " : "", item);
    }
}

/* section.name, or name alone without a section. */
static bool join(char *key, size_t size, const char *section, const char *name)
{
    int length = snprintf(key, size, "%s%s%s", section, section[0] ? "." : "", name);
    return length >= 0 && (size_t)length < size;
}

/* The map that has just begun; keys get `section` and a dot before them. */
static rc_status read_map(reader *r, yaml_parser_t *parser, const char *section, int depth)
{
    char key[KEY_SIZE] = "", value[VALUE_SIZE];
    bool have_key = false;
    for (;;) {
        yaml_event_t event;
        RC_TRY(next_event(r, parser, &event));
        yaml_event_type_t kind = event.type;
        rc_status status = RC_OK;
        char name[KEY_SIZE];
        if (kind == YAML_SCALAR_EVENT && !have_key) {
            status = copy_scalar(r, &event, name, sizeof name);
            if (status == RC_OK && !join(key, sizeof key, section, name))
                status = unexpected(r, &event, "a key is too long");
            if (status == RC_OK && note_key(r, key) != RC_OK)
                status = unexpected(r, &event, rc_message());
        } else if (kind == YAML_SCALAR_EVENT) {
            status = copy_scalar(r, &event, value, sizeof value);
            if (status == RC_OK)
                status = take(r, &event, key, value);
        } else if (kind == YAML_SEQUENCE_START_EVENT && have_key) {
            status = read_list(r, parser, value, sizeof value);
            if (status == RC_OK)
                status = take(r, &event, key, value);
        } else if (kind == YAML_MAPPING_START_EVENT && have_key && depth < DEPTH) {
            status = read_map(r, parser, key, depth + 1);
        } else if (kind != YAML_MAPPING_END_EVENT || have_key) {
            status = unexpected(r, &event, "expected 'key: value'; aliases, nested lists and deep maps are not read");
        }
        yaml_event_delete(&event);
        if (status != RC_OK || kind == YAML_MAPPING_END_EVENT)
            return status;
        have_key = !have_key;
    }
}

/* stream start, document start, one map. An empty file is fine: it sets nothing. */
static rc_status read_document(reader *r, yaml_parser_t *parser)
{
    for (int documents = 0;;) {
        yaml_event_t event;
        RC_TRY(next_event(r, parser, &event));
        yaml_event_type_t kind = event.type;
        rc_status status = RC_OK;
        if (kind == YAML_MAPPING_START_EVENT)
            status = read_map(r, parser, "", 0);
        else if (kind == YAML_DOCUMENT_START_EVENT && documents++ > 0)
            status = unexpected(r, &event, "a second document begins, expected one");
        else if (kind != YAML_STREAM_START_EVENT && kind != YAML_DOCUMENT_START_EVENT &&
                 kind != YAML_DOCUMENT_END_EVENT && kind != YAML_STREAM_END_EVENT)
            status = unexpected(r, &event, "expected a map of settings");
        yaml_event_delete(&event);
        if (status != RC_OK || kind == YAML_STREAM_END_EVENT)
            return status;
    }
}

rc_status rc_config_parse_yaml(rc_config *config, const char *name, const char *text, size_t size, const rc_log *log)
{
    yaml_parser_t parser;
    if (!yaml_parser_initialize(&parser))
        return rc_fail(RC_OUT_OF_MEMORY, "no memory to read %s", name);
    yaml_parser_set_input_string(&parser, (const unsigned char *)text, size);
    rc_config changed = *config;
    reader r = {.config = &changed, .name = name, .key = rc_alloc_zeroed(NULL, MOST_KEYS, sizeof *r.key)};
    rc_status status = r.key != NULL ? read_document(&r, &parser) : RC_OUT_OF_MEMORY;
    yaml_parser_delete(&parser);
    if (status == RC_OK) {
        status = set_published_data(&r);
        if (status != RC_OK)
            rc_fail(status, "%s: %s", name, rc_message());
    }
    rc_free(NULL, r.key);
    RC_TRY(status);
    if (r.ignored_count > 0)
        rc_log_write(log, RC_LOG_INFO, "%s: %d keys mean nothing here and are ignored: %s", name, r.ignored_count,
                     r.ignored);
    *config = changed;
    return RC_OK;
}

/* ---- presets ------------------------------------------------------------------------------------------------- */

rc_status rc_config_load(rc_config *config, const char *preset_or_path, const rc_log *log)
{
    const char *name, *summary;
    for (int i = 0; rc_config_preset(i, &name, &summary); i++)
        if (strcmp(name, preset_or_path) == 0)
            return rc_config_parse_yaml(config, name, rc_presets[i].yaml, strlen(rc_presets[i].yaml), log);
    bool file = strchr(preset_or_path, '/') != NULL || strchr(preset_or_path, '.') != NULL;
    if (!file) {
        char names[512] = "";
        for (int i = 0; rc_config_preset(i, &name, &summary); i++) {
            size_t used = strlen(names);
            snprintf(names + used, sizeof names - used, "%s%s", i ? ", " : "", name);
        }
        return rc_fail(RC_INVALID_ARGUMENT, "there is no preset '%s'; there are %s, and files in YAML", preset_or_path,
                       names);
    }
    char *text;
    size_t size;
    RC_TRY(rc_file_read(preset_or_path, largest_file, &text, &size));
    rc_status status = rc_config_parse_yaml(config, preset_or_path, text, size, log);
    rc_free(NULL, text);
    return status;
}

bool rc_config_preset(int index, const char **name, const char **summary)
{
    int known = 0;
    while (known < index && rc_presets[known].name != NULL)
        known++;
    if (index != known || rc_presets[known].name == NULL)
        return false;
    *name = rc_presets[index].name;
    *summary = rc_presets[index].summary;
    return true;
}
