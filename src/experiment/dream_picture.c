#include "experiment/dream_picture.h"

#include <stdlib.h>

#include "base/memory.h"
#include "data/canvas.h"

/* ---- which ------------------------------------------------------------------------------------------------------- */

typedef struct dream {
    int32_t label;
    int rank; /* among those of its label */
    int index;
} dream;

static int compare(int a, int b)
{
    return (a > b) - (a < b);
}

static int by_rank(const void *a, const void *b)
{
    const dream *x = a, *y = b;
    int order = compare(x->rank, y->rank);
    return order != 0 ? order : compare(x->label, y->label);
}

static int by_label(const void *a, const void *b)
{
    const dream *x = a, *y = b;
    int order = compare(x->label, y->label);
    return order != 0 ? order : compare(x->index, y->index);
}

/* The first of every class, then the second of every class, and so on, as many as the picture has; then sorted by
 * class. Returns how many. */
static int choose(dream *d, const int32_t *label, int count)
{
    for (int i = 0; i < count; i++)
        d[i] = (dream){.label = label[i], .index = i};
    qsort(d, (size_t)count, sizeof *d, by_label);
    for (int i = 1; i < count; i++)
        d[i].rank = d[i].label == d[i - 1].label ? d[i - 1].rank + 1 : 0;
    qsort(d, (size_t)count, sizeof *d, by_rank);
    int chosen = count < RC_PICTURE_DREAMS ? count : RC_PICTURE_DREAMS;
    qsort(d, (size_t)chosen, sizeof *d, by_label);
    return chosen;
}

/* ---- where ------------------------------------------------------------------------------------------------------- */

enum { GAP = 4, SIDE = 64 }; /* around a dream; its least size in pixels, so that its name has room */

static int scale_of(int side)
{
    return side < SIDE ? (SIDE + side - 1) / side : 1;
}

static void draw_dream(const rc_image *canvas, const rc_image *image, int place, const char *name)
{
    static const rc_colour ink = {40, 40, 40};
    int scale = scale_of(image->w), w = image->w * scale, h = image->h * scale;
    int left = GAP + place % RC_PICTURE_COLUMNS * (w + GAP);
    int top = GAP + place / RC_PICTURE_COLUMNS * (h + RC_FONT_HEIGHT + 2 * GAP);
    char text[64];
    int most = w / RC_FONT_WIDTH; /* of SIDE pixels or more */
    rc_font_fit(name, most < (int)sizeof text ? most : (int)sizeof text - 1, text);
    rc_canvas_draw(canvas, top, left, image, scale);
    rc_canvas_text(canvas, top + h + GAP / 2, left, text, 1, ink);
}

/* pixels: (replays, h, w, c) normalised. */
static rc_status draw(const rc_learner *l, char *const *class_name, const dream *dreams, const double *pixels,
                      rc_dream_picture *picture)
{
    static const rc_colour paper = {255, 255, 255};
    rc_image image = {.h = l->augment.h, .w = l->augment.w, .c = l->augment.c};
    size_t values = (size_t)image.h * (size_t)image.w * (size_t)image.c;
    int columns = picture->count < RC_PICTURE_COLUMNS ? picture->count : RC_PICTURE_COLUMNS;
    int rows = (picture->count + RC_PICTURE_COLUMNS - 1) / RC_PICTURE_COLUMNS, scale = scale_of(image.w);
    RC_TRY(rc_canvas_make(GAP + (long long)rows * (image.h * scale + RC_FONT_HEIGHT + 2 * GAP),
                          GAP + (long long)columns * (image.w * scale + GAP), paper, &picture->canvas));
    image.pixels = rc_alloc(NULL, values);
    if (image.pixels == NULL) {
        rc_image_free(&picture->canvas);
        return RC_OUT_OF_MEMORY;
    }
    for (int i = 0; i < picture->count; i++) {
        picture->label[i] = dreams[i].label;
        rc_learner_show(l, pixels + (size_t)dreams[i].index * values, image.pixels);
        bool named = dreams[i].label >= 0 && dreams[i].label < l->student.head.classes;
        draw_dream(&picture->canvas, &image, i, named ? class_name[dreams[i].label] : "?");
    }
    rc_free(NULL, image.pixels);
    return RC_OK;
}

rc_status rc_dream_picture_draw(const rc_learner *l, const rc_stage_report *r, char *const *class_name,
                                rc_dream_picture *picture)
{
    const rc_tensor *made = rc_inversion_dreams(r->inversion);
    rc_backend *be = l->backend;
    size_t values = (size_t)made->h * (size_t)made->w * (size_t)made->c;
    *picture = (rc_dream_picture){0};
    dream *dreams = rc_alloc_zeroed(NULL, (size_t)r->replays, sizeof *dreams);
    double *pixels = rc_alloc_zeroed(NULL, (size_t)r->replays * values, sizeof *pixels);
    rc_status status = dreams != NULL && pixels != NULL ? RC_OK : RC_OUT_OF_MEMORY;
    if (status == RC_OK) {
        picture->count = choose(dreams, r->replayed, r->replays);
        be->read_act(be, pixels, made, made->raw);
        status = be->sync(be);
    }
    if (status == RC_OK)
        status = draw(l, class_name, dreams, pixels, picture);
    rc_free(NULL, dreams);
    rc_free(NULL, pixels);
    return status;
}
