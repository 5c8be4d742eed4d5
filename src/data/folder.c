/* Folders of pictures, one for each class:
 *
 *     ROOT/train/CLASS/IMAGE  and  ROOT/test/CLASS/IMAGE  (or ROOT/val; test goes first where there are both; other
 *                                                          names that people give them are in data/set_part.c)
 *     ROOT/CLASS/IMAGE        split by test_part
 *
 * Classes are numbered in the order of their names, sorted by bytes; pictures lie in the class folder or in folders in
 * it (data/walk.h). What else lies beside them is left out, and told. */
#include <stdio.h>
#include <string.h>

#include "base/alike.h"
#include "base/memory.h"
#include "data/image.h"
#include "data/image_files.h"
#include "data/listing.h"
#include "data/reader.h"
#include "data/set_part.h"
#include "data/walk.h"

enum { DEEPEST = RC_IMAGE_FILES_DEEPEST + 2 }; /* below the set: class folders lie in it, or in those of its parts */

/* Is there a picture in the folders in the set? `folder` lies `depth` below it; `seen`: folders that were looked into.
 * A folder called "train" in the place of a class is that of a whole set, whose classes must not become one class. */
static rc_status holds_picture(const char *folder, int depth, rc_file_ids *seen, bool *found)
{
    rc_listing listing;
    struct stat about;
    int before;
    *found = false;
    RC_TRY(rc_file_look(folder, true, &about));
    if (!S_ISDIR(about.st_mode))
        return RC_OK;
    RC_TRY(rc_file_ids_add(seen, &about, 1, &before));
    if (before != 0)
        return RC_OK;
    bool itself = depth > 0, deeper = depth < 2 || rc_set_part_of(rc_base_name(folder)) == RC_SET_PARTS;
    RC_TRY(rc_listing_look(folder, &listing));
    for (int i = 0; i < listing.count && itself && !*found; i++)
        *found = rc_image_name(listing.name[i]);
    rc_status status = RC_OK;
    for (int i = 0; i < listing.count && !*found && status == RC_OK; i++) {
        char path[RC_PATH_SIZE];
        if (rc_path_in(folder, listing.name[i], path) != RC_OK)
            continue;
        if (deeper && depth < DEEPEST)
            status = holds_picture(path, depth + 1, seen, found);
        if (itself && !*found && status == RC_OK)
            status = rc_walk_is_picture(path, found);
    }
    rc_listing_free(&listing);
    return status;
}

static rc_status recognise(const char *path, bool *known)
{
    rc_file_ids seen = {0};
    rc_status status = holds_picture(path, 0, &seen, known);
    rc_file_ids_free(&seen);
    return status;
}

static rc_status pass_over(void *user, const char *folder, rc_status status)
{
    (void)user;
    (void)folder;
    (void)status;
    return RC_OK;
}

static rc_status take_nothing(void *into, const char *path, int32_t label)
{
    (void)into;
    (void)path;
    (void)label;
    return RC_OK;
}

/* What lies in the folders in place of pictures: one example of it, "" if there is nothing. */
static rc_status find_reason(const char *path, char *reason, size_t size)
{
    rc_left_out left_out = {0};
    rc_walk walk = {.left_out = &left_out, .deepest = DEEPEST, .take = take_nothing, .unreadable = pass_over};
    rc_walk_found found;
    int32_t other;
    rc_status status = rc_walk_folder(&walk, path, 0, NULL, &found, &other);
    reason[0] = '\0';
    if (status == RC_OK && left_out.count > 0)
        snprintf(reason, size, "; there is %.300s", left_out.line[0]);
    rc_walk_free(&walk);
    rc_left_out_free(&left_out);
    return status;
}

