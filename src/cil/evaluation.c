#include "cil/evaluation.h"

#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "data/stream.h"

/* Counts one sample: its prediction, and whether fewer than five logits are larger than the true one. Ties go to the
 * lower class. Returns whether it is right. */
static bool count_sample(rc_evaluation *e, const float *logits, int label)
{
    int best = 0, ahead = 0;
    for (int k = 0; k < e->classes; k++) {
        if (logits[k] > logits[best])
            best = k;
        if (logits[k] > logits[label] || (logits[k] == logits[label] && k < label))
            ahead++;
    }
    e->confusion[rc_confusion_at(e->classes, label, best)]++;
    if (ahead < 5)
        e->top5[label]++;
    return best == label;
}

enum { CHUNK = 1024 }; /* whole batches, and a smaller one at its end */

static rc_status tell(const rc_scoring *scoring, int done, int total, double *told)
{
    if (scoring == NULL || scoring->progress == NULL || (done < total && rc_now() - *told < 0.5))
        return RC_OK;
    *told = rc_now();
    return scoring->progress(scoring->user, "scoring images", done, total)
               ? RC_OK
               : rc_fail(RC_CANCELLED, "stopped after %d of %d images were scored", done, total);
}

/* index: (count), which images; batch: the most that the scorer takes. */
static rc_status score_all(rc_scorer *scorer, const rc_task_stream *stream, const rc_split *test, const int32_t *index,
                           int count, int batch, const rc_scoring *scoring, rc_evaluation *e)
{
    float *logits = rc_alloc_zeroed(NULL, (size_t)CHUNK * (size_t)e->classes, sizeof *logits);
    if (logits == NULL)
        return RC_OUT_OF_MEMORY;
    rc_split_pass pass;
    rc_status status = rc_split_pass_open(test, index, count, batch, &pass);
    double told = rc_now();
    for (int from = 0, n; status == RC_OK && from < count; from += n) {
        int room = CHUNK - from % CHUNK;
        n = count - from < room ? count - from : room;
        n = n < batch ? n : batch;
        const uint8_t *images;
        const int32_t *which;
        status = rc_split_pass_next(&pass, from, n, &images, &which);
        if (status == RC_OK)
            status = rc_scorer_run(scorer, images, which, n, logits, NULL);
        for (int i = 0; status == RC_OK && i < n; i++) {
            int image = index[from + i];
            e->right[image] = count_sample(e, logits + (size_t)i * (size_t)e->classes,
                                           stream->position[test->labels[image]]);
        }
        if (status == RC_OK)
            status = tell(scoring, from + n, count, &told);
    }
    rc_split_pass_close(&pass);
    rc_free(NULL, logits);
    return status;
}

rc_status rc_evaluate(rc_backend *backend, const rc_classifier *classifier, const rc_augment *normalisation,
                      const rc_task_stream *stream, const rc_split *test, int batch, const rc_scoring *scoring,
                      rc_evaluation *evaluation)
{
    int classes = classifier->head.classes, count = 0;
    memset(evaluation, 0, sizeof *evaluation);
    if (classes > stream->classes)
        return rc_fail(RC_INVALID_ARGUMENT, "the classifier knows %d classes, the data has %d", classes,
                       stream->classes);
    evaluation->classes = classes;
    evaluation->confusion = rc_alloc_zeroed(NULL, (size_t)classes * (size_t)classes, sizeof(int32_t));
    evaluation->top5 = rc_alloc_zeroed(NULL, (size_t)classes, sizeof(int32_t));
    evaluation->right = rc_alloc(NULL, (size_t)test->count);
    int32_t *index = NULL;
    rc_scorer *scorer = NULL;
    bool room = evaluation->confusion != NULL && evaluation->top5 != NULL && evaluation->right != NULL;
    rc_status status = room ? RC_OK : RC_OUT_OF_MEMORY;
    if (room)
        memset(evaluation->right, -1, (size_t)test->count);
    if (status == RC_OK)
        status = rc_task_images(stream, test, 0, classes, &index, &count);
    /* No image, no batch; few images, a small one. */
    int most = count < 1 ? 1 : count < batch ? count : batch;
    if (status == RC_OK)
        status = rc_scorer_create(backend, classifier, most, normalisation, &scorer);
    if (status == RC_OK)
        status = rc_scorer_look(scorer, scoring != NULL ? scoring->views : (rc_views){0});
    if (status == RC_OK)
        status = score_all(scorer, stream, test, index, count, most, scoring, evaluation);
    rc_scorer_destroy(scorer);
    rc_free(NULL, index);
    if (status != RC_OK)
        rc_evaluation_destroy(evaluation);
    return status;
}

void rc_evaluation_destroy(rc_evaluation *evaluation)
{
    rc_free(NULL, evaluation->confusion);
    rc_free(NULL, evaluation->top5);
    rc_free(NULL, evaluation->right);
    memset(evaluation, 0, sizeof *evaluation);
}

void rc_confusion_put(const int32_t *confusion, int classes, rc_json_writer *w)
{
    bool whole = classes <= RC_WHOLE_CONFUSION;
    rc_json_begin_array(w, "confusion");
    for (int label = 0; whole && label < classes; label++) {
        rc_json_begin_array(w, NULL);
        for (int said = 0; said < classes; said++)
            rc_json_put_int(w, NULL, confusion[rc_confusion_at(classes, label, said)]);
        rc_json_end(w);
    }
    rc_json_end(w);
    if (whole)
        return;
    rc_json_begin_array(w, "confused");
    for (size_t at = 0, cells = (size_t)classes * (size_t)classes; at < cells; at++) {
        if (confusion[at] == 0)
            continue;
        rc_json_begin_array(w, NULL);
        rc_json_put_int(w, NULL, (int64_t)(at / (size_t)classes));
        rc_json_put_int(w, NULL, (int64_t)(at % (size_t)classes));
        rc_json_put_int(w, NULL, confusion[at]);
        rc_json_end(w);
    }
    rc_json_end(w);
}

static double percent(double part, double all)
{
    return all > 0 ? 100 * part / all : NAN;
}

double rc_accuracy(const rc_evaluation *e, int first, int end)
{
    double right = 0, all = 0;
    for (int label = first; label < end; label++) {
        right += e->confusion[rc_confusion_at(e->classes, label, label)];
        for (int k = 0; k < e->classes; k++)
            all += e->confusion[rc_confusion_at(e->classes, label, k)];
    }
    return percent(right, all);
}

double rc_accuracy_top5(const rc_evaluation *e, int first, int end)
{
    double right = 0, all = 0;
    for (int label = first; label < end; label++) {
        right += e->top5[label];
        for (int k = 0; k < e->classes; k++)
            all += e->confusion[rc_confusion_at(e->classes, label, k)];
    }
    return percent(right, all);
}

double rc_backward_transfer(const double *matrix, int stride, int tasks)
{
    double sum = 0;
    for (int j = 0; j < tasks - 1; j++)
        sum += matrix[(tasks - 1) * stride + j] - matrix[j * stride + j];
    return tasks > 1 ? sum / (tasks - 1) : NAN;
}

/* The maximum includes the last row, so forgetting is never negative. */
double rc_forgetting(const double *matrix, int stride, int tasks)
{
    double sum = 0;
    for (int j = 0; j < tasks - 1; j++) {
        double best = matrix[j * stride + j];
        for (int i = j; i < tasks; i++)
            best = fmax(best, matrix[i * stride + j]);
        sum += best - matrix[(tasks - 1) * stride + j];
    }
    return tasks > 1 ? sum / (tasks - 1) : NAN;
}
