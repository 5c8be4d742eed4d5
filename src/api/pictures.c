#include "api/pictures.h"

#include <limits.h>
#include <string.h>
#include <sys/stat.h>

#include "base/memory.h"
#include "data/walk.h"

enum { DEEPEST_FOLDER = 40 };

/* ---- the list ---------------------------------------------------------------------------------------------------- */

static rc_status copy_text(const char *text, char **copy)
{
    size_t size = strlen(text) + 1;
    *copy = rc_alloc(NULL, size);
    if (*copy == NULL)
        return RC_OUT_OF_MEMORY;
    memcpy(*copy, text, size);
    return RC_OK;
}

static rc_status grow(rc_picture_list *list)
{
    if (list->count < list->capacity)
        return RC_OK;
    if (list->capacity > INT_MAX / 2)
        return rc_fail(RC_UNSUPPORTED, "there are more than %d pictures", list->count);
    int capacity = list->capacity > 0 ? 2 * list->capacity : 64;
    rc_picture *grown = rc_alloc_zeroed(NULL, (size_t)capacity, sizeof *grown);
    if (grown == NULL)
        return RC_OUT_OF_MEMORY;
    if (list->count > 0)
        memcpy(grown, list->picture, (size_t)list->count * sizeof *grown);
    rc_free(NULL, list->picture);
    list->picture = grown;
    list->capacity = capacity;
    return RC_OK;
}

rc_status rc_picture_list_add(rc_picture_list *list, int from, const char *path, const void *bytes, size_t size)
{
    RC_TRY(grow(list));
    rc_picture *p = &list->picture[list->count];
    *p = (rc_picture){.from = from, .bytes = bytes, .size = size};
    if (path != NULL)
        RC_TRY(copy_text(path, &p->path));
    list->count++;
    return RC_OK;
}

/* The message of what has just failed at `path`, in the place of a picture. */
static rc_status add_failure(rc_picture_list *list, int from, const char *path, rc_status failure)
{
    char *message;
    RC_TRY(copy_text(rc_message(), &message));
    rc_status status = rc_picture_list_add(list, from, path, NULL, 0);
    if (status != RC_OK) {
        rc_free(NULL, message);
        return status;
    }
    list->picture[list->count - 1].status = failure;
    list->picture[list->count - 1].message = message;
    return RC_OK;
}

void rc_picture_list_free(rc_picture_list *list)
{
    for (int i = 0; i < list->count; i++) {
        rc_free(NULL, list->picture[i].path);
        rc_free(NULL, list->picture[i].message);
    }
    rc_free(NULL, list->picture);
    rc_left_out_free(&list->left_out);
    *list = (rc_picture_list){0};
}

rc_status rc_picture_list_source(void *user, int index, const rc_picture_form *form, uint8_t *pixels)
{
    const rc_picture *p = &((const rc_picture_list *)user)->picture[index];
    rc_image image = {0};
    if (p->status != RC_OK)
        return rc_fail(p->status, "%s", p->message);
    rc_status status = p->bytes != NULL ? rc_image_decode(p->bytes, p->size, &form->options, &image)
                                        : rc_image_read(p->path, &form->options, &image);
    if (status != RC_OK && p->bytes != NULL && p->path != NULL)
        status = rc_fail(status, "cannot decode '%.600s': %s", p->path, rc_message());
    if (status == RC_OK)
        status = rc_image_fit_into(&image, &form->fit, pixels);
    rc_image_free(&image);
    return status;
}

/* ---- folders ----------------------------------------------------------------------------------------------------- */

typedef struct search {
    rc_picture_list *list;
    int from;
    const rc_watch *watch;
} search;

static rc_status take(void *user, const char *path, int32_t label)
{
    const search *s = user;
    (void)label;
    return rc_picture_list_add(s->list, s->from, path, NULL, 0);
}

static rc_status go_on(void *user, const char *folder)
{
    const search *s = user;
    if (rc_watch_cancelled(s->watch))
        return rc_fail(RC_CANCELLED, "stopped while looking for pictures in '%.700s'", folder);
    return RC_OK;
}

static rc_status note_unreadable(void *user, const char *folder, rc_status status)
{
    const search *s = user;
    return add_failure(s->list, s->from, folder, status);
}

/* Every picture below a folder. Nothing of it was read before: whoever names a folder twice gets it twice. */
static rc_status search_folder(search *s, const char *path, rc_left_out *left_out)
{
    rc_walk walk = {.left_out = left_out,
                    .deepest = DEEPEST_FOLDER,
                    .take = take,
                    .enter = go_on,
                    .unreadable = note_unreadable,
                    .user = s};
    rc_walk_found found;
    int32_t other;
    rc_status status = rc_walk_folder(&walk, path, 0, s, &found, &other);
    if (status == RC_OK)
        status = rc_walk_begin(&walk, path); /* after it was read, and before links are */
    if (status == RC_OK)
        status = rc_walk_links(&walk);
    rc_walk_free(&walk);
    return status;
}

rc_status rc_picture_list_search(rc_picture_list *list, int from, const char *path, const rc_watch *watch)
{
    struct stat what;
    int before = list->count, left = list->left_out.count;
    if (stat(path, &what) != 0 || !S_ISDIR(what.st_mode)) /* whatever is wrong with it is found when it is read */
        return rc_picture_list_add(list, from, path, NULL, 0);
    search s = {list, from, watch};
    RC_TRY(search_folder(&s, path, &list->left_out));
    if (list->count > before)
        return RC_OK;
    bool why = list->left_out.count > left;
    rc_fail(RC_FORMAT, "%.400s: the folder holds no picture (" RC_IMAGE_ENDINGS ")%s%.400s", path,
            why ? ", only what is not read: " : "", why ? list->left_out.latest : "");
    return add_failure(list, from, path, RC_FORMAT);
}
