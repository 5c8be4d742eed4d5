#include "data/dataset.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "base/stop.h"
#include "data/image.h"
#include "data/image_kind.h"
#include "data/pack.h"
#include "data/reader.h"
#include "data/stream.h"

/* In the order in which they are tried: the first that recognises a path reads it. Any folder of folders looks like
 * class folders, so that one comes last. */
static const rc_reader *const readers[] = {
    &rc_reader_procedural, &rc_reader_cifar100, &rc_reader_cifar10, &rc_reader_idx,    &rc_reader_tiny_imagenet,
    &rc_reader_pack,       &rc_reader_list,     &rc_reader_csv,     &rc_reader_folder,
};
enum { READERS = sizeof readers / sizeof *readers };

/* Where sets lie below the folder that people keep them in. */
static const struct {
    const char *path;
    enum { CIFAR100, CIFAR10, TINY_IMAGENET, IMAGENET100, FASHION_MNIST, MNIST, NAMELESS } set;
} usual_places[] = {
    {"cifar-100-binary", CIFAR100},
    {"cifar-100-python", CIFAR100},
    {"cifar100/cifar-100-python", CIFAR100},
    {"cifar100/cifar-100-binary", CIFAR100},
    {"cifar-100-python.tar.gz", CIFAR100},
    {"cifar-100-binary.tar.gz", CIFAR100},
    {"cifar-10-batches-bin", CIFAR10},
    {"cifar-10-batches-py", CIFAR10},
    {"cifar10/cifar-10-batches-py", CIFAR10},
    {"cifar10/cifar-10-batches-bin", CIFAR10},
    {"cifar-10-python.tar.gz", CIFAR10},
    {"cifar-10-binary.tar.gz", CIFAR10},
    {"tiny-imagenet-200", TINY_IMAGENET},
    {"tiny-imagenet200", TINY_IMAGENET},
    {"imagenet100", IMAGENET100},
    {"fashion-mnist", FASHION_MNIST},
    {"FashionMNIST/raw", FASHION_MNIST},
    {"mnist", MNIST},
    {"MNIST/raw", MNIST},
    {"raw", NAMELESS},
};
enum { PLACES = sizeof usual_places / sizeof *usual_places };

/* ---- bringing images to the size and the channels that were asked for ------------------------------------------- */

typedef struct conversion {
    const rc_dataset *from;
    const rc_split *source;
    rc_split *target;
    rc_image_fit fit;
    rc_status *status; /* one per worker */
} conversion;

enum { CONVERSION_PIECE = 64 };

static void convert_piece(void *ctx, int task, int worker)
{
    const conversion *job = ctx;
    int first = task * CONVERSION_PIECE, end = first + CONVERSION_PIECE;
    if (end > job->source->count)
        end = job->source->count;
    size_t before = (size_t)job->from->h * (size_t)job->from->w * (size_t)job->from->c;
    size_t after = (size_t)job->fit.size * (size_t)job->fit.size * (size_t)job->fit.channels;
    for (int i = first; i < end && job->status[worker] == RC_OK; i++) {
        rc_image image = {job->from->h, job->from->w, job->from->c, job->source->images + (size_t)i * before};
        job->status[worker] = rc_image_fit_into(&image, &job->fit, job->target->images + (size_t)i * after);
    }
}

static rc_status convert_split(const rc_dataset *from, const rc_split *source, const rc_data_settings *settings,
                               rc_dataset *to, rc_split *target)
{
    if (source->count == 0)
        return RC_OK;
    RC_TRY(rc_split_allocate(to, target, source->count));
    memcpy(target->labels, source->labels, (size_t)source->count * sizeof *source->labels);
    conversion job = {.from = from, .source = source, .target = target};
    job.fit = (rc_image_fit){.resize = settings->resize > 0 ? settings->resize : to->h,
                             .size = to->h,
                             .channels = to->c,
                             .interpolation = settings->interpolation};
    int threads = rc_pool_threads(settings->pool);
    job.status = rc_alloc_zeroed(NULL, (size_t)threads, sizeof *job.status);
    if (job.status == NULL)
        return RC_OUT_OF_MEMORY;
    rc_pool_run(settings->pool, (source->count + CONVERSION_PIECE - 1) / CONVERSION_PIECE, convert_piece, &job);
    rc_status status = RC_OK;
    for (int i = 0; i < threads && status == RC_OK; i++)
        status = job.status[i];
    rc_free(NULL, job.status);
    return status == RC_OK ? RC_OK : rc_fail(status, "no memory for resizing images");
}

