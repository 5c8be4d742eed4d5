/* Class names, one a line: those that are accepted are what a model may have. */
#include "fuzz/fuzz.h"

#include <string.h>

#include "data/dataset.h"
#include "model/labels.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    rc_labels labels;
    rc_status status = rc_labels_parse("input", (const char *)data, size, &labels);
    FUZZ_EXPECT((status == RC_OK) == (labels.name != NULL));
    for (int i = 0; i < labels.count; i++)
        FUZZ_EXPECT(rc_check_class_name(i, labels.name[i], strlen(labels.name[i])) == RC_OK);
    if (status == RC_OK)
        FUZZ_EXPECT(rc_check_class_names((const char *const *)labels.name, labels.count) == RC_OK);
    rc_labels_destroy(&labels);
    return 0;
}