rc_status rc_folder_explain(const char *path)
{
    rc_listing listing;
    RC_TRY(rc_listing_read(path, &listing));
    int pictures = 0, folders = 0, entries = listing.count;
    char picture[128] = "", reason[320];
    rc_status status = RC_OK;
    for (int i = 0; i < listing.count && status == RC_OK; i++) {
        bool folder = false;
        if (rc_image_name(listing.name[i]) && pictures++ == 0)
            snprintf(picture, sizeof picture, "%.120s", listing.name[i]);
        status = rc_has_folder(path, listing.name[i], &folder);
        folders += folder;
    }
    rc_listing_free(&listing);
    RC_TRY(status);
    size_t length = strlen(path);
    const char *slash = length > 0 && path[length - 1] == '/' ? "" : "/";
    if (pictures > 0)
        return rc_fail(RC_FORMAT,
                       "'%.300s' holds %d picture%s, but each class needs a folder of its own, named like it: "
                       "for example %.300s%scat/%s",
                       path, pictures, pictures > 1 ? "s" : "", path, slash, picture);
    RC_TRY(find_reason(path, reason, sizeof reason));
    if (entries == 0)
        return rc_fail(RC_FORMAT, "'%.500s' is empty%s; expected a folder of pictures for each class, named like it%s",
                       path, reason[0] != '\0' ? " but for what is hidden" : "", reason);
    if (folders > 0)
        return rc_fail(RC_FORMAT,
                       "'%.200s' holds %d folder%s, but no picture in %s; expected " RC_IMAGE_ENDINGS
                       " files in a folder for each class: %.200s%sCLASS/IMAGE%s",
                       path, folders, folders > 1 ? "s" : "", folders > 1 ? "them" : "it", path, slash, reason);
    if (reason[0] != '\0')
        return rc_fail(RC_FORMAT, "'%.300s' holds no picture that is read, and no folder for a class%s", path, reason);
    return RC_OK;
}

/* ROOT/name with folders in it. (A class that happens to be called "train" holds pictures; fewer of them than there are
 * folders have gone astray.) */
static rc_status is_part(const char *root, const char *name, bool *is)
{
    char part[RC_PATH_SIZE];
    rc_listing listing;
    RC_TRY(rc_has_folder(root, name, is));
    if (!*is)
        return RC_OK;
    RC_TRY(rc_path_in(root, name, part));
    RC_TRY(rc_listing_look(part, &listing));
    int folders = 0, pictures = 0;
    rc_status status = RC_OK;
    for (int i = 0; i < listing.count && status == RC_OK; i++) {
        bool folder = false;
        status = rc_has_folder(part, listing.name[i], &folder);
        folders += folder;
        pictures += !folder && rc_image_name(listing.name[i]);
    }
    rc_listing_free(&listing);
    *is = pictures < folders;
    return status;
}

enum { PART_ROOM = sizeof "validation" }; /* the longest name of a part */

/* The folder of a part. Of several, such as "train" and "Training", it is the one that is called as messages do; else
 * the first by its bytes. "": there is none. */
static rc_status find_part(const char *root, rc_set_part part, const char *usual, char found[PART_ROOM])
{
    rc_listing listing;
    bool is;
    found[0] = '\0';
    RC_TRY(is_part(root, usual, &is));
    if (is)
        snprintf(found, PART_ROOM, "%s", usual);
    RC_TRY(rc_listing_look(root, &listing));
    rc_status status = RC_OK;
    for (int i = 0; i < listing.count && found[0] == '\0' && status == RC_OK; i++) {
        if (rc_set_part_of(listing.name[i]) != part)
            continue;
        status = is_part(root, listing.name[i], &is);
        if (is)
            snprintf(found, PART_ROOM, "%s", listing.name[i]);
    }
    rc_listing_free(&listing);
    return status;
}

/* The folders in a folder. What else it holds is left out. */
static rc_status list_classes(rc_walk *walk, const char *folder, rc_listing *listing)
{
    RC_TRY(rc_listing_read(folder, listing));
    rc_status status = rc_walk_strays(walk, folder, listing);
    int kept = 0;
    for (int i = 0; i < listing->count && status == RC_OK; i++) {
        bool is_folder;
        status = rc_has_folder(folder, listing->name[i], &is_folder);
        if (is_folder)
            listing->name[kept++] = listing->name[i];
    }
    listing->count = kept;
    listing->hidden = 0;
    if (status != RC_OK)
        rc_listing_free(listing);
    return status;
}

/* Two folders or more, all called like parts: the classes stand elsewhere, most often in a table. */
static rc_status check_no_parts(const char *folder, const rc_listing *listing)
{
    for (int i = 0; i < listing->count; i++)
        if (rc_set_part_of(listing->name[i]) == RC_SET_PARTS)
            return RC_OK;
    if (listing->count < 2)
        return RC_OK;
    const char *one = listing->name[0], *other = listing->name[1];
    return rc_fail(RC_FORMAT,
                   "'%.300s' holds pictures in folders called '%.30s' and '%.30s', like parts of a set, which say "
                   "nothing of their classes; put them into %.30s/CLASS/ and %.30s/CLASS/, or give the table that says "
                   "what is on them",
                   folder, one, other, one, other);
}

