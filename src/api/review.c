#include "api/review.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alike.h"
#include "base/memory.h"
#include "base/proportion.h"
#include "base/utf8.h"

enum { MOST = 16, TEXT_SIZE = 2048 };

/* What a caller sees, and the memory behind it. */
typedef struct owned {
    recollect_review seen; /* first: the caller's pointer is ours */
    const recollect_finding *list[MOST];
    recollect_finding finding[MOST];
    char text[MOST][TEXT_SIZE];
    int *labels[MOST];
} owned;

typedef struct review {
    const rc_review_facts *facts;
    owned *out;
    int *images; /* (classes): of each class that were scored, those of the old test included */
    int largest; /* class, by images that were trained on */
} review;

void rc_review_destroy(recollect_review **given)
{
    if (*given == NULL)
        return;
    owned *r = (owned *)(void *)*given;
    *given = NULL;
    for (int i = 0; i < r->seen.findings; i++)
        rc_free(NULL, r->labels[i]);
    rc_free(NULL, r);
}

/* ---- findings ---------------------------------------------------------------------------------------------------- */

/* Adds to the text of the last finding; what does not fit is cut. */
__attribute__((format(printf, 2, 3))) static void say(review *r, const char *format, ...)
{
    char *text = r->out->text[r->out->seen.findings - 1];
    size_t used = strlen(text);
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(text + used, TEXT_SIZE - used, format, arguments);
    va_end(arguments);
    if (length >= 0 && (size_t)length >= TEXT_SIZE - used)
        rc_utf8_mark_cut(text, TEXT_SIZE);
}

/* A new finding, about these classes: takes over the array of labels, which may be NULL. */
static void begin(review *r, const char *code, int *labels, int count)
{
    owned *out = r->out;
    int i = out->seen.findings++;
    out->labels[i] = labels;
    out->finding[i] = (recollect_finding){
        .size = sizeof out->finding[i], .code = code, .text = out->text[i], .labels = labels, .label_count = count};
    out->list[i] = &out->finding[i];
}

static bool found(const review *r, const char *code)
{
    for (int i = 0; i < r->out->seen.findings; i++)
        if (strcmp(r->out->finding[i].code, code) == 0)
            return true;
    return false;
}

/* ---- counts ------------------------------------------------------------------------------------------------------ */

/* Images of class `label` that were taken for class `said`: held-out ones, and those of the old test. */
static int cell(const rc_review_facts *f, int label, int said)
{
    size_t at = (size_t)label * (size_t)f->classes + (size_t)said;
    return (f->confusion != NULL ? f->confusion[at] : 0) +
           (f->old_confusion != NULL && label < f->known ? f->old_confusion[at] : 0);
}

static int row(const rc_review_facts *f, const int32_t *confusion, int label)
{
    int images = 0;
    for (int said = 0; confusion != NULL && said < f->classes; said++)
        images += confusion[(size_t)label * (size_t)f->classes + (size_t)said];
    return images;
}

static rc_status count_images(review *r)
{
    const rc_review_facts *f = r->facts;
    r->images = rc_alloc_zeroed(NULL, (size_t)f->classes, sizeof *r->images);
    if (r->images == NULL)
        return RC_OUT_OF_MEMORY;
    for (int label = 0; label < f->classes; label++) {
        r->images[label] = row(f, f->confusion, label) + (label < f->known ? row(f, f->old_confusion, label) : 0);
        if (f->trained != NULL && f->trained[label] > f->trained[r->largest])
            r->largest = label;
    }
    return RC_OK;
}

/* The labels for which `is` holds, in a new array; NULL: there are none. */
static rc_status collect(const review *r, bool (*is)(const review *r, int label), int **labels, int *count)
{
    const rc_review_facts *f = r->facts;
    *labels = NULL;
    *count = 0;
    for (int label = 0; label < f->classes; label++)
        *count += is(r, label);
    if (*count == 0)
        return RC_OK;
    *labels = rc_alloc_zeroed(NULL, (size_t)*count, sizeof **labels);
    if (*labels == NULL)
        return RC_OUT_OF_MEMORY;
    for (int label = 0, i = 0; label < f->classes; label++)
        if (is(r, label))
            (*labels)[i++] = label;
    return RC_OK;
}

/* "and 3 more" of those that were not named. */
static void say_more(review *r, int all, const char *things)
{
    if (all > RC_REVIEW_NAMED)
        say(r, " and %d more%s", all - RC_REVIEW_NAMED, things);
}

