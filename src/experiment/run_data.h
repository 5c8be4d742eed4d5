/* The images of a run, read as its configuration says: by the run itself, and by who looks at it later. */
#ifndef RC_EXPERIMENT_RUN_DATA_H
#define RC_EXPERIMENT_RUN_DATA_H

#include "config/config.h"
#include "data/pack.h"
#include "forecast/progress.h"

/* threads: 0 takes all cores. skip_broken: images that cannot be read are left out. A run needs training and test
 * images. With `validation` the test images are the
 * last training images of each class, which are trained on no more, and the name of the set ends in "-validation"; with
 * test_per_class it ends in "-part". On failure nothing is held. */
rc_status rc_run_data_open(const rc_config *config, int threads, bool skip_broken, const rc_watch *watch,
                           rc_dataset *data);

/* Packs the images of a configuration, read in the same way, into the file `out` (data/pack.h). test_part: what is
 * split off every class where the set has no test images. */
rc_status rc_run_data_pack(const rc_config *config, int threads, bool skip_broken, double test_part,
                           const rc_watch *watch, const char *out, rc_pack_result *result);

#endif
