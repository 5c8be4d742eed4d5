/* Results of an unfinished run, which a resume reads back: what is accepted can be written again. */
#include "fuzz/fuzz.h"

#include <string.h>

#include "run/results.h"

static const char *const names[] = {"a", "b", "c", "d", "e"};

static void read_and_write(const rc_task_stream *stream, const json_t *json)
{
    json_t *written;
    rc_results results;
    if (rc_results_create(&results, "cwd", stream) != RC_OK)
        return;
    if (rc_results_from_json(&results, json) == RC_OK) {
        FUZZ_EXPECT(results.done >= 0 && results.done <= stream->tasks && results.classes <= stream->classes);
        FUZZ_EXPECT(rc_results_to_json(&results, (char *const *)(uintptr_t)names, &written) == RC_OK);
        json_decref(written);
    }
    rc_results_destroy(&results);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    json_t *json;
    rc_task_stream stream;
    rc_task_split split = {.sizes = 2, .size = {3, 2}};
    if (rc_json_parse("input", (const char *)data, size, &json) != RC_OK)
        return 0;
    if (rc_task_stream_create(&stream, 5, NULL, &split) == RC_OK) {
        read_and_write(&stream, json);
        rc_task_stream_destroy(&stream);
    }
    json_decref(json);
    return 0;
}
