/* Pictures of dreams: the font, drawing, and where everything stands on a sheet. The expected measures are written out
 * here once more, in numbers, so that a change of the layout is seen. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#include <cmocka.h>

#include "api/dream_sheet.h"
#include "base/memory.h"
#include "support/data_files.h"
#include "support/succeeds.h"

static const rc_colour white = {255, 255, 255}, black = {0, 0, 0};

static const uint8_t *pixel(const rc_image *canvas, int y, int x)
{
    assert_true(y >= 0 && x >= 0 && y < canvas->h && x < canvas->w);
    return canvas->pixels + ((size_t)y * (size_t)canvas->w + (size_t)x) * 3;
}

static bool is(const rc_image *canvas, int y, int x, int red, int green, int blue)
{
    const uint8_t *p = pixel(canvas, y, x);
    return p[0] == red && p[1] == green && p[2] == blue;
}

/* ---- font -------------------------------------------------------------------------------------------------------- */

static void characters_differ(void **state)
{
    (void)state;
    for (int a = ' '; a <= RC_FONT_BOX; a++) {
        const uint8_t *rows = rc_font_rows((unsigned char)a);
        int ink = 0;
        for (int y = 0; y < RC_FONT_ROWS; y++) {
            assert_true(rows[y] < 32); /* five columns */
            ink += rows[y];
        }
        assert_int_equal(ink > 0, a != ' ');
        for (int b = ' '; b < a; b++)
            if (memcmp(rows, rc_font_rows((unsigned char)b), RC_FONT_ROWS) == 0)
                fail_msg("'%c' looks like '%c'", a, b);
    }
    assert_ptr_equal(rc_font_rows(0x1f), rc_font_rows(RC_FONT_BOX));
    assert_ptr_equal(rc_font_rows(0xff), rc_font_rows(RC_FONT_BOX));
    /* capitals and digits stand on the baseline, which some small letters cross */
    for (const char *c = "AZ09dh"; *c != '\0'; c++)
        assert_true(rc_font_rows((unsigned char)*c)[RC_FONT_CAPITAL - 1] != 0 &&
                    rc_font_rows((unsigned char)*c)[RC_FONT_CAPITAL] == 0);
    for (const char *c = "gjpqy"; *c != '\0'; c++)
        assert_true(rc_font_rows((unsigned char)*c)[RC_FONT_ROWS - 1] != 0);
}

/* Whoever changes a letter changes every picture with text in it, and this sum. */
static void letters_never_change(void **state)
{
    (void)state;
    uLong sum = 0;
    for (int a = 0; a < 256; a++)
        sum = crc32(sum, rc_font_rows((unsigned char)a), RC_FONT_ROWS);
    assert_int_equal(sum, 0x45E5943F);
}

static void fits(const char *text, int most, const char *expected)
{
    char out[64];
    memset(out, 'x', sizeof out);
    assert_int_equal(rc_font_fit(text, most, out), strlen(expected));
    assert_string_equal(out, expected);
    assert_true(out[most + 1] == 'x'); /* room for most + 1 bytes is enough */
}

static void names_become_characters_of_the_font(void **state)
{
    (void)state;
    fits("", 5, "");
    fits(" !~", 5, " !~");
    fits("Ankle", 5, "Ankle");
    fits("Ankle boot", 5, "An...");
    fits("Ankle boot", 9, "Ankle ...");
    fits("Ankle boot", 10, "Ankle boot");
    fits("abcd", 3, "...");
    fits("\xc3\x84pfel", 9, "Apfel");             /* U+00C4 */
    fits("\xc5\xbb\xc3\xb3\xc5\x82w", 9, "Zolw"); /* U+017B, U+00F3, U+0142 */
    fits("\xc3\xbf\xc5\xbf\xc3\x80", 9, "ysA");   /* U+00FF, and the ends of the table */
    fits("e\xcc\x81te\xcc\x81", 9, "ete");        /* combining marks take no room */
    fits("e\xcc\x81te\xcc\x81", 3, "ete");
    fits("a\xcc\x80z\xcd\xaf\xcd\xb0", 9, "az\x7f"); /* U+0300 and U+036F are the first and the last, U+0370 is none */
    fits("\xe7\x8c\xab", 9, "\x7f");                 /* a cat in Chinese: one box */
    fits("a\xf0\x9f\x90\xb1z", 9, "a\x7fz");         /* a cat as a picture */
    fits("a\xc2\xa0z", 9, "a z");
    fits("\xc6\x80", 9, "\x7f");         /* U+0180, behind the table */
    fits("\xc2\xbf", 9, "\x7f");         /* U+00BF, before it */
    fits("a\xff\xfez", 9, "a\x7f\x7fz"); /* not UTF-8 */
    fits("\t\x7f", 9, "\x7f\x7f");
    fits("\xe7\x8c\xab\xe7\x8c\xab\xe7\x8c\xab\xe7\x8c\xab", 3, "...");
}

