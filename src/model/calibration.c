#include "model/calibration.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "model/confidence.h"

static const char *const kind_name[RC_SCORE_KINDS] = {
    [RC_SCORE_DISTANCE_AND_ENTROPY] = "distance-and-entropy",
    [RC_SCORE_ENTROPY] = "entropy",
};

/* ---- measuring ------------------------------------------------------------------------------------------------- */

static int compare(const void *a, const void *b)
{
    float x, y;
    memcpy(&x, a, sizeof x);
    memcpy(&y, b, sizeof y);
    return (x > y) - (x < y);
}

static int kept_of(int images)
{
    return images < RC_CALIBRATION_LEAST ? 0 : images < RC_CALIBRATION_MOST ? images : RC_CALIBRATION_MOST;
}

/* The scores that are kept, in order: all of them, or the middles of as many equal parts. */
static rc_status keep_scores(rc_calibrated_lesson *lesson, const double *scores)
{
    int images = lesson->images, kept = lesson->scores;
    float *all = rc_alloc_zeroed(NULL, (size_t)images, sizeof *all);
    lesson->score = rc_alloc_zeroed(NULL, (size_t)kept, sizeof *lesson->score);
    if (all == NULL || lesson->score == NULL) {
        rc_free(NULL, all);
        rc_free(NULL, lesson->score);
        return RC_OUT_OF_MEMORY;
    }
    for (int i = 0; i < images; i++) /* what is not finite, or no float, is the strangest that can be kept */
        all[i] = isfinite((float)scores[i]) ? (float)scores[i] : 3e38f;
    qsort(all, (size_t)images, sizeof *all, compare);
    for (int i = 0; i < kept; i++)
        lesson->score[i] = all[(int)(((int64_t)2 * i + 1) * images / (2 * kept))];
    rc_free(NULL, all);
    return RC_OK;
}

rc_status rc_calibration_add(rc_calibration *c, int classes, const double *scores, int images)
{
    rc_calibrated_lesson added = {.classes = classes, .images = images, .scores = kept_of(images)};
    rc_calibrated_lesson *grown = rc_alloc_zeroed(NULL, (size_t)c->lessons + 1, sizeof *grown);
    if (grown == NULL)
        return RC_OUT_OF_MEMORY;
    rc_status status = added.scores > 0 ? keep_scores(&added, scores) : RC_OK;
    if (status != RC_OK) {
        rc_free(NULL, grown);
        return status;
    }
    for (int i = 0; i < c->lessons; i++)
        grown[i] = c->lesson[i];
    grown[c->lessons++] = added;
    rc_free(NULL, c->lesson);
    c->lesson = grown;
    return RC_OK;
}

rc_status rc_calibration_copy(rc_calibration *copy, const rc_calibration *c)
{
    *copy = (rc_calibration){.kind = c->kind, .temperature = c->temperature};
    copy->lesson = c->lessons > 0 ? rc_alloc_zeroed(NULL, (size_t)c->lessons, sizeof *copy->lesson) : NULL;
    if (c->lessons > 0 && copy->lesson == NULL)
        return RC_OUT_OF_MEMORY;
    for (; copy->lessons < c->lessons; copy->lessons++) {
        rc_calibrated_lesson *to = &copy->lesson[copy->lessons];
        *to = c->lesson[copy->lessons];
        if (to->scores == 0)
            continue;
        to->score = rc_alloc(NULL, (size_t)to->scores * sizeof *to->score);
        if (to->score == NULL) {
            rc_calibration_destroy(copy);
            return RC_OUT_OF_MEMORY;
        }
        memcpy(to->score, c->lesson[copy->lessons].score, (size_t)to->scores * sizeof *to->score);
    }
    return RC_OK;
}

void rc_calibration_destroy(rc_calibration *c)
{
    for (int i = 0; i < c->lessons; i++)
        rc_free(NULL, c->lesson[i].score);
    rc_free(NULL, c->lesson);
    *c = (rc_calibration){0};
}

/* ---- the rate ---------------------------------------------------------------------------------------------------- */

static int64_t count_classes(const rc_calibration *c)
{
    int64_t classes = 0;
    for (int i = 0; i < c->lessons; i++)
        classes += c->lesson[i].classes;
    return classes;
}

bool rc_calibration_covers(const rc_calibration *c, int classes)
{
    for (int i = 0; i < c->lessons; i++)
        if (c->lesson[i].scores == 0)
            return false;
    return c->lessons > 0 && count_classes(c) == classes;
}

double rc_calibration_temperature(const rc_calibration *c)
{
    return c->temperature > 0 ? c->temperature : 1;
}

int rc_calibration_images(const rc_calibration *c)
{
    int64_t images = 0;
    for (int i = 0; i < c->lessons; i++)
        images += c->lesson[i].images;
    return images < INT_MAX ? (int)images : INT_MAX;
}

static double rate_of_lesson(const rc_calibrated_lesson *lesson, double score)
{
    int below = 0;
    while (below < lesson->scores && lesson->score[below] < (float)score) /* a tie before rounding stays one */
        below++;
    double part = (double)(lesson->scores - below) / lesson->scores;
    return (1 + part * lesson->images) / (1.0 + lesson->images);
}

double rc_calibration_rate(const rc_calibration *c, double score)
{
    double sum = 0, classes = (double)count_classes(c);
    for (int i = 0; i < c->lessons; i++) {
        if (c->lesson[i].scores == 0)
            return NAN;
        sum += c->lesson[i].classes / classes * rate_of_lesson(&c->lesson[i], score);
    }
    return isnan(score) || c->lessons == 0 ? (double)NAN : sum;
}

