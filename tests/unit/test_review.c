/* Verdicts: every rule on both sides of its threshold, over counts that are made up. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "api/review.h"
#include "base/alike.h"
#include "base/memory.h"
#include "base/utf8.h"
#include "support/failing_heap.h"
#include "support/succeeds.h"

enum { MOST = 12 };

static char name_room[MOST][16];
static char *names[MOST];
static int32_t confusion[MOST * MOST], old_confusion[MOST * MOST];
static int trained[MOST];
static recollect_review *review;

static int set_up(void **state)
{
    (void)state;
    memset(confusion, 0, sizeof confusion);
    memset(old_confusion, 0, sizeof old_confusion);
    memset(trained, 0, sizeof trained);
    for (int i = 0; i < MOST; i++) {
        snprintf(name_room[i], sizeof name_room[i], "c%d", i);
        names[i] = name_room[i];
    }
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    rc_review_destroy(&review);
    assert_null(review);
    return rc_bytes_allocated() == 0 ? 0 : -1;
}

static rc_review_facts facts_of(int classes)
{
    return (rc_review_facts){.classes = classes, .class_name = names, .confusion = confusion};
}

static void look(const rc_review_facts *facts)
{
    rc_review_destroy(&review);
    SUCCEEDS(rc_review_create(facts, &review));
    assert_int_equal(review->size, sizeof *review);
    assert_true(review->verdict != NULL && review->text[0] != '\0');
    for (int i = 0; i < review->findings; i++) {
        const recollect_finding *finding = review->finding[i];
        assert_true(finding->size == sizeof *finding && finding->text[0] != '\0');
        assert_true((finding->labels == NULL) == (finding->label_count == 0));
        for (int k = 0; k < i; k++)
            assert_string_not_equal(finding->code, review->finding[k]->code);
    }
}

static const recollect_finding *find(const char *code)
{
    for (int i = 0; i < review->findings; i++)
        if (strcmp(review->finding[i]->code, code) == 0)
            return review->finding[i];
    return NULL;
}

/* The only finding, with this text; NULL: any. */
static void check_only(const char *code, const char *text)
{
    if (review->findings != 1 || strcmp(review->finding[0]->code, code) != 0)
        fail_msg("%d findings, first '%s', expected '%s' alone", review->findings,
                 review->findings ? review->finding[0]->code : "", code);
    if (text != NULL)
        assert_string_equal(review->finding[0]->text, text);
}

static void check_verdict(const char *verdict, const char *text)
{
    assert_string_equal(review->verdict, verdict);
    assert_string_equal(review->text, text);
}

/* `right` images of every class are right, and `wrong` of each spread over the other classes. */
static void fill(int32_t *matrix, int classes, int rows, int right, int wrong)
{
    for (int label = 0; label < rows; label++) {
        matrix[label * classes + label] = right;
        for (int i = 0; i < wrong; i++)
            matrix[label * classes + (label + 1 + i % (classes - 1)) % classes]++;
    }
}

/* ---- accuracies ------------------------------------------------------------------------------------------------- */

static void good_has_no_warning(void **state)
{
    (void)state;
    rc_review_facts f = facts_of(10);
    fill(confusion, 10, 10, 11, 9); /* 110 of 200: 55 %, which is half of the way from 10 */
    look(&f);
    assert_int_equal(review->findings, 0);
    check_verdict("good", "good");
    confusion[0]--; /* one less right: below half of the way */
    confusion[1]++;
    look(&f);
    check_only("weak", "the accuracy is 54.5 %, which is nearer to guessing (10.0 %) than to always right");
    check_verdict("weak", "weak");
}

/* Of three classes guessing gets 33.3 %; 66.7 % are half of the way. */
static void weak_depends_on_the_classes(void **state)
{
    (void)state;
    rc_review_facts f = facts_of(12);
    fill(confusion, 12, 12, 11, 9); /* 55 % of 12 classes: above half of the way */
    look(&f);
    assert_int_equal(review->findings, 0);
    memset(confusion, 0, sizeof confusion);
    f = facts_of(3);
    fill(confusion, 3, 3, 66, 33); /* 66.67 % */
    look(&f);
    assert_null(find("weak"));
    confusion[0]--;
    confusion[1]++;
    look(&f);
    assert_non_null(find("weak"));
}

