/* Data consistency: how far the features of dreams are from those of the real images that the model has learnt, as
 * D_KL(real || dreams). The model is inverted anew with each of the paper's four combinations of losses, and the
 * divergence is estimated in every way that the paper leaves open (docs/analyze.md):
 *
 *   densities  tied Gaussian mixture of the classes; kernels by Scott's rule, scaled by the covariance or isotropic
 *              (mixture.h)
 *   samples    drawn from the fitted density of the real features; or the real features themselves, of which a kernel
 *              density leaves out the one that it is asked about */
#ifndef RC_ANALYSIS_CONSISTENCY_H
#define RC_ANALYSIS_CONSISTENCY_H

#include "analysis/mixture.h"
#include "analysis/past_run.h"
#include "analysis/table.h"

typedef enum rc_density { RC_DENSITY_TIED, RC_DENSITY_SCOTT, RC_DENSITY_ISOTROPIC, RC_DENSITY_COUNT } rc_density;
typedef enum rc_samples { RC_SAMPLES_DRAWN, RC_SAMPLES_REAL, RC_SAMPLES_COUNT } rc_samples;
enum { RC_COMBINATIONS = 4 };
const char *rc_density_key(int density);   /* "kde_scott": in JSON */
const char *rc_density_title(int density); /* "KDE" */
const char *rc_samples_key(int samples);   /* "drawn" */

typedef struct rc_consistency_row {
    bool done;         /* false: the model stores no statistics for DCE */
    int empty_classes; /* of which there was no dream */
    rc_divergence divergence[RC_DENSITY_COUNT][RC_SAMPLES_COUNT];
    double ridge[RC_DENSITY_COUNT]; /* of the dreams' density (matrix.h); 0: none */
} rc_consistency_row;

typedef struct rc_consistency {
    const rc_method *method;
    int task, classes;
    int images, dreams;                  /* that the densities were made of */
    int steps;                           /* of inversion */
    double real_ridge[RC_DENSITY_COUNT]; /* of the real images' density (matrix.h); 0: none */
    rc_consistency_row row[RC_COMBINATIONS];
} rc_consistency;

typedef struct rc_consistency_settings {
    int task;            /* the model after this task, which counts from 1 */
    int samples;         /* of an estimate, at most; of real features no more than there are */
    int dreams;          /* 0: as many as real images */
    rc_settings changed; /* those of the run, perhaps with other steps of inversion; the weights of losses that a
                            combination lacks become 0 */
} rc_consistency_settings;

/* The run's data must be there. */
rc_status rc_consistency_create(const rc_past_run *run, const rc_method *method,
                                const rc_consistency_settings *settings, rc_backend *backend, rc_pool *pool,
                                const rc_watch *watch, rc_consistency *consistency);

/* "ce + stat + div": the losses of one combination, for people and for programs. */
const char *rc_combination_title(int combination);
/* The settings of one combination. */
rc_settings rc_combination_settings(const rc_settings *settings, int combination);

/* For people, and as members of the JSON object that is open. */
void rc_consistency_print(const rc_consistency *consistency, rc_analysis_line *line, void *user);
void rc_consistency_put(const rc_consistency *consistency, rc_json_writer *w);

#endif
