/* A data set: images as bytes, labels, names. Decoded once; nothing else is known of it above. */
#ifndef RC_DATA_DATASET_H
#define RC_DATA_DATASET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/log.h"
#include "base/pool.h"
#include "base/status.h"

typedef struct rc_split {
    int count;
    uint8_t *images; /* (count, h, w, c) */
    int32_t *labels; /* (count), native classes */
} rc_split;

typedef struct rc_dataset {
    char format[32]; /* "cifar100-binary", "folder", ... */
    int h, w, c;
    int classes;
    char **class_name; /* (classes) */
    rc_split train, test;
    float mean[4], std[4]; /* for normalisation: published where the set is known, else measured on train */
    int broken;            /* images that could not be read and were skipped */
} rc_dataset;

typedef struct rc_data_settings {
    const char *format;    /* NULL: recognised by looking */
    int size;              /* height and width wanted; 0: the set's own (folders: must be given or chosen by caller) */
    int channels;          /* 1 or 3; 0: the set's own */
    int resize;            /* shorter side before the centre crop; 0: size */
    bool ignore_exif;      /* published presets do not turn images */
    bool skip_broken;      /* a broken image is counted and skipped; otherwise it is an error */
    double test_part;      /* folders without a test split: this part of every class, chosen by test_seed; 0: none */
    uint64_t test_seed;
    int procedural_classes, procedural_per_class, procedural_test_per_class; /* "procedural" only */
    uint64_t procedural_seed;
    rc_pool *pool; /* NULL: one thread */
    const rc_log *log;
    bool (*progress)(void *user, const char *what, int done, int total); /* false: stop (RC_CANCELLED) */
    void *user;
} rc_data_settings;

/* path: a folder, a list file or an archive; "procedural" (or "procedural:CLASSES") makes images. On failure nothing
 * is held, and the message says what was looked for where. */
rc_status rc_dataset_open(const char *path, const rc_data_settings *settings, rc_dataset *dataset);
void rc_dataset_close(rc_dataset *dataset);

#endif
