/* The side of the library in the test of the head's fit beside scipy (head_fit.py).
 *
 * usage: head_fit FILE OUT
 * FILE: feature (images, d), old_sum, old_best, weight (images) and rule (penalty, margin) in f32; label (images) and
 * classes (1) in i32. OUT: row (classes, d) and fitted (shift, median, loss) in f64 */
#include "cil/head_fit.h"
#include "base/memory.h"
#include "model/safetensors.h"

/* A new block, which the program's end frees. */
static double *reals(const rc_safetensors *file, const char *name)
{
    const rc_named_tensor *tensor = rc_safetensors_find(file, name);
    size_t count = rc_named_tensor_count(tensor);
    const float *from = tensor->data;
    double *to = rc_alloc_zeroed(NULL, count, sizeof *to);
    for (size_t i = 0; i < count; i++)
        to[i] = (double)from[i];
    return to;
}

int main(int argc, char **argv)
{
    rc_safetensors *file;
    rc_head_fitted fitted;
    if (argc != 3 || rc_safetensors_open(argv[1], &file) != RC_OK)
        return 2;
    const rc_named_tensor *feature = rc_safetensors_find(file, "feature");
    const double *rule = reals(file, "rule");
    rc_head_examples e = {.images = (int)feature->shape[0],
                          .d = (int)feature->shape[1],
                          .classes = *(const int32_t *)rc_safetensors_find(file, "classes")->data,
                          .feature = reals(file, "feature"),
                          .label = rc_safetensors_find(file, "label")->data,
                          .old_sum = reals(file, "old_sum"),
                          .old_best = reals(file, "old_best"),
                          .weight = reals(file, "weight")};
    double *row = rc_alloc_zeroed(NULL, (size_t)e.classes, (size_t)e.d * sizeof *row);
    if (rc_head_fit(&e, &(rc_head_rule){rule[0], rule[1]}, row, &fitted) != RC_OK)
        return 1;
    const double numbers[] = {fitted.shift, fitted.median, fitted.loss};
    const rc_named_tensor out[] = {
        {.name = "row", .dtype = RC_DTYPE_F64, .dims = 2, .shape = {e.classes, e.d}, .data = row},
        {.name = "fitted", .dtype = RC_DTYPE_F64, .dims = 1, .shape = {3}, .data = numbers}};
    rc_json_writer metadata = rc_safetensors_metadata_begin();
    return rc_safetensors_write(argv[2], out, 2, &metadata, true) == RC_OK ? 0 : 1;
}
