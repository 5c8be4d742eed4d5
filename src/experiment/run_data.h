/* The images of a run, read as its configuration says: by the run itself, and by who looks at it later. */
#ifndef RC_EXPERIMENT_RUN_DATA_H
#define RC_EXPERIMENT_RUN_DATA_H

#include "config/config.h"
#include "forecast/progress.h"

/* threads: 0 takes all cores. skip_broken: images that cannot be read are left out. A run needs training and test
 * images. With test_per_class the name of the set ends in "-part". On failure nothing is held. */
rc_status rc_run_data_open(const rc_config *config, int threads, bool skip_broken, const rc_watch *watch,
                           rc_dataset *data);

#endif
