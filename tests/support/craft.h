/* Model files made by hand: reads a real one, changes claims of its header as text, and writes it again with the
 * right length of the header. The library does not check the result. A failure of the system ends the test. */
#ifndef RC_TESTS_SUPPORT_CRAFT_H
#define RC_TESTS_SUPPORT_CRAFT_H

#include <stdbool.h>
#include <stddef.h>

typedef struct craft {
    char *header; /* JSON, ends with a zero byte */
    char *data;
    size_t size; /* of the data */
} craft;

void craft_read(const char *path, craft *file);
craft craft_copy(const craft *file);
void craft_write(const craft *file, const char *path);
void craft_free(craft *file);

/* Each changes the first place that it finds, or takes it out where `text` is NULL. false: there is no such place.
 * metadata: a string of the metadata; the text is quoted as JSON asks for it.
 * setting: a setting in the configuration, which is a string of the metadata; a text that begins with '!' is put there
 *   without quotes and without that sign.
 * tensor: "dtype", "shape" or "data_offsets" of a tensor, as JSON. */
bool craft_metadata(craft *file, const char *key, const char *text);
bool craft_setting(craft *file, const char *name, const char *text);
bool craft_tensor(craft *file, const char *tensor, const char *field, const char *json);
/* Gives a tensor of reals another shape, and room for it: `count` zeros. Those behind it move. */
bool craft_resize(craft *file, const char *tensor, const char *shape, size_t count);
/* One more tensor at the end: so many bytes, zeros. */
void craft_add(craft *file, const char *tensor, size_t bytes);

#endif
