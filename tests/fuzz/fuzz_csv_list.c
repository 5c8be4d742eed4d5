/* Tables of pictures: every row that is accepted has a path and a class, which lie in the text. */
#include "fuzz/fuzz.h"

#include <stdlib.h>
#include <string.h>

#include "data/csv_list.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    rc_csv_list list;
    char *text = malloc(size + 1);
    if (text == NULL)
        return 0;
    if (size > 0)
        memcpy(text, data, size);
    text[size] = '\0';
    rc_status status = rc_csv_list_parse("input", text, size, &list);
    FUZZ_EXPECT(status == RC_OK || (list.row == NULL && list.count == 0));
    FUZZ_EXPECT(!list.no_classes || list.count == 0);
    for (int i = 0; i < list.count; i++) {
        const char *parts[] = {list.row[i].path, list.row[i].class_name};
        for (int k = 0; k < 2; k++) {
            FUZZ_EXPECT(parts[k] >= text && parts[k] < text + size);
            FUZZ_EXPECT(strlen(parts[k]) > 0);
        }
    }
    rc_csv_list_free(&list);
    free(text);
    return 0;
}
