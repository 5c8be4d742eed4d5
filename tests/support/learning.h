/* Small learners, the tasks that they are taught, and what the tasks leave in memory. */
#ifndef RC_TESTS_SUPPORT_LEARNING_H
#define RC_TESTS_SUPPORT_LEARNING_H

#include "cil/sources.h"
#include "cil/stage.h"

enum { LEARNING_SIZE = 16, LEARNING_CHANNELS = 3 };

/* A few steps a stage with the smallest nets. */
rc_settings learning_settings(void);
void learning_create(rc_learner *l, rc_backend *be, const char *method, const rc_settings *settings);
void learning_create_row(rc_learner *l, rc_backend *be, const rc_method *method, const rc_settings *settings);

/* Images (classes * per_class) of classes from `first` on, in turn. Free both with rc_free(NULL, ...). */
uint8_t *learning_images(int first, int classes, int per_class, int32_t **labels);

/* Begins a task of n_new classes with images of theirs, and of the old ones for methods that replay those; teach also
 * runs its stages. */
void learning_begin(rc_learner *l, int task, int n_new, int per_class);
void learning_teach(rc_learner *l, int task, int n_new, int per_class, const rc_stage_hooks *hooks);
/* A new learner at the begin of its second task: two classes are old, two are new, with 16 images. */
void learning_begin_second(rc_learner *l, rc_backend *be, const char *method, const rc_settings *settings);
extern const rc_stage_hooks learning_no_hooks;

/* The insides of a learner's source; NULL: it is of another kind. */
rc_model *learning_generator(const rc_learner *l);
const rc_net *learning_generator_net(const rc_learner *l);
rc_pixels *learning_pixels(const rc_learner *l);
rc_vae *learning_vae(const rc_learner *l);
rc_model *learning_old_decoder(const rc_learner *l);

/* What a task leaves in backend memory: backbone, head, class statistics, autoencoder. */
typedef struct learning_bits {
    float *value;
    size_t count, backbone; /* of which the first belong to the backbone, running statistics included */
} learning_bits;
learning_bits learning_take(const rc_learner *l);
/* What two tasks of two classes leave. */
learning_bits learning_two_tasks(rc_backend *be, const char *method, const rc_settings *settings);
bool learning_same(learning_bits a, learning_bits b);
void learning_drop(learning_bits b);

/* The second task is left and taken up again after every step of every stage (where tests are to be light: after some)
 * and must end with the same bits. Counts how many times it was taken up in each stage; false: counts are not whole. */
bool learning_resume_everywhere(rc_backend *be, const char *method, const rc_settings *settings,
                                int taken_up[RC_STAGE_COUNT]);

#endif
