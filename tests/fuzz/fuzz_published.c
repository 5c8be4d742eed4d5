/* The published files: whatever stands in their sections, what they leave unsaid stays, what means nothing is told in
 * one note, and a file that is refused changes nothing. The input is what follows a sound beginning. */
#include "fuzz/mutate.h"

#include <stdlib.h>
#include <string.h>

#include "config/config.h"

static const char beginning[] = "seed_everything: 7\n"
                                "data:\n  root: data\n  dataset: cifar100\n"
                                "model:\n  base_lr: 0.1\n";
enum { BEGINNING = sizeof beginning - 1 };

static void count_notes(void *user, int level, const char *text)
{
    (void)level;
    ++*(int *)user;
    FUZZ_EXPECT(strstr(text, "mean nothing here") != NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static rc_config config, before; /* cleared, so that they can be compared byte by byte */
    int notes = 0;
    rc_log log = {.write = count_notes, .user = &notes, .level = RC_LOG_DEBUG};
    char *text = malloc(BEGINNING + size);
    FUZZ_EXPECT(text != NULL);
    memcpy(text, beginning, BEGINNING);
    if (size > 0)
        memcpy(text + BEGINNING, data, size);
    config = rc_config_default();
    memcpy(&before, &config, sizeof before);
    if (rc_config_parse_yaml(&config, "input", text, BEGINNING + size, &log) == RC_OK) {
        FUZZ_EXPECT(notes <= 1);
        (void)rc_config_check(&config);
    } else {
        FUZZ_EXPECT(notes == 0 && memcmp(&before, &config, sizeof before) == 0);
        FUZZ_EXPECT(strncmp(rc_message(), "input", 5) == 0);
    }
    free(text);
    return 0;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t limit, unsigned seed)
{
    fuzz_input in = fuzz_input_of(data, size, limit, seed);
    fuzz_mutate_yaml(&in);
    return in.size;
}
