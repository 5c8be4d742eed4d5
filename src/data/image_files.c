#include "data/image_files.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/memory.h"
#include "base/stop.h"
#include "data/file_ids.h"
#include "data/hold_out.h"
#include "data/image.h"
#include "data/image_kind.h"
#include "data/pack.h"
#include "data/reader.h"
#include "data/stream.h"

/* ---- the list --------------------------------------------------------------------------------------------------- */

/* A block of twice the size with the same beginning. */
static void *grown_copy(void *block, size_t used, size_t capacity)
{
    void *grown = rc_alloc(NULL, capacity);
    if (grown == NULL)
        return NULL;
    if (used > 0)
        memcpy(grown, block, used);
    rc_free(NULL, block);
    return grown;
}

static rc_status add_text(rc_image_files *files, const char *path)
{
    size_t length = strlen(path) + 1;
    if (files->text_capacity - files->text_used < length) {
        size_t capacity = 2 * files->text_capacity + length + 65536;
        char *grown = grown_copy(files->text, files->text_used, capacity);
        if (grown == NULL)
            return RC_OUT_OF_MEMORY;
        files->text = grown;
        files->text_capacity = capacity;
    }
    memcpy(files->text + files->text_used, path, length);
    files->text_used += length;
    return RC_OK;
}

rc_status rc_image_files_add(rc_image_files *files, const char *path, int32_t label)
{
    if (files->count == files->capacity) {
        if (files->capacity > INT_MAX / 2 - 1024)
            return rc_fail(RC_UNSUPPORTED, "more than %d images", files->capacity);
        int capacity = 2 * files->capacity + 1024;
        size_t size = sizeof *files->file;
        void *grown = grown_copy(files->file, (size_t)files->count * size, (size_t)capacity * size);
        if (grown == NULL)
            return RC_OUT_OF_MEMORY;
        files->file = grown;
        files->capacity = capacity;
    }
    size_t at = files->text_used;
    RC_TRY(add_text(files, path));
    files->file[files->count++] = (struct rc_image_file){at, label};
    return RC_OK;
}

const char *rc_image_files_path(const rc_image_files *files, int index)
{
    return files->text + files->file[index].path;
}

void rc_image_files_free(rc_image_files *files)
{
    rc_free(NULL, files->file);
    rc_free(NULL, files->text);
    *files = (rc_image_files){0};
}

/* ---- class folders ---------------------------------------------------------------------------------------------- */

static rc_status take_file(void *into, const char *path, int32_t label)
{
    return rc_image_files_add(into, path, label);
}

static const char *class_name(void *dataset, int32_t label)
{
    return ((const rc_dataset *)dataset)->class_name[label];
}

rc_walk rc_image_files_walk(const rc_dataset *dataset, rc_left_out *left_out)
{
    return (rc_walk){.left_out = left_out,
                     .deepest = RC_IMAGE_FILES_DEEPEST,
                     .take = take_file,
                     .user = rc_without_const(dataset),
                     .class_name = class_name};
}

rc_status rc_image_files_add_class(rc_walk *walk, const char *folder, int32_t label, rc_image_files *files)
{
    rc_walk_found found;
    int32_t other;
    RC_TRY(rc_walk_folder(walk, folder, label, files, &found, &other));
    if (found == RC_WALK_ABOVE)
        return rc_fail(RC_FORMAT, "class folder '%.600s' is a link that leads back to the data set; take it out",
                       folder);
    if (found == RC_WALK_OTHER)
        return rc_fail(RC_FORMAT,
                       "class folder '%.500s' is the same folder as that of class '%.200s'; take one of them out",
                       folder, class_name(walk->user, other));
    return RC_OK;
}

/* ---- links ------------------------------------------------------------------------------------------------------ */

typedef struct same_files {
    const rc_image_files *part[2]; /* test, train */
    rc_file_ids ids;               /* with the places of the files, from 1 on: those of test first */
    rc_left_out *left_out;
} same_files;

static const char *path_at(const same_files *s, int place, int32_t *label)
{
    int part = place > s->part[0]->count, index = place - 1 - (part ? s->part[0]->count : 0);
    *label = s->part[part]->file[index].label;
    return rc_image_files_path(s->part[part], index);
}

