#include "api/nested.h"

#include <stdio.h>
#include <string.h>

#include "data/image.h"
#include "data/image_kind.h"
#include "data/listing.h"
#include "data/reader.h"

/* By its name, or by its content. */
static rc_status is_picture(const char *folder, const char *name, bool *is)
{
    char path[RC_PATH_SIZE];
    const rc_image_kind *kind;
    *is = rc_image_name(name);
    if (*is)
        return RC_OK;
    RC_TRY(rc_has_file(folder, name, is));
    if (!*is)
        return RC_OK;
    RC_TRY(rc_path_in(folder, name, path));
    rc_status status = rc_image_kind_at(path, &kind);
    *is = status == RC_OK && kind->decode != NULL;
    return status == RC_OUT_OF_MEMORY ? status : RC_OK; /* the reader has told what it cannot read */
}

/* Has the folder other folders, and no picture beside them? */
static rc_status has_folders_alone(const char *folder, bool *has)
{
    rc_listing listing;
    int folders = 0, pictures = 0;
    RC_TRY(rc_listing_look(folder, &listing));
    rc_status status = RC_OK;
    for (int i = 0; i < listing.count && pictures == 0 && status == RC_OK; i++) {
        bool is_folder, picture = false;
        status = rc_has_folder(folder, listing.name[i], &is_folder);
        if (status == RC_OK && !is_folder)
            status = is_picture(folder, listing.name[i], &picture);
        folders += is_folder;
        pictures += picture;
    }
    rc_listing_free(&listing);
    *has = folders > 0 && pictures == 0;
    return status;
}

rc_status rc_nested_find(const char *root, const rc_dataset *data, char deeper[RC_PATH_SIZE])
{
    bool nested = root != NULL && strcmp(data->format, "folder") == 0;
    char path[RC_PATH_SIZE];
    deeper[0] = '\0';
    for (int i = 0; i < data->classes && nested; i++) {
        RC_TRY(rc_path_in(root, data->class_name[i], path));
        RC_TRY(has_folders_alone(path, &nested));
        if (i == 0)
            snprintf(deeper, RC_PATH_SIZE, "%s", path);
    }
    if (!nested)
        deeper[0] = '\0';
    return RC_OK;
}