/* ---- files ------------------------------------------------------------------------------------------------------- */

void rc_calibration_put(const rc_calibration *c, rc_json_writer *metadata)
{
    rc_json_writer w = {0};
    rc_json_begin_object(&w, NULL);
    rc_json_put_text(&w, "score", kind_name[c->kind]);
    if (c->temperature > 0)
        rc_json_put_real(&w, "temperature", c->temperature);
    rc_json_begin_array(&w, "lessons");
    for (int i = 0; i < c->lessons; i++) {
        const rc_calibrated_lesson *lesson = &c->lesson[i];
        rc_json_begin_object(&w, NULL);
        rc_json_put_int(&w, "classes", lesson->classes);
        rc_json_put_int(&w, "images", lesson->images);
        rc_json_begin_array(&w, "scores");
        for (int k = 0; k < lesson->scores; k++)
            rc_json_put_real(&w, NULL, (double)lesson->score[k]);
        rc_json_end(&w);
        rc_json_end(&w);
    }
    rc_json_end(&w);
    rc_json_end(&w);
    rc_json_put_written(metadata, "calibration", &w);
}

static rc_status get_scores(const rc_json *list, int number, rc_calibrated_lesson *lesson)
{
    const rc_json *value = NULL;
    lesson->score = rc_alloc_zeroed(NULL, (size_t)lesson->scores, sizeof *lesson->score);
    if (lesson->score == NULL)
        return RC_OUT_OF_MEMORY;
    for (int i = 0; (value = rc_json_next(list, value)) != NULL; i++) {
        double score = rc_json_number(value);
        lesson->score[i] = (float)score;
        if (!isfinite(lesson->score[i]) || (i > 0 && lesson->score[i] < lesson->score[i - 1]))
            return rc_fail(RC_FORMAT, "score %d of lesson %d of the calibration is %g, expected a number in order", i,
                           number, score);
    }
    return RC_OK;
}

static rc_status get_lesson(const rc_json *entry, int number, rc_calibrated_lesson *lesson)
{
    const rc_json *list;
    RC_TRY(rc_json_get_int(entry, "classes", &lesson->classes));
    RC_TRY(rc_json_get_int(entry, "images", &lesson->images));
    RC_TRY(rc_json_get_array(entry, "scores", &list));
    if (lesson->classes < 1 || lesson->images < 0)
        return rc_fail(RC_FORMAT, "lesson %d of the calibration has %d classes and %d images", number, lesson->classes,
                       lesson->images);
    int wanted = kept_of(lesson->images);
    if (rc_json_count(list) != (size_t)wanted)
        return rc_fail(RC_FORMAT, "lesson %d of the calibration has %zu scores of %d images, expected %d", number,
                       rc_json_count(list), lesson->images, wanted);
    lesson->scores = wanted;
    return wanted > 0 ? get_scores(list, number, lesson) : RC_OK;
}

static rc_status get_kind(const rc_json *json, rc_score_kind *kind)
{
    const char *name;
    RC_TRY(rc_json_get_string(json, "score", &name));
    for (int i = 0; i < RC_SCORE_KINDS; i++)
        if (strcmp(name, kind_name[i]) == 0) {
            *kind = (rc_score_kind)i;
            return RC_OK;
        }
    return rc_fail(RC_FORMAT, "the calibration is of the score '%.40s', expected '%s' or '%s'", name, kind_name[0],
                   kind_name[1]);
}

/* Files of earlier versions have none, and models whose first lesson measured none. */
static rc_status get_temperature(const rc_json *json, double *temperature)
{
    const rc_json *value = rc_json_member(json, "temperature");
    double least = rc_confidence_at(0), most = rc_confidence_at(RC_TEMPERATURES - 1);
    *temperature = value != NULL ? rc_json_number(value) : 0;
    return value == NULL || (*temperature >= least && *temperature <= most)
               ? RC_OK
               : rc_fail(RC_FORMAT, "the temperature of the calibration is %g, expected %g to %g", *temperature, least,
                         most);
}

static rc_status get(const rc_json *json, int classes, rc_calibration *c)
{
    const rc_json *list, *entry = NULL;
    RC_TRY(get_kind(json, &c->kind));
    RC_TRY(get_temperature(json, &c->temperature));
    RC_TRY(rc_json_get_array(json, "lessons", &list));
    size_t lessons = rc_json_count(list);
    if (lessons < 1 || lessons > (size_t)classes) /* each has a class */
        return rc_fail(RC_FORMAT, "the calibration has %zu lessons for %d classes", lessons, classes);
    c->lesson = rc_alloc_zeroed(NULL, lessons, sizeof *c->lesson);
    if (c->lesson == NULL)
        return RC_OUT_OF_MEMORY;
    while ((entry = rc_json_next(list, entry)) != NULL) {
        int number = c->lessons++;
        RC_TRY(get_lesson(entry, number, &c->lesson[number]));
    }
    if (count_classes(c) != classes)
        return rc_fail(RC_FORMAT, "the calibration is of %lld classes, but the model has %d",
                       (long long)count_classes(c), classes);
    return RC_OK;
}

rc_status rc_calibration_get(const char *text, int classes, rc_calibration *c)
{
    rc_json *json;
    *c = (rc_calibration){0};
    RC_TRY(rc_json_parse("calibration", text, strlen(text), &json));
    rc_status status = get(json, classes, c);
    rc_json_free(json);
    if (status != RC_OK)
        rc_calibration_destroy(c);
    return status;
}
