/* How dreams are laid out on pictures. */
#ifndef RC_API_DREAM_SHEET_H
#define RC_API_DREAM_SHEET_H

#include "api/dream.h"
#include "data/canvas.h"

/* The measures of all pictures of a model, in pixels. */
typedef struct rc_sheet_form {
    const char *const *name; /* (classes) */
    int classes, h, w, scale;
    int per_class;
    bool beside;
    int caption_scale;  /* of the probabilities below images */
    int cell_h, cell_w; /* an image and its caption */
    int name_length;    /* characters of the longest name on a sheet, its number included */
    int dreams, real;   /* columns of a sheet; real 0: there are no real images */
    int rows, sheets;   /* classes on a sheet, and how many sheets they take */
} rc_sheet_form;

/* settings: per_class, scale and beside are read. */
rc_sheet_form rc_sheet_form_of(const rc_saved_model *model, const rc_picture_settings *settings);
/* Would no picture be too large? */
rc_status rc_sheet_check(const rc_sheet_form *form);

/* Sheet 0, 1, ...; or the dreams of one class, of which there is at least one. Free the canvas with rc_image_free. */
rc_status rc_sheet_draw(const rc_sheet_form *form, const rc_dreams *dreams, const rc_real_images *real, int sheet,
                        rc_image *canvas);
rc_status rc_sheet_draw_class(const rc_sheet_form *form, const rc_dreams *dreams, const rc_real_images *real, int label,
                              rc_image *canvas);

#endif
