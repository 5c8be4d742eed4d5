/* PNG through libpng. Its errors come back by longjmp; its warnings are dropped. If libpng has no memory for an
 * optional part of a file, it only warns and goes on, and a picture might not be turned upright. So libpng gets its
 * memory from here, and a request that failed is remembered. */
#include <png.h>
#include <setjmp.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/memory.h"
#include "data/exif.h"
#include "data/image_format.h"

enum { LARGEST_CHUNK = 1 << 23, MOST_CHUNKS = 256 };

typedef struct coder {
    png_structp png;
    png_infop info;
    jmp_buf failed;
    rc_image_request *request; /* reading */
    size_t at;
    rc_image *image;
    rc_file_writer *writer; /* writing */
    rc_status status;       /* of the writer */
    bool no_memory;         /* a request for memory failed */
    char message[128];
} coder;

static png_voidp take_memory(png_structp png, png_alloc_size_t size)
{
    coder *c = png_get_mem_ptr(png);
    void *block = rc_alloc(NULL, size);
    c->no_memory = c->no_memory || block == NULL;
    return block;
}

static void give_memory(png_structp png, png_voidp block)
{
    (void)png;
    rc_free(NULL, block);
}

static void on_error(png_structp png, png_const_charp text)
{
    coder *c = png_get_error_ptr(png);
    snprintf(c->message, sizeof c->message, "%s", text);
    longjmp(c->failed, 1);
}

static void on_warning(png_structp png, png_const_charp text)
{
    (void)png;
    (void)text;
}

/* ---- reading ---------------------------------------------------------------------------------------------------- */

static void give_bytes(png_structp png, png_bytep out, size_t size)
{
    coder *c = png_get_io_ptr(png);
    if (size > c->request->size - c->at)
        png_error(png, "the data ends before the picture does");
    memcpy(out, c->request->data + c->at, size);
    c->at += size;
}

/* Whatever the file holds becomes 8 bits of grey or RGB. */
static void ask_for_bytes(coder *c)
{
    png_set_strip_16(c->png);
    png_set_strip_alpha(c->png);
    if (png_get_color_type(c->png, c->info) == PNG_COLOR_TYPE_PALETTE)
        png_set_palette_to_rgb(c->png);
    else if (png_get_bit_depth(c->png, c->info) < 8)
        png_set_expand_gray_1_2_4_to_8(c->png);
}

static void find_orientation(coder *c)
{
    png_bytep exif;
    png_uint_32 size;
    if (c->request->want_orientation && png_get_eXIf_1(c->png, c->info, &size, &exif) != 0)
        c->request->orientation = rc_exif_orientation(exif, size);
}

/* Runs with somewhere for longjmp to go. */
static rc_status read_picture(coder *c)
{
    png_set_read_fn(c->png, c, give_bytes);
    png_set_user_limits(c->png, PNG_UINT_31_MAX, PNG_UINT_31_MAX); /* we say it better */
    png_set_chunk_malloc_max(c->png, LARGEST_CHUNK);
    png_set_chunk_cache_max(c->png, MOST_CHUNKS);
    png_read_info(c->png, c->info);
    png_uint_32 h = png_get_image_height(c->png, c->info), w = png_get_image_width(c->png, c->info);
    RC_TRY(rc_image_check_size(c->request, h, w));
    ask_for_bytes(c);
    int passes = png_set_interlace_handling(c->png);
    png_read_update_info(c->png, c->info);
    int channels = png_get_channels(c->png, c->info);
    size_t bytes = (size_t)w * (size_t)channels;
    if ((channels != 1 && channels != 3) || png_get_rowbytes(c->png, c->info) != bytes)
        return rc_fail(RC_UNSUPPORTED, "PNG of %d channels", channels);
    RC_TRY(rc_image_allocate(c->request, h, w, channels, c->image));
    for (int pass = 0; pass < passes; pass++)
        for (png_uint_32 y = 0; y < h; y++)
            png_read_row(c->png, c->image->pixels + y * bytes, NULL);
    png_read_end(c->png, c->info);
    find_orientation(c);
    return RC_OK;
}

