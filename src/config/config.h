/* One declarative table of everything that can be set: name, type, where it is stored, what it means. Presets, YAML
 * files, `--set name=value`, `--print-config`, model files and the documentation all go through it; a name that is not
 * in it is an error that suggests the nearest one. */
#ifndef RC_CONFIG_CONFIG_H
#define RC_CONFIG_CONFIG_H

#include "base/json.h"
#include "base/log.h"
#include "cil/settings.h"
#include "cil/task_stream.h"

/* An experiment: the settings of the methods, and what they are run on. */
typedef struct rc_config {
    rc_settings settings;
    char profile[16];     /* "code" or "paper" */
    char data[1024];      /* path of the data set, or "procedural" */
    char format[32];      /* "" : recognised */
    int size, resize;     /* pixels; 0: the set's own */
    int channels;         /* 1, 3; 0: the set's own */
    bool exif;
    char class_order[2048]; /* "published", "numpy", "natural", "seed", or a list of classes */
    int order;            /* which published order, or the seed of a random one */
    int tasks, first_task; /* number of tasks, classes of the first (0: equal) */
    char task_sizes[256]; /* "6,2,2"; "" : by number */
    char mean[64], std[64]; /* "" : the set's own */
    int images_per_class; /* training images used of each class; 0: all */
    int test_batch;
} rc_config;

rc_config rc_config_default(void);

/* Sets one value from text. The message names the key, the value and what was expected, or the nearest key. */
rc_status rc_config_set(rc_config *config, const char *key, const char *value);
/* The same from "key=value". */
rc_status rc_config_set_pair(rc_config *config, const char *pair);
/* The value as text; RC_INVALID_ARGUMENT for an unknown key. */
rc_status rc_config_get(const rc_config *config, const char *key, char *text, size_t size);

/* A preset by name (see presets/), or a YAML file: our own keys, or the sections model, data, trainer of the published
 * CwD and R-DFCIL files. Keys of those that mean nothing here are listed in one note to the log. */
rc_status rc_config_load(rc_config *config, const char *preset_or_path, const rc_log *log);
rc_status rc_config_parse_yaml(rc_config *config, const char *name, const char *text, size_t size, const rc_log *log);
/* Name and one-line description of the presets; false when there are no more. */
bool rc_config_preset(int index, const char **name, const char **summary);

/* Bytes that the text of any setting fits into. */
enum { RC_CONFIG_VALUE = 2200 };

/* All values: as YAML that loads again, and as members of the JSON object that is open. except: of that name none is
 * written; NULL: all are. */
rc_status rc_config_print(const rc_config *config, void (*line)(void *user, const char *text), void *user);
void rc_config_put_json(const rc_config *config, const char *except, rc_json_writer *w);
rc_status rc_config_from_json(rc_config *config, const rc_json *json);

/* Ranges and combinations. */
rc_status rc_config_check(const rc_config *config);

/* The table itself, for --help and the documentation; false when there are no more. */
typedef struct rc_config_item {
    const char *name, *type, *help;
} rc_config_item;
bool rc_config_item_at(int index, rc_config_item *item);

/* mean and std of the configuration over those of the data; both (channels). */
rc_status rc_config_normalisation(const rc_config *config, int channels, float *mean, float *std);

/* Class order for that many classes; free with rc_free(NULL, ...). */
rc_status rc_config_class_order(const rc_config *config, int classes, int **order);

/* task_sizes, tasks and first_task as a split. */
rc_status rc_config_split(const rc_config *config, rc_task_split *split);

#endif