static void say_names(review *r, const int *labels, int count)
{
    for (int i = 0; i < count && i < RC_REVIEW_NAMED; i++)
        say(r, "%s'%s'", i ? ", " : "", r->facts->class_name[labels[i]]);
    say_more(r, count, "");
}

/* ---- accuracies -------------------------------------------------------------------------------------------------- */

typedef struct score {
    const char *what;                    /* "the accuracy" */
    const char *too_few, *chance, *weak; /* codes */
    const int32_t *confusion;
    int end; /* rows of it that count */
} score;

static void judge(review *r, const score *s)
{
    const rc_review_facts *f = r->facts;
    int images = 0, right = 0;
    double low, high, chance = 100.0 / f->classes;
    for (int label = 0; s->confusion != NULL && label < s->end; label++) {
        images += row(f, s->confusion, label);
        right += s->confusion[(size_t)label * (size_t)f->classes + (size_t)label];
    }
    if (images == 0)
        return;
    double percent = 100.0 * right / images;
    rc_wilson(percent, images, &low, &high);
    bool tells = rc_interval_tells(low, high);
    if (high < chance || (tells && low <= chance)) {
        begin(r, s->chance, NULL, 0);
        say(r, "%s is no better than guessing: %.1f %% of %d images are right, and guessing gets %.1f %%", s->what,
            percent, images, chance);
    } else if (!tells) {
        begin(r, s->too_few, NULL, 0);
        say(r, "%s says little, because only %d image%s scored: it may be anything from %.0f to %.0f %%", s->what,
            images, images == 1 ? " was" : "s were", low, high);
    } else if (percent < (100 + chance) / 2) {
        begin(r, s->weak, NULL, 0);
        say(r, "%s is %.1f %%, which is nearer to guessing (%.1f %%) than to always right", s->what, percent, chance);
    }
}

static void judge_old_test(review *r)
{
    const rc_review_facts *f = r->facts;
    int images = 0;
    for (int label = 0; f->old_confusion != NULL && label < f->known; label++)
        images += row(f, f->old_confusion, label);
    int lost = f->old_lost - f->old_gained;
    if (images == 0 || 100.0 * lost / images < RC_REVIEW_LOSS ||
        rc_coin_tail(f->old_lost, f->old_lost + f->old_gained) > 0.025)
        return;
    begin(r, "old_classes_suffered", NULL, 0);
    say(r,
        "old classes lost more than chance explains: of %d images %d were right before the lesson and are wrong now, "
        "and %d the other way round",
        images, f->old_lost, f->old_gained);
}

/* ---- classes ----------------------------------------------------------------------------------------------------- */

static bool is_unscored(const review *r, int label)
{
    const rc_review_facts *f = r->facts;
    return (f->trained == NULL || f->trained[label] > 0) && row(f, f->confusion, label) == 0;
}

static rc_status find_unscored(review *r)
{
    const rc_review_facts *f = r->facts;
    int *labels, count, expected = 0;
    RC_TRY(collect(r, is_unscored, &labels, &count));
    if (count == 0)
        return RC_OK;
    for (int label = 0; label < f->classes; label++)
        expected += f->trained == NULL || f->trained[label] > 0;
    if (count == expected) {
        rc_free(NULL, labels);
        begin(r, "nothing_scored", NULL, 0);
        say(r, "no image was held out, so nothing says how good the model is");
        return RC_OK;
    }
    if (f->trained == NULL) { /* it is the user who chose the images: those of some classes are a fine choice */
        rc_free(NULL, labels);
        return RC_OK;
    }
    begin(r, "classes_not_scored", labels, count);
    say(r, "%d of %d classes %s not scored, because none of their images was held out: ", count, expected,
        count == 1 ? "was" : "were");
    say_names(r, labels, count);
    return RC_OK;
}

/* Of classes that were known before, a few images are all that is asked for. */
static bool is_small(const review *r, int label)
{
    const int *trained = r->facts->trained;
    return label >= r->facts->known && trained[label] > 0 && 3 * (int64_t)trained[label] < trained[r->largest];
}

