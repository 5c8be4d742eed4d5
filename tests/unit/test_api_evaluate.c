/* The public interface: evaluating, from memory and from files. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/memory.h"
#include "support/api_checks.h"
#include "support/api_data.h"

enum { JSON_SIZE = 8000 };
enum { FIRST = 5, CLASSES = 6, PER_CLASS = 20, IMAGES = CLASSES * PER_CLASS };

static char folder[] = "/tmp/recollect-test-XXXXXX";
static api_data data;
static recollect_context *context;
static recollect_model *model;
static int cancel;

static int on_question(void *user)
{
    (void)user;
    return cancel;
}

/* A model that knows five patterns and learnt a sixth, of which the first is seen least well. */
static int set_up(void **state)
{
    (void)state;
    api_data first, second;
    recollect_settings settings;
    if (mkdtemp(folder) == NULL || chdir(folder) != 0)
        return -1;
    recollect_settings_default(&settings, sizeof settings);
    settings.threads = 1;
    settings.cancelled = on_question;
    SUCCEEDS(recollect_context_create(&settings, &context));
    SUCCEEDS(recollect_model_create(context, &model));
    api_set_quick(model, 12);
    SUCCEEDS(recollect_model_set(model, "test_mirror", "true")); /* predictions and evaluations agree on this, too */
    SUCCEEDS(recollect_model_set(model, "test_shift", "1"));
    api_data_make(&first, 0, FIRST, 12, 1);
    api_data_make(&second, FIRST, 1, 12, 2);
    api_data_make(&data, 0, CLASSES, PER_CLASS, 3);
    SUCCEEDS(recollect_learn(model, &first.images, first.labels, first.names, FIRST, NULL));
    SUCCEEDS(recollect_learn(model, &second.images, second.labels, second.names, 1, NULL));
    api_data_free(&first);
    api_data_free(&second);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    recollect_model_destroy(&model);
    recollect_context_destroy(&context);
    api_data_free(&data);
    return chdir("/") == 0 && rmdir(folder) == 0 && rc_bytes_allocated() == 0 ? 0 : -1;
}

static double percent(int part, int all)
{
    return all > 0 ? 100.0 * part / all : NAN;
}

/* Against what recollect_predict says, one by one. The labels are made up, so that every kind of mistake is there. */
static void evaluation_counts_predictions(void **state)
{
    (void)state;
    static int32_t said[IMAGES * CLASSES], labels[IMAGES];
    int confusion[CLASSES][CLASSES] = {{0}}, images[CLASSES] = {0}, top5[CLASSES] = {0}, right = 0, all5 = 0;
    recollect_evaluation *e;
    SUCCEEDS(recollect_predict(model, &data.images, CLASSES, said, NULL, NULL));
    for (int i = 0; i < IMAGES; i++) {
        labels[i] = (i + i / 7) % CLASSES;
        images[labels[i]]++;
        confusion[labels[i]][said[i * CLASSES]]++;
        top5[labels[i]] += said[i * CLASSES + 5] != labels[i];
    }
    SUCCEEDS(recollect_evaluate(model, &data.images, labels, &e));
    assert_int_equal(e->size, sizeof *e);
    assert_true(e->images == IMAGES && e->classes == CLASSES && e->tasks == 2);
    assert_true(e->broken == 0 && e->unknown_images == 0 && e->unknown_classes == 0);
    for (int k = 0; k < CLASSES; k++) {
        for (int j = 0; j < CLASSES; j++)
            assert_int_equal(e->confusion[k * CLASSES + j], confusion[k][j]);
        assert_int_equal(e->class_images[k], images[k]);
        assert_true(e->class_accuracy[k] == percent(confusion[k][k], images[k]));
        assert_true(e->class_top5[k] == percent(top5[k], images[k]));
        right += confusion[k][k];
        all5 += top5[k];
    }
    print_message("%d of %d right, %d among five\n", right, IMAGES, all5);
    assert_true(right > 0 && all5 > right && all5 < IMAGES); /* or this test says little */
    assert_true(e->accuracy == percent(right, IMAGES) && e->top5 == percent(all5, IMAGES));
    assert_true(e->task_images[0] == IMAGES - images[FIRST] && e->task_images[1] == images[FIRST]);
    assert_true(e->task_accuracy[0] == percent(right - confusion[FIRST][FIRST], e->task_images[0]));
    assert_true(e->task_accuracy[1] == e->class_accuracy[FIRST]);
    recollect_evaluation_destroy(&e);
    assert_null(e);
}

