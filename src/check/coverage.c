/* Every operation of the table by name. The list is checked against the struct: an entry that is added there and not
 * here does not compile, and one that no case covers fails the selftest. */
#include "check/coverage.h"

#include <string.h>

#include "check/case.h"

typedef void entry_type(void);

/* clang-format off */
#define ENTRY(name) {#name, offsetof(struct rc_backend, name)}
/* clang-format on */
static const struct {
    const char *name;
    size_t offset;
} entries[] = {
    ENTRY(conv_forward),
    ENTRY(conv_backward_data),
    ENTRY(conv_backward_weight),
    ENTRY(depthwise_forward),
    ENTRY(depthwise_backward_data),
    ENTRY(depthwise_backward_weight),
    ENTRY(linear_forward),
    ENTRY(linear_backward_data),
    ENTRY(linear_backward_weight),
    ENTRY(bn_train),
    ENTRY(bn_eval),
    ENTRY(bn_statistics),
    ENTRY(bn_backward_sums),
    ENTRY(bn_backward),
    ENTRY(copy_forward),
    ENTRY(copy_backward),
    ENTRY(materialise),
    ENTRY(skip_backward),
    ENTRY(max_pool_forward),
    ENTRY(max_pool_backward),
    ENTRY(average_pool_forward),
    ENTRY(average_pool_backward),
    ENTRY(dense_forward),
    ENTRY(dense_backward_data),
    ENTRY(dense_backward_weight),
    ENTRY(loss_cross_entropy),
    ENTRY(loss_decoupled),
    ENTRY(loss_hkd),
    ENTRY(loss_kd),
    ENTRY(loss_feature),
    ENTRY(loss_rkd),
    ENTRY(rkd_workspace),
    ENTRY(loss_war),
    ENTRY(loss_dce),
    ENTRY(dce_workspace),
    ENTRY(loss_bn),
    ENTRY(loss_diversity),
    ENTRY(loss_smoothing),
    ENTRY(loss_total_variation),
    ENTRY(loss_image_norm),
    ENTRY(loss_reconstruction),
    ENTRY(loss_latent),
    ENTRY(latent_sample),
    ENTRY(latent_sample_backward),
    ENTRY(softmax),
    ENTRY(argmax),
    ENTRY(count_labels),
    ENTRY(balance_weights),
    ENTRY(class_statistics),
    ENTRY(class_statistics_finish),
    ENTRY(augment),
    ENTRY(vary),
    ENTRY(mix),
    ENTRY(random_normal),
    ENTRY(gather_labels),
    ENTRY(roll),
    ENTRY(sgd),
    ENTRY(adam),
};
enum { ENTRIES = sizeof entries / sizeof *entries };

_Static_assert(ENTRIES * sizeof(entry_type *) == sizeof(struct rc_backend) - offsetof(struct rc_backend, conv_forward),
               "an operation of struct rc_backend is missing in the list above: add it, and a case for it");

/* Operations that a backend may lack. */
static const struct {
    const char *name;
    size_t offset;
} optional_entries[] = {
    ENTRY(fused_forward), ENTRY(fused_backward), ENTRY(fused_train), ENTRY(fused_train_backward), ENTRY(fused_weight),
};
enum { OPTIONAL_ENTRIES = sizeof optional_entries / sizeof *optional_entries, QUESTIONS = 2 /* fuse, fuse_train */ };

_Static_assert((OPTIONAL_ENTRIES + QUESTIONS) * sizeof(entry_type *) ==
                   offsetof(struct rc_backend, reads_finished_gradient) - offsetof(struct rc_backend, fuse),
               "an operation on several layers is missing in the list above: add it, and a case for it");

static bool is_filled(const rc_backend *be, size_t offset)
{
    entry_type *entry;
    memcpy(&entry, (const char *)be + offset, sizeof entry);
    return entry != NULL;
}

const char *rc_entry_name(int index)
{
    return index < ENTRIES ? entries[index].name : NULL;
}

const char *rc_optional_entry_name(int index)
{
    return index < OPTIONAL_ENTRIES ? optional_entries[index].name : NULL;
}

bool rc_entry_filled(const rc_backend *be, int index)
{
    return is_filled(be, entries[index].offset);
}

bool rc_operation_offered(const rc_operation *operation, const rc_backend *be)
{
    for (int i = 0; i < OPTIONAL_ENTRIES; i++)
        if (rc_operation_matches(operation, optional_entries[i].name) && !is_filled(be, optional_entries[i].offset))
            return false;
    return true;
}

bool rc_entry_covered(const char *name)
{
    const rc_operation *operation;
    for (int i = 0; (operation = rc_operation_at(i)) != NULL; i++)
        if (rc_operation_matches(operation, name))
            return true;
    return false;
}