static rc_status name_classes(const char *folder, const rc_listing *listing, rc_dataset *dataset)
{
    if (listing->count == 0)
        return rc_fail(RC_FORMAT, "'%.400s' holds no class folders; expected: %s", folder, rc_reader_folder.layout);
    RC_TRY(check_no_parts(folder, listing));
    RC_TRY(rc_dataset_allocate_names(dataset, listing->count));
    for (int i = 0; i < listing->count; i++) {
        rc_status status = rc_dataset_set_name(dataset, i, listing->name[i], strlen(listing->name[i]));
        if (status == RC_FORMAT)
            return rc_fail(status, "folder '%.250s' of '%.300s': %s; rename it", listing->name[i], folder,
                           rc_message());
        RC_TRY(status);
    }
    return RC_OK;
}

static int find_class(const rc_dataset *dataset, const char *name)
{
    int low = 0, high = dataset->classes - 1;
    while (low <= high) {
        int middle = (low + high) / 2, order = strcmp(name, dataset->class_name[middle]);
        if (order == 0)
            return middle;
        if (order < 0)
            high = middle - 1;
        else
            low = middle + 1;
    }
    return -1;
}

static rc_status unknown_class(const char *folder, const char *name, const rc_dataset *dataset)
{
    for (int i = 0; i < dataset->classes; i++)
        if (rc_alike(name, dataset->class_name[i]))
            return rc_fail(RC_FORMAT,
                           "'%.300s' has a class '%.200s' that the training set does not have; rename it like '%.200s' "
                           "there, which differs in capitals, accents (or how these are encoded) or blanks alone, or "
                           "take it out",
                           folder, name, dataset->class_name[i]);
    return rc_fail(RC_FORMAT,
                   "'%.500s' has a class '%.200s' that the training set does not have; rename it, or take it out",
                   folder, name);
}

static rc_status no_pictures(const char *folder, const rc_walk *walk, int before)
{
    const rc_left_out *left = walk->left_out;
    bool why = left->count > before;
    return rc_fail(RC_FORMAT, "class folder '%.300s' holds no pictures%s%.300s; put some into it, or take it out",
                   folder, why ? ", only what is not read: " : "", why ? left->latest : "");
}

/* Adds the pictures of all class folders in `folder`. The first call names the classes. The test set may lack some of
 * them, but must not have others. */
static rc_status add_classes(rc_walk *walk, const char *folder, rc_dataset *dataset, rc_image_files *files)
{
    rc_listing listing;
    RC_TRY(list_classes(walk, folder, &listing));
    bool first = dataset->classes == 0;
    rc_status status = first ? name_classes(folder, &listing, dataset) : RC_OK;
    for (int i = 0; i < listing.count && status == RC_OK; i++) {
        char path[RC_PATH_SIZE];
        int label = find_class(dataset, listing.name[i]), before = files->count, left = walk->left_out->count;
        rc_walk_link **links = walk->last;
        if (label < 0) {
            status = unknown_class(folder, listing.name[i], dataset);
            break;
        }
        status = rc_path_in(folder, listing.name[i], path);
        if (status == RC_OK)
            status = rc_image_files_add_class(walk, path, label, files);
        if (status == RC_OK && first && files->count == before && walk->last == links)
            status = no_pictures(path, walk, left);
    }
    rc_listing_free(&listing);
    return status;
}

/* Why a folder beside train/ or test/ is not read. */
static rc_status explain_other(const char *root, const char *name, const char *const part[2], char *reason, size_t size)
{
    bool is;
    RC_TRY(is_part(root, name, &is));
    if (!is && rc_set_part_of(name) != RC_SET_PARTS)
        snprintf(reason, size, "it does not hold a folder for each class");
    else if (part[0] != NULL && part[1] != NULL)
        snprintf(reason, size, "a folder beside %s/ and %s/, which are read", part[0], part[1]);
    else
        snprintf(reason, size, "a folder beside %s/, which is read", part[part[0] == NULL]);
    return RC_OK;
}

