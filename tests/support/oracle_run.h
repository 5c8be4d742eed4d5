/* Whole runs of three tasks through the stages as they are, against PyTorch in float64 (tests/oracle/runs.py): what
 * every task leaves of student, generator, autoencoder, buffer and class statistics, and what evaluation makes of the
 * last. In double alone: over so many steps a float meets kinks. */
#ifndef RC_TESTS_SUPPORT_ORACLE_RUN_H
#define RC_TESTS_SUPPORT_ORACLE_RUN_H

#include <stdbool.h>

/* Those of the rows that dream (where tests are to be light, of CwD's kin), or of all others. */
void oracle_run_all(bool dreams);

#endif
