/* Whole runs of three tasks through all stages, against PyTorch in float64 (tests/oracle/runs.py): what every task
 * leaves of student, generator, autoencoder, buffer and class statistics, and what evaluation makes of the last. In
 * double only: over that many steps a float would meet a kink. */
#ifndef RC_TESTS_SUPPORT_ORACLE_RUN_H
#define RC_TESTS_SUPPORT_ORACLE_RUN_H

#include <stdbool.h>

/* Those of the rows that dream (where tests are to be light, of CwD's kin), or of all others. */
void oracle_run_all(bool dreams);

#endif