/* Is it there already? *out: it is, and is left out. */
static rc_status look_at(same_files *s, int place, const rc_dataset *dataset, bool *out)
{
    struct stat info;
    int32_t label, other_label;
    int before = 0;
    const char *path = path_at(s, place, &label);
    *out = false;
    RC_TRY(rc_file_look(path, true, &info));
    if (info.st_mode != 0) /* a picture that is not there is found missing when it is read */
        RC_TRY(rc_file_ids_add(&s->ids, &info, place, &before));
    if (before == 0)
        return RC_OK;
    const char *other = path_at(s, before, &other_label);
    bool twice = strcmp(path, other) == 0; /* in a list or a table */
    if (label != other_label && twice)
        return rc_fail(RC_FORMAT,
                       "'%.500s' is named in two lines, of class '%.100s' and of class '%.100s'; take one of them out",
                       path, dataset->class_name[other_label], dataset->class_name[label]);
    if (label != other_label)
        return rc_fail(RC_FORMAT,
                       "'%.250s' and '%.250s' are the same file, which would be of class '%.100s' and of class "
                       "'%.100s'; take one of them out",
                       other, path, dataset->class_name[other_label], dataset->class_name[label]);
    *out = true;
    if (place > s->part[0]->count && before <= s->part[0]->count)
        return rc_left_out_add(s->left_out, path, "training images that are test images",
                               "a test image, too, which is not trained on");
    if (twice)
        return rc_left_out_add(s->left_out, path, "files of several names", "named in a line before, too");
    char reason[600];
    snprintf(reason, sizeof reason, "the same file as '%.500s'", other);
    return rc_left_out_add(s->left_out, path, "files of several names", reason);
}

static rc_status leave_once(same_files *s, rc_image_files *train, rc_image_files *test, const rc_dataset *dataset,
                            int8_t *out)
{
    int count = test->count + train->count, kept = 0;
    for (int place = 1; place <= count; place++) {
        bool again;
        RC_TRY(look_at(s, place, dataset, &again));
        out[place - 1] = again;
    }
    for (int i = 0; i < test->count; i++)
        if (!out[i])
            test->file[kept++] = test->file[i];
    out += test->count;
    test->count = kept;
    kept = 0;
    for (int i = 0; i < train->count; i++)
        if (!out[i])
            train->file[kept++] = train->file[i];
    train->count = kept;
    return RC_OK;
}

rc_status rc_image_files_leave_once(rc_image_files *train, rc_image_files *test, const rc_dataset *dataset,
                                    rc_left_out *left_out)
{
    same_files s = {.part = {test, train}, .left_out = left_out};
    if (train->count > INT_MAX - 1 - test->count)
        return rc_fail(RC_UNSUPPORTED, "more than %d images", INT_MAX - 1);
    int8_t *out = rc_alloc_zeroed(NULL, (size_t)train->count + (size_t)test->count, 1);
    rc_status status = out != NULL ? leave_once(&s, train, test, dataset, out) : RC_OUT_OF_MEMORY;
    rc_file_ids_free(&s.ids);
    rc_free(NULL, out);
    return status;
}

/* ---- splitting -------------------------------------------------------------------------------------------------- */

rc_status rc_image_files_split(rc_image_files *train, int classes, double part, uint64_t seed, rc_image_files *test)
{
    if (part <= 0)
        return RC_OK;
    int32_t *labels = rc_alloc_zeroed(NULL, (size_t)train->count, sizeof *labels);
    int8_t *chosen = rc_alloc_zeroed(NULL, (size_t)train->count, 1);
    rc_status status = labels == NULL || chosen == NULL ? RC_OUT_OF_MEMORY : RC_OK;
    for (int i = 0; i < train->count && status == RC_OK; i++)
        labels[i] = train->file[i].label;
    if (status == RC_OK)
        status = rc_hold_out(labels, train->count, classes, part, seed, chosen);
    int kept = 0;
    for (int i = 0; i < train->count && status == RC_OK; i++) {
        if (chosen[i])
            status = rc_image_files_add(test, rc_image_files_path(train, i), train->file[i].label);
        else
            train->file[kept++] = train->file[i];
    }
    if (status == RC_OK)
        train->count = kept;
    rc_free(NULL, labels);
    rc_free(NULL, chosen);
    return status;
}

/* ---- what size, how many channels ------------------------------------------------------------------------------- */

enum { LOOKED_AT = 64, LARGEST_KEPT = 64, SMALL_SIZE = 32 };

typedef struct shape {
    int h, w;
} shape;

static int shorter_side(const shape *image)
{
    return image->h < image->w ? image->h : image->w;
}

static int by_side(const void *a, const void *b)
{
    const shape *one = a, *other = b;
    int difference = shorter_side(one) - shorter_side(other);
    return difference != 0 ? difference : one->h + one->w - other->h - other->w;
}