/* ---- drawing ----------------------------------------------------------------------------------------------------- */

static void text_is_drawn_in_its_place(void **state)
{
    (void)state;
    for (int scale = 1; scale <= 3; scale++) {
        rc_image canvas;
        SUCCEEDS(rc_canvas_make(60, 80, white, &canvas));
        rc_canvas_text(&canvas, 5, 7, "iL", scale, black);
        for (int y = 0; y < 60; y++)
            for (int x = 0; x < 80; x++) {
                int row = y < 5 ? -1 : (y - 5) / scale, column = x < 7 ? -1 : (x - 7) / scale;
                const uint8_t *rows = rc_font_rows(column < RC_FONT_WIDTH ? 'i' : 'L');
                bool inside = row >= 0 && row < RC_FONT_ROWS && column >= 0 && column < 2 * RC_FONT_WIDTH;
                int bit = inside ? column % RC_FONT_WIDTH : 0;
                bool ink = inside && bit < 5 && (rows[row] >> (4 - bit) & 1) != 0;
                assert_true(is(&canvas, y, x, ink ? 0 : 255, ink ? 0 : 255, ink ? 0 : 255));
            }
        assert_int_equal(rc_canvas_text_width("iL", scale), 11 * scale);
        assert_int_equal(rc_canvas_text_width("", scale), 0);
        rc_image_free(&canvas);
    }
}

static void what_lies_outside_is_not_drawn(void **state)
{
    (void)state;
    static uint8_t bytes[3] = {9, 8, 7};
    const rc_image image = {.h = 1, .w = 1, .c = 3, .pixels = bytes};
    rc_image canvas;
    SUCCEEDS(rc_canvas_make(4, 5, white, &canvas));
    rc_canvas_fill(&canvas, -3, -3, 4, 4, black);
    rc_canvas_fill(&canvas, 3, 4, 100, 100, black);
    rc_canvas_text(&canvas, 100, 100, "x", 1, black);
    rc_canvas_text(&canvas, -100, -100, "x", 1, black);
    rc_canvas_draw(&canvas, 3, -1, &image, 2);
    for (int y = 0; y < 4; y++)
        for (int x = 0; x < 5; x++) {
            bool dark = (y == 0 && x == 0) || (y == 3 && x == 4), drawn = y == 3 && x == 0;
            assert_true(dark    ? is(&canvas, y, x, 0, 0, 0)
                        : drawn ? is(&canvas, y, x, 9, 8, 7)
                                : is(&canvas, y, x, 255, 255, 255));
        }
    rc_image_free(&canvas);
    /* our own reader takes every picture that is written */
    assert_int_equal(rc_canvas_check(RC_IMAGE_MAX_SIDE, 3), RC_OK);
    assert_int_equal(rc_canvas_check(3, RC_IMAGE_MAX_SIDE), RC_OK);
    assert_int_equal(rc_canvas_check(RC_IMAGE_MAX_SIDE + 1, 1), RC_INVALID_ARGUMENT);
    assert_int_equal(rc_canvas_check(1, RC_IMAGE_MAX_SIDE + 1), RC_INVALID_ARGUMENT);
    assert_int_equal(rc_canvas_check(8192, 8192), RC_OK);
    assert_int_equal(rc_canvas_make(8192, 8193, white, &canvas), RC_INVALID_ARGUMENT);
    assert_null(canvas.pixels);
}

