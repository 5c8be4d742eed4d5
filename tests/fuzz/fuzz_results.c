/* Results of an unfinished run, which a resume reads back: what is accepted can be written again. */
#include "fuzz/mutate.h"

#include <string.h>

#include "base/memory.h"
#include "experiment/results.h"

static const char *const names[] = {"a", "b", "c", "d", "e"};

static void read_and_write(const rc_task_stream *stream, const rc_json *json)
{
    rc_json_writer w = {0};
    char *written;
    rc_results results;
    if (rc_results_create(&results, "cwd", stream) != RC_OK)
        return;
    if (rc_results_from_json(&results, json) == RC_OK) {
        FUZZ_EXPECT(results.done >= 0 && results.done <= stream->tasks && results.classes <= stream->classes);
        rc_json_begin_object(&w, NULL);
        rc_results_put(&results, rc_without_const(names), &w);
        rc_json_end(&w);
        FUZZ_EXPECT(rc_json_finish(&w, &written, NULL) == RC_OK);
        rc_free(NULL, written);
    }
    rc_results_destroy(&results);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    rc_json *json;
    rc_task_stream stream;
    rc_task_split split = {.sizes = 2, .size = {3, 2}};
    if (rc_json_parse("input", (const char *)data, size, &json) != RC_OK)
        return 0;
    if (rc_task_stream_create(&stream, 5, NULL, &split) == RC_OK) {
        read_and_write(&stream, json);
        rc_task_stream_destroy(&stream);
    }
    rc_json_free(json);
    return 0;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t limit, unsigned seed)
{
    fuzz_input in = fuzz_input_of(data, size, limit, seed);
    fuzz_mutate_json(&in, 0, in.size);
    return in.size;
}