/* 19 of 39 images: 29.94 points, 19 of 38: 30.30. */
static void few_images_do_not_tell(void **state)
{
    (void)state;
    rc_review_facts f = facts_of(2);
    f.classes = 12;
    confusion[0] = 19;
    for (int i = 1; i < 11; i++)
        confusion[i] = 2; /* so that no class is a look-alike */
    for (int i = 1; i < 12; i++)
        trained[i] = 0;
    trained[0] = 1;
    f.trained = trained;
    look(&f);
    check_only("weak", NULL);
    confusion[10]--;
    look(&f);
    check_only("too_few",
               "the accuracy says little, because only 38 images were scored: it may be anything from 35 to 65 %");
    check_verdict("too_few", "too few images to tell");
    memset(confusion, 0, sizeof confusion);
    confusion[0] = 1;
    look(&f);
    check_only("too_few",
               "the accuracy says little, because only 1 image was scored: it may be anything from 21 to 100 %");
}

/* Ten classes, 200 images: 28 right reach down to 9.87 %, 29 to 10.29 %. */
static void chance_is_inside_the_interval_or_above(void **state)
{
    (void)state;
    rc_review_facts f = facts_of(10);
    fill(confusion, 10, 10, 3, 17); /* 30 right */
    confusion[0]--;
    confusion[1]++;
    look(&f);
    assert_null(find("near_chance"));
    assert_non_null(find("classes_never_right")); /* 2 of 20 images of c0 are right */
    check_verdict("weak", "weak");
    confusion[11]--;
    confusion[12]++;
    look(&f);
    check_only("near_chance",
               "the accuracy is no better than guessing: 14.0 % of 200 images are right, and guessing gets 10.0 %");
    check_verdict("near_chance", "no better than guessing");
    memset(confusion, 0, sizeof confusion);
    fill(confusion, 10, 10, 0, 20);
    look(&f);
    check_only("near_chance", NULL); /* and names no classes, though none is ever right */
}

/* Of two classes: none of three may be one of two, none of four is not. */
static void few_images_can_be_below_chance(void **state)
{
    (void)state;
    rc_review_facts f = facts_of(2);
    confusion[1] = 2;
    confusion[2] = 1;
    look(&f);
    check_only("too_few", NULL);
    confusion[2] = 2;
    look(&f);
    check_only("near_chance", NULL);
}

/* ---- classes ---------------------------------------------------------------------------------------------------- */

static void classes_without_images_are_named(void **state)
{
    (void)state;
    rc_review_facts f = facts_of(12);
    f.trained = trained;
    for (int i = 0; i < 12; i++)
        trained[i] = 10;
    fill(confusion, 12, 11, 20, 0);
    look(&f);
    check_only("classes_not_scored",
               "1 of 12 classes was not scored, because none of their images was held out: 'c11'");
    assert_int_equal(review->finding[0]->label_count, 1);
    assert_int_equal(review->finding[0]->labels[0], 11);
    check_verdict("good", "good on the classes that were scored");
    f.trained = NULL; /* whoever chose what to score left it out */
    look(&f);
    assert_int_equal(review->findings, 0);
    check_verdict("good", "good");
    f.trained = trained;
    memset(confusion, 0, sizeof confusion);
    fill(confusion, 12, 7, 20, 0);
    look(&f);
    check_only("classes_not_scored",
               "5 of 12 classes were not scored, because none of their images was held out: 'c7', 'c8', "
               "'c9', 'c10', 'c11'");
    memset(confusion, 0, sizeof confusion);
    fill(confusion, 12, 5, 20, 0);
    look(&f);
    check_only("classes_not_scored",
               "7 of 12 classes were not scored, because none of their images was held out: 'c5', 'c6', "
               "'c7', 'c8', 'c9' and 2 more");
    assert_int_equal(review->finding[0]->label_count, 7);
    assert_int_equal(review->finding[0]->labels[6], 11);
}