/* ---- sheets ------------------------------------------------------------------------------------------------------ */

enum { SIZE = 4, DREAMS = 3, CLASSES = 3, IMAGE = SIZE * SIZE };

/* As much of a model as a sheet looks at. */
static void pretend(rc_saved_model *model, char **names, int classes, int size, int channels)
{
    memset(model, 0, sizeof *model);
    model->class_name = names;
    model->learner.student.head.classes = classes;
    model->learner.augment.h = model->learner.augment.w = size;
    model->learner.augment.c = channels;
}

/* Grey dreams and real images: dream i of class k is 10 k + i everywhere, real image i is 100 + 10 k + i. The second
 * class has no dream, the third no real image. */
typedef struct world {
    rc_saved_model model;
    rc_dreams dreams;
    rc_real_images real;
    int kept[CLASSES], count[CLASSES];
    uint8_t dream[CLASSES * DREAMS * IMAGE], image[CLASSES * RC_DREAM_REAL * IMAGE];
    float sure[CLASSES * DREAMS], real_sure[CLASSES * RC_DREAM_REAL];
    int32_t taken[CLASSES * RC_DREAM_REAL];
} world;

static char *three_names[CLASSES] = {(char[]){"T-shirt"}, (char[]){"\xe7\x8c\xab"},
                                     (char[]){"a name that is much too long for a sheet"}};

static void make_world(world *w)
{
    memset(w, 0, sizeof *w);
    pretend(&w->model, three_names, CLASSES, SIZE, 1);
    w->dreams = (rc_dreams){.classes = CLASSES,
                            .per_class = DREAMS,
                            .h = SIZE,
                            .w = SIZE,
                            .c = 1,
                            .kept = w->kept,
                            .images = w->dream,
                            .probability = w->sure};
    w->real = (rc_real_images){
        .classes = CLASSES, .count = w->count, .images = w->image, .probability = w->real_sure, .taken = w->taken};
    for (int k = 0; k < CLASSES; k++) {
        w->kept[k] = k == 1 ? 0 : k == 0 ? DREAMS : 1;
        w->count[k] = k == 2 ? 0 : 2;
        for (int i = 0; i < DREAMS; i++) {
            memset(w->dream + (k * DREAMS + i) * IMAGE, 10 * k + i, IMAGE);
            w->sure[k * DREAMS + i] = 0.1f * (float)(i + 1);
        }
        for (int i = 0; i < RC_DREAM_REAL; i++) {
            memset(w->image + (k * RC_DREAM_REAL + i) * IMAGE, 100 + 10 * k + i, IMAGE);
            w->real_sure[k * RC_DREAM_REAL + i] = 0.5f + 0.01f * (float)i;
            w->taken[k * RC_DREAM_REAL + i] = i == 0 ? k : 0; /* the second image of the second class is mistaken */
        }
    }
}

/* Does the text stand there, in that colour on paper, and nothing else in its lines? */
static bool stands(const rc_image *canvas, int top, int left, const char *text, int scale, rc_colour colour)
{
    rc_image expected;
    bool same = true;
    int w = rc_canvas_text_width(text, scale), h = RC_FONT_ROWS * scale;
    SUCCEEDS(rc_canvas_make(h, w, (rc_colour){250, 250, 248}, &expected));
    rc_canvas_text(&expected, 0, 0, text, scale, colour);
    for (int y = 0; y < h; y++)
        same = same && memcmp(pixel(canvas, top + y, left), pixel(&expected, y, 0), (size_t)w * 3) == 0;
    rc_image_free(&expected);
    return same;
}

static const rc_colour ink = {32, 32, 36}, grey = {125, 125, 130}, red = {190, 40, 30};