/* Looks at some images, evenly spread; broken ones are reported when they are decoded. */
static rc_status look(const rc_image_files *files, const rc_data_settings *settings, rc_dataset *dataset)
{
    shape seen[LOOKED_AT];
    int count = 0;
    bool grey = true, same = true;
    for (int i = 0; i < LOOKED_AT && i < files->count && !rc_stop_poll(); i++) {
        int index = files->count <= LOOKED_AT ? i : (int)((int64_t)i * files->count / LOOKED_AT);
        rc_image image;
        rc_status status = rc_image_read(rc_image_files_path(files, index), NULL, &image);
        if (status == RC_OUT_OF_MEMORY)
            return status;
        if (status != RC_OK)
            continue;
        seen[count++] = (shape){image.h, image.w};
        grey = grey && image.c == 1;
        same = same && image.h == image.w && image.h == seen[0].h;
        rc_image_free(&image);
    }
    if (dataset->c == 0)
        dataset->c = grey && count > 0 ? 1 : 3;
    shape median = {SMALL_SIZE, SMALL_SIZE}; /* where none can be read */
    if (count > 0) {
        qsort(seen, (size_t)count, sizeof *seen, by_side);
        median = seen[count / 2];
    }
    dataset->seen = (rc_data_seen){files->count, median.h, median.w, count > 0 && same};
    if (dataset->h != 0)
        return RC_OK;
    int side = shorter_side(&median);
    bool kept = dataset->seen.same && side <= LARGEST_KEPT;
    dataset->h = rc_choose_size(settings, &dataset->seen,
                                kept                  ? side
                                : side < LARGEST_KEPT ? SMALL_SIZE
                                                      : LARGEST_KEPT);
    return RC_OK;
}

/* ---- decoding --------------------------------------------------------------------------------------------------- */

enum { PIECE = RC_DATA_PIECE };

typedef struct decoding {
    rc_image_files *files;
    const rc_data_settings *settings;
    rc_dataset *dataset;
    rc_split *split;
    rc_left_out *left_out;
    int first;               /* of the piece */
    uint8_t *piece;          /* its images, one for each file: in the split, or on their way to the sink */
    rc_status status[PIECE]; /* of the images of the piece */
    int stored;              /* images that were read, before the piece */
    rc_image_stream *stream; /* to be made; NULL: the images are kept, or go to the sink */
    rc_pixel_counts *pixels; /* of a stream */
} decoding;

static rc_image_fit fit_of(const rc_dataset *dataset, const rc_data_settings *settings)
{
    return (rc_image_fit){.resize = settings->resize,
                          .size = dataset->h,
                          .channels = dataset->c,
                          .interpolation = settings->interpolation};
}

static rc_status decode_one(const decoding *job, int index, uint8_t *out)
{
    rc_image image;
    rc_image_options options = {.channels = job->dataset->c, .ignore_exif = job->settings->ignore_exif};
    RC_TRY(rc_image_read(rc_image_files_path(job->files, index), &options, &image));
    const rc_image_fit fit = fit_of(job->dataset, job->settings);
    rc_status status = rc_image_fit_into(&image, &fit, out);
    rc_image_free(&image);
    return status;
}

static size_t image_bytes(const rc_dataset *dataset)
{
    return (size_t)dataset->h * (size_t)dataset->w * (size_t)dataset->c;
}

static void decode_task(void *ctx, int task, int worker)
{
    (void)worker;
    decoding *job = ctx;
    job->status[task] = decode_one(job, job->first + task, job->piece + (size_t)task * image_bytes(job->dataset));
}

/* Is it a picture, but of a format that is not read? Names lie: telephones make HEIC files that are called .jpg. */
static rc_status is_foreign(const char *path, const rc_image_kind **kind, bool *foreign)
{
    rc_status status = rc_image_kind_at(path, kind);
    *foreign = status == RC_OK && (*kind)->decode == NULL && (*kind)->role == RC_IMAGE_PICTURE;
    return status == RC_OUT_OF_MEMORY ? status : RC_OK;
}

/* A broken image is left out, or the end of it all. The message of a worker is lost with its thread, so it is made once
 * more here. */
