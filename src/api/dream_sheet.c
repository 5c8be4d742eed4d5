/* Dreams as pictures, with what they are and how sure the model is. */
#include "api/dream_sheet.h"

#include <math.h>
#include <stdio.h>

enum {
    MARGIN = 20,
    GAP = 10,        /* between images of a row */
    ROW_GAP = 16,    /* between a caption and the image below */
    WIDE_GAP = 30,   /* between names, dreams and real images */
    CAPTION_GAP = 4, /* between an image and its caption */
    TEXT = 2,        /* scale of names and headings */
    SMALL = 1,       /* scale of what has no room otherwise */
    LINE = TEXT * RC_FONT_HEIGHT,
    HEADING = LINE + GAP,
    LEGEND = MARGIN + 2 * LINE,
    SMALLEST_SIDE = 64,
    LARGEST_SIDE = 4096, /* of a sheet, unless a single image needs more */
    SHEET_COLUMNS = 12,  /* dreams and real images together */
    GRID_COLUMNS = 8,    /* of the picture of a class; more only where it would be higher than wide */
    LONGEST_NAME = 24    /* characters; longer names are cut */
};

static const rc_colour paper = {250, 250, 248}, ink = {32, 32, 36}, grey = {125, 125, 130}, frame = {205, 205, 205},
                       red = {190, 40, 30};

static const char legend[] = "below each image: the probability that the model gives to this class";
static const char red_legend[] = "red: the model takes it for another class";

/* ---- measures ---------------------------------------------------------------------------------------------------- */

/* "3 Ankle boot", as it stands on a sheet. The number is that of the file and of the text output. */
static int name_of(const rc_sheet_form *f, int label, char name[LONGEST_NAME + 1])
{
    char text[512];
    snprintf(text, sizeof text, "%d %.400s", label + 1, f->name[label]);
    return rc_font_fit(text, LONGEST_NAME, name);
}

static int clamp(int value, int low, int high)
{
    return value < low ? low : value > high ? high : value;
}

/* So many images beside each other, or rows of them. */
static int columns_width(const rc_sheet_form *f, int columns)
{
    return columns * (f->cell_w + GAP) - GAP;
}

static int rows_height(const rc_sheet_form *f, int rows)
{
    return rows * (f->cell_h + ROW_GAP);
}

static int names_width(const rc_sheet_form *f)
{
    return f->name_length * RC_FONT_WIDTH * TEXT;
}

static int dreams_left(const rc_sheet_form *f)
{
    return MARGIN + names_width(f) + WIDE_GAP;
}

static int real_left(const rc_sheet_form *f)
{
    return dreams_left(f) + columns_width(f, f->dreams) + WIDE_GAP;
}

/* A picture is wide enough for its legend. */
static int with_legend(int w)
{
    int least = 2 * MARGIN + rc_canvas_text_width(legend, SMALL);
    return w > least ? w : least;
}

static int sheet_width(const rc_sheet_form *f)
{
    int end = f->beside ? real_left(f) + columns_width(f, f->real) : dreams_left(f) + columns_width(f, f->dreams);
    return with_legend(end + MARGIN);
}

static int sheet_height(const rc_sheet_form *f, int rows)
{
    return MARGIN + HEADING + rows_height(f, rows) + LEGEND;
}

/* How many images fit beside each other on a sheet, and which. */
static void choose_columns(rc_sheet_form *f)
{
    int room = LARGEST_SIDE - 2 * MARGIN - names_width(f) - 2 * WIDE_GAP;
    int columns = clamp((room + GAP) / (f->cell_w + GAP), f->beside ? 2 : 1, SHEET_COLUMNS);
    f->real = f->beside ? clamp(columns / 2, 1, RC_DREAM_REAL) : 0;
    f->dreams = clamp(columns - f->real, 1, f->per_class);
}