/* An image of one grey and 64 x 64 pixels in its frame, and its caption of 4 characters in the middle below. */
static void check_cell(const rc_image *canvas, int top, int left, int value, const char *caption, rc_colour colour)
{
    for (int y = -2; y < 66; y++)
        for (int x = -2; x < 66; x++) {
            bool inside = y >= 0 && x >= 0 && y < 64 && x < 64, outside = y == -2 || x == -2 || y == 65 || x == 65;
            if (!(inside    ? is(canvas, top + y, left + x, value, value, value)
                  : outside ? is(canvas, top + y, left + x, 250, 250, 248)
                            : is(canvas, top + y, left + x, 205, 205, 205)))
                fail_msg("pixel %d, %d of image %d at %d, %d is wrong", y, x, value, top, left);
        }
    assert_true(stands(canvas, top + 68, left + (64 - rc_canvas_text_width(caption, 2)) / 2, caption, 2, colour));
}

/* 4 pixels become 64: cells of 64 x (64 + 4 + 20) pixels, 16 below each other and 10 beside each other. The longest
 * name takes 24 characters of 12 pixels, behind a margin of 20. */
enum { CELL = 64, ROW = 88 + 16, COLUMN = 64 + 10, TOP = 20 + 30, LEFT = 20 + 288 + 30 };

static void sheet_has_names_and_probabilities(void **state)
{
    (void)state;
    static world w;
    rc_image canvas;
    make_world(&w);
    const rc_picture_settings settings = {.per_class = DREAMS};
    const rc_sheet_form form = rc_sheet_form_of(&w.model, &settings);
    assert_true(form.scale == 16 && form.dreams == DREAMS && form.real == 0 && form.rows == 3 && form.sheets == 1);
    SUCCEEDS(rc_sheet_check(&form));
    SUCCEEDS(rc_sheet_draw(&form, &w.dreams, &w.real, 0, &canvas));
    assert_int_equal(canvas.w, LEFT + 3 * COLUMN - 10 + 20);
    assert_int_equal(canvas.h, TOP + 3 * ROW + 20 + 40);
    assert_true(stands(&canvas, 20, LEFT, "dreams", 2, grey));
    assert_true(stands(&canvas, TOP + 25, 20, "1 T-shirt", 2, ink));
    assert_true(stands(&canvas, TOP + ROW + 25, 20, "2 \x7f", 2, ink));
    assert_true(stands(&canvas, TOP + 2 * ROW + 25, 20, "3 a name that is much...", 2, ink));
    check_cell(&canvas, TOP, LEFT, 0, "10 %", ink);
    check_cell(&canvas, TOP, LEFT + COLUMN, 1, "20 %", ink);
    check_cell(&canvas, TOP, LEFT + 2 * COLUMN, 2, "30 %", ink);
    assert_true(stands(&canvas, TOP + ROW, LEFT, "none", 2, red));
    check_cell(&canvas, TOP + 2 * ROW, LEFT, 20, "10 %", ink);
    assert_true(is(&canvas, TOP + 2 * ROW, LEFT + COLUMN, 250, 250, 248)); /* it has one dream only */
    assert_true(stands(&canvas, canvas.h - 60, 20, "below each image: ", 1, grey));
    for (int x = 20; x < 200; x++) /* no word about red without real images */
        assert_true(is(&canvas, canvas.h - 40 + 3, x, 250, 250, 248));
    rc_image_free(&canvas);
}

static void real_images_stand_beside(void **state)
{
    (void)state;
    static world w;
    enum { REAL = LEFT + 3 * COLUMN - 10 + 30 };
    rc_image canvas;
    make_world(&w);
    const rc_picture_settings settings = {.per_class = DREAMS, .beside = true};
    const rc_sheet_form form = rc_sheet_form_of(&w.model, &settings);
    assert_true(form.dreams == DREAMS && form.real == 6);
    SUCCEEDS(rc_sheet_draw(&form, &w.dreams, &w.real, 0, &canvas));
    assert_int_equal(canvas.w, REAL + 6 * COLUMN - 10 + 20);
    assert_int_equal(canvas.h, TOP + 3 * ROW + 20 + 40);
    assert_true(stands(&canvas, 20, LEFT, "dreams", 2, grey));
    assert_true(stands(&canvas, 20, REAL, "real", 2, grey));
    check_cell(&canvas, TOP, LEFT, 0, "10 %", ink);
    check_cell(&canvas, TOP, REAL, 100, "50 %", ink);
    check_cell(&canvas, TOP, REAL + COLUMN, 101, "51 %", ink);
    check_cell(&canvas, TOP + ROW, REAL, 110, "50 %", ink);
    check_cell(&canvas, TOP + ROW, REAL + COLUMN, 111, "51 %", red); /* taken for the first class */
    assert_true(stands(&canvas, TOP + 2 * ROW, REAL, "none", 2, grey));
    assert_true(stands(&canvas, canvas.h - 60, 20, "below each image: the probability", 2, grey));
    assert_true(stands(&canvas, canvas.h - 40, 20, "red: the model takes it for another class", 2, red));
    rc_image_free(&canvas);
}