/* Each pixel four times, in colour. */
static void images_of_any_size_are_resized(void **state)
{
    (void)state;
    enum { SIDE = 2 * API_SIZE };
    uint8_t *large = malloc((size_t)IMAGES * SIDE * SIDE * 3);
    static int32_t said[IMAGES];
    recollect_predictor *predictor;
    recollect_evaluation *e;
    assert_non_null(large);
    for (int i = 0; i < IMAGES * SIDE * SIDE * 3; i++) {
        int image = i / (SIDE * SIDE * 3), pixel = i / 3 % (SIDE * SIDE);
        large[i] = data.pixels[image * API_IMAGE + pixel / SIDE / 2 * API_SIZE + pixel % SIDE / 2];
    }
    recollect_images images = {large, IMAGES, SIDE, SIDE, 3};
    recollect_outputs outputs = {.size = sizeof outputs, .top = 1, .labels = said};
    SUCCEEDS(recollect_predictor_create(model, 1, &predictor));
    SUCCEEDS(recollect_predictor_images(predictor, &images, &outputs));
    SUCCEEDS(recollect_evaluate(model, &images, data.labels, &e));
    int right = 0;
    for (int i = 0; i < IMAGES; i++)
        right += said[i] == data.labels[i];
    assert_true(e->images == IMAGES && e->accuracy == percent(right, IMAGES));
    recollect_evaluation_destroy(&e);
    recollect_predictor_destroy(&predictor);
    free(large);
}

/* ---- files ----------------------------------------------------------------------------------------------------- */

static void write_image(const char *path, int image)
{
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_true(fprintf(file, "P5 %d %d 255\n", API_SIZE, API_SIZE) > 0);
    assert_int_equal(fwrite(data.pixels + image * API_IMAGE, 1, API_IMAGE, file), API_IMAGE);
    assert_int_equal(fclose(file), 0);
}

/* all/rows, all/disc and all/stranger with two images each; all/disc also has one that is none. */
static const char *const classes[3] = {"all/rows", "all/disc", "all/stranger"};

static void make_folder(void)
{
    char path[64];
    assert_int_equal(mkdir("all", 0700), 0);
    for (int k = 0; k < 3; k++) {
        assert_int_equal(mkdir(classes[k], 0700), 0);
        for (int i = 0; i < 2; i++) {
            snprintf(path, sizeof path, "%s/%d.pgm", classes[k], i);
            write_image(path, (k == 1 ? 4 : 0) + CLASSES * i);
        }
    }
    FILE *file = fopen("all/disc/broken.png", "wb");
    assert_non_null(file);
    assert_true(fputs("no picture", file) >= 0 && fclose(file) == 0);
}

static void remove_folder(void)
{
    char path[64];
    assert_int_equal(remove("all/disc/broken.png"), 0);
    for (int k = 0; k < 3; k++) {
        for (int i = 0; i < 2; i++) {
            snprintf(path, sizeof path, "%s/%d.pgm", classes[k], i);
            remove(path);
        }
        rmdir(classes[k]);
    }
    assert_int_equal(rmdir("all"), 0);
}

static void keep_line(void *user, const char *text)
{
    snprintf(user, JSON_SIZE, "%s", text);
}

