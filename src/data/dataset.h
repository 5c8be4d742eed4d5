/* A data set: images as bytes, labels, names. Decoded once; the layers above know nothing of formats.
 *
 * Formats, and what they are recognised by (the layout of each is at the top of its file):
 *
 *     cifar10, cifar100   the binary and the python layout, unpacked or as the .tar.gz that is shipped
 *     idx                 MNIST, Fashion-MNIST and the like, gzipped or plain
 *     tiny-imagenet       the tree with wnids.txt and val/val_annotations.txt
 *     list                a file of lines "relative/path label", or a folder with train*.txt and val*.txt or test*.txt
 *     folder              train/CLASS/IMAGE and val/CLASS/IMAGE (or test/), or CLASS/IMAGE, split by test_part
 *     pack                one file, made of any of these (pack.h), which is mapped and never loaded whole
 *     procedural          made here, from a seed
 */
#ifndef RC_DATA_DATASET_H
#define RC_DATA_DATASET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/log.h"
#include "base/pool.h"
#include "base/status.h"
#include "data/image.h"

#define RC_DATA_MAX_CHANNELS 3
/* The longest side of an image that can be learnt from, or that a model takes. */
#define RC_DATA_MAX_SIDE 1024
/* The most classes of a data set or model: a matrix of all of them takes 3.6 GB. */
#define RC_DATA_MAX_CLASSES 30000
/* The longest shorter side to which pictures are scaled before the middle is cut out (`resize`). */
#define RC_DATA_MAX_RESIZE 4096

/* Images that are decoded at once. */
enum { RC_DATA_PIECE = 256 };

struct rc_pack;
struct rc_image_files;
struct rc_image_stream;

typedef struct rc_split {
    int count;
    uint8_t *images; /* (count, h, w, c) */
    int32_t *labels; /* (count), native classes */
    /* NULL: the images lie in memory. Otherwise they lie in a pack, from that record on: they must not be written, and
     * whoever reads one calls rc_split_check first. */
    const struct rc_pack *pack;
    int first_record;
    /* NULL, or what decodes the images when they are to be read (stream.h); then `images` is NULL. */
    struct rc_image_stream *stream;
} rc_split;

/* What the images of a set are like before they are brought to one size. */
typedef struct rc_data_seen {
    int images; /* to train on; to test with, if there are no others */
    int h, w;   /* as they are; of images in files those of the one with the median shorter side, among some */
    bool same;  /* all are squares of that size */
} rc_data_seen;

typedef struct rc_dataset {
    char format[32]; /* as above */
    char name[32];   /* name of the well-known set, if it is one: "cifar100", "fashion-mnist", ...; else the format */
    int h, w, c;
    int classes;
    char **class_name;    /* (classes), UTF-8 */
    rc_split train, test; /* either may be empty, not both */
    /* For normalisation, of pixels / 255: the published constants of a known set, else measured on train (on test if
     * there is no train). */
    float mean[4], std[4];
    int broken;           /* images that could not be read and were skipped */
    int left_out;         /* files, folders and links that were not read, for reasons that the log was told */
    int not_pictures;     /* files beside the pictures that nobody would take for one; not among left_out */
    rc_data_seen seen;    /* of images in files cleared if size and channels were given: nobody looked */
    struct rc_pack *pack; /* that holds the images; NULL: they lie in memory */
} rc_dataset;

/* Where the images of picture files go, in pieces of at most RC_DATA_PIECE, for a caller who does not want
 * all of them in memory. */
typedef struct rc_data_sink {
    /* Shape and classes of the set are known, and which files will be read. *done: so many of them, in the order of
     * train and then of test, are not wanted any more. */
    rc_status (*begin)(void *user, const rc_dataset *dataset, const struct rc_image_files *train,
                       const struct rc_image_files *test, int *done);
    /* The next files have become `count` images, fewer than files where some are left out. */
    rc_status (*take)(void *user, int files, const uint8_t *images, const int32_t *labels, int count);
    void *user;
} rc_data_sink;

