/* A file of weights as somebody might publish it, for the tests of import.
 *
 * usage: make_weights NET CLASSES archive|deflated|old|safetensors FILE */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/file.h"
#include "support/published_weights.h"
#include "support/torch_write.h"

int main(int argc, char **argv)
{
    if (argc != 5)
        return 2;
    published_weights *w = published_weights_make(argv[1], atoi(argv[2]));
    rc_status status;
    if (strcmp(argv[3], "safetensors") == 0) {
        rc_json_writer metadata = rc_safetensors_metadata_begin();
        status = rc_safetensors_write(argv[4], w->tensor, w->count, &metadata, true);
    } else {
        torch_style style = {.old = strcmp(argv[3], "old") == 0,
                             .deflated = strcmp(argv[3], "deflated") == 0,
                             .inside = "state_dict",
                             .prefix = "module."};
        size_t size;
        uint8_t *bytes = torch_write(w->tensor, w->count, style, &size);
        status = rc_file_write_atomic(argv[4], bytes, size);
        free(bytes);
    }
    published_weights_free(w);
    if (status != RC_OK)
        fprintf(stderr, "make_weights: %s\n", rc_message());
    return status != RC_OK;
}