rc_sheet_form rc_sheet_form_of(const rc_saved_model *model, const rc_picture_settings *settings)
{
    const rc_augment *image = &model->learner.augment;
    rc_sheet_form f = {.name = (const char *const *)model->class_name,
                       .classes = model->learner.student.head.classes,
                       .h = image->h,
                       .w = image->w,
                       .scale = settings->scale,
                       .per_class = settings->per_class,
                       .beside = settings->beside};
    char name[LONGEST_NAME + 1];
    if (f.scale < 1)
        f.scale = f.h < SMALLEST_SIDE ? (SMALLEST_SIDE + f.h - 1) / f.h : 1;
    bool large = f.w * f.scale >= rc_canvas_text_width("100 %", TEXT);
    f.caption_scale = large ? TEXT : SMALL;
    int caption = rc_canvas_text_width("100 %", f.caption_scale);
    f.cell_w = f.w * f.scale > caption ? f.w * f.scale : caption;
    f.cell_h = f.h * f.scale + CAPTION_GAP + f.caption_scale * RC_FONT_HEIGHT;
    for (int label = 0; label < f.classes; label++) {
        int length = name_of(&f, label, name);
        f.name_length = length > f.name_length ? length : f.name_length;
    }
    choose_columns(&f);
    f.rows = clamp((LARGEST_SIDE - sheet_height(&f, 0)) / rows_height(&f, 1), 1, f.classes);
    f.sheets = (f.classes + f.rows - 1) / f.rows;
    return f;
}

/* The picture of a class: its dreams in a grid, its real images below. */
static int grid_columns(int dreams)
{
    int columns = clamp(dreams, 1, GRID_COLUMNS);
    while (columns >= GRID_COLUMNS && (long long)columns * columns < dreams)
        columns++;
    return columns;
}

static int grid_width(const rc_sheet_form *f, int dreams)
{
    int columns = grid_columns(dreams);
    if (f->beside && columns < RC_DREAM_REAL)
        columns = RC_DREAM_REAL;
    return with_legend(2 * MARGIN + columns_width(f, columns));
}

static long long grid_height(const rc_sheet_form *f, int dreams)
{
    int columns = grid_columns(dreams), rows = (dreams + columns - 1) / columns;
    long long height = MARGIN + 2LL * HEADING + (long long)rows * rows_height(f, 1) + LEGEND;
    return f->beside ? height + HEADING + rows_height(f, 1) : height;
}

rc_status rc_sheet_check(const rc_sheet_form *f)
{
    rc_status status = rc_canvas_check(sheet_height(f, f->rows), sheet_width(f));
    if (status == RC_OK)
        status = rc_canvas_check(grid_height(f, f->per_class), grid_width(f, f->per_class));
    return status == RC_OK
               ? RC_OK
               : rc_fail(status, "%s; a smaller value of the setting 'scale' or 'per_class' helps", rc_message());
}

/* ---- drawing ----------------------------------------------------------------------------------------------------- */

typedef struct sheet {
    const rc_sheet_form *form;
    const rc_dreams *dreams;
    const rc_real_images *real;
    const rc_image *canvas;
} sheet;

/* An image in its frame, and below it the probability, in the middle. */
static void draw_cell(const sheet *s, int top, int left, uint8_t *pixels, double probability, rc_colour colour)
{
    const rc_sheet_form *f = s->form;
    const rc_image image = {.h = f->h, .w = f->w, .c = s->dreams->c, .pixels = pixels};
    char caption[16];
    int h = f->h * f->scale, w = f->w * f->scale;
    int inset = (f->cell_w - w) / 2;
    rc_canvas_fill(s->canvas, top - 1, left + inset - 1, h + 2, w + 2, frame);
    rc_canvas_draw(s->canvas, top, left + inset, &image, f->scale);
    if (isfinite(probability)) /* damaged weights make any number */
        snprintf(caption, sizeof caption, "%.0f %%", 100 * probability);
    else
        snprintf(caption, sizeof caption, "?");
    rc_canvas_text(s->canvas, top + h + CAPTION_GAP,
                   left + (f->cell_w - rc_canvas_text_width(caption, f->caption_scale)) / 2, caption, f->caption_scale,
                   colour);
}