static void folders_are_scored_by_name(void **state)
{
    (void)state;
    char json[JSON_SIZE];
    recollect_evaluation *e;
    make_folder();
    assert_int_equal(recollect_evaluate_folder(model, "all", &e), RECOLLECT_FORMAT);
    assert_null(e);
    assert_non_null(strstr(recollect_last_message(), "all/disc/broken.png"));
    SUCCEEDS(recollect_model_set(model, "skip_broken", "true"));
    SUCCEEDS(recollect_evaluate_folder(model, "all", &e));
    assert_true(e->images == 4 && e->broken == 1 && e->unknown_images == 2 && e->unknown_classes == 1);
    assert_true(e->left_out == 0 && e->not_pictures == 0);
    assert_string_equal(e->unknown[0], "stranger");
    assert_true(e->class_images[0] == 2 && e->class_images[4] == 2 && e->class_images[1] == 0);
    assert_true(isnan(e->class_accuracy[1]) && isnan(e->class_top5[1]) && isnan(e->task_accuracy[1]));
    SUCCEEDS(recollect_describe_evaluation(model, e, NULL, keep_line, json));
    /* Four images of two classes, one that is none, two of a stranger: in this order. */
    static const char *const codes[] = {"too_few", "broken_images", "unknown_classes"};
    assert_true(e->review->findings == 3 && strcmp(e->review->verdict, "too_few") == 0);
    for (int i = 0; i < 3; i++)
        assert_string_equal(e->review->finding[i]->code, codes[i]);
    assert_int_equal(strncmp(json, "{\"verdict\":\"too_few\",", 21), 0);
    assert_non_null(strstr(json, ",\"images\":4,\"broken_images\":1,\"unknown_images\":2,\"unknown_classes\":["
                                 "\"stranger\"],\"left_out\":0,"));
    assert_non_null(strstr(json, "\"classes\":[{\"class\":\"rows\",\"images\":2,"));
    recollect_evaluation_destroy(&e);
    FILE *notes = fopen("all/rows/notes.txt", "w");
    assert_true(notes != NULL && fclose(notes) == 0 && symlink("..", "all/rows/up") == 0);
    assert_int_equal(symlink(".", "all/disc/round"), 0);
    SUCCEEDS(recollect_evaluate_folder(model, "all", &e));
    assert_true(e->images == 4 && e->left_out == 2 && e->not_pictures == 1);
    assert_int_equal(e->review->findings, 4); /* what is left out is one more */
    assert_string_equal(e->review->finding[1]->code, "left_out");
    assert_string_equal(e->review->finding[1]->text, "2 files, folders or links of the data were not read");
    SUCCEEDS(recollect_describe_evaluation(model, e, NULL, keep_line, json));
    assert_non_null(strstr(json, ",\"left_out\":2,\"not_pictures\":1,\"accuracy\":"));
    recollect_evaluation_destroy(&e);
    assert_true(remove("all/rows/notes.txt") == 0 && remove("all/rows/up") == 0 && remove("all/disc/round") == 0);
    SUCCEEDS(recollect_model_set(model, "format", "idx"));
    assert_true(recollect_evaluate_folder(model, "all", &e) != RECOLLECT_OK); /* the option holds */
    SUCCEEDS(recollect_model_set(model, "format", ""));
    REFUSED(recollect_evaluate_folder(model, "procedural:3", &e),
            "procedural:3 has no image of a class that the model knows: rows, columns, checks, diagonals, disc, frame; "
            "its classes are disc-plain, square-plain, triangle-plain");
    REFUSED(recollect_evaluate_folder(model, "procedural:60", &e), ", hourglass-striped, crescent-strip...");
    cancel = 1;
    assert_int_equal(recollect_evaluate_folder(model, "all", &e), RECOLLECT_CANCELLED);
    cancel = 0;
    assert_null(e);
    SUCCEEDS(recollect_model_set(model, "skip_broken", "false"));
    remove_folder();
}

/* Images of another size are resized before they are scored, which takes long where there are many. */
static void resizing_can_be_cancelled(void **state)
{
    (void)state;
    static uint8_t pixels[4 * 30 * 30];
    const recollect_images large = {pixels, 4, 30, 30, 1};
    recollect_evaluation *e;
    cancel = 1;
    assert_int_equal(recollect_evaluate(model, &large, data.labels, &e), RECOLLECT_CANCELLED);
    cancel = 0;
    assert_string_equal(recollect_last_message(), "stopped after 0 of 4 images were resized");
    assert_null(e);
    SUCCEEDS(recollect_evaluate(model, &large, data.labels, &e));
    recollect_evaluation_destroy(&e);
}

/* ---- arguments ------------------------------------------------------------------------------------------------- */

