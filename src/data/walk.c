#include "data/walk.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/memory.h"
#include "data/image_kind.h"
#include "data/reader.h"

/* A link to a folder that waits to be followed. */
struct rc_walk_link {
    rc_walk_link *next;
    void *into;
    int32_t label;
    int depth;
    char path[];
};

/* The values of folders: what they hold is being read, or they were read for label 0, 1, ... */
enum { ABOVE = 1, READ = 2 };

static rc_status add_folder(rc_walk *walk, const char *folder, int32_t label, void *into, int depth);

/* ---- files ------------------------------------------------------------------------------------------------------ */

rc_status rc_walk_is_picture(const char *path, bool *is)
{
    const rc_image_kind *kind;
    struct stat info;
    *is = rc_image_name(path);
    if (*is || rc_image_kind_beside(rc_base_name(path)))
        return RC_OK;
    RC_TRY(rc_file_look(path, true, &info));
    if (!S_ISREG(info.st_mode))
        return RC_OK;
    rc_status status = rc_image_kind_at(path, &kind);
    *is = status == RC_OK && kind->decode != NULL;
    return status == RC_OUT_OF_MEMORY ? status : RC_OK;
}

static rc_status leave_kind(rc_walk *walk, const char *path, const rc_image_kind *kind)
{
    char reason[RC_IMAGE_KIND_TEXT];
    if (kind->role == RC_IMAGE_HARMLESS)
        return rc_left_out_add_harmless(walk->left_out, path);
    rc_image_kind_explain(kind, path, reason, sizeof reason);
    return rc_left_out_add(walk->left_out, path, kind->name, reason);
}

/* A file whose name says nothing. *picture: its content says that it is one; else it is left out. */
static rc_status look_inside(rc_walk *walk, const char *path, const struct stat *info, bool *picture)
{
    const rc_image_kind *kind;
    *picture = false;
    if (rc_image_kind_beside(rc_base_name(path)))
        return rc_left_out_add_harmless(walk->left_out, path);
    if (info->st_mode == 0)
        return rc_left_out_add(walk->left_out, path, "links that lead nowhere", "a link that leads nowhere");
    if (!S_ISREG(info->st_mode))
        return rc_left_out_add(walk->left_out, path, "pipes and devices", "a pipe, a device or a socket, no file");
    rc_status status = rc_image_kind_at(path, &kind);
    if (status == RC_OUT_OF_MEMORY)
        return status;
    if (status != RC_OK)
        return rc_left_out_add(walk->left_out, path, "unreadable files", rc_message());
    *picture = kind->decode != NULL;
    return *picture ? RC_OK : leave_kind(walk, path, kind);
}

/* Hidden names. Most are notes of a system; somebody may miss a picture, or a folder of them. */
static rc_status leave_hidden(rc_walk *walk, const char *path)
{
    rc_listing listing;
    bool pictures = false;
    struct stat info;
    if (rc_listing_is_of_system(rc_base_name(path)))
        return rc_left_out_add_harmless(walk->left_out, path);
    RC_TRY(rc_file_look(path, true, &info));
    if (!S_ISDIR(info.st_mode)) {
        const rc_image_kind *kind;
        rc_status status = S_ISREG(info.st_mode) ? rc_image_kind_at(path, &kind) : RC_IO;
        if (status == RC_OUT_OF_MEMORY)
            return status;
        if (status != RC_OK || kind->role != RC_IMAGE_PICTURE)
            return rc_left_out_add_harmless(walk->left_out, path);
        return rc_left_out_add(walk->left_out, path, "hidden files", "a hidden file; rename it if it is wanted");
    }
    RC_TRY(rc_listing_look(path, &listing));
    for (int i = 0; i < listing.count && !pictures; i++)
        pictures = rc_image_name(listing.name[i]);
    rc_listing_free(&listing);
    if (!pictures)
        return rc_left_out_add_harmless(walk->left_out, path);
    return rc_left_out_add(walk->left_out, path, "hidden folders",
                           "a hidden folder; rename it if its pictures are wanted");
}