static void class_has_a_picture_of_its_own(void **state)
{
    (void)state;
    static world w;
    rc_image canvas;
    make_world(&w);
    const rc_picture_settings settings = {.per_class = DREAMS, .beside = true};
    const rc_sheet_form form = rc_sheet_form_of(&w.model, &settings);
    SUCCEEDS(rc_sheet_draw_class(&form, &w.dreams, &w.real, 0, &canvas));
    assert_int_equal(canvas.w, 2 * 20 + 8 * COLUMN - 10); /* real images are 8 */
    assert_int_equal(canvas.h, 20 + 30 + 30 + ROW + 30 + ROW + 60);
    assert_true(stands(&canvas, 20, 20, "1 T-shirt", 2, ink));
    assert_true(stands(&canvas, 50, 20, "dreams", 2, grey));
    check_cell(&canvas, 80, 20 + 2 * COLUMN, 2, "30 %", ink);
    assert_true(stands(&canvas, 80 + ROW, 20, "real", 2, grey));
    check_cell(&canvas, 110 + ROW, 20 + COLUMN, 101, "51 %", ink);
    rc_image_free(&canvas);
    /* one row has room for the whole of a long name */
    SUCCEEDS(rc_sheet_draw_class(&form, &w.dreams, &w.real, 2, &canvas));
    assert_true(stands(&canvas, 20, 20, "3 a name that is much too long for a sheet", 2, ink));
    assert_true(stands(&canvas, 110 + ROW, 20, "none", 2, grey));
    rc_image_free(&canvas);
}

static void a_number_that_is_none_is_no_percentage(void **state)
{
    (void)state;
    static world w;
    rc_image canvas;
    make_world(&w);
    w.sure[0] = NAN;
    const rc_picture_settings settings = {.per_class = DREAMS};
    const rc_sheet_form form = rc_sheet_form_of(&w.model, &settings);
    SUCCEEDS(rc_sheet_draw(&form, &w.dreams, &w.real, 0, &canvas));
    check_cell(&canvas, TOP, LEFT, 0, "?", ink);
    rc_image_free(&canvas);
}

/* ---- many and large ---------------------------------------------------------------------------------------------- */

