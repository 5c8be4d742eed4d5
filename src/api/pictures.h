/* A list of pictures to be read later: files, what folders hold, and bytes in memory. */
#ifndef RC_API_PICTURES_H
#define RC_API_PICTURES_H

#include "api/predictor.h"
#include "data/left_out.h"

typedef struct rc_picture {
    int from;          /* the number that the caller gave it when it added it */
    char *path;        /* NULL: it has bytes, and no name */
    const void *bytes; /* of a picture file, in place of the file's; NULL: none */
    size_t size;
    rc_status status; /* anything but RC_OK: there is no picture here, for the reason in `message` */
    char *message;
} rc_picture;

typedef struct rc_picture_list {
    rc_picture *picture; /* (count) */
    int count, capacity;
    rc_left_out left_out; /* what lies in the folders and is not in the list */
} rc_picture_list;

/* Start with a cleared one. A folder stands for all pictures below it in the order of their names, and after those what
 * links in it lead to (data/walk.h). A folder that cannot
 * be read, or that holds no picture, becomes an entry with a message. The watch may stop a long search. */
rc_status rc_picture_list_search(rc_picture_list *list, int from, const char *path, const rc_watch *watch);
/* A picture file, whatever it is; or, where `bytes` is not NULL, the bytes of one, which are not copied. */
rc_status rc_picture_list_add(rc_picture_list *list, int from, const char *path, const void *bytes, size_t size);
void rc_picture_list_free(rc_picture_list *list); /* a cleared one is fine */

/* A source for a predictor; `list` is an rc_picture_list. */
rc_status rc_picture_list_source(void *list, int index, const rc_picture_form *form, uint8_t *pixels);

#endif