static rc_status find_imbalance(review *r)
{
    const rc_review_facts *f = r->facts;
    int *labels, count;
    if (f->trained == NULL)
        return RC_OK;
    RC_TRY(collect(r, is_small, &labels, &count));
    if (count == 0)
        return RC_OK;
    begin(r, "imbalance", labels, count);
    say(r, "%d class%s less than a third of the %d images of '%s': ", count, count == 1 ? " has" : "es have",
        f->trained[r->largest], f->class_name[r->largest]);
    for (int i = 0; i < count && i < RC_REVIEW_NAMED; i++)
        say(r, "%s'%s' (%d)", i ? ", " : "", f->class_name[labels[i]], f->trained[labels[i]]);
    say_more(r, count, "");
    return RC_OK;
}

static bool is_never_right(const review *r, int label)
{
    return r->images[label] >= RC_REVIEW_FEWEST && 10 * (int64_t)cell(r->facts, label, label) <= r->images[label];
}

static rc_status find_never_right(review *r)
{
    const rc_review_facts *f = r->facts;
    int *labels, count;
    RC_TRY(collect(r, is_never_right, &labels, &count));
    if (count == 0)
        return RC_OK;
    begin(r, "classes_never_right", labels, count);
    say(r, "the model almost never recognises ");
    for (int i = 0; i < count && i < RC_REVIEW_NAMED; i++)
        say(r, "%s'%s' (%d of %d images)", i ? ", " : "", f->class_name[labels[i]], cell(f, labels[i], labels[i]),
            r->images[labels[i]]);
    say_more(r, count, "");
    return RC_OK;
}

/* ---- look-alikes ------------------------------------------------------------------------------------------------- */

typedef struct pair {
    int mistakes, images, a, b;
} pair;

/* Most mistakes first; of as many, in the order of the classes. */
static int compare_pairs(const void *left, const void *right)
{
    const pair *l = left, *r = right;
    if (l->mistakes != r->mistakes)
        return l->mistakes < r->mistakes ? 1 : -1;
    return l->a != r->a ? (l->a < r->a ? -1 : 1) : (l->b > r->b) - (l->b < r->b);
}

/* Counts the pairs; writes them to `pairs` unless that is NULL. */
static int list_pairs(const review *r, pair *pairs)
{
    const rc_review_facts *f = r->facts;
    int count = 0;
    for (int a = 0; a < f->classes; a++)
        for (int b = a + 1; b < f->classes; b++) {
            int mistakes = cell(f, a, b) + cell(f, b, a), both = r->images[a] + r->images[b];
            if (mistakes < RC_REVIEW_FEWEST || 5 * (int64_t)mistakes < both)
                continue;
            if (pairs != NULL)
                pairs[count] = (pair){mistakes, both, a, b};
            count++;
        }
    return count;
}

static void say_pairs(review *r, const pair *pairs, int count)
{
    say(r, "the model takes ");
    for (int i = 0; i < count && i < RC_REVIEW_NAMED; i++)
        say(r, "%s'%s' and '%s'%s (%d of %d images)", i ? ", " : "", r->facts->class_name[pairs[i].a],
            r->facts->class_name[pairs[i].b], i ? "" : " for each other", pairs[i].mistakes, pairs[i].images);
    say_more(r, count, " pairs");
}

static rc_status find_look_alikes(review *r)
{
    int count = r->facts->classes > 2 ? list_pairs(r, NULL) : 0; /* of two classes the accuracy says it all */
    if (count == 0)
        return RC_OK;
    pair *pairs = rc_alloc_zeroed(NULL, (size_t)count, sizeof *pairs);
    int *labels = rc_alloc_zeroed(NULL, 2 * (size_t)count, sizeof *labels);
    if (pairs == NULL || labels == NULL) {
        rc_free(NULL, pairs);
        rc_free(NULL, labels);
        return RC_OUT_OF_MEMORY;
    }
    list_pairs(r, pairs);
    qsort(pairs, (size_t)count, sizeof *pairs, compare_pairs);
    for (int i = 0; i < count; i++) {
        labels[2 * i] = pairs[i].a;
        labels[2 * i + 1] = pairs[i].b;
    }
    begin(r, "look_alikes", labels, 2 * count);
    say_pairs(r, pairs, count);
    rc_free(NULL, pairs);
    return RC_OK;
}

/* ---- names ------------------------------------------------------------------------------------------------------- */

typedef struct named {
    const char *name;
    int label;
} named;

static int compare_named(const void *left, const void *right)
{
    const named *l = left, *r = right;
    int order = rc_alike_compare(l->name, r->name);
    return order != 0 ? order : (l->label > r->label) - (l->label < r->label);
}

