/* Checkpoints: a position inside the bounds and a state that is restored whole, or a message. */
#include "fuzz/mutate.h"

#include "fuzz/header.h"
#include "model/checkpoint.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static rc_backend *backend;
    if (backend == NULL && rc_backend_open("cpu", 1, NULL, &backend) != RC_OK)
        return 0;
    size_t file_size;
    uint8_t *bytes = fuzz_file_from_header(data, size, &file_size);
    rc_safetensors *file = NULL;
    rc_position position;
    float reals[5];
    int32_t integers[3];
    rc_state state = {0};
    rc_state_add(&state, "student.param", RC_STATE_REAL, reals, 5);
    rc_state_add(&state, "labels", RC_STATE_INT32, integers, 3);
    if (bytes != NULL && rc_safetensors_parse("input", bytes, file_size, &file) == RC_OK &&
        rc_checkpoint_identify(file, "input", "fingerprint", &position) == RC_OK) {
        FUZZ_EXPECT(position.task >= 0 && position.task < RC_MAX_TASKS && position.seconds >= 0);
        FUZZ_EXPECT(position.stage < RC_STAGE_COUNT && position.log_offset >= 0);
        (void)rc_checkpoint_restore(file, backend, &state);
    }
    rc_safetensors_close(file);
    free(bytes);
    return 0;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t limit, unsigned seed)
{
    return fuzz_mutate_header(data, size, limit, seed);
}