static void many_classes_take_several_sheets(void **state)
{
    (void)state;
    enum { MANY = 1000, PER_SHEET = (4096 - TOP - 60) / ROW, NAMES = 12 * 12, AT = 20 + NAMES + 30 };
    static char *names[MANY];
    static int kept[MANY], count[MANY];
    static uint8_t dream[MANY * IMAGE], image[MANY * RC_DREAM_REAL * IMAGE];
    static float sure[MANY], real_sure[MANY * RC_DREAM_REAL];
    static int32_t taken[MANY * RC_DREAM_REAL];
    rc_saved_model model;
    const rc_picture_settings settings = {.per_class = 1, .beside = true};
    for (int i = 0; i < MANY; i++)
        names[i] = three_names[0];
    /* the first class of the second sheet alone has a dream and an image */
    kept[PER_SHEET] = count[PER_SHEET] = 1;
    memset(dream + PER_SHEET * IMAGE, 77, IMAGE);
    memset(image + PER_SHEET * RC_DREAM_REAL * IMAGE, 99, IMAGE);
    taken[PER_SHEET * RC_DREAM_REAL] = PER_SHEET;
    sure[PER_SHEET] = 0.4f;
    real_sure[PER_SHEET * RC_DREAM_REAL] = 0.6f;
    pretend(&model, names, MANY, SIZE, 1);
    const rc_sheet_form form = rc_sheet_form_of(&model, &settings);
    assert_int_equal(form.rows, PER_SHEET);
    assert_int_equal(form.sheets, (MANY + PER_SHEET - 1) / PER_SHEET);
    SUCCEEDS(rc_sheet_check(&form));
    const rc_dreams dreams = {.classes = MANY,
                              .per_class = 1,
                              .h = SIZE,
                              .w = SIZE,
                              .c = 1,
                              .kept = kept,
                              .images = dream,
                              .probability = sure};
    const rc_real_images real = {
        .classes = MANY, .count = count, .images = image, .probability = real_sure, .taken = taken};
    rc_image canvas;
    SUCCEEDS(rc_sheet_draw(&form, &dreams, &real, 1, &canvas));
    assert_int_equal(canvas.h, TOP + PER_SHEET * ROW + 60);
    char first[32];
    snprintf(first, sizeof first, "%d T-shirt", PER_SHEET + 1);
    assert_true(stands(&canvas, TOP + 25, 20, first, 2, ink));
    check_cell(&canvas, TOP, AT, 77, "40 %", ink);
    check_cell(&canvas, TOP, AT + CELL + 30, 99, "60 %", ink);
    rc_image_free(&canvas);
    SUCCEEDS(rc_sheet_draw(&form, &dreams, &real, form.sheets - 1, &canvas));
    assert_int_equal(canvas.h, TOP + (MANY - (form.sheets - 1) * PER_SHEET) * ROW + 60); /* what is left */
    assert_true(stands(&canvas, canvas.h - 60 - ROW + 25, 20, "1000 T-shirt", 2, ink));
    rc_image_free(&canvas);
}

/* A hundred dreams are a square of ten rows; the last of 65 is alone in a row of nine. */
static void many_dreams_are_a_square(void **state)
{
    (void)state;
    static uint8_t dream[100 * IMAGE];
    static float sure[100];
    rc_saved_model model;
    rc_image canvas;
    const rc_picture_settings settings = {.per_class = 100};
    const int counts[] = {1, 8, 9, 64, 65, 81, 100}, columns[] = {1, 8, 8, 8, 9, 9, 10},
              rows[] = {1, 1, 2, 8, 8, 9, 10};
    pretend(&model, three_names, 1, SIZE, 1);
    const rc_sheet_form form = rc_sheet_form_of(&model, &settings);
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        int kept = counts[i], width = 40 + columns[i] * COLUMN - 10, last = kept - 1;
        const rc_dreams dreams = {.classes = 1,
                                  .per_class = 100,
                                  .h = SIZE,
                                  .w = SIZE,
                                  .c = 1,
                                  .kept = &kept,
                                  .images = dream,
                                  .probability = sure};
        memset(dream + last * IMAGE, 200, IMAGE);
        SUCCEEDS(rc_sheet_draw_class(&form, &dreams, &(rc_real_images){0}, 0, &canvas));
        assert_int_equal(canvas.w, width > 40 + 68 * 6 - 1 ? width : 40 + 68 * 6 - 1); /* as wide as the legend */
        assert_int_equal(canvas.h, 80 + rows[i] * ROW + 60);
        check_cell(&canvas, 80 + last / columns[i] * ROW, 20 + last % columns[i] * COLUMN, 200, "0 %", ink);
        rc_image_free(&canvas);
        memset(dream + last * IMAGE, 0, IMAGE);
    }
}

/* ---- files ------------------------------------------------------------------------------------------------------- */

static bool is_there(const char *path)
{
    return access(path, F_OK) == 0;
}