static rc_status leave_all_hidden(rc_walk *walk, const char *folder, const rc_listing *listing)
{
    for (int i = listing->count; i < listing->count + listing->hidden; i++) {
        char path[RC_PATH_SIZE];
        RC_TRY(rc_path_in(folder, listing->name[i], path));
        RC_TRY(leave_hidden(walk, path));
    }
    return RC_OK;
}

rc_status rc_walk_strays(rc_walk *walk, const char *folder, const rc_listing *listing)
{
    for (int i = 0; i < listing->count; i++) {
        char path[RC_PATH_SIZE];
        struct stat info;
        RC_TRY(rc_path_in(folder, listing->name[i], path));
        RC_TRY(rc_file_look(path, true, &info));
        bool picture = rc_image_name(listing->name[i]);
        if (S_ISDIR(info.st_mode))
            continue;
        if (!picture)
            RC_TRY(look_inside(walk, path, &info, &picture));
        if (picture)
            RC_TRY(rc_left_out_add(walk->left_out, path, "pictures beside the class folders",
                                   "a picture beside the class folders; move it into the folder of its class"));
    }
    return leave_all_hidden(walk, folder, listing);
}

/* ---- folders ---------------------------------------------------------------------------------------------------- */

/* The value that the folder has, after it got this one if it had none. A folder that is not there is found out when it
 * is read. */
static rc_status note(rc_walk *walk, const char *folder, int value, int *before)
{
    struct stat info;
    *before = 0;
    RC_TRY(rc_file_look(folder, true, &info));
    return info.st_mode != 0 ? rc_file_ids_add(&walk->entered, &info, value, before) : RC_OK;
}

rc_status rc_walk_begin(rc_walk *walk, const char *folder)
{
    char path[RC_PATH_SIZE];
    struct stat info, below = {0};
    int before;
    if (walk->last == NULL)
        walk->last = &walk->first;
    int length = snprintf(path, sizeof path, "%s", folder);
    /* The system itself goes from a folder to the one that it lies in, whatever links led to it. The root lies in
     * itself. Folders above may be closed to this user. */
    while (length >= 0 && (size_t)length + sizeof "/.." < sizeof path) {
        if (stat(path, &info) != 0)
            return errno == EACCES || errno == ENOENT
                       ? RC_OK
                       : rc_fail(RC_IO, "cannot look at '%.700s': %s", path, strerror(errno));
        if (info.st_ino == below.st_ino && info.st_dev == below.st_dev)
            break;
        RC_TRY(rc_file_ids_add(&walk->entered, &info, ABOVE, &before));
        below = info;
        length += snprintf(path + length, sizeof path - (size_t)length, "/..");
    }
    return RC_OK;
}

static rc_status add_link(rc_walk *walk, const char *path, int32_t label, void *into, int depth)
{
    size_t size = strlen(path) + 1;
    rc_walk_link *link = rc_alloc(NULL, sizeof *link + size);
    if (link == NULL)
        return RC_OUT_OF_MEMORY;
    *link = (rc_walk_link){.into = into, .label = label, .depth = depth};
    memcpy(link->path, path, size);
    *walk->last = link;
    walk->last = &link->next;
    return RC_OK;
}

static rc_status find_link(const char *path, bool *is)
{
    struct stat info;
    rc_status status = rc_file_look(path, false, &info);
    *is = S_ISLNK(info.st_mode);
    return status;
}

/* Something in a folder. A picture that is not there, because its link leads nowhere, is found out when it is read. */
static rc_status visit(rc_walk *walk, const char *path, const char *name, const struct stat *info, bool link,
                       int32_t label, void *into, int depth)
{
    if (S_ISDIR(info->st_mode))
        return link ? add_link(walk, path, label, into, depth) : add_folder(walk, path, label, into, depth + 1);
    bool picture = rc_image_name(name) && (info->st_mode == 0 || S_ISREG(info->st_mode));
    if (!picture)
        RC_TRY(look_inside(walk, path, info, &picture));
    return picture ? walk->take(into, path, label) : RC_OK;
}