/* Replaces the images by resized ones. */
static rc_status conform(rc_dataset *dataset, const rc_data_settings *settings)
{
    dataset->seen = (rc_data_seen){.images = dataset->train.count > 0 ? dataset->train.count : dataset->test.count,
                                   .h = dataset->h,
                                   .w = dataset->w,
                                   .same = dataset->h == dataset->w};
    int size = rc_choose_size(settings, &dataset->seen, dataset->seen.same ? dataset->h : 0);
    int channels = settings->channels > 0 ? settings->channels : dataset->c;
    bool resized = settings->resize > 0 && settings->resize != size;
    if (size == 0)
        return rc_fail(RC_INVALID_ARGUMENT, "the images are %d x %d pixels, not square: a size must be given",
                       dataset->w, dataset->h);
    if (!resized && size == dataset->h && size == dataset->w && channels == dataset->c)
        return RC_OK;
    rc_dataset changed = *dataset;
    changed.h = changed.w = size;
    changed.c = channels;
    changed.train = changed.test = (rc_split){0};
    RC_TRY(rc_check_memory(&changed, (int64_t)dataset->train.count + dataset->test.count));
    rc_status status = convert_split(dataset, &dataset->train, settings, &changed, &changed.train);
    if (status == RC_OK)
        status = convert_split(dataset, &dataset->test, settings, &changed, &changed.test);
    rc_dataset *unused = status == RC_OK ? dataset : &changed;
    rc_split *splits[] = {&unused->train, &unused->test};
    for (int i = 0; i < 2; i++) {
        rc_free(NULL, splits[i]->images);
        rc_free(NULL, splits[i]->labels);
    }
    if (status == RC_OK)
        *dataset = changed;
    return status;
}

/* ---- normalisation ---------------------------------------------------------------------------------------------- */

/* The constants of the published experiments. The usual constants of CIFAR-10, MNIST and Fashion-MNIST are not
 * listed, because measuring gives the same. */
static const struct {
    const char *name;
    float mean[3], std[3];
} published[] = {
    {"cifar100", {0.5071f, 0.4867f, 0.4408f}, {0.2675f, 0.2565f, 0.2761f}},
    {"tiny-imagenet", {0.4803f, 0.4481f, 0.3976f}, {0.2764f, 0.2688f, 0.2816f}},
    {"imagenet100", {0.485f, 0.456f, 0.406f}, {0.229f, 0.224f, 0.225f}},
};

/* Over all pixels, from exact counts of the 256 values. */
void rc_pixels_count(rc_pixel_counts *counts, const uint8_t *images, size_t pixels, int channels)
{
    size_t c_count = (size_t)channels;
    for (size_t i = 0; i < pixels; i++)
        for (size_t c = 0; c < c_count; c++)
            counts->count[c][images[i * c_count + c]]++;
    counts->pixels += pixels;
}

void rc_pixels_measure(const rc_pixel_counts *counts, int channels, float *mean_of, float *std_of)
{
    for (int c = 0; c < channels; c++) {
        const uint64_t *count = counts->count[c];
        double mean = 0, variance = 0;
        for (int value = 0; value < 256; value++)
            mean += (double)count[value] * value / 255.0;
        mean /= (double)counts->pixels;
        for (int value = 0; value < 256; value++)
            variance += (double)count[value] * (value / 255.0 - mean) * (value / 255.0 - mean);
        variance /= (double)counts->pixels;
        mean_of[c] = (float)mean;
        /* A channel in which all pixels are equal has deviation 0, and nobody may divide by that. */
        std_of[c] = variance > 1e-8 ? (float)sqrt(variance) : 1.0f;
    }
}

