/* Folders of pictures, one for each class:
 *
 *     ROOT/train/CLASS/IMAGE  and  ROOT/test/CLASS/IMAGE  (or ROOT/val; test goes first where there are both)
 *     ROOT/CLASS/IMAGE        split by test_part
 *
 * Classes are numbered in the order of their names, sorted by bytes; pictures lie in the class folder or in folders in
 * it. */
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "data/image.h"
#include "data/image_files.h"
#include "data/listing.h"
#include "data/reader.h"

/* Is there a picture in the folders in `folder` (levels 1), or in the folders in those (levels 2)? With `itself`, a
 * picture directly in it counts, too. */
static rc_status holds_picture(const char *folder, int levels, bool itself, bool *found)
{
    rc_listing listing;
    *found = false;
    if (!rc_is_folder(folder))
        return RC_OK;
    RC_TRY(rc_listing_look(folder, &listing));
    for (int i = 0; i < listing.count && itself && !*found; i++)
        *found = rc_image_name(listing.name[i]);
    rc_status status = RC_OK;
    for (int i = 0; i < listing.count && !*found && levels > 0 && status == RC_OK; i++) {
        char path[RC_PATH_SIZE];
        if (rc_path_in(folder, listing.name[i], path) == RC_OK)
            status = holds_picture(path, levels - 1, true, found);
    }
    rc_listing_free(&listing);
    return status;
}

static rc_status recognise(const char *path, bool *known)
{
    return holds_picture(path, 2, false, known);
}

rc_status rc_folder_explain(const char *path)
{
    rc_listing listing;
    RC_TRY(rc_listing_read(path, &listing));
    int pictures = 0, folders = 0, entries = listing.count;
    char picture[128] = "";
    for (int i = 0; i < listing.count; i++) {
        if (rc_image_name(listing.name[i]) && pictures++ == 0)
            snprintf(picture, sizeof picture, "%.120s", listing.name[i]);
        folders += rc_has_folder(path, listing.name[i]);
    }
    rc_listing_free(&listing);
    size_t length = strlen(path);
    const char *slash = length > 0 && path[length - 1] == '/' ? "" : "/";
    if (entries == 0)
        return rc_fail(RC_FORMAT, "'%.500s' is empty; expected a folder of pictures for each class, named like it",
                       path);
    if (pictures > 0)
        return rc_fail(RC_FORMAT,
                       "'%.300s' holds %d picture%s, but each class needs a folder of its own, named like it: "
                       "for example %.300s%scat/%s",
                       path, pictures, pictures > 1 ? "s" : "", path, slash, picture);
    if (folders > 0)
        return rc_fail(RC_FORMAT,
                       "'%.300s' holds %d folder%s, but no picture in %s; expected " RC_IMAGE_ENDINGS
                       " files in a folder for each class: %.300s%sCLASS/IMAGE",
                       path, folders, folders > 1 ? "s" : "", folders > 1 ? "them" : "it", path, slash);
    return RC_OK;
}

/* ROOT/name with folders in it. (A class that happens to be called "train" holds pictures, not folders.) */
static rc_status is_part(const char *root, const char *name, bool *is)
{
    char part[RC_PATH_SIZE], path[RC_PATH_SIZE];
    rc_listing listing;
    *is = false;
    if (rc_path_in(root, name, part) != RC_OK || !rc_is_folder(part))
        return RC_OK;
    RC_TRY(rc_listing_look(part, &listing));
    bool folders = false, pictures = false;
    for (int i = 0; i < listing.count; i++) {
        if (rc_image_name(listing.name[i]))
            pictures = true;
        else
            folders = folders || (rc_path_in(part, listing.name[i], path) == RC_OK && rc_is_folder(path));
    }
    rc_listing_free(&listing);
    *is = folders && !pictures;
    return RC_OK;
}

/* The folders in a folder. */
static rc_status list_classes(const char *folder, rc_listing *listing)
{
    RC_TRY(rc_listing_read(folder, listing));
    int kept = 0;
    for (int i = 0; i < listing->count; i++)
        if (rc_has_folder(folder, listing->name[i]))
            listing->name[kept++] = listing->name[i];
    listing->count = kept;
    return RC_OK;
}

static rc_status name_classes(const char *folder, const rc_listing *listing, rc_dataset *dataset)
{
    if (listing->count == 0)
        return rc_fail(RC_FORMAT, "'%.400s' holds no class folders; expected: %s", folder, rc_reader_folder.layout);
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

/* Adds the pictures of all class folders in `folder`, which is `root` or lies in it. The first call names the
 * classes. The test set may lack some of them, but must not have others. */
static rc_status add_classes(const char *root, const char *folder, rc_dataset *dataset, rc_image_files *files)
{
    rc_listing listing;
    RC_TRY(list_classes(folder, &listing));
    bool first = dataset->classes == 0;
    rc_status status = first ? name_classes(folder, &listing, dataset) : RC_OK;
    const char *const above[2] = {root, folder};
    for (int i = 0; i < listing.count && status == RC_OK; i++) {
        char path[RC_PATH_SIZE];
        int label = find_class(dataset, listing.name[i]), before = files->count, circles = files->circles;
        if (label < 0) {
            status = rc_fail(RC_FORMAT, "'%.500s' has a class '%.200s' that the training set does not have", folder,
                             listing.name[i]);
            break;
        }
        status = rc_path_in(folder, listing.name[i], path);
        if (status == RC_OK)
            status = rc_image_files_add_folder(files, path, label, above);
        if (status == RC_OK && files->count == before && files->circles > circles)
            status = rc_fail(RC_FORMAT, "class folder '%.600s' is a link that leads back to the data set; take it out",
                             path);
        else if (status == RC_OK && first && files->count == before)
            status = rc_fail(RC_FORMAT, "class folder '%.400s' holds no pictures; expected: %s", path,
                             rc_reader_folder.layout);
    }
    rc_listing_free(&listing);
    return status;
}

static rc_status gather(const char *root, const rc_data_settings *settings, rc_dataset *dataset, rc_image_files *train,
                        rc_image_files *test)
{
    char path[RC_PATH_SIZE];
    bool has_train, has_test, has_val;
    RC_TRY(is_part(root, "train", &has_train));
    RC_TRY(is_part(root, "test", &has_test));
    RC_TRY(is_part(root, "val", &has_val));
    const char *test_name = has_test ? "test" : has_val ? "val" : NULL;
    if (!has_train && test_name == NULL)
        RC_TRY(add_classes(root, root, dataset, train));
    if (has_train) {
        RC_TRY(rc_path_in(root, "train", path));
        RC_TRY(add_classes(root, path, dataset, train));
    }
    if (test_name != NULL) {
        RC_TRY(rc_path_in(root, test_name, path));
        RC_TRY(add_classes(root, path, dataset, test));
    }
    RC_TRY(rc_image_files_leave_once(train, test, root, dataset, settings->log));
    return test_name != NULL
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
