#include "data/bundle.h"

#include <string.h>

#include "base/memory.h"
#include "data/reader.h"
#include "data/tar.h"

static int find(const rc_bundle *bundle, const char *name)
{
    for (int i = 0; i < bundle->files; i++)
        if (strcmp(bundle->file[i].name, name) == 0)
            return i;
    return -1;
}

static rc_status read_members(rc_input *input, size_t limit, rc_bundle *bundle)
{
    rc_tar tar = {.input = input};
    rc_tar_member member;
    bool more;
    for (;;) {
        RC_TRY(rc_tar_next(&tar, &member, &more));
        if (!more)
            return RC_OK;
        const char *slash = strrchr(member.name, '/');
        int i = find(bundle, slash != NULL ? slash + 1 : member.name);
        if (i < 0)
            continue;
        if (member.size > limit)
            return rc_fail(RC_FORMAT, "'%s': '%.100s' has %llu bytes, expected at most %zu", rc_input_name(input),
                           member.name, (unsigned long long)member.size, limit);
        if (bundle->file[i].data != NULL)
            return rc_fail(RC_FORMAT, "'%s' holds more than one file '%s'", rc_input_name(input), bundle->file[i].name);
        RC_TRY(rc_input_check_promise(input, member.size));
        bundle->file[i].size = (size_t)member.size;
        bundle->file[i].data = rc_alloc(NULL, (size_t)member.size + 1);
        if (bundle->file[i].data == NULL)
            return RC_OUT_OF_MEMORY;
        RC_TRY(rc_tar_read(&tar, &member, bundle->file[i].data));
        bundle->file[i].data[member.size] = 0;
    }
}

static void set_names(rc_bundle *bundle, const char *path, const char *const *names)
{
    *bundle = (rc_bundle){.path = path};
    for (; names[bundle->files] != NULL && bundle->files < RC_BUNDLE_FILES; bundle->files++)
        bundle->file[bundle->files].name = names[bundle->files];
}

rc_status rc_bundle_open_archive(rc_input *input, const char *const *names, size_t limit, rc_bundle *bundle)
{
    set_names(bundle, rc_input_name(input), names);
    bundle->archive = true;
    rc_status status = read_members(input, limit, bundle);
    if (status != RC_OK)
        rc_bundle_close(bundle);
    return status;
}

rc_status rc_bundle_open(const char *path, const char *const *names, size_t limit, rc_bundle *bundle)
{
    struct stat about;
    set_names(bundle, path, names);
    RC_TRY(rc_file_look(path, true, &about));
    if (S_ISDIR(about.st_mode))
        return RC_OK;
    rc_input *input;
    RC_TRY(rc_input_open(path, &input));
    rc_status status = rc_bundle_open_archive(input, names, limit, bundle);
    rc_input_close(input);
    bundle->path = path;
    return status;
}

void rc_bundle_close(rc_bundle *bundle)
{
    for (int i = 0; i < bundle->files; i++)
        rc_free(NULL, bundle->file[i].data);
    *bundle = (rc_bundle){0};
}

rc_status rc_bundle_has(const rc_bundle *bundle, const char *name, bool *has)
{
    if (!bundle->archive)
        return rc_has_file(bundle->path, name, has);
    int i = find(bundle, name);
    *has = i >= 0 && bundle->file[i].data != NULL;
    return RC_OK;
}

rc_status rc_bundle_take(rc_bundle *bundle, const char *name, size_t limit, uint8_t **data, size_t *size)
{
    *data = NULL;
    *size = 0;
    bool has;
    RC_TRY(rc_bundle_has(bundle, name, &has));
    if (!has)
        return rc_fail(RC_IO, "'%.500s' has no file '%s'", bundle->path, name);
    if (!bundle->archive) {
        char path[RC_PATH_SIZE];
        RC_TRY(rc_path_in(bundle->path, name, path));
        return rc_input_read_file(path, limit, data, size);
    }
    int i = find(bundle, name);
    *data = bundle->file[i].data;
    *size = bundle->file[i].size;
    bundle->file[i].data = NULL;
    return RC_OK;
}

/* Its header must be in the first blocks, so that looking at an archive does not unpack all of it. */
static rc_status first_name(rc_input *input, const char *path, char *name)
{
    enum { LOOKED_AT = 1 << 16 };
    size_t size = 0;
    rc_input *beginning;
    uint8_t *block = rc_alloc(NULL, LOOKED_AT);
    if (block == NULL)
        return RC_OUT_OF_MEMORY;
    rc_status status = rc_input_read(input, block, LOOKED_AT, &size);
    if (status != RC_OUT_OF_MEMORY) /* damage further on is found when the member is read */
        status = rc_input_open_memory(path, block, size, &beginning);
    if (status == RC_OK) {
        rc_tar tar = {.input = beginning};
        rc_tar_member member;
        bool more = false;
        status = rc_tar_next(&tar, &member, &more);
        if (status == RC_OK && more)
            memcpy(name, member.name, sizeof member.name);
        rc_input_close(beginning);
    }
    rc_free(NULL, block);
    return status;
}

rc_status rc_archive_first_name(const char *path, char *name)
{
    rc_input *input;
    name[0] = 0;
    rc_status status = rc_input_open(path, &input);
    if (status == RC_OK) {
        status = first_name(input, path, name);
        rc_input_close(input);
    }
    return status == RC_OUT_OF_MEMORY ? status : RC_OK;
}
