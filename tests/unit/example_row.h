/* LwF with dreams beside the new images: cross entropy of the new ones over all classes seen, and the old model's
 * softened answers distilled on both halves, which go through the net as one batch. */
static const rc_method lwf_with_dreams = {
    .name = "lwf-with-dreams",
    .title = "LwF with dreams",
    .summary = "LwF that also distils the old model's answers to dreams",
    .replay = &rc_source_dreams,
    .main = {.one_batch = true, .real = RC_CE_ALL, .kd_real = RC_KD_OLD, .kd_replay = RC_KD_OLD},
};
