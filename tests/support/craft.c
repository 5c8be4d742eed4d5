#include "support/craft.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "support/data_files.h"

static void *take(size_t size)
{
    void *block = calloc(size + 1, 1);
    assert_non_null(block);
    return block;
}

/* ---- files ------------------------------------------------------------------------------------------------------- */

void craft_read(const char *path, craft *file)
{
    unsigned char length[8];
    size_t header = 0;
    FILE *in = fopen(path, "rb");
    assert_non_null(in);
    assert_int_equal(fread(length, 1, sizeof length, in), sizeof length);
    for (int i = 7; i >= 0; i--)
        header = header << 8 | length[i];
    assert_int_equal(fseek(in, 0, SEEK_END), 0);
    file->size = (size_t)ftell(in) - sizeof length - header;
    assert_int_equal(fseek(in, sizeof length, SEEK_SET), 0);
    file->header = take(header);
    file->data = take(file->size);
    assert_int_equal(fread(file->header, 1, header, in), header);
    assert_int_equal(fread(file->data, 1, file->size, in), file->size);
    fclose(in);
}

craft craft_copy(const craft *file)
{
    craft copy = {take(strlen(file->header)), take(file->size), file->size};
    memcpy(copy.header, file->header, strlen(file->header));
    memcpy(copy.data, file->data, file->size);
    return copy;
}

void craft_write(const craft *file, const char *path)
{
    size_t length = strlen(file->header);
    data_bytes out = {0};
    for (int i = 0; i < 8; i++)
        data_add_byte(&out, (int)(length >> (8 * i) & 0xFF));
    data_add(&out, file->header, length);
    data_add(&out, file->data, file->size);
    remove(path); /* a file that is cut and written again goes to the disk at once */
    data_write(path, out.data, out.size);
    free(out.data);
}

void craft_free(craft *file)
{
    free(file->header);
    free(file->data);
    *file = (craft){0};
}

/* ---- changes ----------------------------------------------------------------------------------------------------- */

static void replace(craft *file, const char *from, const char *to, const char *text)
{
    size_t before = (size_t)(from - file->header), length = strlen(text), rest = strlen(to);
    char *changed = take(before + length + rest);
    memcpy(changed, file->header, before);
    memcpy(changed + before, text, length);
    memcpy(changed + before + length, to, rest);
    free(file->header);
    file->header = changed;
}

/* A member [from, to) of an object, and the comma that would be left. */
static void take_out(craft *file, const char *from, const char *to)
{
    if (*to == ',')
        to++;
    else if (from > file->header && from[-1] == ',')
        from--;
    replace(file, from, to, "");
}

/* The text between quotes, each quote and backslash after a backslash of its own. */
static char *quote(const char *text)
{
    char *quoted = take(2 * strlen(text) + 2), *to = quoted;
    *to++ = '"';
    for (; *text != '\0'; *to++ = *text++)
        if (*text == '"' || *text == '\\')
            *to++ = '\\';
    *to = '"';
    return quoted;
}

static const char *end_of_string(const char *text)
{
    while (*text != '\0' && *text != '"')
        text += *text == '\\' ? 2 : 1;
    return text;
}

bool craft_metadata(craft *file, const char *key, const char *text)
{
    char pattern[128];
    snprintf(pattern, sizeof pattern, "\"%s\":\"", key);
    const char *from = strstr(file->header, "\"__metadata__\"");
    from = from != NULL ? strstr(from, pattern) : NULL;
    if (from == NULL)
        return false;
    const char *value = from + strlen(pattern) - 1, *end = end_of_string(value + 1) + 1;
    if (text == NULL) {
        take_out(file, from, end);
        return true;
    }
    char *quoted = quote(text);
    replace(file, value, end, quoted);
    free(quoted);
    return true;
}

bool craft_setting(craft *file, const char *name, const char *text)
{
    char pattern[128];
    snprintf(pattern, sizeof pattern, "\\\"%s\\\":\\\"", name);
    const char *from = strstr(file->header, "\"config\":\"");
    from = from != NULL ? strstr(from, pattern) : NULL;
    if (from == NULL)
        return false;
    const char *value = from + strlen(pattern) - 2, *end = strstr(value + 2, "\\\"");
    if (end == NULL)
        return false;
    end += 2;
    if (text == NULL) {
        take_out(file, from, end);
        return true;
    }
    char *inner = text[0] == '!' ? quote("") : quote(text), *outer = quote(text[0] == '!' ? text + 1 : inner);
    outer[strlen(outer) - 1] = '\0'; /* the quotes outside are those of the configuration */
    replace(file, value, end, outer + 1);
    free(inner);
    free(outer);
    return true;
}

bool craft_tensor(craft *file, const char *tensor, const char *field, const char *json)
{
    char pattern[256];
    snprintf(pattern, sizeof pattern, "\"%s\":{", tensor);
    const char *entry = strstr(file->header, pattern);
    const char *close = entry != NULL ? strchr(entry, '}') : NULL;
    snprintf(pattern, sizeof pattern, "\"%s\":", field);
    const char *from = entry != NULL ? strstr(entry, pattern) : NULL;
    if (from == NULL || close == NULL || from > close)
        return false;
    const char *value = from + strlen(pattern);
    const char *end = *value == '[' ? strchr(value, ']') + 1 : end_of_string(value + 1) + 1;
    if (json == NULL)
        take_out(file, from, end);
    else
        replace(file, value, end, json);
    return true;
}

/* The offsets that `place` ("[0,36]") leads to. */
static void offsets_at(const char *place, size_t *begin, size_t *end)
{
    char *next;
    *begin = strtoull(place + 1, &next, 10);
    *end = strtoull(next + 1, NULL, 10);
}

bool craft_resize(craft *file, const char *tensor, const char *shape, size_t count)
{
    static const char key[] = "\"data_offsets\":";
    char pattern[256];
    snprintf(pattern, sizeof pattern, "\"%s\":{", tensor);
    const char *entry = strstr(file->header, pattern), *own = entry != NULL ? strstr(entry, key) : NULL;
    if (own == NULL)
        return false;
    size_t first, last, begin, end;
    offsets_at(own + strlen(key), &first, &last);
    size_t bytes = count * 4, rest = file->size - last;
    char *data = take(first + bytes + rest);
    memcpy(data, file->data, first);
    memcpy(data + first + bytes, file->data + last, rest);
    free(file->data);
    file->data = data;
    file->size = first + bytes + rest;
    for (size_t at = 0;;) {
        const char *place = strstr(file->header + at, key);
        if (place == NULL)
            break;
        place += strlen(key);
        at = (size_t)(place - file->header);
        offsets_at(place, &begin, &end);
        if (begin == first && end == last)
            end = first + bytes;
        else if (begin >= last)
            begin = begin - last + first + bytes, end = end - last + first + bytes;
        snprintf(pattern, sizeof pattern, "[%zu,%zu]", begin, end);
        replace(file, place, strchr(place, ']') + 1, pattern);
    }
    return craft_tensor(file, tensor, "shape", shape);
}

void craft_add(craft *file, const char *tensor, size_t bytes)
{
    char entry[256];
    const char *end = strrchr(file->header, '}');
    assert_non_null(end);
    snprintf(entry, sizeof entry, ",\"%s\":{\"dtype\":\"U8\",\"shape\":[%zu],\"data_offsets\":[%zu,%zu]}}", tensor,
             bytes, file->size, file->size + bytes);
    replace(file, end, end + 1, entry);
    char *data = take(file->size + bytes);
    memcpy(data, file->data, file->size);
    free(file->data);
    file->data = data;
    file->size += bytes;
}
