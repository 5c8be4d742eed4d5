/* Lists of pictures: every line that is accepted has a path and a label. */
#include "fuzz/fuzz.h"

#include <string.h>

#include "data/list.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    rc_image_files files = {0};
    (void)rc_list_parse("input", (const char *)data, size, "folder", &files);
    for (int i = 0; i < files.count; i++) {
        FUZZ_EXPECT(files.file[i].label >= 0 && files.file[i].label <= RC_LIST_MAX_LABEL);
        FUZZ_EXPECT(strlen(rc_image_files_path(&files, i)) > 0);
    }
    rc_image_files_free(&files);
    return 0;
}
