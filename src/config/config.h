/* Everything that can be set: the rows of RC_CONFIG_SETTINGS, then those of RC_SETTINGS (cil/settings.h). Presets,
 * YAML files, `--set name=value`, `--print-config`, model files and the documentation all go through them; a name that
 * has no row is an error that suggests the nearest one. */
#ifndef RC_CONFIG_CONFIG_H
#define RC_CONFIG_CONFIG_H

#include <limits.h>

#include "base/file.h"
#include "base/json.h"
#include "base/log.h"
#include "cil/settings.h"
#include "cil/task_stream.h"
#include "cil/views.h"
#include "data/dataset.h"

/* What the methods are run on, one row each (see cil/setting.h). */
/* clang-format off */
#define RC_CONFIG_SETTINGS(X) \
    /* kind  name                   default      takes                          read by, help */ \
    X(TEXT,   data,                  "",          CHARACTERS(RC_PATH_SIZE - 1),  "experiments", \
      "folder, archive or list of images; 'procedural' makes them") \
    X(TEXT,   format,                "",          CHARACTERS(31),                "data", \
      "format of the data; empty: recognised by its files") \
    X(WHOLE,  size,                  0,           RANGE(0, RC_DATA_MAX_SIDE),    "data", \
      "height and width of the images in pixels; 0: as they are") \
    X(WHOLE,  resize,                0,           RANGE(0, RC_DATA_MAX_RESIZE),  "data", \
      "shorter side before the centre crop; 0: size") \
    X(TEXT,   interpolation,         "bilinear",  ONE_OF("bilinear|bicubic"),    "data", \
      "filter that resizes pictures, as Pillow has it") \
    X(TEXT,   decode,                "memory",    ONE_OF("memory|stream"),       "experiments", \
      "memory: pictures are decoded once; stream: whenever they are read, for training through random windows") \
    X(WHOLE,  channels,              0,           ONE_OF("0|1|3"),               "data", \
      "1 or 3; 0: as they are") \
    X(SWITCH, exif,                  true,        EITHER,                        "data", \
      "turn photographs as their EXIF orientation says") \
    X(TEXT,   mean,                  "",          CHARACTERS(63),                "data", \
      "mean of the pixels, 0 to 1, one number a channel, or a set's name (cifar100); empty: of the data set") \
    X(TEXT,   std,                   "",          CHARACTERS(63),                "data", \
      "standard deviation of the pixels, one number a channel; empty: of the data set") \
    X(TEXT,   class_order,           "natural",   CHARACTERS(2047),              "experiments", \
      "published, numpy (ImageNet-100), natural, seed, or a list of classes") \
    X(WHOLE,  order,                 0,           RANGE(0, INT_MAX),             "experiments", \
      "which published order (0, 1, 2; numpy: 1993), or the seed of a random one") \
    X(WHOLE,  tasks,                 5,           RANGE(1, RC_MAX_TASKS),        "experiments", \
      "number of tasks") \
    X(WHOLE,  first_task,            0,           RANGE(0, RC_DATA_MAX_CLASSES), "experiments", \
      "classes of the first task; 0: as many as the others") \
    X(TEXT,   task_sizes,            "",          CHARACTERS(255),               "experiments", \
      "classes of every task, as in 6,2,2; empty: by number of tasks") \
    X(TEXT,   profile,               "code",      ONE_OF("code|paper"),          "everything", \
      "code (as the published numbers were made) or paper (as printed)") \
    X(WHOLE,  images_per_class,      0,           RANGE(0, 100000000),           "experiments", \
      "training images used of each class; 0: all") \
    X(WHOLE,  test_per_class,        0,           RANGE(0, 100000000),           "experiments", \
      "test images used of each class, the first ones; 0: all") \
    X(NUMBER, validation,            0,           RANGE(0, 0.9),                 "experiments", \
      "part of the training images of each class, its last ones, that is scored in place of test images; 0: none") \
    X(WHOLE,  test_batch,            250,         RANGE(1, 65536),               "evaluation", \
      "images scored at a time") \
    X(SWITCH, test_mirror,           false,       EITHER,                        "evaluation", \
      "test images are scored by the mean of what the model says to them and to their mirror images") \
    X(WHOLE,  test_shift,            0,           RANGE(0, 64),                  "evaluation", \
      "and to both moved by so many pixels up, down, left and right; 0: they are not moved")
/* clang-format on */

/* An experiment: the settings of the methods, and what they are run on. */
typedef struct rc_config {
    rc_settings settings;
    RC_CONFIG_SETTINGS(RC_SETTING_FIELD)
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

/* Bytes that the text of any setting fits into: none is longer than a path. */
enum { RC_CONFIG_VALUE = RC_PATH_SIZE };

/* All values: as YAML that loads again (a text that is not UTF-8 as an empty one), and as members of the JSON object
 * that is open. except: of that name none is written; NULL: all are. */
rc_status rc_config_print(const rc_config *config, void (*line)(void *user, const char *text), void *user);
void rc_config_put_json(const rc_config *config, const char *except, rc_json_writer *w);
rc_status rc_config_from_json(rc_config *config, const rc_json *json);

/* Is the value of this setting one that it takes, whatever the others are? The same for every setting. */
rc_status rc_config_check_one(const rc_config *config, const char *key);
rc_status rc_config_check_each(const rc_config *config);
/* The same, and do they go together? */
rc_status rc_config_check(const rc_config *config);

/* The table itself, for --help, completion, the documentation and the public list; false when there are no more. */
typedef struct rc_config_item {
    const char *name, *type, *help;
    const char *default_value; /* as rc_config_get writes it */
    const char *readers;       /* the part that has a use for it: "training", "inversion", "lode", ... */
    char range[96];            /* what it takes: "1 to 4096", "code or paper", "at most 31 characters" */
    double low, high;          /* the same as numbers; of texts: characters; both 0 where there are choices */
    const char *choices;       /* "code|paper": nothing else is taken; NULL: no such list */
} rc_config_item;
bool rc_config_item_at(int index, rc_config_item *item);

rc_interpolation rc_config_interpolation(const rc_config *config);
rc_views rc_config_views(const rc_config *config); /* of an image that is scored */

/* mean and std of the configuration over those of the data; both (channels). */
rc_status rc_config_normalisation(const rc_config *config, int channels, float *mean, float *std);

bool rc_config_has_orders(const rc_config *config); /* is its class order another one for every `order`? */
/* Class order for that many classes; free with rc_free(NULL, ...). */
rc_status rc_config_class_order(const rc_config *config, int classes, int **order);

/* task_sizes, tasks and first_task as a split. */
rc_status rc_config_split(const rc_config *config, rc_task_split *split);

#endif