rc_status rc_png_decode(rc_image_request *request, rc_image *image)
{
    coder *c = rc_alloc_zeroed(NULL, 1, sizeof *c);
    if (c == NULL)
        return RC_OUT_OF_MEMORY;
    c->request = request;
    c->image = image;
    rc_status status = RC_OUT_OF_MEMORY;
    c->png = png_create_read_struct_2(PNG_LIBPNG_VER_STRING, c, on_error, on_warning, c, take_memory, give_memory);
    c->info = c->png != NULL ? png_create_info_struct(c->png) : NULL;
    if (c->info != NULL) {
        if (setjmp(c->failed) == 0)
            status = read_picture(c);
        else
            status = rc_fail(RC_FORMAT, "broken PNG: %s", c->message);
    }
    if (c->info == NULL || c->no_memory)
        status = rc_fail(RC_OUT_OF_MEMORY, "no memory for decoding PNG");
    png_destroy_read_struct(&c->png, &c->info, NULL);
    rc_free(NULL, c);
    return status;
}

/* ---- writing ---------------------------------------------------------------------------------------------------- */

static void take_bytes(png_structp png, png_bytep data, size_t size)
{
    coder *c = png_get_io_ptr(png);
    c->status = rc_file_writer_append(c->writer, data, size);
    if (c->status != RC_OK)
        png_error(png, "cannot write");
}

static void flush_nothing(png_structp png)
{
    (void)png;
}

static void write_picture(coder *c)
{
    const rc_image *image = c->image;
    size_t bytes = (size_t)image->w * (size_t)image->c;
    png_set_write_fn(c->png, c, take_bytes, flush_nothing);
    png_set_IHDR(c->png, c->info, (png_uint_32)image->w, (png_uint_32)image->h, 8,
                 image->c == 1 ? PNG_COLOR_TYPE_GRAY : PNG_COLOR_TYPE_RGB, PNG_INTERLACE_NONE,
                 PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
    png_write_info(c->png, c->info);
    for (int y = 0; y < image->h; y++)
        png_write_row(c->png, image->pixels + (size_t)y * bytes);
    png_write_end(c->png, c->info);
}

static rc_status append_with(coder *c)
{
    c->png = png_create_write_struct_2(PNG_LIBPNG_VER_STRING, c, on_error, on_warning, c, take_memory, give_memory);
    c->info = c->png != NULL ? png_create_info_struct(c->png) : NULL;
    rc_status status = RC_OK;
    if (c->info != NULL) {
        if (setjmp(c->failed) == 0)
            write_picture(c);
        else
            status = c->status != RC_OK ? c->status : rc_fail(RC_INTERNAL, "cannot make a PNG: %s", c->message);
    }
    if (c->info == NULL || c->no_memory)
        status = rc_fail(RC_OUT_OF_MEMORY, "no memory for making a PNG");
    png_destroy_write_struct(&c->png, &c->info);
    return status;
}

rc_status rc_image_append_png(const rc_image *image, rc_file_writer *writer)
{
    if (image->h < 1 || image->w < 1 || (image->c != 1 && image->c != 3))
        return rc_fail(RC_INVALID_ARGUMENT, "a picture of %d x %d pixels and %d channels cannot be written", image->w,
                       image->h, image->c);
    rc_image copy = *image;
    coder *c = rc_alloc_zeroed(NULL, 1, sizeof *c);
    if (c == NULL)
        return RC_OUT_OF_MEMORY;
    c->image = &copy;
    c->writer = writer;
    rc_status status = append_with(c);
    rc_free(NULL, c);
    return status;
}

rc_status rc_image_write_png(const char *path, const rc_image *image)
{
    rc_file_writer *writer;
    RC_TRY(rc_file_writer_open(path, &writer));
    rc_status status = rc_image_append_png(image, writer);
    if (status == RC_OK)
        return rc_file_writer_commit(writer);
    rc_file_writer_abort(writer);
    return status;
}
