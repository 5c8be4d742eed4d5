/* Which part of a model a lesson changes: the choice of api/adapt.h. */
#include <stdio.h>
#include <string.h>

#include "api/adapt.h"

static const char *const names[] = {
    [RC_ADAPT_CHOSEN] = "", [RC_ADAPT_HEAD] = "head", [RC_ADAPT_TOP] = "top", [RC_ADAPT_ALL] = "all"};

const char *rc_adapt_name(rc_adapt adapt)
{
    return names[adapt];
}

rc_status rc_adapt_read(const char *text, rc_adapt *adapt)
{
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(text, names[i]) == 0) {
            *adapt = (rc_adapt)i;
            return RC_OK;
        }
    return rc_fail(RC_INVALID_ARGUMENT, "adapt is '%.64s', expected head, top or all", text);
}

/* ---- which ------------------------------------------------------------------------------------------------------- */

/* Does it come from elsewhere, and has no lesson here estimated statistics of it? */
static bool is_foreign(const rc_saved_model *model)
{
    return model->imported && model->learner.class_mean == NULL;
}

bool rc_adapt_tells_all(const rc_learner *l)
{
    return l->class_mean != NULL && l->statistics_of_images && l->statistics_classes == l->student.head.classes;
}

/* What the caller has set that matters to a training alone; NULL: nothing. */
static const char *set_for_training(const rc_learn_settings *settings)
{
    static const char epochs[] = "epochs=";
    if (settings->method != NULL)
        return "method";
    for (int i = 0; i < settings->sets; i++)
        if (strncmp(settings->set[i], epochs, sizeof epochs - 1) == 0)
            return "epochs";
    return NULL;
}

static rc_status check(const rc_learner *l, rc_adapt adapt)
{
    if (l->backend == NULL && adapt != RC_ADAPT_ALL)
        return rc_fail(RC_INVALID_ARGUMENT, "a first model learns as a whole, so the setting 'adapt' cannot be %s",
                       rc_adapt_name(adapt));
    if (adapt == RC_ADAPT_HEAD && l->source->kind->clone != NULL)
        return rc_fail(
            RC_INVALID_ARGUMENT,
            "%s keeps %s of every lesson, which the head alone does not give it; the setting 'adapt' must be "
            "all",
            l->method->title, l->source->kind->keeps);
    return RC_OK;
}

/* For a net from elsewhere of which nobody has said anything. */
static rc_adapt choose_for_foreign(const rc_adapt_facts *facts, char *why, size_t bytes)
{
    const rc_learner *l = &facts->model->learner;
    int known = l->student.head.classes;
    const char *images = facts->images == 1 ? "" : "s", *classes = facts->n_new == 1 ? "" : "es";
    if (known >= RC_ADAPT_MANY_CLASSES) {
        snprintf(
            why, bytes,
            "chosen: new rows of the head alone, because the net comes from elsewhere, its features tell %d classes "
            "apart, and %d image%s of %d new class%s can teach it less than they would take from these; the setting "
            "'adapt' takes another way",
            known, facts->images, images, facts->n_new, classes);
        return RC_ADAPT_HEAD;
    }
    if (l->augment.h > RC_ADAPT_SMALL_IMAGE) {
        snprintf(
            why, bytes,
            "chosen: new rows of the head alone, because a net from elsewhere takes hours to learn from images of %d "
            "pixels; it was made for %d class%s only, so look what old ones lose; the setting 'adapt' takes another "
            "way",
            l->augment.h, known, known == 1 ? "" : "es");
        return RC_ADAPT_HEAD;
    }
    snprintf(
        why, bytes,
        "chosen: the last stage of the net learns, too, because it comes from elsewhere and was made for %d class%s "
        "only: its features would not tell %d new class%s apart from these, and the stages before keep what it "
        "knows; the setting 'adapt' takes another way",
        known, known == 1 ? "" : "es", facts->n_new, classes);
    return RC_ADAPT_TOP;
}

/* For a net that was trained here. */
static rc_adapt choose_for_own(const rc_adapt_facts *facts, char *why, size_t bytes)
{
    int known = facts->model->learner.student.head.classes;
    if (!rc_adapt_tells_all(&facts->model->learner) || facts->n_new > known)
        return RC_ADAPT_ALL;
    snprintf(
        why, bytes,
        "chosen: the head alone, with rows for all %d classes from the statistics of the %d known ones and the new "
        "images, because that tells as many images right as a net that dreams and trains, or more%s; the setting "
        "'adapt' takes another way",
        known + facts->n_new, known, known + facts->n_new <= RC_ADAPT_QUICK_CLASSES ? ", in seconds" : "");
    return RC_ADAPT_HEAD;
}

rc_status rc_adapt_choose(const rc_adapt_facts *facts, rc_adapt *adapt, char *why, size_t bytes)
{
    const rc_learn_settings *settings = facts->settings;
    const rc_learner *l = &facts->model->learner;
    const char *set = set_for_training(settings);
    bool first = l->backend == NULL, foreign = is_foreign(facts->model);
    *adapt = settings->adapt;
    why[0] = '\0';
    if (*adapt == RC_ADAPT_CHOSEN && !first && set == NULL && l->source->kind->clone == NULL) {
        *adapt = foreign ? choose_for_foreign(facts, why, bytes) : choose_for_own(facts, why, bytes);
    } else if (*adapt == RC_ADAPT_CHOSEN) {
        *adapt = RC_ADAPT_ALL;
        if (foreign && set != NULL)
            snprintf(why, bytes,
                     "chosen: the whole net learns, because %s was set; the setting 'adapt' takes another way", set);
    } else if (*adapt == RC_ADAPT_HEAD && set != NULL) {
        snprintf(why, bytes, "note: %s is of no use to the head alone, which is fitted to its optimum", set);
    }
    return check(l, *adapt);
}
