/* JSON: what is accepted is written, and what is written is accepted and equal. */
#include "fuzz/fuzz.h"

#include <string.h>

#include "base/json.h"
#include "base/memory.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    json_t *json, *again;
    char *text;
    if (rc_json_parse("input", (const char *)data, size, &json) != RC_OK)
        return 0;
    FUZZ_EXPECT(rc_json_dump(json, 0, &text) == RC_OK);
    FUZZ_EXPECT(rc_json_parse("written", text, strlen(text), &again) == RC_OK);
    FUZZ_EXPECT(json_equal(json, again));
    int integer;
    const char *string;
    (void)rc_json_get_int(json, "a", &integer);
    (void)rc_json_get_string(json, "a", &string);
    json_decref(json);
    json_decref(again);
    rc_free(NULL, text);
    return 0;
}
