#include "api/learn_config.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "api/describe_methods.h"
#include "cil/task_steps.h"
#include "cil/task_stream.h"

enum {
    SMALLEST_BATCH = 32,
    LARGEST_SMALL_NET = 64,
    SIZE_STEP = 4,
    SMALLEST_SIZE = 16,
    USUAL_SIZE = 32,
    SHIFTED_PART = 16,
    PHOTO_INVERSION = 500
};

/* Measured on four sets of photographs: docs/notes/photographs.md. */
static const double photo_colour = 0.3, first_factor = 60;

/* Was `key` set by the caller? */
static bool was_set(const rc_learn_settings *settings, const char *key)
{
    size_t length = strlen(key);
    for (int i = 0; i < settings->sets; i++)
        if (strncmp(settings->set[i], key, length) == 0 && settings->set[i][length] == '=')
            return true;
    return false;
}

static int scaled(int value, int now, int before)
{
    int result = (int)(((long long)value * now + before / 2) / before);
    return value > 0 && result < 1 ? 1 : result;
}

/* If `epochs` changes, the rest of the schedule changes in proportion, unless the caller set that, too. */
static void follow_epochs(rc_settings *s, const rc_settings *before, const rc_learn_settings *settings)
{
    if (s->epochs == before->epochs || before->epochs < 1)
        return;
    for (int i = 0; i < s->milestones && !was_set(settings, "milestone"); i++)
        s->milestone[i] = scaled(before->milestone[i], s->epochs, before->epochs);
    if (was_set(settings, "refine_epochs"))
        return;
    s->refine_epochs = scaled(before->refine_epochs, s->epochs, before->epochs);
    if (s->refine_epochs >= s->epochs)
        s->refine_epochs = s->epochs - 1;
}

/* The shape of images cannot change any more. A caller that sets it for every lesson may still set the same value, or
 * the data's own. */
static rc_status check_fixed(const rc_saved_model *model, const rc_learn_settings *settings, rc_config *config)
{
    static const char *const fixed[] = {"size", "channels", "resize", "interpolation", "mean", "std"};
    const rc_augment *image = &model->learner.augment;
    for (size_t i = 0; i < sizeof fixed / sizeof *fixed; i++) {
        char before[128], now[128];
        if (!was_set(settings, fixed[i]))
            continue;
        RC_TRY(rc_config_get(&model->config, fixed[i], before, sizeof before));
        RC_TRY(rc_config_get(config, fixed[i], now, sizeof now));
        bool own = now[0] == '\0' || strcmp(now, "0") == 0;
        if (!own && strcmp(now, before) != 0)
            return rc_fail(RC_INVALID_ARGUMENT,
                           "%s cannot be set: the model was made for images of %d x %d pixels and %d "
                           "channel%s, and new images are brought to that by themselves",
                           fixed[i], image->w, image->h, image->c, image->c > 1 ? "s" : "");
        RC_TRY(rc_config_set(config, fixed[i], before));
    }
    return RC_OK;
}

/* "finetune, er, ...": those that a model can learn with. */
static void list_methods(char *text, size_t size)
{
    size_t used = 0;
    const rc_method *method;
    text[0] = '\0';
    for (int i = 0; (method = rc_method_at(i)) != NULL && used < size; i++)
        if (!rc_method_takes_old_images(method))
            used += (size_t)snprintf(text + used, size - used, "%s%s", used > 0 ? ", " : "", method->name);
}

rc_status rc_learn_check_method(const char *name)
{
    const rc_method *method;
    char others[512];
    RC_TRY(rc_method_choose(name, &method));
    if (!rc_method_takes_old_images(method))
        return RC_OK;
    list_methods(others, sizeof others);
    return rc_fail(
        RC_INVALID_ARGUMENT,
        "the method '%s' needs the images of old classes, which only experiments have%s; a model learns with "
        "%s",
        name,
        rc_method_trains_on_old_images(method) ? " (a new model that learns all classes at once is the same)" : "",
        others);
}

