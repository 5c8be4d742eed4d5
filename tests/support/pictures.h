/* The pictures of tests/fixtures, which tests/oracle/pictures.py has made and Pillow has read. */
#ifndef RC_TESTS_SUPPORT_PICTURES_H
#define RC_TESTS_SUPPORT_PICTURES_H

#include <stddef.h>
#include <stdint.h>

#define PICTURES RC_SOURCE_DIR "/tests/fixtures/pictures"

typedef struct picture {
    char name[64], path[512];
    int tolerance;
} picture;

/* The pictures of the fixture; returns how many. */
int pictures_list(picture *out, int most);
/* A whole file, to be freed with rc_free(NULL, ...). */
void pictures_bytes(const char *path, uint8_t **data, size_t *size);

#endif
