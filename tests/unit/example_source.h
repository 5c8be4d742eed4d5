/* A source that keeps one real image of every class, the first that its task was given, and replays them. */
#include <stdio.h>
#include <string.h>

#include "cil/learner.h"
#include "cil/sources.h"

enum { MOST_CLASSES = 100 };

static rc_status configure(rc_source *source, const rc_learner *l, const rc_settings *s, const rc_method *method)
{
    (void)s;
    (void)method;
    if (source->images.capacity == 0)
        rc_buffer_init(&source->images, MOST_CLASSES, (size_t)(l->augment.h * l->augment.w * l->augment.c));
    return RC_OK;
}

static rc_status clone(rc_source *copy, const rc_source *source)
{
    return rc_buffer_copy(&copy->images, &source->images);
}

static void count_stored(const rc_source *source, const rc_learner *l, rc_stored *stored)
{
    (void)l;
    stored->images += rc_buffer_bytes(&source->images);
}

static void describe(const rc_source *source, char *text, size_t size)
{
    snprintf(text, size, "the first images of %d classes", source->images.held);
}

/* What `end` will fill in must have room: it cannot fail. */
static rc_status begin(rc_source *source, const rc_learner *l, const int32_t *labels)
{
    (void)labels;
    RC_TRY(rc_buffer_reserve(&source->images, (uint64_t)(l->n_old + l->n_new)));
    return rc_stored_begin(source, l, false);
}

/* The images of a task lie at the front of its pool. */
static void end(rc_source *source, const rc_learner *l)
{
    rc_image_buffer *b = &source->images;
    for (int place = 0; l->learnt && place < l->images && b->held < l->n_old + l->n_new; place++) {
        int32_t label;
        l->backend->read_bytes(l->backend, &label, l->data.labels + place, sizeof label);
        bool known = false;
        for (int i = 0; i < b->held; i++)
            known = known || b->labels[i] == label;
        if (known)
            continue;
        l->backend->read_images(l->backend, b->images + (size_t)b->held * b->image_bytes, l->data.images,
                                (size_t)place * b->image_bytes, b->image_bytes);
        b->labels[b->held++] = label;
    }
    rc_buffer_end_task(b);
}

/* Both ways: into the file, or out of it. */
static rc_status exchange(const rc_image_buffer *b, int64_t held, rc_source_file *file)
{
    const rc_source_array images = {
        .name = "first.images", .dims = 2, .shape = {held, (int64_t)b->image_bytes}, .values = b->images};
    const rc_source_array labels = {
        .name = "first.labels", .whole = true, .dims = 1, .shape = {held}, .values = b->labels};
    RC_TRY(file->array(file, &images));
    return file->array(file, &labels);
}

static rc_status save(const rc_source *source, const rc_learner *l, rc_source_file *file)
{
    (void)l;
    return source->images.held > 0 ? exchange(&source->images, source->images.held, file) : RC_OK;
}

static rc_status load(rc_source *source, const rc_learner *l, rc_source_file *file)
{
    int64_t held = file->find_rows(file, "first.images", 2);
    if (held != l->student.head.classes)
        return rc_fail(RC_FORMAT, "there are first images of %lld classes, expected %d", (long long)held,
                       l->student.head.classes);
    RC_TRY(rc_buffer_reserve(&source->images, (uint64_t)held));
    RC_TRY(exchange(&source->images, held, file));
    source->images.held = (int)held;
    return RC_OK;
}

const rc_source_kind rc_source_first = {
    .keeps = "one image of every class",
    .replays = true,
    .replays_first = true, /* so that it sees the first task, whose batches it repeats while it has nothing */
    .configure = configure,
    .clone = clone,
    .count_stored = count_stored,
    .describe = describe,
    .begin = begin,
    .end = end,
    .open = rc_stored_open,
    .load = load,
    .save = save,
};

static const rc_method first_images = {
    .name = "first-images",
    .title = "First images",
    .summary = "keeps the first image of every class and replays it",
    .replay = &rc_source_first,
    .main = {.one_batch = true, .real = RC_CE_ALL, .replay = RC_CE_ALL},
    .weights = RC_WEIGHTS_HALVES,
};