void rc_dataset_measure(rc_dataset *dataset)
{
    const rc_split *split = dataset->train.count > 0 ? &dataset->train : &dataset->test;
    rc_pixel_counts counts = {0};
    size_t pixels = (size_t)dataset->h * (size_t)dataset->w;
    for (int i = 0; i < split->count && !rc_stop_poll(); i++)
        rc_pixels_count(&counts, split->images + (size_t)i * pixels * (size_t)dataset->c, pixels, dataset->c);
    rc_pixels_measure(&counts, dataset->c, dataset->mean, dataset->std);
}

bool rc_published_normalisation(const char *name, float mean[3], float std[3])
{
    for (size_t i = 0; i < sizeof published / sizeof *published; i++)
        if (strcmp(name, published[i].name) == 0) {
            memcpy(mean, published[i].mean, sizeof published[i].mean);
            memcpy(std, published[i].std, sizeof published[i].std);
            return true;
        }
    return false;
}

static void set_normalisation(rc_dataset *dataset)
{
    if (dataset->c != 3 || !rc_published_normalisation(dataset->name, dataset->mean, dataset->std))
        rc_dataset_measure(dataset);
}

/* ---- opening ---------------------------------------------------------------------------------------------------- */

rc_status rc_check_image_shape(int h, int w, int c)
{
    if (h != w || h < 1 || h > RC_DATA_MAX_SIDE)
        return rc_fail(RC_INVALID_ARGUMENT, "images have %d x %d pixels, expected squares of 1 to %d", w, h,
                       RC_DATA_MAX_SIDE);
    if (c != 1 && c != 3)
        return rc_fail(RC_INVALID_ARGUMENT, "images have %d channel%s, expected 1 (grey) or 3 (colours)", c,
                       c == 1 ? "" : "s");
    return RC_OK;
}

static rc_status check_settings(const rc_data_settings *settings)
{
    if (settings->channels != 0 && settings->channels != 1 && settings->channels != 3)
        return rc_fail(RC_INVALID_ARGUMENT, "channels is %d, expected 1, 3, or 0 for the set's own",
                       settings->channels);
    if (settings->size < 0 || settings->size > RC_DATA_MAX_SIDE)
        return rc_fail(RC_INVALID_ARGUMENT, "size is %d, expected 1 to %d, or 0 for the set's own", settings->size,
                       RC_DATA_MAX_SIDE);
    if (settings->resize < 0 || settings->resize > RC_DATA_MAX_RESIZE ||
        (settings->resize > 0 && settings->resize < settings->size))
        return rc_fail(RC_INVALID_ARGUMENT, "resize is %d, expected at least size (%d) and at most %d, or 0 for size",
                       settings->resize, settings->size, RC_DATA_MAX_RESIZE);
    if (!(settings->test_part >= 0 && settings->test_part <= 1))
        return rc_fail(RC_INVALID_ARGUMENT, "test_part is %g, expected 0 to 1", settings->test_part);
    return RC_OK;
}

/* Appends to a message; what does not fit is cut. */
static void append(char *text, size_t size, const char *piece)
{
    size_t length = strlen(text);
    snprintf(text + length, size - length, "%s", piece);
}

static const rc_reader *find_reader(const char *format)
{
    for (int i = 0; i < READERS; i++)
        if (strcmp(readers[i]->format, format) == 0)
            return readers[i];
    return NULL;
}

/* A folder that holds a set in one of the usual places: its reader, and the place in `found`. Two different sets are
 * an error: the user has to choose. Two layouts of one set are none. */
static rc_status look_around(const char *path, const rc_reader *wanted, const rc_reader **reader, char *found)
{
    char place[RC_PATH_SIZE];
    bool known;
    int first = 0; /* the place in `found` */
    for (int i = 0; i < PLACES; i++) {
        RC_TRY(rc_path_in(path, usual_places[i].path, place));
        for (int r = 0; r < READERS; r++) {
            /* Folders of classes have no usual name. */
            if (readers[r] == &rc_reader_folder || (wanted != NULL && readers[r] != wanted))
                continue;
            RC_TRY(readers[r]->recognise(place, &known));
            if (!known)
                continue;
            if (*reader == NULL) {
                *reader = readers[r];
                first = i;
                memcpy(found, place, sizeof place);
            } else if (*reader != readers[r] || usual_places[first].set != usual_places[i].set) {
                return rc_fail(RC_INVALID_ARGUMENT, "'%.300s' holds both '%.300s' and '%.300s': give the folder of one",
                               path, usual_places[first].path, usual_places[i].path);
            }
            break;
        }
    }
    return RC_OK;
}

