/* What scores of a model say beside a number: a verdict and warnings. Pure rules over counts of images; texts name
 * classes, never files or options. The rules (docs/learn.md says the same to users):
 *
 *   too few        the 95 % interval of an accuracy is wider than RC_INTERVAL_WIDEST points
 *   near chance    the interval is not too wide and contains 100 / classes, or lies below it whatever its width
 *   weak           neither of these, and the accuracy is less than half of the way from chance to 100 %
 *   class at zero  RC_REVIEW_FEWEST or more images of a class were scored, and at most one in ten is right
 *   look-alikes    of three classes or more two are taken for each other in RC_REVIEW_FEWEST or more images, which are
 *                  at least a fifth of the images of both
 *   divided        an image of a lesson lies in two classes or more
 *   similar names  a class of a lesson is called as another one but for capitals, accents and blanks (base/alike.h)
 *   seen           a held-out image is also among those that the lesson trained on
 *   imbalance      a class was trained on fewer than a third of the images that the largest has
 *   old suffered   the old test lost RC_REVIEW_LOSS points or more, and a coin would lose that many with a probability
 *                  of 0.025 or less. The coin is thrown for each image whose answer changed between right and wrong:
 *                  McNemar's exact test, because the same images are scored before and after. Two intervals would
 *                  treat them as strangers, and miss losses that pairs show.
 *
 * A model that is no better than chance confuses everything, so no classes are named then. */
#ifndef RC_API_REVIEW_H
#define RC_API_REVIEW_H

#include <stdbool.h>
#include <stdint.h>

#include "base/json.h"
#include "recollect/recollect.h"

enum { RC_REVIEW_FEWEST = 5, RC_REVIEW_LOSS = 5, RC_REVIEW_NAMED = 5 /* classes or pairs that a text names */ };

typedef struct rc_review_facts {
    int classes; /* that the model knows */
    char *const *class_name;
    const int32_t *confusion; /* (classes, classes): what was scored; of a lesson the held-out images. NULL: nothing */
    const int *trained;       /* (classes): images that a lesson trained on; NULL: it is no lesson */
    int divided;              /* images of a lesson that are the same in two classes or more, */
    int divided_labels[2];    /* such as these */
    int held_out, seen;       /* images that it held out; how many of them it trained on all the same */
    /* A lesson that was not the first one. */
    int known;                    /* classes before it */
    const int32_t *old_confusion; /* (classes, classes): the old test after it, rows below `known`; NULL: none */
    int old_lost, old_gained;     /* images of it that are no longer right, that have become right */
    /* What was not scored. */
    int left_out, broken, unknown_images, unknown_classes;
    const char *const *unknown; /* (unknown_classes): names */
} rc_review_facts;

rc_status rc_review_create(const rc_review_facts *facts, recollect_review **review);
void rc_review_destroy(recollect_review **review); /* NULL is fine there */

/* "verdict", "verdict_text" and "warnings" into the object that is open; nulls if there is no review. `advise` may be
 * NULL. */
void rc_review_put(rc_json_writer *w, const recollect_review *review, char *const *class_name, recollect_advise *advise,
                   void *user);
/* [low, high] of an accuracy; null: nothing was scored. */
void rc_interval_put(rc_json_writer *w, const char *key, double percent, int images);

#endif