static rc_status list_folder(const rc_walk *walk, const char *folder, int depth, rc_listing *listing)
{
    *listing = (rc_listing){0};
    if (depth > walk->deepest)
        return rc_fail(RC_FORMAT, "'%.700s': folders are nested deeper than %d", folder, walk->deepest);
    return rc_listing_read(folder, listing);
}

/* What lies in a folder that has been noted. */
static rc_status read_folder(rc_walk *walk, const char *folder, int32_t label, void *into, int depth)
{
    rc_listing listing;
    if (walk->enter != NULL)
        RC_TRY(walk->enter(walk->user, folder));
    rc_status status = list_folder(walk, folder, depth, &listing);
    if (status != RC_OK && status != RC_OUT_OF_MEMORY && walk->unreadable != NULL)
        status = walk->unreadable(walk->user, folder, status);
    for (int i = 0; i < listing.count && status == RC_OK; i++) {
        char path[RC_PATH_SIZE];
        struct stat info;
        bool link = false;
        status = rc_path_in(folder, listing.name[i], path);
        if (status == RC_OK)
            status = rc_file_look(path, true, &info);
        if (status == RC_OK && S_ISDIR(info.st_mode))
            status = find_link(path, &link);
        if (status == RC_OK)
            status = visit(walk, path, listing.name[i], &info, link, label, into, depth);
        else if (walk->unreadable != NULL)
            status = walk->unreadable(walk->user, folder, status);
    }
    if (status == RC_OK)
        status = leave_all_hidden(walk, folder, &listing);
    rc_listing_free(&listing);
    return status;
}

/* A folder, or a link to one, that is not read because of its value. */
static rc_status leave_folder(rc_walk *walk, const char *path, int before, int32_t label, bool link)
{
    char reason[400];
    const char *thing = link ? "a link to a folder" : "a folder";
    if (before == ABOVE)
        return rc_left_out_add(walk->left_out, path, "links in circles", "a link that leads back to where it lies");
    if (before == READ + label || walk->class_name == NULL)
        snprintf(reason, sizeof reason, "%s whose pictures are read anyway", thing);
    else
        snprintf(reason, sizeof reason, "%s of class '%.256s', where its pictures are read", thing,
                 walk->class_name(walk->user, before - READ));
    return rc_left_out_add(walk->left_out, path, "folders that are read anyway", reason);
}

static rc_status add_folder(rc_walk *walk, const char *folder, int32_t label, void *into, int depth)
{
    int before;
    bool link;
    RC_TRY(note(walk, folder, READ + label, &before));
    RC_TRY(find_link(folder, &link));
    return before != 0 ? leave_folder(walk, folder, before, label, link)
                       : read_folder(walk, folder, label, into, depth);
}

rc_status rc_walk_folder(rc_walk *walk, const char *folder, int32_t label, void *into, rc_walk_found *found,
                         int32_t *other)
{
    int before;
    if (walk->last == NULL)
        walk->last = &walk->first;
    RC_TRY(note(walk, folder, READ + label, &before));
    *found = before == 0 || before == READ + label ? RC_WALK_NEW : before == ABOVE ? RC_WALK_ABOVE : RC_WALK_OTHER;
    *other = before - READ;
    return *found == RC_WALK_NEW ? read_folder(walk, folder, label, into, 0) : RC_OK;
}

rc_status rc_walk_links(rc_walk *walk)
{
    /* Following one may append more. */
    for (rc_walk_link *link = walk->first; link != NULL; link = link->next)
        RC_TRY(add_folder(walk, link->path, link->label, link->into, link->depth + 1));
    return RC_OK;
}

void rc_walk_free(rc_walk *walk)
{
    for (rc_walk_link *link = walk->first, *next; link != NULL; link = next) {
        next = link->next;
        rc_free(NULL, link);
    }
    walk->first = NULL;
    walk->last = NULL;
    rc_file_ids_free(&walk->entered);
}
