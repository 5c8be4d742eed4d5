/* Dreams as pictures. */
#include <stdio.h>
#include <string.h>

#include "api/dream.h"
#include "base/file.h"
#include "base/memory.h"
#include "base/utf8.h"
#include "data/image.h"

enum {
    GAP = 2,
    GRID_COLUMNS = 8,
    SHEET_COLUMNS = 16,
    SMALLEST_SIDE = 64,
    BACKGROUND = 32,
    NAME_SIZE = 81 /* longer names are cut */
};

/* A dark canvas of rows x columns tiles with gaps between them. */
static rc_status make_canvas(const rc_dreams *d, int rows, int columns, int scale, rc_image *canvas)
{
    long long h = (long long)rows * (d->h * scale + GAP) + GAP, w = (long long)columns * (d->w * scale + GAP) + GAP;
    *canvas = (rc_image){.h = (int)h, .w = (int)w, .c = d->c};
    if (h > RC_IMAGE_MAX_SIDE * 4LL || w > RC_IMAGE_MAX_SIDE * 4LL)
        return rc_fail(RC_INVALID_ARGUMENT,
                       "a picture of %lld x %lld pixels is too large; a smaller value of the setting 'scale' helps", w,
                       h);
    canvas->pixels = rc_alloc(NULL, (size_t)h * (size_t)w * (size_t)d->c);
    if (canvas->pixels == NULL)
        return RC_OUT_OF_MEMORY;
    memset(canvas->pixels, BACKGROUND, (size_t)h * (size_t)w * (size_t)d->c);
    return RC_OK;
}

/* Draws dream `index` of a class into a tile. */
static void draw_tile(const rc_dreams *d, int label, int index, int row, int column, int scale, const rc_image *canvas)
{
    size_t c = (size_t)d->c, bytes = (size_t)d->h * (size_t)d->w * c;
    const uint8_t *dream = d->images + ((size_t)label * (size_t)d->per_class + (size_t)index) * bytes;
    size_t top = (size_t)(row * (d->h * scale + GAP) + GAP), left = (size_t)(column * (d->w * scale + GAP) + GAP);
    for (size_t y = 0; y < (size_t)(d->h * scale); y++)
        for (size_t x = 0; x < (size_t)(d->w * scale); x++)
            memcpy(canvas->pixels + ((top + y) * (size_t)canvas->w + left + x) * c,
                   dream + (y / (size_t)scale * (size_t)d->w + x / (size_t)scale) * c, c);
}

/* Writes the picture to a temporary file, which gets its name when it is committed. */
static rc_status finish_canvas(const char *path, rc_image *canvas, rc_file_writer **writer)
{
    rc_status status = rc_file_writer_open(path, writer);
    if (status == RC_OK)
        status = rc_image_append_png(canvas, *writer);
    if (status == RC_OK)
        status = rc_file_writer_finish(*writer);
    rc_free(NULL, canvas->pixels);
    return status;
}

static rc_status write_class(const rc_dreams *d, int label, int scale, const char *path, rc_file_writer **writer)
{
    int kept = d->kept[label], columns = kept < GRID_COLUMNS ? kept : GRID_COLUMNS;
    rc_image canvas;
    RC_TRY(make_canvas(d, (kept + columns - 1) / columns, columns, scale, &canvas));
    for (int i = 0; i < kept; i++)
        draw_tile(d, label, i, i / columns, i % columns, scale, &canvas);
    return finish_canvas(path, &canvas, writer);
}

static rc_status write_sheet(const rc_dreams *d, int scale, const char *path, rc_file_writer **writer)
{
    int columns = d->per_class < SHEET_COLUMNS ? d->per_class : SHEET_COLUMNS;
    rc_image canvas;
    RC_TRY(make_canvas(d, d->classes, columns, scale, &canvas));
    for (int label = 0; label < d->classes; label++)
        for (int i = 0; i < d->kept[label] && i < columns; i++)
            draw_tile(d, label, i, label, i, scale, &canvas);
    return finish_canvas(path, &canvas, writer);
}

/* "03-Ankle_boot.png": class names may hold anything. */
static rc_status class_path(const rc_saved_model *model, const char *folder, int label, char path[RC_PATH_SIZE])
{
    char name[NAME_SIZE], file[NAME_SIZE + 32];
    snprintf(file, sizeof file, "%02d-%s.png", label + 1,
             rc_utf8_column(model->class_name[label], 0, name, sizeof name));
    for (char *p = file; *p != '\0'; p++)
        if (*p == '/' || *p == ' ' || *p == '\\' || (unsigned char)*p < ' ')
            *p = '_';
    return rc_path_in(folder, file, path);
}

static rc_status sheet_path(const char *folder, char path[RC_PATH_SIZE])
{
    return rc_path_in(folder, "all.png", path);
}

rc_status rc_dreams_check(const rc_saved_model *model, const char *folder, bool force)
{
    char path[RC_PATH_SIZE];
    int classes = model->learner.student.head.classes;
    RC_TRY(sheet_path(folder, path));
    for (int label = 0; !force && label <= classes; label++) {
        if (rc_file_exists(path))
            return rc_fail(RC_IO,
                           "%s is there already; choose another folder, or replace it with the setting "
                           "'overwrite'",
                           path);
        if (label < classes)
            RC_TRY(class_path(model, folder, label, path));
    }
    RC_TRY(rc_file_make_folder(folder));
    RC_TRY(sheet_path(folder, path));
    for (int label = 0; label <= classes; label++) {
        RC_TRY(rc_file_check(path, true));
        if (label < classes)
            RC_TRY(class_path(model, folder, label, path));
    }
    return RC_OK;
}

/* writer: (classes + 1), all NULL; the sheet's is the last. */
static rc_status write_pictures(const rc_dreams *d, const rc_saved_model *model, const char *folder, int scale,
                                rc_file_writer **writer)
{
    char path[RC_PATH_SIZE];
    for (int label = 0; label < d->classes; label++) {
        if (d->kept[label] == 0)
            continue;
        RC_TRY(class_path(model, folder, label, path));
        RC_TRY(write_class(d, label, scale, path, &writer[label]));
    }
    RC_TRY(sheet_path(folder, path));
    return write_sheet(d, scale, path, &writer[d->classes]);
}

rc_status rc_dreams_write(const rc_dreams *d, const rc_saved_model *model, const char *folder, int scale)
{
    if (scale < 1)
        scale = d->h < SMALLEST_SIDE ? (SMALLEST_SIDE + d->h - 1) / d->h : 1;
    rc_file_writer **writer = rc_alloc_zeroed(NULL, (size_t)d->classes + 1, sizeof *writer);
    if (writer == NULL)
        return RC_OUT_OF_MEMORY;
    rc_status status = write_pictures(d, model, folder, scale, writer);
    for (int i = 0; i <= d->classes; i++) {
        if (status != RC_OK && status != RC_UNSYNCED)
            rc_file_writer_abort(writer[i]);
        else if (writer[i] != NULL) {
            rc_status committed = rc_file_writer_commit(writer[i]);
            status = committed != RC_OK ? committed : status;
        }
    }
    rc_free(NULL, writer);
    return status;
}