static rc_status judge(decoding *job, int task, uint8_t *out)
{
    const rc_data_settings *settings = job->settings;
    const char *path = rc_image_files_path(job->files, job->first + task);
    const rc_image_kind *kind;
    bool foreign;
    RC_TRY(is_foreign(path, &kind, &foreign));
    if (foreign) {
        char reason[RC_IMAGE_KIND_TEXT];
        job->status[task] = RC_UNSUPPORTED;
        rc_image_kind_explain(kind, path, reason, sizeof reason);
        return rc_left_out_add(job->left_out, path, kind->name, reason);
    }
    rc_status status = decode_one(job, job->first + task, out);
    if (status == RC_OK || status == RC_OUT_OF_MEMORY)
        return status;
    if (!settings->skip_broken)
        return rc_fail(status, "%s (broken images can be skipped: the setting 'skip_broken')", rc_message());
    job->status[task] = status;
    job->dataset->broken++;
    rc_log_write(settings->log, RC_LOG_WARN, "skipped: %s", rc_message());
    return RC_OK;
}

/* Closes the gaps that broken images of the piece leave. `to`: where its first image goes. */
static rc_status store_piece(decoding *job, int count, uint8_t *to, int32_t *labels, int *stored)
{
    size_t bytes = image_bytes(job->dataset);
    *stored = 0;
    for (int task = 0; task < count; task++) {
        uint8_t *image = job->piece + (size_t)task * bytes;
        if (job->status[task] != RC_OK) {
            job->status[task] = RC_OK;
            RC_TRY(judge(job, task, image));
            if (job->status[task] != RC_OK)
                continue;
        }
        if (to != image)
            memcpy(to, image, bytes);
        to += bytes;
        labels[(*stored)++] = job->files->file[job->first + task].label;
    }
    return RC_OK;
}

/* Of a stream the images are looked at, and then forgotten; files that are no images leave the list. */
static void note_piece(decoding *job, int count)
{
    size_t bytes = image_bytes(job->dataset);
    for (int task = 0, kept = job->stored; task < count; task++)
        if (job->status[task] == RC_OK)
            job->files->file[kept++] = job->files->file[job->first + task];
    for (int i = 0; i < job->split->count - job->stored; i++) {
        const uint8_t *image = job->split->images + (size_t)i * bytes;
        job->stream->checksum[job->stored + i] = rc_pack_crc(0, image, bytes);
        if (job->pixels != NULL)
            rc_pixels_count(job->pixels, image, bytes / (size_t)job->dataset->c, job->dataset->c);
    }
}

/* Files before `first` are passed over. */
static rc_status decode_pieces(decoding *job, const char *what)
{
    const rc_data_settings *settings = job->settings;
    rc_split *split = job->split;
    size_t bytes = image_bytes(job->dataset);
    bool passing = settings->sink != NULL || settings->stream; /* a piece takes the place of the one before */
    int files = job->files->count, stored;
    for (int count; job->first < files; job->first += count) {
        RC_TRY(rc_progress(settings, what, job->first, files));
        count = files - job->first < PIECE ? files - job->first : PIECE;
        job->piece = split->images + (passing ? 0 : (size_t)job->first * bytes);
        rc_pool_run(settings->pool, count, decode_task, job);
        if (rc_stopped()) /* some were not decoded */
            break;
        uint8_t *to = passing ? split->images : split->images + (size_t)job->stored * bytes;
        RC_TRY(store_piece(job, count, to, split->labels + job->stored, &stored));
        if (settings->sink != NULL)
            RC_TRY(settings->sink->take(settings->sink->user, count, to, split->labels + job->stored, stored));
        split->count = job->stored + stored;
        if (settings->stream)
            note_piece(job, count);
        job->stored += stored;
    }
    split->count = job->stored;
    return rc_progress(settings, what, files, files);
}

static rc_image_stream *make_stream(const rc_dataset *dataset, const rc_data_settings *settings, int count)
{
    rc_image_stream *stream = rc_alloc_zeroed(NULL, 1, sizeof *stream);
    uint32_t *checksum = rc_alloc_zeroed(NULL, (size_t)count, sizeof *checksum);
    if (stream == NULL || checksum == NULL) {
        rc_free(NULL, stream);
        rc_free(NULL, checksum);
        return NULL;
    }
    *stream = (rc_image_stream){.checksum = checksum,
                                .fit = fit_of(dataset, settings),
                                .ignore_exif = settings->ignore_exif,
                                .threads = rc_pool_threads(settings->pool)};
    return stream;
}

