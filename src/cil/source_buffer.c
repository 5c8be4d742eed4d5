/* Some real old images (docs/methods/er.md): a reservoir of all that tasks have shown (buffer.h), kept on the host. */
#include <math.h>
#include <stdio.h>

#include "cil/learner.h"
#include "cil/sources.h"

static int held_images(const rc_method *method, const rc_settings *s)
{
    return s->buffer_size > 0 ? s->buffer_size : method->buffer_size;
}

static rc_status configure(rc_source *source, const rc_learner *l, const rc_settings *s, const rc_method *method)
{
    rc_image_buffer *buffer = &source->images;
    if (buffer->capacity == 0)
        rc_buffer_init(buffer, 0, (size_t)l->augment.h * (size_t)l->augment.w * (size_t)l->augment.c);
    rc_buffer_resize(buffer, held_images(method, s));
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
    snprintf(text, size, "%d images and their labels, of the %llu that were shown", source->images.held,
             (unsigned long long)source->images.offered);
}

static rc_status begin(rc_source *source, const rc_learner *l, const int32_t *labels)
{
    (void)labels;
    return rc_stored_begin(source, l, true);
}

/* If the task was learnt, the buffer takes what the task has shown; else it stays as it was. */
static void end(rc_source *source, const rc_learner *l)
{
    if (l->learnt)
        rc_buffer_commit(&source->images, l->backend, l->data.images, l->data.labels);
    rc_buffer_end_task(&source->images);
}

/* ---- files ------------------------------------------------------------------------------------------------------ */

static rc_source_array images_of(const rc_learner *l, const rc_image_buffer *b, int64_t held)
{
    return (rc_source_array){.name = "buffer.images",
                             .dims = 4,
                             .values = b->images,
                             .shape = {held, l->augment.h, l->augment.w, l->augment.c}};
}

static rc_source_array labels_of(const rc_image_buffer *b, int64_t held)
{
    return (rc_source_array){.name = "buffer.labels", .whole = true, .dims = 1, .values = b->labels, .shape = {held}};
}

static rc_status save(const rc_source *source, const rc_learner *l, rc_source_file *file)
{
    const rc_image_buffer *b = &source->images;
    const rc_source_array images = images_of(l, b, b->held), labels = labels_of(b, b->held);
    double offered = (double)b->offered;
    if (b->held == 0)
        return RC_OK;
    RC_TRY(file->array(file, &images));
    RC_TRY(file->array(file, &labels));
    return file->number(file, "buffer_offered", &offered);
}

/* Labels are of classes that the model knows. */
static rc_status load(rc_source *source, const rc_learner *l, rc_source_file *file)
{
    rc_image_buffer *b = &source->images;
    int64_t held = file->find_rows(file, "buffer.images", 4);
    double offered;
    if (held < 0)
        return RC_OK;
    RC_TRY(file->number(file, "buffer_offered", &offered));
    if (held < 1 || held > b->capacity)
        return rc_fail(RC_FORMAT, "the buffer holds %lld images, expected 1 to %d", (long long)held, b->capacity);
    if (!(offered >= (double)held && offered <= UINT32_MAX && offered == floor(offered)))
        return rc_fail(RC_FORMAT, "%.10g images were offered to a buffer that holds %lld, expected as many or more",
                       offered, (long long)held);
    rc_source_array images = images_of(l, b, held), labels = labels_of(b, held);
    RC_TRY(file->find_array(file, &images)); /* before there is room for them */
    RC_TRY(file->find_array(file, &labels));
    RC_TRY(rc_buffer_reserve(b, (uint64_t)held));
    images.values = b->images;
    labels.values = b->labels;
    RC_TRY(file->array(file, &images));
    RC_TRY(file->array(file, &labels));
    for (int64_t i = 0; i < held; i++)
        if (b->labels[i] < 0 || b->labels[i] >= l->student.head.classes)
            return rc_fail(RC_FORMAT, "image %lld of the buffer is of class %d, but there are %d", (long long)i,
                           b->labels[i], l->student.head.classes);
    b->held = (int)held;
    b->offered = (uint64_t)offered;
    return RC_OK;
}

const rc_source_kind rc_source_buffer = {
    .keeps = "some of the images",
    .replays = true,
    .replays_first = true,
    .held_images = held_images,
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
