/* The side of the library in differential fuzzing (differ.py): says what it makes of each file, one line of JSON each.
 * A file that is refused gives null.
 *
 * usage: differ safetensors|tar|picture|config FILE... */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "base/json.h"
#include "base/memory.h"
#include "config/config.h"
#include "data/image.h"
#include "data/input.h"
#include "data/tar.h"
#include "model/safetensors.h"

enum { LIMIT = 1 << 20 };

static void put_sum(rc_json_writer *w, const void *bytes, size_t size)
{
    rc_json_put_int(w, "crc", (int64_t)crc32(0, bytes, (uInt)size));
}

/* In hexadecimal, as a name may be no text. */
static void put_name(rc_json_writer *w, const char *name)
{
    char text[1024];
    size_t used = 0;
    for (; *name != '\0' && used + 3 < sizeof text; name++, used += 2)
        snprintf(text + used, 3, "%02x", (unsigned char)*name);
    text[used] = '\0';
    rc_json_put_text(w, "name", text);
}

static rc_status tell_tensors(const uint8_t *bytes, size_t size, rc_json_writer *w)
{
    rc_safetensors *file;
    RC_TRY(rc_safetensors_parse("input", bytes, size, &file));
    rc_json_begin_array(w, NULL);
    for (int i = 0; i < rc_safetensors_count(file); i++) {
        const rc_named_tensor *t = rc_safetensors_at(file, i);
        rc_json_begin_object(w, NULL);
        put_name(w, t->name);
        rc_json_put_text(w, "dtype", rc_dtype_name(t->dtype));
        rc_json_begin_array(w, "shape");
        for (int k = 0; k < t->dims; k++)
            rc_json_put_int(w, NULL, t->shape[k]);
        rc_json_end(w);
        put_sum(w, t->data, rc_named_tensor_bytes(t));
        rc_json_end(w);
    }
    rc_json_end(w);
    rc_safetensors_close(file);
    return RC_OK;
}

static rc_status tell_members(rc_input *input, rc_json_writer *w)
{
    rc_tar tar = {.input = input};
    rc_tar_member member;
    bool more;
    RC_TRY(rc_tar_next(&tar, &member, &more));
    for (; more;) {
        uint8_t *content = member.size <= LIMIT ? malloc((size_t)member.size + 1) : NULL;
        if (content == NULL)
            return rc_fail(RC_FORMAT, "a member of %llu bytes", (unsigned long long)member.size);
        rc_status status = rc_tar_read(&tar, &member, content);
        if (status == RC_OK) {
            rc_json_begin_object(w, NULL);
            put_name(w, member.name);
            rc_json_put_int(w, "size", (int64_t)member.size);
            put_sum(w, content, (size_t)member.size);
            rc_json_end(w);
        }
        free(content);
        RC_TRY(status);
        RC_TRY(rc_tar_next(&tar, &member, &more));
    }
    return RC_OK;
}

static rc_status tell_archive(const char *path, rc_json_writer *w)
{
    rc_input *input;
    RC_TRY(rc_input_open(path, &input));
    rc_json_begin_array(w, NULL);
    rc_status status = tell_members(input, w);
    rc_json_end(w);
    rc_input_close(input);
    return status;
}

/* The pixels of a small picture are told, too: decoders may differ by a little. */
static rc_status tell_picture(const uint8_t *bytes, size_t size, rc_json_writer *w)
{
    enum { MOST_TOLD = 4096 };
    rc_image image;
    RC_TRY(rc_image_decode(bytes, size, &(rc_image_options){.channels = 3, .max_pixels = LIMIT}, &image));
    size_t values = (size_t)image.h * (size_t)image.w * 3;
    rc_json_begin_object(w, NULL);
    rc_json_put_int(w, "h", image.h);
    rc_json_put_int(w, "w", image.w);
    rc_json_begin_array(w, "pixels");
    for (size_t i = 0; i < values && i < MOST_TOLD; i++)
        rc_json_put_int(w, NULL, image.pixels[i]);
    rc_json_end(w);
    rc_json_end(w);
    rc_image_free(&image);
    return RC_OK;
}

static void add_line(void *user, const char *line)
{
    rc_json_put_text(user, NULL, line);
}

/* What is printed of it. */
static rc_status tell_config(const uint8_t *bytes, size_t size, rc_json_writer *w)
{
    rc_config config = rc_config_default();
    RC_TRY(rc_config_parse_yaml(&config, "input", (const char *)bytes, size, NULL));
    rc_json_begin_array(w, NULL);
    rc_status status = rc_config_print(&config, add_line, w);
    rc_json_end(w);
    return status;
}

static rc_status tell(const char *kind, const char *path, const uint8_t *bytes, size_t size, rc_json_writer *w)
{
    if (strcmp(kind, "safetensors") == 0)
        return tell_tensors(bytes, size, w);
    if (strcmp(kind, "tar") == 0)
        return tell_archive(path, w);
    if (strcmp(kind, "picture") == 0)
        return tell_picture(bytes, size, w);
    return tell_config(bytes, size, w);
}

int main(int count, char **arguments)
{
    static uint8_t bytes[LIMIT];
    for (int i = 2; i < count; i++) {
        FILE *file = fopen(arguments[i], "rb");
        if (file == NULL)
            return 1;
        size_t size = fread(bytes, 1, sizeof bytes, file);
        fclose(file);
        rc_json_writer w = {0};
        char *text = NULL;
        rc_status status = tell(arguments[1], arguments[i], bytes, size, &w);
        if (status == RC_OK)
            status = rc_json_finish(&w, &text, NULL);
        else
            rc_json_discard(&w);
        puts(status == RC_OK ? text : "null");
        rc_free(NULL, text);
    }
    return count > 2 ? 0 : 2;
}