rc_status rc_dataset_check_format(const char *format)
{
    char layouts[700] = "";
    if (format == NULL || format[0] == '\0' || find_reader(format) != NULL)
        return RC_OK;
    for (int i = 0; i < READERS; i++) {
        append(layouts, sizeof layouts, i == 0 ? "" : ", ");
        append(layouts, sizeof layouts, readers[i]->format);
    }
    return rc_fail(RC_INVALID_ARGUMENT, "data format '%.40s' is not known, expected one of %s", format, layouts);
}

/* Fails with a message if it finds out what a file is that is no data set. RC_OK: it may be anything. */
static rc_status explain_file(const char *path)
{
    static const char expected[] = "expected a folder that holds a folder of pictures for each class";
    const rc_image_kind *kind;
    char words[RC_IMAGE_KIND_TEXT];
    RC_TRY(rc_image_kind_at(path, &kind));
    if (rc_image_name(path) || kind->decode != NULL)
        return rc_fail(RC_FORMAT, "'%.500s' is one picture; %s", path, expected);
    if (!rc_image_kind_is_sure(kind))
        return RC_OK;
    rc_image_kind_explain(kind, path, words, sizeof words);
    return rc_fail(RC_FORMAT, "'%.300s' is one file, no data set (%s); %s", path, words, expected);
}

static rc_status choose_reader(const char *path, const char *format, const rc_reader **reader, char *found)
{
    bool known = false, given = format != NULL && format[0] != 0;
    char layouts[RC_MESSAGE_SIZE] = "";
    struct stat about;
    RC_TRY(rc_dataset_check_format(format));
    const rc_reader *wanted = given ? find_reader(format) : NULL;
    *reader = NULL;
    int written = snprintf(found, RC_PATH_SIZE, "%s", path);
    if (written < 0 || written >= RC_PATH_SIZE)
        return rc_fail(RC_INVALID_ARGUMENT, "data path of %d bytes, expected at most %d", written, RC_PATH_SIZE - 1);
    RC_TRY(rc_reader_procedural.recognise(path, &known));
    if (known || wanted == &rc_reader_procedural) {
        *reader = &rc_reader_procedural;
        return RC_OK;
    }
    RC_TRY(rc_file_look(path, true, &about));
    if (!S_ISDIR(about.st_mode) && !S_ISREG(about.st_mode))
        return rc_fail(RC_IO, "there is no data at '%.700s'", path);
    for (int i = 0; i < READERS && *reader == NULL; i++) {
        bool meant = wanted == NULL || wanted == readers[i] ||
                     readers[i] == &rc_reader_pack; /* it stands for any set */
        if (!meant || readers[i] == &rc_reader_folder)
            continue;
        RC_TRY(readers[i]->recognise(path, &known));
        if (known)
            *reader = readers[i];
    }
    if (*reader == NULL && S_ISDIR(about.st_mode))
        RC_TRY(look_around(path, wanted, reader, found));
    if (*reader == NULL && (wanted == NULL || wanted == &rc_reader_folder)) {
        RC_TRY(rc_reader_folder.recognise(path, &known));
        if (known)
            *reader = &rc_reader_folder;
    }
    if (*reader != NULL)
        return RC_OK;
    if (S_ISREG(about.st_mode) && (wanted == NULL || wanted == &rc_reader_folder))
        RC_TRY(explain_file(path));
    if ((wanted == NULL || wanted == &rc_reader_folder) && S_ISDIR(about.st_mode))
        RC_TRY(rc_folder_explain(path));
    for (int i = READERS - 1; i >= 0; i--) /* folders, which most people have, come first */
        if ((wanted == NULL || wanted == readers[i]) && readers[i] != &rc_reader_procedural) {
            append(layouts, sizeof layouts, layouts[0] == 0 ? "" : " | ");
            append(layouts, sizeof layouts, readers[i]->layout);
        }
    return rc_fail(RC_FORMAT, "'%.300s' is not a data set that recollect knows; expected: %s", path, layouts);
}