/* The first `count` dreams of a class, `columns` in a row. */
static void draw_dreams(const sheet *s, int top, int left, int label, int count, int columns)
{
    const rc_dreams *d = s->dreams;
    size_t image = (size_t)d->h * (size_t)d->w * (size_t)d->c;
    for (int i = 0; i < count && i < d->kept[label]; i++) {
        size_t place = (size_t)label * (size_t)d->per_class + (size_t)i;
        draw_cell(s, top + rows_height(s->form, i / columns), left + i % columns * (s->form->cell_w + GAP),
                  d->images + place * image, (double)d->probability[place], ink);
    }
    if (d->kept[label] == 0)
        rc_canvas_text(s->canvas, top, left, "none", TEXT, red);
}

static void draw_real(const sheet *s, int top, int left, int label, int count)
{
    const rc_real_images *r = s->real;
    size_t image = (size_t)s->dreams->h * (size_t)s->dreams->w * (size_t)s->dreams->c;
    for (int i = 0; i < count && i < r->count[label]; i++) {
        size_t place = (size_t)label * RC_DREAM_REAL + (size_t)i;
        draw_cell(s, top, left + i * (s->form->cell_w + GAP), r->images + place * image, (double)r->probability[place],
                  r->taken[place] == label ? ink : red);
    }
    if (r->count[label] == 0)
        rc_canvas_text(s->canvas, top, left, "none", TEXT, grey);
}

static void draw_legend(const sheet *s)
{
    int top = s->canvas->h - LEGEND;
    int scale = 2 * MARGIN + rc_canvas_text_width(legend, TEXT) <= s->canvas->w ? TEXT : SMALL;
    rc_canvas_text(s->canvas, top, MARGIN, legend, scale, grey);
    if (s->form->beside)
        rc_canvas_text(s->canvas, top + LINE, MARGIN, red_legend, scale, red);
}

rc_status rc_sheet_draw(const rc_sheet_form *f, const rc_dreams *dreams, const rc_real_images *real, int index,
                        rc_image *canvas)
{
    int first = index * f->rows, rows = clamp(f->classes - first, 1, f->rows);
    char name[LONGEST_NAME + 1];
    RC_TRY(rc_canvas_make(sheet_height(f, rows), sheet_width(f), paper, canvas));
    const sheet s = {f, dreams, real, canvas};
    rc_canvas_text(canvas, MARGIN, dreams_left(f), "dreams", TEXT, grey);
    if (f->beside)
        rc_canvas_text(canvas, MARGIN, real_left(f), "real", TEXT, grey);
    for (int row = 0; row < rows; row++) {
        int top = MARGIN + HEADING + rows_height(f, row);
        name_of(f, first + row, name);
        rc_canvas_text(canvas, top + (f->h * f->scale - TEXT * RC_FONT_CAPITAL) / 2, MARGIN, name, TEXT, ink);
        draw_dreams(&s, top, dreams_left(f), first + row, f->dreams, f->dreams);
        if (f->beside)
            draw_real(&s, top, real_left(f), first + row, f->real);
    }
    draw_legend(&s);
    return RC_OK;
}

rc_status rc_sheet_draw_class(const rc_sheet_form *f, const rc_dreams *dreams, const rc_real_images *real, int label,
                              rc_image *canvas)
{
    int kept = dreams->kept[label], columns = grid_columns(kept), rows = (kept + columns - 1) / columns;
    int w = grid_width(f, kept), top = MARGIN;
    char heading[512], text[512];
    RC_TRY(rc_canvas_make(grid_height(f, kept), w, paper, canvas));
    const sheet s = {f, dreams, real, canvas};
    snprintf(text, sizeof text, "%d %.400s", label + 1, f->name[label]);
    rc_font_fit(text, clamp((w - 2 * MARGIN) / (RC_FONT_WIDTH * TEXT), 3, (int)sizeof heading - 1), heading);
    rc_canvas_text(canvas, top, MARGIN, heading, TEXT, ink);
    rc_canvas_text(canvas, top += HEADING, MARGIN, "dreams", TEXT, grey);
    draw_dreams(&s, top += HEADING, MARGIN, label, kept, columns);
    top += rows_height(f, rows);
    if (f->beside) {
        rc_canvas_text(canvas, top, MARGIN, "real", TEXT, grey);
        draw_real(&s, top + HEADING, MARGIN, label, RC_DREAM_REAL);
    }
    draw_legend(&s);
    return RC_OK;
}