/* Pairs of neighbours of which the second is new; writes them to `labels` unless that is NULL. */
static int list_similar(const rc_review_facts *f, const named *sorted, int *labels)
{
    int count = 0;
    for (int i = 1; i < f->classes; i++) {
        if (sorted[i].label < f->known || !rc_alike(sorted[i - 1].name, sorted[i].name))
            continue;
        if (labels != NULL) {
            labels[2 * count] = sorted[i - 1].label;
            labels[2 * count + 1] = sorted[i].label;
        }
        count++;
    }
    return count;
}

static rc_status say_similar(review *r, const named *sorted)
{
    int count = list_similar(r->facts, sorted, NULL);
    if (count == 0)
        return RC_OK;
    int *labels = rc_alloc_zeroed(NULL, 2 * (size_t)count, sizeof *labels);
    if (labels == NULL)
        return RC_OUT_OF_MEMORY;
    list_similar(r->facts, sorted, labels);
    begin(r, "similar_names", labels, 2 * count);
    for (int i = 0; i < count && i < RC_REVIEW_NAMED; i++)
        say(r, "%s'%s' and '%s'", i ? ", " : "", r->facts->class_name[labels[2 * i]],
            r->facts->class_name[labels[2 * i + 1]]);
    say_more(r, count, " pairs");
    say(r, " are different classes, although their names differ in capitals, accents or blanks alone");
    return RC_OK;
}

static rc_status find_similar_names(review *r)
{
    const rc_review_facts *f = r->facts;
    if (f->trained == NULL)
        return RC_OK;
    named *sorted = rc_alloc_zeroed(NULL, (size_t)f->classes, sizeof *sorted);
    if (sorted == NULL)
        return RC_OUT_OF_MEMORY;
    for (int label = 0; label < f->classes; label++)
        sorted[label] = (named){f->class_name[label], label};
    qsort(sorted, (size_t)f->classes, sizeof *sorted, compare_named);
    rc_status status = say_similar(r, sorted);
    rc_free(NULL, sorted);
    return status;
}

/* ---- twins ------------------------------------------------------------------------------------------------------ */

static rc_status find_twins(review *r)
{
    const rc_review_facts *f = r->facts;
    if (f->divided > 0) {
        int *labels = rc_alloc_zeroed(NULL, 2, sizeof *labels);
        if (labels == NULL)
            return RC_OUT_OF_MEMORY;
        memcpy(labels, f->divided_labels, sizeof f->divided_labels);
        begin(r, "same_images", labels, 2);
        say(r, "%d images lie in two classes or more, such as '%s' and '%s', which no model can tell apart by them",
            f->divided, f->class_name[labels[0]], f->class_name[labels[1]]);
    }
    if (f->seen > 0) {
        begin(r, "held_out_seen", NULL, 0);
        say(r,
            "%d of %d held-out images %s trained on, too, as another file with the same picture: the accuracy "
            "flatters",
            f->seen, f->held_out, f->seen == 1 ? "was" : "were");
    }
    return RC_OK;
}

/* ---- what was not looked at -------------------------------------------------------------------------------------- */

static void find_left_out(review *r)
{
    const rc_review_facts *f = r->facts;
    if (f->left_out > 0) {
        begin(r, "left_out", NULL, 0);
        say(r, "%d file%s, folder%s or link%s of the data %s not read", f->left_out, f->left_out == 1 ? "" : "s",
            f->left_out == 1 ? "" : "s", f->left_out == 1 ? "" : "s", f->left_out == 1 ? "was" : "were");
    }
    if (f->broken > 0) {
        begin(r, "broken_images", NULL, 0);
        say(r, "%d image%s could not be read and %s left out", f->broken, f->broken == 1 ? "" : "s",
            f->broken == 1 ? "was" : "were");
    }
    if (f->unknown_images == 0)
        return;
    begin(r, "unknown_classes", NULL, 0);
    say(r, "%d image%s left out, because the model does not know their classes: ", f->unknown_images,
        f->unknown_images == 1 ? " was" : "s were");
    for (int i = 0; i < f->unknown_classes && i < RC_REVIEW_NAMED; i++) {
        int label = 0;
        while (label < f->classes && !rc_alike(f->unknown[i], f->class_name[label]))
            label++;
        say(r, "%s'%s'", i ? ", " : "", f->unknown[i]);
        if (label < f->classes)
            say(r, " (it knows '%s')", f->class_name[label]);
    }
    say_more(r, f->unknown_classes, "");
}

