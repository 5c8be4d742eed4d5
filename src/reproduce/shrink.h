/* A shrunken version of an experiment, which shows on a CPU in minutes that everything works. Its numbers mean nothing
 * beside whole ones. */
#ifndef RC_REPRODUCE_SHRINK_H
#define RC_REPRODUCE_SHRINK_H

#include "config/config.h"

/* Below this scale nets are the small ones, and images have at most 32 pixels a side. */
#define RC_SCALE_OF_SMALL_NETS 0.1
/* What a scale may be; 1: everything stays as it is. */
#define RC_SMALLEST_SCALE 0.001

/* Epochs, milestones, steps of inversion, batches and images times `scale`, down to the least that makes sense. train,
 * test: images of each class that there are. */
enum { RC_LEAST_TRAIN = 10, RC_LEAST_TEST = 5 };
void rc_shrink_config(rc_config *config, int train, int test, double scale);
/* How many of the paper's three class orders are run: a part, but at least one. 0: all. */
int rc_shrink_orders(double scale);
/* "epochs 4 for 200, inversion_steps 100 for 5000, ...": every setting that differs. */
void rc_shrink_text(const rc_config *whole, const rc_config *shrunken, char *text, size_t size);

#endif
