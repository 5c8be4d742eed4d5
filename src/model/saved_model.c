/* A model beyond its file: what it keeps, and its end. */
#include <string.h>

#include "base/memory.h"
#include "cil/scatter.h"
#include "model/model_file.h"

/* Keys of the metadata, and what the first one holds. */
static const char origin[] = "origin", fingerprint[] = "fingerprint", imported[] = "imported";

rc_kept rc_model_kept(const rc_saved_model *model)
{
    const rc_learner *l = &model->learner;
    const rc_stored stored = rc_learner_stored(l);
    size_t d = (size_t)l->student.head.d, reals = l->net.params + l->net.running + rc_head_parameters(&l->student.head);
    rc_kept kept = {.weights = reals * sizeof(float), .generative_model = stored.model};
    if (!rc_method_takes_old_images(l->method)) /* which has them from elsewhere */
        kept.images = stored.images;
    if (l->class_mean != NULL)
        kept.covariance = d * d * sizeof(float);
    if (l->class_factor != NULL)
        kept.covariance += (size_t)l->statistics_classes * rc_factor_numbers((int)d) * sizeof(float);
    kept.class_means = stored.statistics - kept.covariance;
    return kept;
}

size_t rc_model_parameters(const rc_saved_model *model)
{
    const rc_head *head = &model->learner.student.head;
    return model->learner.net.params + rc_head_parameters(head);
}

bool rc_model_is_data_free(const rc_saved_model *model)
{
    return model->learner.method->replay->data_free && model->unknown_bytes == 0;
}

size_t rc_kept_bytes(const rc_kept *kept)
{
    return kept->weights + kept->class_means + kept->covariance + kept->images + kept->generative_model;
}

void rc_model_put_origin(const rc_saved_model *model, rc_json_writer *metadata)
{
    rc_json_put_text(metadata, origin, model->imported ? imported : "trained");
    if (model->fingerprint[0] != '\0')
        rc_json_put_text(metadata, fingerprint, model->fingerprint);
}

/* Older files have no origin. An imported model has a head with a bias, and no class statistics until lessons estimate
 * some. */
void rc_model_get_origin(const rc_safetensors *file, rc_saved_model *model)
{
    const rc_learner *l = &model->learner;
    const char *from = rc_safetensors_metadata(file, origin), *of = rc_safetensors_metadata(file, fingerprint);
    model->imported = from != NULL ? strcmp(from, imported) == 0
                                   : l->student.head.bias != NULL && l->class_mean == NULL;
    if (of != NULL && strlen(of) < sizeof model->fingerprint) /* no run has a longer one */
        memcpy(model->fingerprint, of, strlen(of) + 1);
}

void rc_saved_model_destroy(rc_saved_model *model)
{
    for (int i = 0; model->class_name != NULL && i < model->learner.student.head.classes; i++)
        rc_free(NULL, model->class_name[i]);
    rc_free(NULL, model->class_name);
    rc_calibration_destroy(&model->calibration);
    rc_learner_destroy(&model->learner);
    memset(model, 0, sizeof *model);
}

void rc_saved_model_move(rc_saved_model *to, rc_saved_model *from)
{
    *to = *from;
    rc_learner_move(&to->learner, &from->learner);
    memset(from, 0, sizeof *from);
}
