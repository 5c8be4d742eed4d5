/* Dreams as files. */
#include <stdio.h>

#include "api/dream_sheet.h"
#include "base/file.h"
#include "base/memory.h"
#include "base/utf8.h"

enum { LONGEST_NAME = 81 }; /* bytes of the name of a class in that of its file; longer names are cut */

/* "03-Ankle_boot.png": class names may hold anything. */
void rc_dreams_class_name(const rc_saved_model *model, int label, char name[RC_DREAM_NAME])
{
    char part[LONGEST_NAME];
    snprintf(name, RC_DREAM_NAME, "%02d-%s.png", label + 1,
             rc_utf8_column(model->class_name[label], 0, part, sizeof part));
    for (char *p = name; *p != '\0'; p++)
        if (*p == '/' || *p == ' ' || *p == '\\' || (unsigned char)*p < ' ')
            *p = '_';
}

void rc_dreams_sheet_name(int sheet, char name[RC_DREAM_NAME])
{
    if (sheet == 0)
        snprintf(name, RC_DREAM_NAME, "all.png");
    else
        snprintf(name, RC_DREAM_NAME, "all-%d.png", sheet + 1);
}

int rc_dreams_sheets(const rc_saved_model *model, const rc_picture_settings *settings)
{
    return rc_sheet_form_of(model, settings).sheets;
}

/* Picture `index`: the sheets come first, then the classes. */
static rc_status picture_path(const rc_saved_model *model, const rc_sheet_form *form, const char *folder, int index,
                              char path[RC_PATH_SIZE])
{
    char name[RC_DREAM_NAME];
    if (index < form->sheets)
        rc_dreams_sheet_name(index, name);
    else
        rc_dreams_class_name(model, index - form->sheets, name);
    return rc_path_in(folder, name, path);
}

rc_status rc_dreams_check(const rc_saved_model *model, const rc_picture_settings *settings)
{
    char path[RC_PATH_SIZE];
    bool there;
    const rc_sheet_form form = rc_sheet_form_of(model, settings);
    int pictures = form.sheets + form.classes;
    RC_TRY(rc_sheet_check(&form));
    for (int i = 0; !settings->force && i < pictures; i++) {
        RC_TRY(picture_path(model, &form, settings->folder, i, path));
        RC_TRY(rc_file_find(path, &there));
        if (there)
            return rc_fail(RC_IO,
                           "%s is there already; choose another folder, or replace it with the setting "
                           "'overwrite'",
                           path);
    }
    RC_TRY(rc_file_make_folder(settings->folder));
    for (int i = 0; i < pictures; i++) {
        RC_TRY(picture_path(model, &form, settings->folder, i, path));
        RC_TRY(rc_file_check(path, true));
    }
    return RC_OK;
}

/* Writes the picture to a temporary file, which gets its name when it is committed. */
static rc_status write_canvas(const char *path, const rc_image *canvas, rc_file_writer **writer)
{
    RC_TRY(rc_file_writer_open(path, writer));
    RC_TRY(rc_image_append_png(canvas, *writer));
    return rc_file_writer_finish(*writer);
}

/* writer: (sheets + classes), all NULL. */
static rc_status write_pictures(const rc_dreams *d, const rc_real_images *real, const rc_saved_model *model,
                                const rc_sheet_form *form, const char *folder, rc_file_writer **writer)
{
    char path[RC_PATH_SIZE];
    for (int i = 0; i < form->sheets + form->classes; i++) {
        int label = i - form->sheets;
        rc_image canvas;
        if (label >= 0 && d->kept[label] == 0)
            continue;
        RC_TRY(picture_path(model, form, folder, i, path));
        RC_TRY(label < 0 ? rc_sheet_draw(form, d, real, i, &canvas)
                         : rc_sheet_draw_class(form, d, real, label, &canvas));
        rc_status status = write_canvas(path, &canvas, &writer[i]);
        rc_image_free(&canvas);
        RC_TRY(status);
    }
    return RC_OK;
}

rc_status rc_dreams_write(const rc_dreams *d, const rc_real_images *real, const rc_saved_model *model,
                          const rc_picture_settings *settings)
{
    const rc_sheet_form form = rc_sheet_form_of(model, settings);
    int pictures = form.sheets + form.classes;
    rc_file_writer **writer = rc_alloc_zeroed(NULL, (size_t)pictures, sizeof *writer);
    if (writer == NULL)
        return RC_OUT_OF_MEMORY;
    rc_status status = write_pictures(d, real, model, &form, settings->folder, writer);
    for (int i = pictures - 1; i >= 0; i--) {
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