/* Folders beside train/ and test/, and what else lies there. */
static rc_status leave_others(rc_walk *walk, const char *root, const char *const part[2])
{
    rc_listing listing;
    RC_TRY(rc_listing_read(root, &listing));
    rc_status status = rc_walk_strays(walk, root, &listing);
    for (int i = 0; i < listing.count && status == RC_OK; i++) {
        char path[RC_PATH_SIZE], reason[100];
        bool read = false, folder;
        for (int k = 0; k < 2; k++)
            read = read || (part[k] != NULL && strcmp(listing.name[i], part[k]) == 0);
        status = rc_has_folder(root, listing.name[i], &folder);
        if (read || !folder)
            continue;
        status = explain_other(root, listing.name[i], part, reason, sizeof reason);
        if (status == RC_OK)
            status = rc_path_in(root, listing.name[i], path);
        if (status == RC_OK)
            status = rc_left_out_add(walk->left_out, path, "folders beside the classes", reason);
    }
    rc_listing_free(&listing);
    return status;
}

/* part: the names of those to train on and to test on, or NULL where there is none. Those are known to the walk before
 * the first picture is read, so that no link leads back to them. */
static rc_status add_parts(rc_walk *walk, const char *root, const char *const part[2], rc_dataset *dataset,
                           rc_image_files *const files[2])
{
    char path[RC_PATH_SIZE];
    for (int i = 0; i < 2; i++)
        if (part[i] != NULL) {
            RC_TRY(rc_path_in(root, part[i], path));
            RC_TRY(rc_walk_begin(walk, path));
        }
    RC_TRY(leave_others(walk, root, part));
    for (int i = 0; i < 2; i++)
        if (part[i] != NULL) {
            RC_TRY(rc_path_in(root, part[i], path));
            RC_TRY(add_classes(walk, path, dataset, files[i]));
        }
    return RC_OK;
}

/* A class that has links alone may be empty once they have been followed. */
static rc_status check_classes(const rc_walk *walk, const rc_dataset *dataset, const rc_image_files *train,
                               const rc_image_files *test)
{
    const rc_image_files *named = train->count > 0 ? train : test;
    int8_t *seen = rc_alloc_zeroed(NULL, (size_t)dataset->classes, 1);
    if (seen == NULL)
        return RC_OUT_OF_MEMORY;
    for (int i = 0; i < named->count; i++)
        seen[named->file[i].label] = 1;
    rc_status status = RC_OK;
    for (int i = 0; i < dataset->classes && status == RC_OK; i++)
        if (!seen[i])
            status = no_pictures(dataset->class_name[i], walk, 0);
    rc_free(NULL, seen);
    return status;
}

static rc_status gather(const char *root, const rc_data_settings *settings, rc_dataset *dataset, rc_image_files *train,
                        rc_image_files *test, rc_left_out *left_out)
{
    char train_part[PART_ROOM], test_part[PART_ROOM];
    RC_TRY(find_part(root, RC_SET_TRAIN, "train", train_part));
    RC_TRY(find_part(root, RC_SET_TEST, "test", test_part));
    if (test_part[0] == '\0')
        RC_TRY(find_part(root, RC_SET_VAL, "val", test_part));
    const char *const part[2] = {train_part[0] != '\0' ? train_part : NULL, test_part[0] != '\0' ? test_part : NULL};
    rc_image_files *const files[2] = {train, test};
    rc_walk walk = rc_image_files_walk(dataset, left_out);
    rc_status status = rc_walk_begin(&walk, root);
    if (status == RC_OK)
        status = part[0] == NULL && part[1] == NULL ? add_classes(&walk, root, dataset, train)
                                                    : add_parts(&walk, root, part, dataset, files);
    if (status == RC_OK)
        status = rc_walk_links(&walk);
    if (status == RC_OK)
        status = check_classes(&walk, dataset, train, test);
    rc_walk_free(&walk);
    RC_TRY(status);
    RC_TRY(rc_image_files_leave_once(train, test, dataset, left_out));
    return part[1] != NULL
               ? RC_OK
               : rc_image_files_split(train, dataset->classes, settings->test_part, settings->test_seed, test);
}

static rc_status read_folder(const char *path, const rc_data_settings *settings, rc_dataset *dataset)
{
    return rc_image_files_read(path, settings, gather, dataset);
}

const rc_reader rc_reader_folder = {
    .format = "folder",
    .layout = "folders of pictures (" RC_IMAGE_ENDINGS "): {train,test|val}/CLASS/IMAGE, or CLASS/IMAGE",
    .fitted = true,
    .recognise = recognise,
    .read = read_folder,
};
