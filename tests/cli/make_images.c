/* Writes images of a data set as files, a folder for each class: what the tests of learn, predict, eval and
 * dream feed on.
 *
 * usage: make_images DATA train|test FIRST END PER_CLASS png|jpg|ppm FOLDER [SKIP [SIZE]]
 *   classes FIRST to END - 1, of each PER_CLASS images after the first SKIP, of SIZE pixels or as the set has them */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <jpeglib.h>

#include "data/dataset.h"
#include "data/image.h"

static int write_jpeg(const char *path, const rc_image *image)
{
    struct jpeg_compress_struct jpeg;
    struct jpeg_error_mgr errors;
    FILE *file = fopen(path, "wb");
    if (file == NULL)
        return -1;
    jpeg.err = jpeg_std_error(&errors);
    jpeg_create_compress(&jpeg);
    jpeg_stdio_dest(&jpeg, file);
    jpeg.image_width = (JDIMENSION)image->w;
    jpeg.image_height = (JDIMENSION)image->h;
    jpeg.input_components = image->c;
    jpeg.in_color_space = image->c == 1 ? JCS_GRAYSCALE : JCS_RGB;
    jpeg_set_defaults(&jpeg);
    jpeg_set_quality(&jpeg, 95, TRUE);
    jpeg_start_compress(&jpeg, TRUE);
    while (jpeg.next_scanline < jpeg.image_height) {
        JSAMPROW row = image->pixels + (size_t)jpeg.next_scanline * (size_t)image->w * (size_t)image->c;
        jpeg_write_scanlines(&jpeg, &row, 1);
    }
    jpeg_finish_compress(&jpeg);
    jpeg_destroy_compress(&jpeg);
    return fclose(file);
}

static int write_ppm(const char *path, const rc_image *image)
{
    FILE *file = fopen(path, "wb");
    if (file == NULL)
        return -1;
    size_t size = (size_t)image->h * (size_t)image->w * (size_t)image->c;
    fprintf(file, "P%d\n%d %d\n255\n", image->c == 1 ? 5 : 6, image->w, image->h);
    size_t written = fwrite(image->pixels, 1, size, file);
    return fclose(file) != 0 || written != size;
}

static int write_image(const char *path, const char *format, const rc_image *image)
{
    if (strcmp(format, "jpg") == 0)
        return write_jpeg(path, image);
    return strcmp(format, "ppm") == 0 ? write_ppm(path, image) : rc_image_write_png(path, image) != RC_OK;
}

/* Class names become folder names. */
static void class_folder(const char *root, const char *name, char *path, size_t size)
{
    snprintf(path, size, "%s/%s", root, name);
    for (char *p = path + strlen(root) + 1; *p != '\0'; p++)
        if (*p == '/')
            *p = '-';
    mkdir(path, 0777);
}

int main(int argc, char **argv)
{
    if (argc < 8) {
        fprintf(stderr, "usage: make_images DATA train|test FIRST END PER_CLASS png|jpg|ppm FOLDER [SKIP [SIZE]]\n");
        return 2;
    }
    int first = atoi(argv[3]), end = atoi(argv[4]), per_class = atoi(argv[5]), skip = argc > 8 ? atoi(argv[8]) : 0;
    rc_data_settings settings = {0};
    if (argc > 9) { /* large ones take time to draw: no more than are wanted */
        settings.size = atoi(argv[9]);
        settings.procedural_per_class = settings.procedural_test_per_class = skip + per_class;
    }
    rc_dataset data;
    if (rc_dataset_open(argv[1], &settings, &data) != RC_OK) {
        fprintf(stderr, "make_images: %s\n", rc_message());
        return 1;
    }
    const rc_split *split = strcmp(argv[2], "test") == 0 ? &data.test : &data.train;
    size_t bytes = (size_t)data.h * (size_t)data.w * (size_t)data.c;
    mkdir(argv[7], 0777);
    for (int native = first; native < end && native < data.classes; native++) {
        char folder[512], path[600];
        class_folder(argv[7], data.class_name[native], folder, sizeof folder);
        for (int i = 0, seen = 0; i < split->count && seen < skip + per_class; i++) {
            if (split->labels[i] != native || seen++ < skip)
                continue;
            rc_image image = {data.h, data.w, data.c, split->images + (size_t)i * bytes};
            snprintf(path, sizeof path, "%s/%05d.%s", folder, i, argv[6]);
            if (write_image(path, argv[6], &image) != 0) {
                fprintf(stderr, "make_images: %s cannot be written\n", path);
                return 1;
            }
        }
    }
    rc_dataset_close(&data);
    return 0;
}
