/* The first bytes of any file: it has a kind, and words for it that end. */
#include <string.h>

#include "data/image_kind.h"
#include "fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char text[RC_IMAGE_KIND_TEXT], name[64] = "";
    const rc_image_kind *kind = rc_image_kind_of(data, size, NULL);
    FUZZ_EXPECT(kind != NULL && kind->name[0] != '\0');
    memcpy(name, data, size < sizeof name - 1 ? size : sizeof name - 1);
    rc_image_kind_of(data, size, name);
    rc_image_kind_explain(kind, name, text, sizeof text);
    FUZZ_EXPECT(strlen(text) < sizeof text - 1 && strncmp(text, kind->name, strlen(kind->name)) == 0);
    return 0;
}