/* ---- the verdict ------------------------------------------------------------------------------------------------- */

/* The first of these whose finding is there. */
static const struct {
    const char *finding, *verdict, *text;
} verdicts[] = {
    {"old_classes_suffered", "old_classes_suffered", "old classes suffered"},
    {"near_chance", "near_chance", "no better than guessing"},
    {"old_near_chance", "near_chance", "no better than guessing on the old classes"},
    {"nothing_scored", "too_few", "too few images to tell"},
    {"too_few", "too_few", "too few images to tell"},
    {"old_too_few", "too_few", "too few images of old classes to tell"},
    {"weak", "weak", "weak"},
    {"old_weak", "weak", "weak on the old classes"},
};

static void decide(review *r)
{
    recollect_review *seen = &r->out->seen;
    for (size_t i = 0; i < sizeof verdicts / sizeof *verdicts; i++)
        if (found(r, verdicts[i].finding)) {
            seen->verdict = verdicts[i].verdict;
            seen->text = verdicts[i].text;
            return;
        }
    bool half = r->facts->known > 0 && r->facts->old_confusion == NULL;
    seen->verdict = half ? "new_classes_good" : "good";
    if (found(r, "classes_not_scored"))
        seen->text = half ? "good on the new classes that were scored; the old ones were not"
                          : "good on the classes that were scored";
    else
        seen->text = half ? "good on the new classes; the old ones were not scored" : "good";
}

static rc_status look(review *r)
{
    const rc_review_facts *f = r->facts;
    const score all = {"the accuracy", "too_few", "near_chance", "weak", f->confusion, f->classes};
    const score old = {
        "the accuracy on old classes", "old_too_few", "old_near_chance", "old_weak", f->old_confusion, f->known};
    RC_TRY(count_images(r));
    judge_old_test(r);
    judge(r, &all);
    judge(r, &old);
    RC_TRY(find_unscored(r));
    if (!found(r, "near_chance") && !found(r, "old_near_chance")) {
        RC_TRY(find_never_right(r));
        RC_TRY(find_look_alikes(r));
    }
    RC_TRY(find_similar_names(r));
    RC_TRY(find_twins(r));
    RC_TRY(find_imbalance(r));
    find_left_out(r);
    decide(r);
    return RC_OK;
}

rc_status rc_review_create(const rc_review_facts *facts, recollect_review **result)
{
    owned *out = rc_alloc_zeroed(NULL, 1, sizeof *out);
    *result = NULL;
    if (out == NULL)
        return RC_OUT_OF_MEMORY;
    out->seen.size = sizeof out->seen;
    out->seen.finding = out->list;
    *result = &out->seen;
    review r = {.facts = facts, .out = out};
    rc_status status = look(&r);
    rc_free(NULL, r.images);
    if (status != RC_OK)
        rc_review_destroy(result);
    return status;
}

/* ---- JSON -------------------------------------------------------------------------------------------------------- */

void rc_review_put(rc_json_writer *w, const recollect_review *seen, char *const *class_name, recollect_advise *advise,
                   void *user)
{
    rc_json_put_text(w, "verdict", seen != NULL ? seen->verdict : NULL);
    rc_json_put_text(w, "verdict_text", seen != NULL ? seen->text : NULL);
    if (seen == NULL) {
        rc_json_put_null(w, "warnings");
        return;
    }
    rc_json_begin_array(w, "warnings");
    for (int i = 0; i < seen->findings; i++) {
        const recollect_finding *finding = seen->finding[i];
        rc_json_begin_object(w, NULL);
        rc_json_put_text(w, "code", finding->code);
        rc_json_put_text(w, "text", finding->text);
        rc_json_begin_array(w, "classes");
        for (int k = 0; k < finding->label_count; k++)
            rc_json_put_text(w, NULL, class_name[finding->labels[k]]);
        rc_json_end(w);
        rc_json_put_text(w, "command", advise != NULL ? advise(user, finding) : NULL);
        rc_json_end(w);
    }
    rc_json_end(w);
}

void rc_interval_put(rc_json_writer *w, const char *key, double percent, int images)
{
    double low, high;
    rc_wilson(percent, images, &low, &high);
    if (isnan(low)) {
        rc_json_put_null(w, key);
        return;
    }
    rc_json_begin_array(w, key);
    rc_json_put_real(w, NULL, low);
    rc_json_put_real(w, NULL, high);
    rc_json_end(w);
}
