/* Configurations in YAML: what is accepted prints, and what is printed is accepted and means the same. */
#include "fuzz/mutate.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "config/config.h"
#include "experiment/experiment.h"

typedef struct text {
    char bytes[131072]; /* an escape takes ten bytes in place of one */
    size_t used;
} text;

static void add_line(void *user, const char *line)
{
    text *t = user;
    int length = snprintf(t->bytes + t->used, sizeof t->bytes - t->used, "%s\n", line);
    FUZZ_EXPECT(length > 0 && (size_t)length < sizeof t->bytes - t->used);
    t->used += (size_t)length;
}

/* What the texts of a configuration mean for ten classes in three channels: something within the bounds, or a
 * message. */
static void interpret(const rc_config *config)
{
    float mean[3] = {0}, std[3] = {1, 1, 1};
    int *order;
    rc_task_split split;
    rc_task_stream stream;
    if (rc_config_normalisation(config, 3, mean, std) == RC_OK)
        FUZZ_EXPECT(mean[2] >= 0 && mean[2] <= 1 && std[2] > 0 && std[2] <= 1);
    if (rc_config_class_order(config, 10, &order) != RC_OK)
        return;
    if (rc_config_split(config, &split) == RC_OK && rc_task_stream_create(&stream, 10, order, &split) == RC_OK) {
        for (int i = 0; i < 10; i++)
            FUZZ_EXPECT(stream.order[i] >= 0 && stream.order[i] < 10 && stream.position[stream.order[i]] == i);
        FUZZ_EXPECT(stream.tasks >= 1 && stream.task_end[stream.tasks - 1] <= 10);
        rc_task_stream_destroy(&stream);
    }
    rc_free(NULL, order);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static text first, second;
    rc_config config = rc_config_default(), again = config;
    first.used = second.used = 0;
    if (rc_config_parse_yaml(&config, "input", (const char *)data, size, NULL) != RC_OK)
        return 0;
    interpret(&config);
    rc_status checked = rc_config_check(&config);
    if (rc_config_print(&config, add_line, &first) != RC_OK)
        return 0;
    FUZZ_EXPECT(rc_config_parse_yaml(&again, "printed", first.bytes, first.used, NULL) == RC_OK);
    FUZZ_EXPECT(rc_config_check(&again) == checked);
    FUZZ_EXPECT(rc_config_print(&again, add_line, &second) == RC_OK);
    FUZZ_EXPECT(first.used == second.used && memcmp(first.bytes, second.bytes, first.used) == 0);
    return 0;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t limit, unsigned seed)
{
    fuzz_input in = fuzz_input_of(data, size, limit, seed);
    fuzz_mutate_yaml(&in);
    return in.size;
}