static rc_status check_labels(const rc_dataset *dataset)
{
    const rc_split *splits[] = {&dataset->train, &dataset->test};
    for (int s = 0; s < 2; s++)
        for (int i = 0; i < splits[s]->count; i++)
            if (splits[s]->labels[i] < 0 || splits[s]->labels[i] >= dataset->classes)
                return rc_fail(RC_FORMAT, "label %d of %s image %d, expected 0 to %d", (int)splits[s]->labels[i],
                               s == 0 ? "training" : "test", i, dataset->classes - 1);
    return RC_OK;
}

/* Of folders and tables everybody knows what is expected: what cannot be read is one file or folder, which the message
 * names. */
static bool is_obvious(const rc_reader *reader)
{
    return reader == &rc_reader_folder || reader == &rc_reader_csv;
}

static rc_status open_with(const rc_reader *reader, const char *path, const rc_data_settings *settings,
                           rc_dataset *dataset)
{
    snprintf(dataset->format, sizeof dataset->format, "%s", reader->format);
    snprintf(dataset->name, sizeof dataset->name, "%s", reader->format);
    rc_status status = reader->read(path, settings, dataset);
    if (status == RC_IO && !is_obvious(reader) && strstr(rc_message(), "expected") == NULL)
        return rc_fail(status, "%s; expected: %s", rc_message(), reader->layout);
    RC_TRY(status);
    if (settings->sink == NULL && dataset->train.count == 0 && dataset->test.count == 0)
        return rc_fail(RC_FORMAT, "'%.300s' holds no images; expected: %s", path, reader->layout);
    if (settings->stream && dataset->train.stream == NULL && dataset->test.stream == NULL)
        return rc_fail(RC_INVALID_ARGUMENT,
                       "'%.300s' is of format %s, not of picture files that could be decoded one by one: the setting "
                       "'decode' must be 'memory'",
                       path, reader->format);
    RC_TRY(check_labels(dataset));
    status = rc_check_class_names((const char *const *)dataset->class_name, dataset->classes);
    if (status != RC_OK)
        return rc_fail(status, "'%.300s': %s", path, rc_message());
    if (!reader->fitted)
        RC_TRY(conform(dataset, settings));
    if (dataset->pack == NULL && (dataset->train.images != NULL || dataset->test.images != NULL))
        set_normalisation(dataset);
    if (settings->stream && dataset->c == 3) /* what was measured is there */
        (void)rc_published_normalisation(dataset->name, dataset->mean, dataset->std);
    return rc_stopped() ? rc_fail(RC_CANCELLED, "stopped while '%.300s' was read", path) : RC_OK;
}

rc_status rc_dataset_open(const char *path, const rc_data_settings *settings, rc_dataset *dataset)
{
    static const rc_data_settings none;
    if (settings == NULL)
        settings = &none;
    *dataset = (rc_dataset){0};
    RC_TRY(check_settings(settings));
    char found[RC_PATH_SIZE];
    const rc_reader *reader;
    RC_TRY(choose_reader(path, settings->format, &reader, found));
    rc_status status = open_with(reader, found, settings, dataset);
    if (status != RC_OK)
        rc_dataset_close(dataset);
    return status;
}

void rc_dataset_close(rc_dataset *dataset)
{
    for (int i = 0; dataset->class_name != NULL && i < dataset->classes; i++)
        rc_free(NULL, dataset->class_name[i]);
    rc_free(NULL, dataset->class_name);
    rc_split *splits[] = {&dataset->train, &dataset->test};
    for (int i = 0; i < 2; i++) {
        rc_free(NULL, splits[i]->pack == NULL ? splits[i]->images : NULL);
        rc_free(NULL, splits[i]->labels);
        rc_stream_destroy(splits[i]->stream);
    }
    rc_pack_close(dataset->pack);
    *dataset = (rc_dataset){0};
}