static rc_status decode_split(rc_image_files *files, const rc_data_settings *settings, const char *what, int first,
                              rc_dataset *dataset, rc_split *split, rc_pixel_counts *pixels, rc_left_out *left_out)
{
    if (files->count == 0)
        return RC_OK;
    decoding job = {.files = files,
                    .settings = settings,
                    .dataset = dataset,
                    .split = split,
                    .left_out = left_out,
                    .pixels = pixels};
    job.first = first < files->count ? first : files->count;
    if (settings->stream) {
        job.stream = split->stream = make_stream(dataset, settings, files->count);
        if (job.stream == NULL)
            return RC_OUT_OF_MEMORY;
    }
    if (settings->sink == NULL && !settings->stream)
        RC_TRY(rc_split_allocate(dataset, split, files->count));
    else {
        split->images = rc_alloc_zeroed(NULL, PIECE, image_bytes(dataset));
        split->labels = rc_alloc_zeroed(NULL, (size_t)files->count, sizeof *split->labels);
        if (split->images == NULL || split->labels == NULL)
            return RC_OUT_OF_MEMORY;
    }
    rc_status status = decode_pieces(&job, what);
    if (settings->sink != NULL || settings->stream) {
        rc_free(NULL, split->images);
        split->images = NULL;
    }
    if (status == RC_OK && settings->stream) {
        files->count = split->count;
        job.stream->files = *files;
        *files = (rc_image_files){0};
    }
    return status;
}

static rc_status decode(rc_image_files *train, rc_image_files *test, const rc_data_settings *settings,
                        rc_dataset *dataset, rc_left_out *left_out)
{
    rc_pixel_counts pixels = {0};
    long long all = (long long)train->count + test->count;
    dataset->h = settings->size;
    dataset->c = settings->channels;
    if (dataset->h == 0 || dataset->c == 0)
        RC_TRY(look(train->count > 0 ? train : test, settings, dataset));
    dataset->w = dataset->h;
    rc_log_write(settings->log, RC_LOG_INFO, "%d training and %d test images, as %d x %d pixels in %s: %.1f MB",
                 train->count, test->count, dataset->w, dataset->h, dataset->c == 1 ? "grey" : "colour",
                 1e-6 * (double)image_bytes(dataset) * ((double)train->count + test->count));
    int done = 0;
    if (settings->sink != NULL)
        RC_TRY(settings->sink->begin(settings->sink->user, dataset, train, test, &done));
    else if (!settings->stream)
        RC_TRY(rc_check_memory(dataset, all));
    int rest = done > train->count ? done - train->count : 0;
    bool trained = train->count > 0;
    RC_TRY(decode_split(train, settings, "reading images", done, dataset, &dataset->train, &pixels, left_out));
    RC_TRY(decode_split(test, settings, "reading test images", rest, dataset, &dataset->test, trained ? NULL : &pixels,
                        left_out));
    if (settings->stream && pixels.pixels > 0)
        rc_pixels_measure(&pixels, dataset->c, dataset->mean, dataset->std);
    if (dataset->broken > 0)
        rc_log_write(settings->log, RC_LOG_WARN, "skipped %d of %lld images", dataset->broken, all);
    return RC_OK;
}

/* Keeps `most` files of each class, evenly spread: file j of n stays where j * most / n is a new whole number. */
static rc_status leave_few(rc_image_files *files, int classes, int most)
{
    int *all = rc_alloc_zeroed(NULL, 2 * (size_t)classes, sizeof *all), kept = 0;
    if (all == NULL)
        return RC_OUT_OF_MEMORY;
    int *seen = all + classes;
    for (int i = 0; i < files->count; i++)
        all[files->file[i].label]++;
    for (int i = 0; i < files->count; i++) {
        int label = files->file[i].label, n = all[label];
        int64_t j = seen[label]++;
        if (n <= most || j == 0 || j * most / n != (j - 1) * most / n)
            files->file[kept++] = files->file[i];
    }
    files->count = kept;
    rc_free(NULL, all);
    return RC_OK;
}

rc_status rc_image_files_read(const char *path, const rc_data_settings *settings, rc_gather *gather,
                              rc_dataset *dataset)
{
    rc_image_files train = {0}, test = {0};
    rc_left_out left_out = {0};
    rc_status status = gather(path, settings, dataset, &train, &test, &left_out);
    if (status == RC_OK && settings->per_class > 0)
        status = leave_few(&train, dataset->classes, settings->per_class);
    if (status == RC_OK && settings->per_class > 0)
        status = leave_few(&test, dataset->classes, settings->per_class);
    if (status == RC_OK)
        status = decode(&train, &test, settings, dataset, &left_out);
    dataset->left_out = left_out.count;
    dataset->not_pictures = left_out.harmless;
    if (status == RC_OK && !settings->told)
        rc_left_out_tell(&left_out, settings->log);
    rc_left_out_free(&left_out);
    rc_image_files_free(&train);
    rc_image_files_free(&test);
    return status;
}
