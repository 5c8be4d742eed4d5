#include "cil/classifier.h"

#include <math.h>
#include <string.h>

#include "base/memory.h"

int rc_net_features(const rc_net *net)
{
    return net->layer[net->layers - 1].c_out;
}

rc_status rc_classifier_create(rc_classifier *classifier, const rc_net *net, rc_backend *backend, int classes)
{
    memset(classifier, 0, sizeof *classifier);
    if (net->layers < 1 || net->layer[net->layers - 1].kind != RC_LAYER_AVERAGE_POOL)
        return rc_fail(RC_INVALID_ARGUMENT, "net '%s' cannot be a classifier: it must end in average pooling",
                       net->name);
    RC_TRY(rc_model_create(&classifier->backbone, net, backend));
    rc_status status = rc_head_create(&classifier->head, backend, rc_net_features(net), classes);
    if (status != RC_OK)
        rc_classifier_destroy(classifier);
    return status;
}

void rc_classifier_destroy(rc_classifier *classifier)
{
    rc_model_destroy(&classifier->backbone);
    rc_head_destroy(&classifier->head);
}

rc_status rc_classifier_clone(rc_classifier *copy, const rc_classifier *classifier)
{
    const rc_model *backbone = &classifier->backbone;
    RC_TRY(rc_classifier_create(copy, backbone->net, backbone->backend, classifier->head.capacity));
    rc_model_copy(&copy->backbone, backbone);
    rc_status status = rc_head_copy(&copy->head, &classifier->head);
    if (status != RC_OK)
        rc_classifier_destroy(copy);
    return status;
}

/* Mean norm of `rows` rows of d numbers. */
static double mean_norm(const double *weight, int rows, int d)
{
    double sum = 0;
    for (int row = 0; row < rows; row++) {
        double square = 0;
        for (int j = 0; j < d; j++)
            square += weight[row * d + j] * weight[row * d + j];
        sum += sqrt(square);
    }
    return sum / rows;
}

rc_status rc_classifier_align_rows(rc_classifier *classifier, int n_old)
{
    rc_head *head = &classifier->head;
    rc_backend *be = head->backend;
    int n_new = head->classes - n_old;
    size_t count = (size_t)head->classes * (size_t)head->d, first = (size_t)n_old * (size_t)head->d;
    if (n_old < 1 || n_new < 1)
        return rc_fail(RC_INVALID_ARGUMENT, "%d old rows and %d new ones cannot be aligned, expected 1 or more", n_old,
                       n_new);
    double *weight = rc_alloc_zeroed(NULL, count, sizeof *weight);
    if (weight == NULL)
        return RC_OUT_OF_MEMORY;
    rc_status status = be->sync(be);
    be->read_real64(be, weight, head->weight, count);
    double old = mean_norm(weight, n_old, head->d), new = mean_norm(weight + first, n_new, head->d);
    for (size_t i = first; i<count &&new> 0; i++)
        weight[i] *= old / new;
    be->write_real64(be, rc_real_at(be, head->weight, first), weight + first, count - first);
    rc_free(NULL, weight);
    return status == RC_OK ? be->sync(be) : status;
}

rc_status rc_check_dreams(const rc_net *generator, const rc_net *classifier)
{
    const rc_layer *image = &generator->layer[generator->layers - 1];
    if (image->h != classifier->h || image->w != classifier->w || image->c_out != classifier->c)
        return rc_fail(RC_INVALID_ARGUMENT,
                       "generator '%s' makes %d x %d x %d images, classifier '%s' takes %d x %d x %d", generator->name,
                       image->h, image->w, image->c_out, classifier->name, classifier->h, classifier->w, classifier->c);
    return RC_OK;
}