/* Only what the lesson taught could be held out. */
static void a_lesson_scores_its_own_classes(void **state)
{
    (void)state;
    rc_review_facts f = facts_of(10);
    f.known = 7;
    f.trained = trained;
    trained[7] = trained[8] = trained[9] = 10;
    confusion[7 * 10 + 7] = confusion[8 * 10 + 8] = confusion[9 * 10 + 9] = 20;
    look(&f);
    assert_int_equal(review->findings, 0);
    check_verdict("new_classes_good", "good on the new classes; the old ones were not scored");
    confusion[9 * 10 + 9] = 0;
    look(&f);
    check_only("classes_not_scored", "1 of 3 classes was not scored, because none of their images was held out: 'c9'");
    check_verdict("new_classes_good", "good on the new classes that were scored; the old ones were not");
    confusion[8 * 10 + 8] = 0;
    look(&f);
    check_only("classes_not_scored",
               "2 of 3 classes were not scored, because none of their images was held out: 'c8', 'c9'");
    confusion[7 * 10 + 7] = 0;
    look(&f);
    check_only("nothing_scored", "no image was held out, so nothing says how good the model is");
    check_verdict("too_few", "too few images to tell");
    f.confusion = NULL;
    look(&f);
    check_only("nothing_scored", NULL);
}

/* Eleven classes are all right. The twelfth has `right` of `images`. */
static void fill_weak_class(int right, int images)
{
    memset(confusion, 0, sizeof confusion);
    fill(confusion, 12, 11, 30, 0);
    confusion[11 * 12 + 11] = right;
    for (int i = right; i < images; i++)
        confusion[11 * 12 + i % 11]++;
}