typedef struct rc_data_settings {
    const char *format; /* NULL or "": recognised by looking */
    /* Height and width wanted. 0: the set's own, or `resize` if that is less. For images in files 0 means: squares of
     * one size of at most 64 pixels stay as they are; otherwise 32 if the median shorter side is below 64, else
     * 64. */
    int size;
    int (*choose)(const rc_data_seen *seen); /* chooses the size instead, if it is 0; NULL: as above */
    int channels; /* 1 or 3; 0: the set's own (images in files: 1 if all images of a sample are grey, else 3) */
    int resize;   /* shorter side before the centre crop; 0: size */
    rc_interpolation interpolation;
    bool ignore_exif; /* published presets do not turn images */
    bool skip_broken; /* a broken image is counted and skipped; otherwise it is an error */
    /* For folders and lists without a test split: the part of every class that is split off, rounded to the nearest
     * number of images and chosen by test_seed. One image stays for training unless the part is 1. 0: no test
     * images. */
    double test_part;
    uint64_t test_seed;
    /* Folders and lists: at most so many images of each class, of the training and of the test set, evenly spread over
     * those that there are, for a caller that only wants a look. 0: all. */
    int per_class;
    int procedural_classes, procedural_per_class, procedural_test_per_class; /* 0: 20, 500, 100 */
    uint64_t procedural_seed;
    /* NULL: all images go into memory. Otherwise those of picture files go there; the set that comes back has no images
     * then, and its mean and std are zero. */
    const rc_data_sink *sink;
    /* Picture files are decoded once, to know them, and then whenever they are read (stream.h). Other formats are
     * refused. */
    bool stream;
    bool told;     /* the log knows already what is left out: the same data is read once more */
    rc_pool *pool; /* NULL: one thread */
    const rc_log *log;
    /* false: stop (RC_CANCELLED). May be NULL. */
    bool (*progress)(void *user, const char *what, int done, int total);
    void *user;
} rc_data_settings;

/* path: a folder, a list file or an archive; "procedural" (or "procedural:CLASSES") makes images. It may also be a
 * folder that holds one well-known set in a folder of its usual name. On failure nothing is held, and the message
 * says what was looked for where. settings may be NULL: all zero. */
rc_status rc_dataset_open(const char *path, const rc_data_settings *settings, rc_dataset *dataset);
/* Is there a reader of that name? NULL and "" are fine. */
rc_status rc_dataset_check_format(const char *format);
/* What the published experiments normalise the colour images of a set with; false: none of that name is published. */
bool rc_published_normalisation(const char *name, float mean[3], float std[3]);
/* Sets mean and std to those of its images. */
void rc_dataset_measure(rc_dataset *dataset);
/* The same for images that come in pieces: how often every value was there. Start with a cleared one. */
typedef struct rc_pixel_counts {
    uint64_t count[RC_DATA_MAX_CHANNELS][256];
    uint64_t pixels;
} rc_pixel_counts;
void rc_pixels_count(rc_pixel_counts *counts, const uint8_t *images, size_t pixels, int channels);
void rc_pixels_measure(const rc_pixel_counts *counts, int channels, float *mean, float *std);
/* Can images of that shape be learnt from? Only squares of 1 to RC_DATA_MAX_SIDE pixels, grey (1 channel) or coloured
 * (3): the code that reads, resizes, trains on and draws images knows no others. Every function that takes a shape
 * from outside must call this. */
rc_status rc_check_image_shape(int h, int w, int c);
/* Is it a valid name: printable UTF-8, without invisible characters and marks of direction? */
rc_status rc_check_class_name(int label, const char *name, size_t length);
/* Are there 1 to RC_DATA_MAX_CLASSES names, all different? Classes are found by their names. */
rc_status rc_check_class_names(const char *const *names, int classes);
/* Are these images of a split, count of them, what they were when they were packed? index NULL: the first ones.
 * Images in memory always are. Not for those of a stream. */
rc_status rc_split_check(const rc_split *split, const int32_t *index, int count);
/* The checksum of an image that lies in a pack or comes from a stream: the CRC-32 of its bytes. */
uint32_t rc_split_checksum(const rc_split *split, int image);
/* Frees what the data set holds and clears it; a cleared one is fine. */
void rc_dataset_close(rc_dataset *dataset);

#endif
