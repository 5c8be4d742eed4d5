/* The published class orders, and seeded ones. order: (classes) native class at each position. */
#ifndef RC_DATA_CLASS_ORDER_H
#define RC_DATA_CLASS_ORDER_H

#include <stdint.h>

/* CPython: random.seed(seed); random.shuffle(list(range(classes))). CIFAR-100 and Tiny-ImageNet: seeds 0, 1, 2. */
void rc_class_order_python(uint32_t seed, int classes, int *order);
/* NumPy: np.random.seed(seed); np.random.shuffle(list(range(classes))). ImageNet-100: seed 1993. */
void rc_class_order_numpy(uint32_t seed, int classes, int *order);
/* The project's own: a Philox permutation. scratch: (classes). */
void rc_class_order_seeded(uint64_t seed, int classes, int *order, uint32_t *scratch);

#endif