rc_status rc_learn_configure(const rc_saved_model *model, const rc_learn_settings *settings, rc_config *config,
                             const rc_method **method)
{
    bool first = model->learner.backend == NULL;
    const char *name = settings->method != NULL ? settings->method : first ? "cwd" : model->learner.method->name;
    RC_TRY(rc_method_choose(name, method));
    if (first) {
        *config = rc_config_default();
        RC_TRY(rc_config_load(config, settings->preset != NULL ? settings->preset : "learn", &settings->watch.log));
    } else {
        if (settings->preset != NULL)
            return rc_fail(RC_INVALID_ARGUMENT,
                           "preset '%s' is of no use with a model, which has a configuration of its own; "
                           "set single values instead",
                           settings->preset);
        *config = model->config;
    }
    if (!first && rc_method_takes_old_images(*method))
        return rc_fail(RC_INVALID_ARGUMENT,
                       "%s needs the images of the old classes, which a model does not hold; choose "
                       "another with the setting 'method'",
                       (*method)->title);
    if (config->settings.min_steps == 0)
        config->settings.min_steps = RC_LEARN_MIN_STEPS;
    const rc_settings before = config->settings;
    for (int i = 0; i < settings->sets; i++)
        RC_TRY(rc_config_set_pair(config, settings->set[i]));
    if (!first)
        RC_TRY(check_fixed(model, settings, config));
    follow_epochs(&config->settings, &before, settings);
    if (was_set(settings, "epochs") && !was_set(settings, "min_steps"))
        config->settings.min_steps = RC_LEARN_EXACT;
    return rc_config_check(config);
}

rc_status rc_learn_choose_method(const rc_learner *l, const rc_learn_settings *settings, rc_config *config,
                                 const rc_method **method, char *why, size_t bytes)
{
    bool follows = l->class_mean != NULL && l->statistics_classes == l->student.head.classes;
    if (settings->method != NULL || strcmp((*method)->name, "cwd") != 0 || !follows)
        return RC_OK;
    RC_TRY(rc_method_find("cwd+", method));
    bool upright = strcmp(config->settings.rotations, "method") == 0 && !was_set(settings, "rotations");
    bool single = config->settings.generators == 0 && !was_set(settings, "generators");
    if (upright)
        RC_TRY(rc_config_set(config, "rotations", "off"));
    if (single)
        RC_TRY(rc_config_set(config, "generators", "1"));
    snprintf(why, bytes,
             "chosen: CwD+ in place of CwD%s%s%s, because what it keeps of every class follows the net, and lessons "
             "after this one then lose less; the setting 'method' takes another",
             upright ? ", without turned images" : "",
             upright && single ? " and"
             : single          ? ","
                               : "",
             single ? " with one generator" : "");
    return RC_OK;
}

int rc_learn_size(int size)
{
    return size < SMALLEST_SIZE ? SMALLEST_SIZE : size - size % SIZE_STEP;
}

static int shorter_side(const rc_data_seen *seen)
{
    return seen->h < seen->w ? seen->h : seen->w;
}

int rc_learn_choose_size(const rc_data_seen *seen)
{
    int side = shorter_side(seen);
    return seen->same && side < USUAL_SIZE ? rc_learn_size(side) : USUAL_SIZE;
}

void rc_learn_tell_size(const rc_data_seen *seen, int size, char *text, size_t bytes)
{
    const char
        *why = "because small images are learnt in more steps in the same time, and steps teach more than pixels";
    if (seen->same && seen->h == size)
        why = "the size that they have";
    else if (shorter_side(seen) < USUAL_SIZE)
        why = seen->same ? "the next size that can be dreamt" : "the usual size";
    snprintf(text, bytes, "chosen: %d x %d pixels for %d images of %d x %d, %s; the setting 'size' takes another", size,
             size, seen->images, seen->w, seen->h, why);
}

void rc_learn_fit_config(rc_config *config, const rc_learn_settings *settings, const rc_dataset *data)
{
    config->size = data->h;
    config->channels = data->c;
    config->data[0] = '\0'; /* a model does not say where its images were */
    /* The small net has no strides before its second stage: large images would take hours. */
    if (data->h > LARGEST_SMALL_NET && settings->preset == NULL && !was_set(settings, "net"))
        snprintf(config->settings.net, sizeof config->settings.net, "resnet18");
    if (settings->preset == NULL && !was_set(settings, "crop_pad"))
        config->settings.crop_pad = (data->h + SHIFTED_PART / 2) / SHIFTED_PART;
    bool photographs = data->c == 3 && settings->preset == NULL;
    if (photographs && !was_set(settings, "colour"))
        config->settings.colour = photo_colour;
    if (photographs && !was_set(settings, "inversion_steps"))
        config->settings.inversion_steps = PHOTO_INVERSION;
}

bool rc_learn_tell_colour(const rc_settings *s, const rc_learn_settings *settings, char *text, size_t bytes)
{
    if (settings->preset != NULL || was_set(settings, "colour") || !(s->colour > 0))
        return false;
    snprintf(
        text, bytes,
        "chosen: training changes brightness, contrast and saturation by up to %.0f %%, because photographs are then "
        "learnt better; the setting 'colour' is how far (0: not)",
        100 * s->colour);
    return true;
}

