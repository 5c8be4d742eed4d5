/* What kind of file it is, by its first bytes: the pictures that this build reads, those that it does not read, with
 * what to do about it, and files that are no pictures. */
#ifndef RC_DATA_IMAGE_KIND_H
#define RC_DATA_IMAGE_KIND_H

#include "data/image_format.h"

typedef rc_status rc_image_decoder(rc_image_request *request, rc_image *image);

typedef enum rc_image_role {
    RC_IMAGE_PICTURE, /* somebody wants to see it, whether this build reads it or not; videos, too */
    RC_IMAGE_STRANGE, /* nobody knows */
    RC_IMAGE_HARMLESS /* nobody takes it for a picture: text, a system's own notes */
} rc_image_role;

typedef struct rc_image_kind {
    const char *name;         /* "JPEG", "HEIC", "text" */
    rc_image_decoder *decode; /* NULL: this build does not read it */
    const char *library;      /* with which a build would read it; NULL: none does */
    const char *advice;       /* what to do with the file, where '@' stands for its name and '#' for the name without
                                 its ending; NULL: nothing helps */
    rc_image_role role;
} rc_image_kind;

/* So many bytes from the beginning of a file are enough, or all of a shorter one. */
enum { RC_IMAGE_KIND_BYTES = 512 };
/* What explains a kind fits into this. */
enum { RC_IMAGE_KIND_TEXT = 400 };

/* name: of the file, where it has one, else NULL. It only decides where the bytes cannot: raw files of many cameras
 * begin as TIFF files do, and spreadsheets as archives. */
const rc_image_kind *rc_image_kind_of(const uint8_t *first, size_t size, const char *name);
/* The same for a file. Fails if it cannot be read. */
rc_status rc_image_kind_at(const char *path, const rc_image_kind **kind);

/* Do the first bytes tell what it is? A text may be anything. */
bool rc_image_kind_is_sure(const rc_image_kind *kind);

/* "HEIC; convert it: heif-convert a.heic a.jpg". `name` may be NULL, or a whole path. */
void rc_image_kind_explain(const rc_image_kind *kind, const char *name, char *text, size_t size);

/* Is it a file that systems and programs leave beside pictures, by its name? "Thumbs.db", "labels.txt". */
bool rc_image_kind_beside(const char *name);

/* "JPEG, PNG, ..." (index 0) that this build reads, and those that it could read with more libraries, each with its
 * library (index 1); "" if there are none. */
void rc_image_kinds(int index, char *text, size_t size);

#endif
