/* JSON: what is accepted takes no more memory than it may and is written; what is written is accepted, is the same when
 * it is written again, and means the same with and without blanks. */
#include "fuzz/mutate.h"

#include <string.h>

#include "base/json.h"
#include "base/memory.h"

/* The value as text; NULL: it cannot be written. */
static char *write_value(const rc_json *json, int indent, size_t *size)
{
    char *text;
    rc_json_writer w = {.indent = indent};
    rc_json_put_value(&w, NULL, json);
    FUZZ_EXPECT(rc_json_finish(&w, &text, size) == RC_OK);
    FUZZ_EXPECT(strlen(text) == *size);
    return text;
}

/* Reads `text` and expects that it is written as `line`. */
static void expect_same(const char *text, size_t size, const char *line)
{
    rc_json *json;
    FUZZ_EXPECT(rc_json_parse("written", text, size, &json) == RC_OK);
    char *again = write_value(json, 0, &size);
    FUZZ_EXPECT(strcmp(again, line) == 0);
    rc_free(NULL, again);
    rc_json_free(json);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    rc_json *json;
    size_t before = rc_bytes_allocated(), length, indented_length;
    rc_status status = rc_json_parse("input", (const char *)data, size, &json);
    FUZZ_EXPECT((status == RC_OK) == (json != NULL));
    FUZZ_EXPECT(rc_bytes_allocated() - before <= (status == RC_OK ? RC_JSON_MEMORY(size) : 0));
    if (status != RC_OK)
        return 0;
    char *line = write_value(json, 0, &length), *indented = write_value(json, 3, &indented_length);
    expect_same(line, length, line);
    expect_same(indented, indented_length, line);
    int integer;
    const char *string;
    (void)rc_json_get_int(json, "a", &integer);
    (void)rc_json_get_string(json, "a", &string);
    rc_free(NULL, line);
    rc_free(NULL, indented);
    rc_json_free(json);
    FUZZ_EXPECT(rc_bytes_allocated() == before);
    return 0;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t limit, unsigned seed)
{
    fuzz_input in = fuzz_input_of(data, size, limit, seed);
    fuzz_mutate_json(&in, 0, in.size);
    return in.size;
}
