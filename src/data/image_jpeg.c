/* JPEG through libjpeg. Its errors come back by longjmp, and it says nothing to anybody. */
#include <setjmp.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

/* jpeglib.h needs size_t and FILE from the headers above. */
#include <jpeglib.h>

/* The numbers of messages depend on JPEG_LIB_VERSION, which jpeglib.h defines: without it, this header counts as
 * version 6 did, and a library of version 8 means other messages by the same numbers. */
#include <jerror.h>

#include "base/memory.h"
#include "data/exif.h"
#include "data/image_format.h"

/* A progressive file of a few bytes may hold thousands of scans, each as dear as a picture. */
enum { MOST_SCANS = 500 };
static const uint64_t most_pixels_in_scans = (uint64_t)1 << 31;

/* Where crop requests came to be known decides how all that follows is numbered. */
_Static_assert((JPEG_LIB_VERSION < 70) == (JERR_BAD_CROP_SPEC > JWRN_HIT_MARKER), "jerror.h is of another version");

typedef struct decoder {
    struct jpeg_decompress_struct info;
    struct jpeg_error_mgr errors;
    struct jpeg_source_mgr source;
    struct jpeg_progress_mgr progress;
    jmp_buf failed;
    rc_image_request *request;
    rc_image *image;
    uint8_t *row;    /* CMYK: (w, 4) */
    bool ended;      /* the data ended before the picture did */
    bool incomplete; /* and pixels were missing then */
    char message[JMSG_LENGTH_MAX];
} decoder;

static decoder *decoder_of(j_common_ptr info)
{
    return info->client_data;
}

/* ---- what libjpeg calls ----------------------------------------------------------------------------------------- */

static void on_error(j_common_ptr info)
{
    decoder *d = decoder_of(info);
    info->err->format_message(info, d->message);
    longjmp(d->failed, 1);
}

/* Once the data have ended, whatever the decoder warns of is that it needed more of them. */
static void on_message(j_common_ptr info, int level)
{
    decoder *d = decoder_of(info);
    if (level < 0 && (d->ended || info->err->msg_code == JWRN_HIT_MARKER))
        d->incomplete = true;
}

static void on_output(j_common_ptr info)
{
    (void)info;
}

static void on_progress(j_common_ptr info)
{
    decoder *d = decoder_of(info);
    int scans = d->info.input_scan_number;
    if (scans <= MOST_SCANS && (uint64_t)scans * d->info.image_width * d->info.image_height <= most_pixels_in_scans)
        return;
    snprintf(d->message, sizeof d->message, "%d scans of %u x %u pixels", scans, d->info.image_width,
             d->info.image_height);
    longjmp(d->failed, 1);
}

static void no_source_call(j_decompress_ptr info)
{
    (void)info;
}

/* After the end of the data there is an end-of-image marker. */
static boolean fill_input(j_decompress_ptr info)
{
    static const JOCTET end_of_image[2] = {0xFF, JPEG_EOI};
    decoder_of((j_common_ptr)info)->ended = true;
    info->src->next_input_byte = end_of_image;
    info->src->bytes_in_buffer = sizeof end_of_image;
    return TRUE;
}

static void skip_input(j_decompress_ptr info, long bytes)
{
    if (bytes <= 0)
        return;
    if ((size_t)bytes > info->src->bytes_in_buffer) {
        fill_input(info);
        return;
    }
    info->src->next_input_byte += bytes;
    info->src->bytes_in_buffer -= (size_t)bytes;
}

/* ---- decoding --------------------------------------------------------------------------------------------------- */

static int find_orientation(const struct jpeg_decompress_struct *info)
{
    static const char mark[6] = "Exif\0";
    for (jpeg_saved_marker_ptr marker = info->marker_list; marker != NULL; marker = marker->next)
        if (marker->marker == JPEG_APP0 + 1 && marker->data_length > sizeof mark &&
            memcmp(marker->data, mark, sizeof mark) == 0)
            return rc_exif_orientation(marker->data + sizeof mark, marker->data_length - sizeof mark);
    return 1;
}

/* a * b / 255, rounded. */
static int product(int a, int b)
{
    int sum = a * b + 128;
    return ((sum >> 8) + sum) >> 8;
}

