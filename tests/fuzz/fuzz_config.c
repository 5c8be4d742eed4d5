/* Configurations in YAML: what is accepted prints, and what is printed is accepted and means the same. */
#include "fuzz/fuzz.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "run/config.h"

typedef struct text {
    char bytes[32768];
    size_t used;
} text;

static void add_line(void *user, const char *line)
{
    text *t = user;
    int length = snprintf(t->bytes + t->used, sizeof t->bytes - t->used, "%s\n", line);
    FUZZ_EXPECT(length > 0 && (size_t)length < sizeof t->bytes - t->used);
    t->used += (size_t)length;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static text first, second;
    rc_config config = rc_config_default(), again = config;
    first.used = second.used = 0;
    if (rc_config_parse_yaml(&config, "input", (const char *)data, size, NULL) != RC_OK)
        return 0;
    rc_status checked = rc_config_check(&config);
    if (rc_config_print(&config, add_line, &first) != RC_OK)
        return 0;
    FUZZ_EXPECT(rc_config_parse_yaml(&again, "printed", first.bytes, first.used, NULL) == RC_OK);
    FUZZ_EXPECT(rc_config_check(&again) == checked);
    FUZZ_EXPECT(rc_config_print(&again, add_line, &second) == RC_OK);
    FUZZ_EXPECT(first.used == second.used && memcmp(first.bytes, second.bytes, first.used) == 0);
    return 0;
}
