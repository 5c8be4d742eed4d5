/* A model as other programs shall have it: what every format takes of it, on the host.
 *
 * One file a format: onnx.c, torch.c, c_header.c. They read this and no backend. */
#ifndef RC_EXPORT_EXPORTED_H
#define RC_EXPORT_EXPORTED_H

#include "base/json.h"
#include "model/model_file.h"

typedef struct rc_exported {
    const rc_net *net;  /* ends in average pooling: (d) features */
    float *param;       /* (net->params) */
    float *running;     /* (net->running) */
    float *head;        /* (classes, d), divided by the temperature of the model's probabilities */
    float *head_bias;   /* (classes), likewise; NULL: it has none */
    double temperature; /* that they were divided by */
    int d, classes;
    int tasks;
    const int *task_end;           /* (tasks): rows of task t end there */
    const char *const *class_name; /* (classes), from strangers */
    float mean[4], std[4];         /* (net->c): value = (byte / 255 - mean) / std */
    int resize;                    /* the shorter side of a picture before the middle is cut out */
    const char *interpolation;     /* how it is resized: bilinear or bicubic, as Pillow has them */
    bool exif;                     /* before that it is turned as its EXIF orientation says */
} rc_exported;

/* The model must outlive it. RC_UNSUPPORTED: the net has a layer that no format has. RC_NUMERIC: a normalisation that
 * gives no finite numbers. On failure nothing is held. */
rc_status rc_exported_take(const rc_saved_model *model, rc_exported *exported);
void rc_exported_drop(rc_exported *exported);

/* Every format can hold the net: asked by rc_exported_take. */
rc_status rc_exported_check(const rc_exported *exported);

/* A normalisation in eval mode is value * scale + shift, as the reference's bn_eval has it; of a layer without one:
 * 1 and 0. */
typedef struct rc_affine {
    double scale, shift;
} rc_affine;
rc_affine rc_exported_affine(const rc_exported *exported, const rc_layer *layer, int channel);

/* What a program needs to know to use the model, key by key; docs/export.md lists them. All are texts, because ONNX and
 * safetensors keep nothing else: lists are JSON inside of one. */
typedef void rc_export_put(void *to, const char *key, const char *text);
rc_status rc_exported_describe(const rc_exported *exported, rc_export_put *put, void *to);

/* Writes the file, whole or not at all. replace: a file of that name; otherwise it stays, and the status is RC_IO. */
rc_status rc_export_onnx(const rc_exported *exported, const char *path, bool replace);
rc_status rc_export_torch(const rc_exported *exported, const char *path, bool replace);
rc_status rc_export_c_header(const rc_exported *exported, const char *path, bool replace);

#endif