static void evaluating_is_checked(void **state)
{
    (void)state;
    recollect_evaluation *e = (recollect_evaluation *)(void *)&data;
    recollect_model *empty;
    recollect_images odd = data.images;
    int32_t wrong[IMAGES];
    SUCCEEDS(recollect_model_create(context, &empty));
    REFUSED(recollect_evaluate(model, &data.images, data.labels, NULL), "evaluation is NULL");
    REFUSED(recollect_evaluate(NULL, &data.images, data.labels, &e), "model is NULL");
    assert_null(e);
    REFUSED(recollect_evaluate(empty, &data.images, data.labels, &e), "knows nothing yet");
    REFUSED(recollect_evaluate(model, NULL, data.labels, &e), "images is NULL");
    REFUSED(recollect_evaluate(model, &data.images, NULL, &e), "labels is NULL");
    odd.channels = 4;
    REFUSED(recollect_evaluate(model, &odd, data.labels, &e), "4 channels");
    memcpy(wrong, data.labels, sizeof wrong);
    wrong[7] = CLASSES;
    REFUSED(recollect_evaluate(model, &data.images, wrong, &e), "label 7 is 6, expected one of the model's, 0 to 5");
    wrong[7] = -1;
    REFUSED(recollect_evaluate(model, &data.images, wrong, &e), "label 7 is -1");
    REFUSED(recollect_evaluate_folder(model, ".", NULL), "evaluation is NULL");
    REFUSED(recollect_evaluate_folder(NULL, ".", &e), "model is NULL");
    REFUSED(recollect_evaluate_folder(model, NULL, &e), "path is NULL");
    REFUSED(recollect_evaluate_folder(model, "", &e), "path is empty");
    REFUSED(recollect_evaluate_folder(empty, ".", &e), "knows nothing yet");
    assert_true(recollect_evaluate_folder(model, "nowhere", &e) != RECOLLECT_OK);
    assert_null(e);
    recollect_evaluation_destroy(&e);
    recollect_evaluation_destroy(NULL);
    SUCCEEDS(recollect_evaluate(model, &data.images, data.labels, &e));
    char json[JSON_SIZE];
    REFUSED(recollect_describe_evaluation(NULL, e, NULL, keep_line, json), "model is NULL");
    REFUSED(recollect_describe_evaluation(model, NULL, NULL, keep_line, json), "evaluation is NULL");
    REFUSED(recollect_describe_evaluation(model, e, NULL, NULL, json), "line is NULL");
    REFUSED(recollect_describe_evaluation(empty, e, NULL, keep_line, json), "of 6 classes, but the model knows 0");
    recollect_model_destroy(&empty);
    recollect_evaluation_destroy(&e);
}

/* It needs neither model nor context any more. */
static void an_evaluation_outlives_the_model(void **state)
{
    (void)state;
    recollect_context *c;
    recollect_model *m;
    recollect_evaluation *e;
    recollect_settings settings;
    api_data two;
    recollect_settings_default(&settings, sizeof settings);
    settings.threads = 1;
    SUCCEEDS(recollect_context_create(&settings, &c));
    SUCCEEDS(recollect_model_create(c, &m));
    api_set_quick(m, 2);
    api_data_make(&two, 0, 2, 8, 1);
    SUCCEEDS(recollect_learn(m, &two.images, two.labels, two.names, 2, NULL));
    SUCCEEDS(recollect_evaluate(m, &two.images, two.labels, &e));
    recollect_model_destroy(&m);
    recollect_context_destroy(&c);
    assert_int_equal(e->confusion[0] + e->confusion[1], 8);
    assert_int_equal(e->class_images[1], 8);
    recollect_evaluation_destroy(&e);
    api_data_free(&two);
}

static void intervals_are_told(void **state)
{
    (void)state;
    double low, high;
    assert_int_equal(recollect_accuracy_interval(50, 1000, &low, &high), 1);
    assert_true(fabs(low - 46.90696) < 1e-5 && fabs(high - 53.09304) < 1e-5);
    assert_int_equal(recollect_accuracy_interval(50, 10, &low, NULL), 0);
    assert_true(fabs(low - 23.65931) < 1e-5);
    assert_int_equal(recollect_accuracy_interval(100, 1000, NULL, &high), 1);
    assert_true(high == 100);
    assert_int_equal(recollect_accuracy_interval(50, 0, &low, &high), 0);
    assert_true(isnan(low) && isnan(high));
    assert_int_equal(recollect_accuracy_interval(NAN, 10, NULL, NULL), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(intervals_are_told),
        cmocka_unit_test(evaluation_counts_predictions),
        cmocka_unit_test(images_of_any_size_are_resized),
        cmocka_unit_test(folders_are_scored_by_name),
        cmocka_unit_test(resizing_can_be_cancelled),
        cmocka_unit_test(evaluating_is_checked),
        cmocka_unit_test(an_evaluation_outlives_the_model),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