static void classes_with_dreams_have_files(void **state)
{
    (void)state;
    static world w;
    make_world(&w);
    rc_picture_settings settings = {.folder = "out", .per_class = DREAMS, .beside = true};
    SUCCEEDS(rc_dreams_check(&w.model, &settings));
    SUCCEEDS(rc_dreams_write(&w.dreams, &w.real, &w.model, &settings));
    assert_true(is_there("out/all.png") && is_there("out/01-T-shirt.png"));
    assert_true(is_there("out/03-a_name_that_is_much_too_long_for_a_sheet.png"));
    assert_false(is_there("out/02-\xe7\x8c\xab.png")); /* it has no dream */
    assert_false(is_there("out/all-2.png"));
    assert_int_equal(rc_dreams_check(&w.model, &settings), RC_IO);
    settings.force = true;
    SUCCEEDS(rc_dreams_check(&w.model, &settings));
}

static rc_sheet_form form_of(int size, int per_class, int scale, bool beside)
{
    rc_saved_model model;
    const rc_picture_settings settings = {.per_class = per_class, .scale = scale, .beside = beside};
    pretend(&model, three_names, 1, size, 3); /* "1 T-shirt": 9 characters */
    return rc_sheet_form_of(&model, &settings);
}

static void large_images_are_few(void **state)
{
    (void)state;
    rc_sheet_form form = form_of(28, 16, 0, false);
    assert_true(form.scale == 3 && form.dreams == 12 && form.caption_scale == 2 && form.cell_w == 84);
    form = form_of(28, 16, 1, false); /* the caption is wider than the image */
    assert_true(form.scale == 1 && form.caption_scale == 1 && form.cell_w == 29 && form.cell_h == 28 + 4 + 10);
    form = form_of(58, 16, 1, false);
    assert_true(form.caption_scale == 2 && form.cell_w == 58);
    form = form_of(57, 16, 1, false);
    assert_true(form.caption_scale == 1 && form.cell_w == 57);
    form = form_of(64, 100, 0, true);
    assert_true(form.scale == 1 && form.dreams == 6 && form.real == 6);
    form = form_of(1024, 16, 0, false); /* (4096 - 40 - 9 * 12 - 60 + 10) / 1034 */
    assert_true(form.dreams == 3 && form.rows == 1);
    form = form_of(1024, 16, 0, true);
    assert_true(form.dreams == 2 && form.real == 1);
    form = form_of(1024, 16, 4, true); /* never less than one of each */
    assert_true(form.dreams == 1 && form.real == 1);
    form = form_of(1024, 16, 0, true);
    SUCCEEDS(rc_sheet_check(&form));
}

static void pictures_that_are_too_large_are_refused(void **state)
{
    (void)state;
    rc_sheet_form form = form_of(32, 4096, 0, false); /* 64 x 64 dreams */
    SUCCEEDS(rc_sheet_check(&form));
    form = form_of(28, 10000, 0, false);
    assert_int_equal(rc_sheet_check(&form), RC_INVALID_ARGUMENT);
    assert_non_null(strstr(rc_message(), "too large"));
    assert_non_null(strstr(rc_message(), "the setting 'scale' or 'per_class' helps"));
    form = form_of(28, 10000, 1, false);
    SUCCEEDS(rc_sheet_check(&form));
    form = form_of(1024, 1, 64, false); /* a sheet of one image */
    assert_int_equal(rc_sheet_check(&form), RC_INVALID_ARGUMENT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(characters_differ),
        cmocka_unit_test(letters_never_change),
        cmocka_unit_test(names_become_characters_of_the_font),
        cmocka_unit_test(text_is_drawn_in_its_place),
        cmocka_unit_test(what_lies_outside_is_not_drawn),
        cmocka_unit_test(sheet_has_names_and_probabilities),
        cmocka_unit_test(real_images_stand_beside),
        cmocka_unit_test(class_has_a_picture_of_its_own),
        cmocka_unit_test(a_number_that_is_none_is_no_percentage),
        cmocka_unit_test(many_classes_take_several_sheets),
        cmocka_unit_test(many_dreams_are_a_square),
        cmocka_unit_test_setup_teardown(classes_with_dreams_have_files, data_enter_folder, data_leave_folder),
        cmocka_unit_test(large_images_are_few),
        cmocka_unit_test(pictures_that_are_too_large_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
