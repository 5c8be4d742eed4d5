/* Reads the fixtures that script/fixtures makes with PyTorch (the format is told in tests/oracle/fixture.py), makes the
 * same inputs, and compares results with what PyTorch found. A failure of any of these ends the test. */
#ifndef RC_TESTS_SUPPORT_ORACLE_H
#define RC_TESTS_SUPPORT_ORACLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct oracle oracle;

/* A case of a fixture: its settings, and where the results of the backend under test are judged. */
typedef struct oracle_case {
    const char *name;
    const char *settings; /* "key=value key=value" */
    uint64_t seed;
    oracle *file;
} oracle_case;

/* tests/fixtures/`file`. */
oracle *oracle_open(const char *file);
void oracle_close(oracle *file); /* NULL is fine */

/* Cases whose name begins with `prefix`, one after another: NULL when there are no more. */
const oracle_case *oracle_next(oracle *file, const oracle_case *previous, const char *prefix);

double oracle_number(const oracle_case *c, const char *key);
int oracle_int(const oracle_case *c, const char *key);
bool oracle_is(const oracle_case *c, const char *key, const char *value);
/* Are its results stored without entries, and without what an optimiser makes of them? */
bool oracle_brief(const oracle_case *c);

/* The inputs "case/name": reals offset + scale * [-1, 1), 32 random bits each, integers in [0, bound). The caller frees
 * them. */
double *oracle_fill(const oracle_case *c, const char *name, size_t count, double scale, double offset);
uint32_t *oracle_bits(const oracle_case *c, const char *name, size_t count);
int32_t *oracle_integers(const oracle_case *c, const char *name, size_t count, uint32_t bound);
/* Parameters and running statistics of a net, by what name and shape say that they are. */
double *oracle_parameter(const oracle_case *c, const char *name, const int *shape, int dims);

/* How far `count` results lie from the tensor "case/name", relative to its norm: the largest of
 *     | norm - norm' | / norm,   | dot - dot' | / norm,   | entry - entry' | / (rms + |entry|)
 * where a dot product with random signs shows, on average, the norm of the whole error. A tensor of zeros must be
 * matched exactly. A NaN equals a NaN in the same place. */
double oracle_distance(const oracle_case *c, const char *name, const double *found, size_t count);
/* The same, which must not exceed the tolerance; `who` names the backend. The worst is kept. */
void oracle_expect(const oracle_case *c, const char *who, const char *name, const double *found, size_t count,
                   double tolerance);
/* Does the fixture hold it? */
bool oracle_has(const oracle_case *c, const char *name);

/* Prints the worst error since the last report as a share of its tolerance, for `who` and `what`. */
void oracle_report(oracle *file, const char *who, const char *what);

/* Heavy cases are left out where everything is slow: under sanitizers and emulators (RECOLLECT_TEST_LIGHT is set). */
bool oracle_light(void);

#endif
