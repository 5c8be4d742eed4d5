#include "model/fingerprint.h"

#include <stdio.h>
#include <string.h>

/* ---- hashes --------------------------------------------------------------------------------------------------- */

/* With its end, so that "ab", "c" differs from "a", "bc". */
static uint64_t hash_text(uint64_t hash, const char *text)
{
    return rc_hash_bytes(hash, text, strlen(text) + 1);
}

static uint64_t hash_split(uint64_t hash, const rc_split *split, size_t image)
{
    hash = rc_hash_bytes(hash, split->labels, (size_t)split->count * sizeof *split->labels);
    if (split->images == NULL || split->pack != NULL) { /* checksums stand for images: nobody reads all of them */
        for (int i = 0; i < split->count; i++) {
            uint32_t checksum = rc_split_checksum(split, i);
            hash = rc_hash_bytes(hash, &checksum, sizeof checksum);
        }
        return hash;
    }
    return rc_hash_bytes(hash, split->images, (size_t)split->count * image);
}

void rc_data_hash(const rc_dataset *data, char text[RC_HASH_SIZE])
{
    size_t image = (size_t)data->h * (size_t)data->w * (size_t)data->c;
    const int shape[] = {data->h, data->w, data->c, data->classes, data->train.count, data->test.count};
    uint64_t hash = rc_hash_bytes(RC_HASH_START, shape, sizeof shape);
    for (int i = 0; i < data->classes; i++)
        hash = hash_text(hash, data->class_name[i]);
    hash = hash_split(hash, &data->train, image);
    rc_hash_text(hash_split(hash, &data->test, image), text);
}

static bool decides(const char *setting)
{
    return strcmp(setting, "data") != 0; /* where it lies; what it is has a part of its own */
}

void rc_settings_hash(const rc_config *config, char text[RC_HASH_SIZE])
{
    uint64_t hash = RC_HASH_START;
    rc_config_item item;
    char value[RC_CONFIG_VALUE];
    for (int i = 0; rc_config_item_at(i, &item); i++)
        if (decides(item.name) && rc_config_get(config, item.name, value, sizeof value) == RC_OK)
            hash = hash_text(hash_text(hash, item.name), value);
    rc_hash_text(hash, text);
}

static void classes_hash(const rc_task_stream *stream, char text[RC_HASH_SIZE])
{
    uint64_t hash = rc_hash_bytes(RC_HASH_START, stream->task_end, (size_t)stream->tasks * sizeof *stream->task_end);
    hash = rc_hash_bytes(hash, stream->order, (size_t)stream->classes * sizeof *stream->order);
    rc_hash_text(hash, text);
}

void rc_fingerprint(const rc_config *config, const char *data_hash, const char *method, const rc_task_stream *stream,
                    char text[RC_FINGERPRINT_SIZE])
{
    char settings[RC_HASH_SIZE], classes[RC_HASH_SIZE];
    rc_settings_hash(config, settings);
    classes_hash(stream, classes);
    snprintf(text, RC_FINGERPRINT_SIZE, "method=%s settings=%s data=%s classes=%s", method, settings, data_hash,
             classes);
}

/* ---- comparing ------------------------------------------------------------------------------------------------ */

static const struct {
    const char *key, *text;
    bool by_seed; /* another seed alone changes it: the settings have the seed, and it chooses images of the data */
} parts[] = {{"method=", "another method", false},
             {"settings=", "other settings", true},
             {"data=", "other data", true},
             {"classes=", "another order of classes or tasks", false},
             {"model=", "another model", false}};
enum { PARTS = sizeof parts / sizeof *parts };

/* A part of a fingerprint, up to the next blank; nothing where there is none. */
static const char *find_part(const char *fingerprint, const char *key, int *length)
{
    const char *at = strstr(fingerprint, key);
    *length = at != NULL ? (int)strcspn(at, " ") : 0;
    return at != NULL ? at : "";
}

/* "another seed (1, where this run has 7)", where both have one and they differ. */
static bool name_seed(const char *found, const char *expected, char *text, size_t size)
{
    static const char key[] = "seed=";
    const int before = (int)sizeof key - 1;
    int a_length, b_length;
    const char *a = find_part(found, key, &a_length), *b = find_part(expected, key, &b_length);
    if (a_length == 0 || b_length == 0 || (a_length == b_length && memcmp(a, b, (size_t)a_length) == 0))
        return false;
    snprintf(text, size, "another seed (%.*s, where this run has %.*s)", a_length - before, a + before,
             b_length - before, b + before);
    return true;
}

/* "other settings, other data", as far as it fits. */
static void name_parts(const char *found, const char *expected, char *text, size_t size)
{
    text[0] = '\0';
    bool seed = name_seed(found, expected, text, size);
    size_t used = strlen(text);
    for (int i = 0; i < PARTS; i++) {
        if (seed && parts[i].by_seed)
            continue;
        int a_length, b_length;
        const char *a = find_part(found, parts[i].key, &a_length), *b = find_part(expected, parts[i].key, &b_length);
        if ((a_length != b_length || memcmp(a, b, (size_t)a_length) != 0) && used < size)
            used += (size_t)snprintf(text + used, size - used, "%s%s", used > 0 ? ", " : "", parts[i].text);
    }
}

/* ": seed '2', where this run has '1'" for the first setting that differs. */
static void name_setting(const rc_json *config, const rc_config *now, char *text, size_t size)
{
    rc_config_item item;
    char value[RC_CONFIG_VALUE];
    text[0] = '\0';
    for (int i = 0; config != NULL && now != NULL && rc_config_item_at(i, &item); i++) {
        const char *theirs = rc_json_string(rc_json_member(config, item.name));
        if (!decides(item.name) || theirs == NULL || rc_config_get(now, item.name, value, sizeof value) != RC_OK ||
            strcmp(theirs, value) == 0)
            continue;
        snprintf(text, size, " (%s '%.200s', where this run has '%.200s')", item.name, theirs, value);
        return;
    }
}

rc_status rc_fingerprint_check(const char *path, const char *found, const char *expected, const rc_json *config,
                               const rc_config *now, const char *advice)
{
    char differs[160], setting[512];
    if (found == NULL)
        return rc_fail(RC_INVALID_ARGUMENT, "%s does not say which run it belongs to: %s", path, advice);
    if (strcmp(found, expected) == 0)
        return RC_OK;
    name_parts(found, expected, differs, sizeof differs);
    name_setting(config, now, setting, sizeof setting);
    return rc_fail(RC_INVALID_ARGUMENT, "%s belongs to another run, with %s%s: %s", path,
                   differs[0] != '\0' ? differs : "another fingerprint", setting, advice);
}
