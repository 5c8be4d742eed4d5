/* Model files: a model comes out, one that predicts or says that it cannot, or a message. */
#include "fuzz/mutate.h"

#include <math.h>

#include "cil/scorer.h"
#include "fuzz/header.h"
#include "model/model_file.h"

/* Images of at most so many pixels are worth a forward pass here. */
enum { LARGEST_IMAGE = 32 * 32 };

static void use(rc_saved_model *model)
{
    const rc_learner *l = &model->learner;
    static uint8_t pixels[LARGEST_IMAGE * RC_DATA_MAX_CHANNELS];
    for (int i = 0; i < l->student.head.classes; i++)
        FUZZ_EXPECT(strlen(model->class_name[i]) < (size_t)1 << 30);
    if (l->augment.h * l->augment.w > LARGEST_IMAGE || l->student.head.classes > 1000)
        return;
    rc_scorer *scorer;
    float logits[1000];
    if (rc_scorer_create(l->backend, &l->student, 1, &l->augment, &scorer) == RC_OK) {
        rc_status status = rc_scorer_run(scorer, pixels, NULL, 1, logits, NULL);
        FUZZ_EXPECT(status == RC_OK || status == RC_NUMERIC); /* finite weights may still be too large */
        for (int i = 0; status == RC_OK && i < l->student.head.classes; i++)
            FUZZ_EXPECT(isfinite(logits[i]));
    }
    rc_scorer_destroy(scorer);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static rc_backend *backend;
    if (backend == NULL && rc_backend_open("cpu", 1, NULL, &backend) != RC_OK)
        return 0;
    size_t file_size;
    uint8_t *file = fuzz_file_from_header(data, size, &file_size);
    rc_saved_model model;
    if (file != NULL && rc_model_file_parse("input", file, file_size, backend, &model) == RC_OK) {
        use(&model);
        rc_saved_model_destroy(&model);
    }
    free(file);
    return 0;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t limit, unsigned seed)
{
    return fuzz_mutate_header(data, size, limit, seed);
}
