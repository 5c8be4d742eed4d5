/* What the builders of nets share. */
#ifndef RC_NN_NETS_PARTS_H
#define RC_NN_NETS_PARTS_H

#include "nn/nets.h"

/* PyTorch's defaults of BatchNorm2d. */
#define RC_BN_EPS      1e-5f
#define RC_BN_MOMENTUM 0.1f

/* Square convolution that keeps the size (or halves it, with stride 2): no bias, normalisation or activation yet. */
rc_layer rc_part_conv(int in, int c_out, int k, int stride, rc_init init);
rc_layer rc_part_pool(int in); /* average over the map, named "pool" */
void rc_part_normalise(rc_layer *layer, float eps, bool affine);

/* A name that does not fit is left without its zero byte, which rc_net_add() refuses. */
void rc_part_name(char name[RC_NAME_MAX], const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