/* Four-colour JPEGs hold inverted inks, as Adobe has it. */
static void cmyk_to_rgb(const uint8_t *in, int count, uint8_t *out)
{
    for (int i = 0; i < count; i++)
        for (int c = 0; c < 3; c++) {
            int light = in[4 * i + 3], ink = 255 - in[4 * i + c];
            out[3 * i + c] = (uint8_t)(light - product(ink, light));
        }
}

static rc_status choose_colours(struct jpeg_decompress_struct *info, int *channels)
{
    *channels = 3;
    switch (info->jpeg_color_space) {
    case JCS_GRAYSCALE:
        info->out_color_space = JCS_GRAYSCALE;
        *channels = 1;
        return RC_OK;
    case JCS_RGB:
    case JCS_YCbCr: info->out_color_space = JCS_RGB; return RC_OK;
    case JCS_CMYK:
    case JCS_YCCK: info->out_color_space = JCS_CMYK; return RC_OK;
    default: return rc_fail(RC_UNSUPPORTED, "JPEG of %d unknown components", info->num_components);
    }
}

static rc_status read_rows(decoder *d)
{
    struct jpeg_decompress_struct *info = &d->info;
    size_t bytes = (size_t)d->image->w * (size_t)d->image->c;
    bool cmyk = info->out_color_space == JCS_CMYK;
    if (cmyk && (d->row = rc_alloc(NULL, (size_t)d->image->w * 4)) == NULL)
        return RC_OUT_OF_MEMORY;
    while (info->output_scanline < info->output_height) {
        uint8_t *target = d->image->pixels + info->output_scanline * bytes;
        JSAMPROW row = cmyk ? d->row : target;
        if (jpeg_read_scanlines(info, &row, 1) == 1 && cmyk)
            cmyk_to_rgb(d->row, d->image->w, target);
    }
    return RC_OK;
}

/* Runs with somewhere for longjmp to go. */
static rc_status decode(decoder *d)
{
    struct jpeg_decompress_struct *info = &d->info;
    int channels;
    jpeg_create_decompress(info);
    info->src = &d->source;
    info->progress = &d->progress;
    info->mem->max_memory_to_use = (long)RC_IMAGE_MAX_WORK;
    if (d->request->want_orientation)
        jpeg_save_markers(info, JPEG_APP0 + 1, 0xFFFF);
    jpeg_read_header(info, TRUE);
    RC_TRY(choose_colours(info, &channels));
    RC_TRY(rc_image_allocate(d->request, info->image_height, info->image_width, channels, d->image));
    if (d->request->want_orientation)
        d->request->orientation = find_orientation(info);
    jpeg_start_decompress(info);
    RC_TRY(read_rows(d));
    /* A missing last marker does no harm; missing pixels or scans do. Of arithmetic coding nobody knows: its decoder
     * makes pixels of zeros, too. */
    bool scans_missing = d->ended && jpeg_has_multiple_scans(info);
    if (d->ended && (d->incomplete || scans_missing || d->info.arith_code))
        return rc_fail(RC_FORMAT, "truncated JPEG: the data ends before the picture does");
    return RC_OK;
}

rc_status rc_jpeg_decode(rc_image_request *request, rc_image *image)
{
    decoder *d = rc_alloc_zeroed(NULL, 1, sizeof *d);
    if (d == NULL)
        return RC_OUT_OF_MEMORY;
    d->request = request;
    d->image = image;
    d->info.err = jpeg_std_error(&d->errors);
    d->info.client_data = d;
    d->errors.error_exit = on_error;
    d->errors.emit_message = on_message;
    d->errors.output_message = on_output;
    d->progress.progress_monitor = on_progress;
    d->source = (struct jpeg_source_mgr){
        .next_input_byte = request->data,
        .bytes_in_buffer = request->size,
        .init_source = no_source_call,
        .fill_input_buffer = fill_input,
        .skip_input_data = skip_input,
        .resync_to_restart = jpeg_resync_to_restart,
        .term_source = no_source_call,
    };
    rc_status status;
    if (setjmp(d->failed) == 0)
        status = decode(d);
    else
        status = rc_fail(d->errors.msg_code == JERR_OUT_OF_MEMORY ? RC_OUT_OF_MEMORY : RC_FORMAT, "broken JPEG: %s",
                         d->message);
    jpeg_destroy_decompress(&d->info);
    rc_free(NULL, d->row);
    rc_free(NULL, d);
    return status;
}