/* The share of the usual weights that a task of a single class has. With the full weights a model of 20 Fashion-MNIST
 * images a class fell from 76 to 47 % on its six old classes when it learnt 'Shirt'. */
static const double single_cross_entropy = 0.4, single_distillation = 0.5;

bool rc_lesson_refines(const rc_lesson_size *lesson)
{
    return lesson->method->refine && rc_method_replays(lesson->method, lesson->n_old);
}

static void scale_milestones(rc_settings *s, int now, int before)
{
    for (int i = 0; i < s->milestones; i++)
        s->milestone[i] = scaled(s->milestone[i], now, before);
}

/* Steps of main training of a first model. */
static int64_t first_steps(int images)
{
    return (int64_t)(first_factor * sqrt(images));
}

rc_learn_reason rc_learn_stretch(rc_settings *s, const rc_learn_settings *settings, const rc_lesson_size *lesson)
{
    if (lesson->n_new == 1) {
        s->lambda_ce *= single_cross_entropy;
        s->lambda_hkd *= single_distillation;
    }
    int images = lesson->images, least = s->min_steps;
    if (images < s->batch)
        s->batch = images > SMALLEST_BATCH ? images : s->batch < SMALLEST_BATCH ? s->batch : SMALLEST_BATCH;
    int before = s->epochs - (s->paper_no_refinement ? 0 : s->refine_epochs);
    int batches = rc_epoch_batches(images, s->batch);
    bool asked = least == RC_LEARN_EXACT || was_set(settings, "epochs");
    s->min_steps = 0;                 /* met from here on */
    if (!rc_lesson_refines(lesson)) { /* all of its epochs train: those that were set, or those of main training */
        int all = asked ? s->epochs : before;
        if (!was_set(settings, "milestone"))
            scale_milestones(s, all, before);
        s->refine_epochs = 0;
        s->epochs = before = all;
    }
    int64_t steps = (int64_t)before * batches;
    bool first = !asked && lesson->n_old == 0 && settings->preset == NULL;
    int64_t usual = first ? first_steps(images) : steps, most = first ? RC_LEARN_MAX_FIRST : RC_LEARN_MAX_STEPS;
    int64_t wanted = usual > most && !asked ? most : usual;
    if (wanted < least)
        wanted = least;
    if (wanted != steps) {
        int now = (int)((wanted + batches - 1) / batches);
        s->refine_epochs = scaled(s->refine_epochs, now, before);
        s->epochs = now + (s->paper_no_refinement ? 0 : s->refine_epochs);
        scale_milestones(s, now, before);
    }
    if (wanted != usual)
        return wanted > usual ? RC_LEARN_FEW : RC_LEARN_MANY;
    return asked ? RC_LEARN_ASKED : first ? RC_LEARN_FIRST : RC_LEARN_USUAL;
}

void rc_learn_tell_steps(const rc_settings *s, const rc_lesson_size *lesson, rc_learn_reason reason, char *text,
                         size_t bytes)
{
    static const char *const why[] = {
        [RC_LEARN_FIRST] =
            "because the steps that a first model needs grow with the square root of the number of images",
        [RC_LEARN_USUAL] = "the usual number of epochs",
        [RC_LEARN_FEW] = "because a net needs that many steps, however few the images",
        [RC_LEARN_MANY] = "because more steps gain little, however many the images",
        [RC_LEARN_ASKED] = "as asked",
    };
    static const char gentle[] = "because longer lessons teach new classes little and cost old ones more";
    rc_task_size task = {s, lesson->method, lesson->n_old, lesson->n_new, rc_epoch_batches(lesson->images, s->batch)};
    unsigned inversion = rc_task_steps(&task, RC_STAGE_INVERSION), training = rc_task_steps(&task, RC_STAGE_TRAINING);
    unsigned refinement = rc_task_steps(&task, RC_STAGE_REFINEMENT), batches = (unsigned)task.batches;
    char dreams[64] = "", refined[64] = "";
    if (inversion > 0)
        snprintf(dreams, sizeof dreams, "%u steps of inversion, ", inversion);
    if (refinement > 0)
        snprintf(refined, sizeof refined, " and %u of refinement (%u epoch%s)", refinement, refinement / batches,
                 refinement == batches ? "" : "s");
    snprintf(text, bytes, "%s: %s%u step%s of training (%u epoch%s of %d images)%s, %s%s",
             reason == RC_LEARN_ASKED ? "steps" : "chosen", dreams, training, training == 1 ? "" : "s",
             training / batches, training == batches ? "" : "s", lesson->images, refined,
             reason == RC_LEARN_USUAL && lesson->n_old > 0 ? gentle : why[reason],
             reason == RC_LEARN_ASKED ? "" : "; the setting 'epochs' takes others");
}