static void classes_that_are_never_right_are_named(void **state)
{
    (void)state;
    rc_review_facts f = facts_of(12);
    static const struct {
        int right, images;
        bool named;
    } cases[] = {{0, 4, false},  {0, 5, true},  {1, 9, false}, {1, 10, true},
                 {2, 19, false}, {2, 20, true}, {3, 20, false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        fill_weak_class(cases[i].right, cases[i].images);
        look(&f);
        assert_int_equal(review->findings, cases[i].named);
        assert_string_equal(review->verdict, "good");
    }
    fill_weak_class(1, 10);
    look(&f);
    check_only("classes_never_right", "the model almost never recognises 'c11' (1 of 10 images)");
    assert_int_equal(review->finding[0]->labels[0], 11);
}

/* The old test counts, too, and with the held-out images of a known class. */
static void old_images_count_for_classes(void **state)
{
    (void)state;
    rc_review_facts f = facts_of(12);
    fill(confusion, 12, 12, 30, 0);
    fill(old_confusion, 12, 4, 30, 0);
    confusion[0] = 0;
    confusion[5] = 3;
    old_confusion[0] = 0;
    old_confusion[6] = 2;
    f.known = 4;
    f.old_confusion = old_confusion;
    look(&f);
    check_only("classes_never_right", "the model almost never recognises 'c0' (0 of 5 images)");
    check_verdict("good", "good");
    f.known = 0; /* then no row of it is of an old class */
    look(&f);
    assert_int_equal(review->findings, 0);
    f.known = 4;
    old_confusion[6] = 1;
    look(&f);
    assert_int_equal(review->findings, 0);
}

/* ---- look-alikes ------------------------------------------------------------------------------------------------ */

/* c0 and c1 are taken for each other `there` and `back` times, of `images` images of both; c2 is always right. */
static void fill_pair(int there, int back, int images)
{
    memset(confusion, 0, sizeof confusion);
    confusion[0] = images / 2 - there;
    confusion[1] = there;
    confusion[3] = back;
    confusion[4] = images - images / 2 - back;
    confusion[8] = 60;
}

static void look_alikes_are_named(void **state)
{
    (void)state;
    rc_review_facts f = facts_of(3);
    static const struct {
        int there, back, images;
        bool named;
    } cases[] = {{3, 2, 25, true},  {5, 0, 25, true}, {0, 5, 25, true}, {3, 2, 26, false},
                 {2, 2, 12, false}, {3, 2, 12, true}, {8, 2, 50, true}, {8, 2, 51, false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        fill_pair(cases[i].there, cases[i].back, cases[i].images);
        look(&f);
        if (review->findings != cases[i].named)
            fail_msg("case %zu: %d findings", i, review->findings);
    }
    fill_pair(8, 2, 50);
    look(&f);
    check_only("look_alikes", "the model takes 'c0' and 'c1' for each other (10 of 50 images)");
    assert_int_equal(review->finding[0]->label_count, 2);
    assert_int_equal(review->finding[0]->labels[0], 0);
    assert_int_equal(review->finding[0]->labels[1], 1);
}

static void two_classes_are_no_look_alikes(void **state)
{
    (void)state;
    rc_review_facts f = facts_of(2);
    confusion[0] = confusion[3] = 75;
    confusion[1] = confusion[2] = 25;
    look(&f);
    assert_int_equal(review->findings, 0);
    confusion[0]--; /* and 75 % is half of the way */
    confusion[1]++;
    look(&f);
    check_only("weak", NULL);
}

/* Six pairs: c0 c1, c2 c3, ...; the last one is confused most, the others equally. */
static void many_look_alikes_are_counted(void **state)
{
    (void)state;
    rc_review_facts f = facts_of(12);
    fill(confusion, 12, 12, 30, 0);
    for (int i = 0; i < 12; i += 2)
        confusion[i * 12 + i + 1] = i == 10 ? 21 : 20;
    look(&f);
    check_only(
        "look_alikes",
        "the model takes 'c10' and 'c11' for each other (21 of 81 images), 'c0' and 'c1' (20 of 80 images), "
        "'c2' and 'c3' (20 of 80 images), 'c4' and 'c5' (20 of 80 images), 'c6' and 'c7' (20 of 80 images) and 1 "
        "more pairs");
    const recollect_finding *finding = review->finding[0];
    assert_int_equal(finding->label_count, 12);
    assert_true(finding->labels[0] == 10 && finding->labels[1] == 11 && finding->labels[10] == 8);
}

/* ---- images ----------------------------------------------------------------------------------------------------- */

static void imbalance_is_named(void **state)
{
    (void)state;
    rc_review_facts f = facts_of(4);
    fill(confusion, 4, 4, 30, 0);
    f.trained = trained;
    trained[0] = 30;
    trained[1] = 90;
    trained[2] = 31;
    trained[3] = 90;
    look(&f);
    assert_int_equal(review->findings, 0);
    trained[0] = 29;
    look(&f);
    check_only("imbalance", "1 class has less than a third of the 90 images of 'c1': 'c0' (29)");
    assert_int_equal(review->finding[0]->labels[0], 0);
    trained[1] = 94;
    look(&f);
    check_only("imbalance", "2 classes have less than a third of the 94 images of 'c1': 'c0' (29), 'c2' (31)");
    f.known = 1; /* a few images of a class of an earlier lesson are welcome */
    look(&f);
    check_only("imbalance", "1 class has less than a third of the 94 images of 'c1': 'c2' (31)");
    f.known = 0;
    trained[0] = trained[2] = 0; /* of an earlier lesson */
    look(&f);
    assert_int_equal(review->findings, 0);
}

static void twins_are_counted(void **state)
{
    (void)state;
    rc_review_facts f = facts_of(4);
    fill(confusion, 4, 4, 30, 0);
    f.divided = 6;
    f.divided_labels[0] = 3;
    f.divided_labels[1] = 1;
    look(&f);
    check_only("same_images",
               "6 images lie in two classes or more, such as 'c3' and 'c1', which no model can tell apart by them");
    assert_true(review->finding[0]->label_count == 2 && review->finding[0]->labels[0] == 3 &&
                review->finding[0]->labels[1] == 1);
    f.divided = 0;
    f.held_out = 120;
    look(&f);
    assert_int_equal(review->findings, 0);
    f.seen = 1;
    look(&f);
    check_only("held_out_seen", "1 of 120 held-out images was trained on, too, as another file with the same picture: "
                                "the accuracy flatters");
    f.seen = 7;
    look(&f);
    check_only("held_out_seen", "7 of 120 held-out images were trained on, too, as another file with the same picture: "
                                "the accuracy flatters");
}

static void what_was_left_out_is_named(void **state)
{
    (void)state;
    static const char *const unknown[7] = {"a", "b", "c", "d", "e", "f", "g"};
    rc_review_facts f = facts_of(4);
    fill(confusion, 4, 4, 30, 0);
    f.broken = 1;
    look(&f);
    check_only("broken_images", "1 image could not be read and was left out");
    f.broken = 2;
    look(&f);
    check_only("broken_images", "2 images could not be read and were left out");
    f.broken = 0;
    f.left_out = 1;
    look(&f);
    check_only("left_out", "1 file, folder or link of the data was not read");
    f.left_out = 3;
    look(&f);
    check_only("left_out", "3 files, folders or links of the data were not read");
    f.left_out = 0;
    f.unknown = unknown;
    f.unknown_images = 9;
    f.unknown_classes = 7;
    look(&f);
    check_only("unknown_classes", "9 images were left out, because the model does not know their classes: 'a', 'b', "
                                  "'c', 'd', 'e' and 2 more");
    check_verdict("good", "good");
    f.unknown_images = f.unknown_classes = 1;
    look(&f);
    check_only("unknown_classes", "1 image was left out, because the model does not know their classes: 'a'");
    f.unknown = (const char *const[]){"C 3 "};
    snprintf(name_room[2], sizeof name_room[2], "c_3");
    look(&f);
    check_only("unknown_classes",
               "1 image was left out, because the model does not know their classes: 'C 3 ' (it knows 'c_3')");
}

static void names_sound_alike(void **state)
{
    (void)state;
    static const char *const alike[][2] = {{"lotus", "LOTUS"},
                                           {"ice bear", "Ice_Bear"},
                                           {"ice-bear", "ice bear"},
                                           {"cat", " cat-"},
                                           {"cat", "cat_"},
                                           {"cat ", "_cat"},
                                           {"K\u00fche", "Ku\u0308he"},
                                           {"K\u00fche", "kuhe"},
                                           {"a\u00a0b", "a b"},
                                           {"\u732b\u732b", "\u732b\u732b"},
                                           {"cat", "cat \u0308"},
                                           {"cat\xff", "CAT\xff"}};
    static const char *const other[][2] = {{"cat", "cats"},
                                           {"icebear", "ice bear"},
                                           {"a  b", "a b"},
                                           {"a", "A"},
                                           {"-a", "A-"},
                                           {"\u00e4", "\u00c4"},
                                           {"", ""},
                                           {"_", "-"},
                                           {"\u732b\u732b", "\u72ac\u72ac"},
                                           {"cat\xff", "cat\u00ff"},
                                           {"cat", "cat\xc3"}};
    for (size_t i = 0; i < sizeof alike / sizeof *alike; i++)
        for (int k = 0; k < 2; k++)
            if (!rc_alike(alike[i][k], alike[i][1 - k]))
                fail_msg("'%s' and '%s' are not alike", alike[i][k], alike[i][1 - k]);
    for (size_t i = 0; i < sizeof other / sizeof *other; i++)
        for (int k = 0; k < 2; k++)
            if (rc_alike(other[i][k], other[i][1 - k]))
                fail_msg("'%s' and '%s' are alike", other[i][k], other[i][1 - k]);
    /* An order, in which they are neighbours. */
    static const char *const sorted[] = {"", "a", "A b", "aB", "b", "\u732b"};
    for (int i = 0; i < 6; i++)
        for (int k = 0; k < 6; k++)
            assert_int_equal(rc_alike_compare(sorted[i], sorted[k]), (i > k) - (i < k));
}

/* A folder whose name was written in another way teaches a class of its own. */
static void similar_names_are_told(void **state)
{
    (void)state;
    rc_review_facts f = facts_of(5);
    fill(confusion, 5, 5, 30, 0);
    for (int i = 0; i < 5; i++)
        trained[i] = 30;
    static const char *const names_in[] = {"lotus", "ice bear", "A", "Ice_Bear", "a"};
    for (int i = 0; i < 5; i++)
        snprintf(name_room[i], sizeof name_room[i], "%s", names_in[i]);
    look(&f); /* not a lesson */
    assert_int_equal(review->findings, 0);
    f.trained = trained;
    look(&f);
    check_only("similar_names", "'ice bear' and 'Ice_Bear' are different classes, although their names differ in "
                                "capitals, accents or blanks alone");
    assert_int_equal(review->finding[0]->label_count, 2);
    assert_true(review->finding[0]->labels[0] == 1 && review->finding[0]->labels[1] == 3);
    f.known = 3; /* one is new */
    trained[0] = trained[1] = trained[2] = 0;
    look(&f);
    check_only("similar_names", NULL);
    f.known = 4; /* an earlier lesson has taught both */
    trained[3] = 0;
    look(&f);
    assert_int_equal(review->findings, 0);
    /* A third one joins them. */
    snprintf(name_room[4], sizeof name_room[4], "-ICE-BEAR ");
    look(&f);
    check_only("similar_names", "'Ice_Bear' and '-ICE-BEAR ' are different classes, although their names differ in "
                                "capitals, accents or blanks alone");
    snprintf(name_room[4], sizeof name_room[4], "icebear");
    look(&f);
    assert_int_equal(review->findings, 0);
    for (int i = 0; i < 12; i++) { /* six pairs */
        snprintf(name_room[i], sizeof name_room[i], i % 2 ? "C%d" : "c%d", i / 2 + 10);
        trained[i] = 30;
    }
    memset(confusion, 0, sizeof confusion);
    f = facts_of(12);
    fill(confusion, 12, 12, 30, 0);
    f.trained = trained;
    look(&f);
    check_only("similar_names",
               "'c10' and 'C10', 'c11' and 'C11', 'c12' and 'C12', 'c13' and 'C13', 'c14' and 'C14' and "
               "1 more pairs are different classes, although their names differ in capitals, accents or "
               "blanks alone");
    assert_int_equal(review->finding[0]->label_count, 12);
}

/* ---- old classes ------------------------------------------------------------------------------------------------ */

/* A lesson of c10 after ten others, all right: the old test has `images` images. */
static rc_review_facts lesson(int images)
{
    memset(old_confusion, 0, sizeof old_confusion);
    rc_review_facts f = facts_of(11);
    f.known = 10;
    f.trained = trained;
    trained[10] = 300;
    confusion[10 * 11 + 10] = 30;
    for (int i = 0; i < images; i++)
        old_confusion[i % 10 * 11 + i % 10]++;
    f.old_confusion = old_confusion;
    return f;
}

static void old_classes_suffer_beyond_chance(void **state)
{
    (void)state;
    static const struct {
        int images, lost, gained;
        bool suffered;
    } cases[] = {{180, 13, 4, true},   /* 5.0 points; a coin does that with 0.0245 */
                 {181, 13, 4, false},  /* 4.97 points */
                 {180, 22, 10, false}, /* 6.7 points, but 0.02505 */
                 {180, 23, 10, true},  /* 0.0175 */
                 {60, 6, 0, true},     /* 0.0156 */
                 {60, 5, 0, false},    /* 0.031, 8.3 points */
                 {60, 0, 6, false},    {60, 0, 0, false}, {1000, 45, 0, false}, /* sure, but 4.5 points */
                 {1000, 50, 0, true}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        rc_review_facts f = lesson(cases[i].images);
        f.old_lost = cases[i].lost;
        f.old_gained = cases[i].gained;
        look(&f);
        if (review->findings != cases[i].suffered)
            fail_msg("case %zu: %d findings", i, review->findings);
        check_verdict(cases[i].suffered ? "old_classes_suffered" : "good",
                      cases[i].suffered ? "old classes suffered" : "good");
    }
    rc_review_facts f = lesson(60);
    f.old_lost = 9;
    f.old_gained = 1;
    look(&f);
    check_only("old_classes_suffered",
               "old classes lost more than chance explains: of 60 images 9 were right before the lesson and are wrong "
               "now, and 1 the other way round");
}

static void old_accuracies_are_judged(void **state)
{
    (void)state;
    rc_review_facts f = lesson(10);
    old_confusion[0]--;
    old_confusion[5]++; /* 9 of 10: 59.6 to 98.2 % */
    look(&f);
    check_only("old_too_few", "the accuracy on old classes says little, because only 10 images were scored: it may be "
                              "anything from 60 to 98 %");
    check_verdict("too_few", "too few images of old classes to tell");
    memset(old_confusion, 0, sizeof old_confusion);
    fill(old_confusion, 11, 10, 10, 10);
    look(&f);
    check_only("old_weak",
               "the accuracy on old classes is 50.0 %, which is nearer to guessing (9.1 %) than to always right");
    check_verdict("weak", "weak on the old classes");
    memset(old_confusion, 0, sizeof old_confusion);
    fill(old_confusion, 11, 10, 3, 27);
    look(&f);
    check_only("old_near_chance", NULL);
    check_verdict("near_chance", "no better than guessing on the old classes");
    /* A row beyond the old classes is none of the old test. */
    f = lesson(100);
    old_confusion[10 * 11] = 100;
    look(&f);
    assert_int_equal(review->findings, 0);
}

/* ---- verdicts --------------------------------------------------------------------------------------------------- */

/* The worse one wins, and is the first finding. */
static void the_worst_is_the_verdict(void **state)
{
    (void)state;
    rc_review_facts f = lesson(60);
    f.old_lost = 9;
    confusion[10 * 11 + 10] = 0;
    confusion[10 * 11] = 30; /* the new class is never right: below chance */
    look(&f);
    assert_int_equal(review->findings, 2);
    check_verdict("old_classes_suffered", "old classes suffered");
    assert_string_equal(review->finding[0]->code, "old_classes_suffered");
    assert_non_null(find("near_chance"));
    f = lesson(10);
    old_confusion[0]--;
    old_confusion[5]++;
    confusion[10 * 11 + 10] = 0;
    confusion[10 * 11] = 40;
    look(&f);
    assert_true(find("near_chance") != NULL && find("old_too_few") != NULL);
    check_verdict("near_chance", "no better than guessing");
    memset(confusion, 0, sizeof confusion);
    f = lesson(10);
    old_confusion[0]--;
    old_confusion[5]++;
    confusion[10 * 11 + 10] = 40;
    for (int i = 0; i < 10; i++)
        confusion[10 * 11 + i] = 4;
    confusion[10 * 11] = 5;
    look(&f);
    assert_true(find("weak") != NULL && find("old_too_few") != NULL && find("near_chance") == NULL);
    check_verdict("too_few", "too few images of old classes to tell");
}

/* ---- texts, JSON, memory ---------------------------------------------------------------------------------------- */

/* Names of 600 bytes: the text is cut between characters, and says so. */
static void long_names_are_cut(void **state)
{
    (void)state;
    static char umlauts[601];
    rc_review_facts f = facts_of(12);
    for (int i = 0; i < 600; i += 2)
        memcpy(umlauts + i, "\xc3\xbc", 2);
    f.trained = trained;
    for (int i = 0; i < 12; i++) {
        names[i] = umlauts;
        trained[i] = 10;
    }
    fill(confusion, 12, 2, 40, 0);
    look(&f);
    const char *text = review->finding[0]->text;
    size_t length = strlen(text);
    assert_in_range(length, 2000, 2047);
    assert_string_equal(text + length - 3, "...");
    for (size_t i = 0, bytes; i < length; i += bytes)
        assert_true((bytes = rc_utf8_length(text + i, length - i)) > 0);
}

static const char *advise(void *user, const recollect_finding *finding)
{
    *(int *)user += 1;
    return strcmp(finding->code, "broken_images") == 0 ? "mend \"it\"" : NULL;
}

static void json_has_it_all(void **state)
{
    (void)state;
    rc_review_facts f = facts_of(3);
    int asked = 0;
    char *text;
    rc_json_writer w = {0};
    fill(confusion, 3, 2, 40, 0);
    f.trained = trained;
    trained[0] = trained[1] = trained[2] = 10;
    f.broken = 3;
    look(&f);
    rc_json_begin_object(&w, NULL);
    rc_review_put(&w, review, names, advise, &asked);
    rc_json_end(&w);
    SUCCEEDS(rc_json_finish(&w, &text, NULL));
    assert_string_equal(text,
                        "{\"verdict\":\"good\",\"verdict_text\":\"good on the classes that were scored\",\"warnings\":["
                        "{\"code\":\"classes_not_scored\",\"text\":\"1 of 3 classes was not scored, because none of "
                        "their images was held out: 'c2'\",\"classes\":[\"c2\"],\"command\":null},"
                        "{\"code\":\"broken_images\",\"text\":\"3 images could not be read and were left out\","
                        "\"classes\":[],\"command\":\"mend \\\"it\\\"\"}]}");
    assert_int_equal(asked, 2);
    rc_free(NULL, text);
    memset(&w, 0, sizeof w);
    rc_json_begin_object(&w, NULL);
    rc_review_put(&w, NULL, NULL, NULL, NULL);
    rc_interval_put(&w, "all", 100, 1);
    rc_interval_put(&w, "none", 100, 0);
    rc_json_end(&w);
    SUCCEEDS(rc_json_finish(&w, &text, NULL));
    static const char begin[] = "{\"verdict\":null,\"verdict_text\":null,\"warnings\":null,\"all\":[20.65493143772";
    assert_memory_equal(text, begin, sizeof begin - 1);
    assert_non_null(strstr(text, ",100.0],\"none\":null}"));
    rc_free(NULL, text);
}

static void no_memory_leaves_nothing(void **state)
{
    (void)state;
    rc_review_facts f = facts_of(6);
    f.trained = trained;
    for (int i = 0; i < 6; i++)
        trained[i] = i == 0 ? 100 : 10;
    fill(confusion, 6, 5, 100, 0);
    confusion[1 * 6 + 1] = 0;
    confusion[1 * 6 + 2] = 100;
    snprintf(name_room[4], sizeof name_room[4], "C0");
    rc_review_destroy(&review);
    int nth = 0;
    for (bool fails = true; fails; nth++) {
        allocation_to_fail = nth + 1;
        rc_status status = rc_review_create(&f, &review);
        fails = allocation_failed();
        assert_int_equal(status, fails ? RC_OUT_OF_MEMORY : RC_OK);
        assert_true(!fails || (review == NULL && rc_bytes_allocated() == 0));
    }
    assert_int_equal(nth, 10); /* the review, counts, five lists of labels, the pairs, the names, and none */
    assert_int_equal(review->findings, 5);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(good_has_no_warning),
        TEST(weak_depends_on_the_classes),
        TEST(few_images_do_not_tell),
        TEST(chance_is_inside_the_interval_or_above),
        TEST(few_images_can_be_below_chance),
        TEST(classes_without_images_are_named),
        TEST(a_lesson_scores_its_own_classes),
        TEST(classes_that_are_never_right_are_named),
        TEST(old_images_count_for_classes),
        TEST(look_alikes_are_named),
        TEST(two_classes_are_no_look_alikes),
        TEST(many_look_alikes_are_counted),
        TEST(imbalance_is_named),
        TEST(names_sound_alike),
        TEST(similar_names_are_told),
        TEST(twins_are_counted),
        TEST(what_was_left_out_is_named),
        TEST(old_classes_suffer_beyond_chance),
        TEST(old_accuracies_are_judged),
        TEST(the_worst_is_the_verdict),
        TEST(long_names_are_cut),
        TEST(json_has_it_all),
        TEST(no_memory_leaves_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
