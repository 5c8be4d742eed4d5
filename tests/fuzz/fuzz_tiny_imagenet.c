/* The texts of Tiny-ImageNet, one after the other with a zero byte between them: every picture has a path and one
 * of the classes. */
#include "fuzz/fuzz.h"

#include <stdlib.h>
#include <string.h>

#include "data/tiny_imagenet.h"

/* A copy with a zero byte behind it. */
static char *copy_text(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1);
    FUZZ_EXPECT(text != NULL);
    if (size > 0)
        memcpy(text, data, size);
    text[size] = 0;
    return text;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const uint8_t *zero = size > 0 ? memchr(data, 0, size) : NULL;
    size_t first = zero != NULL ? (size_t)(zero - data) : size, second = zero != NULL ? size - first - 1 : 0;
    char *classes = copy_text(data, first), *annotations = copy_text(data + size - second, second);
    rc_dataset dataset = {0};
    rc_image_files files = {0};
    if (rc_tiny_imagenet_parse_classes("wnids.txt", classes, first, &dataset) == RC_OK)
        (void)rc_tiny_imagenet_parse_annotations("val_annotations.txt", annotations, second, "images", &dataset,
                                                 &files);
    for (int i = 0; i < files.count; i++) {
        FUZZ_EXPECT(files.file[i].label >= 0 && files.file[i].label < dataset.classes);
        FUZZ_EXPECT(strncmp(rc_image_files_path(&files, i), "images/", 7) == 0);
    }
    rc_image_files_free(&files);
    rc_dataset_close(&dataset);
    free(classes);
    free(annotations);
    return 0;
}
