/* Predictors: several at once on one model give the same bits and share its weights; what they take, what they write,
 * what they refuse, and what happens to the model meanwhile. */
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "api/api.h"
#include "api/calibrate.h"
#include "base/memory.h"
#include "support/api_checks.h"
#include "support/api_data.h"

enum { CLASSES = 3, IMAGES = 150, FEATURES = 64 /* at most */, SIDE = 40 };

/* The call is refused as an invalid argument, with these words. */
static char folder[] = "/tmp/recollect-test-XXXXXX";
static api_data data, more;
static atomic_int logged, cancel;
static recollect_context *context;
static recollect_model *model;

typedef struct answers {
    int32_t labels[IMAGES * CLASSES], nearest[IMAGES];
    float probabilities[IMAGES * CLASSES], unfamiliarity[IMAGES], features[IMAGES * FEATURES];
    recollect_status status[IMAGES];
} answers;

static recollect_outputs all_of(answers *a)
{
    memset(a, 0x55, sizeof *a);
    return (recollect_outputs){.size = sizeof(recollect_outputs),
                               .top = CLASSES,
                               .labels = a->labels,
                               .probabilities = a->probabilities,
                               .unfamiliarity = a->unfamiliarity,
                               .nearest = a->nearest,
                               .features = a->features,
                               .status = a->status};
}

static void on_log(void *user, recollect_log_level level, const char *text)
{
    (void)user;
    if (level >= RECOLLECT_LOG_WARNING && strncmp(text, "picture 1: ", 11) == 0)
        logged++;
}

static int on_question(void *user)
{
    (void)user;
    return cancel;
}

static void make_model(recollect_context **c, recollect_model **m)
{
    recollect_settings settings;
    recollect_settings_default(&settings, sizeof settings);
    settings.threads = 1;
    settings.log = on_log;
    settings.cancelled = on_question;
    SUCCEEDS(recollect_context_create(&settings, c));
    SUCCEEDS(recollect_model_create(*c, m));
    api_set_quick(*m, 4);
}

static int set_up(void **state)
{
    (void)state;
    if (mkdtemp(folder) == NULL || chdir(folder) != 0)
        return -1;
    api_data_make(&data, 0, CLASSES, IMAGES / CLASSES, 1);
    api_data_make(&more, 3, 1, 8, 2);
    make_model(&context, &model);
    SUCCEEDS(recollect_learn(model, &data.images, data.labels, data.names, CLASSES, NULL));
    return recollect_model_features(model) <= FEATURES ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    recollect_model_destroy(&model);
    recollect_context_destroy(&context);
    api_data_free(&data);
    api_data_free(&more);
    size_t left = rc_bytes_allocated();
    if (left > 0)
        print_message("%zu bytes are left\n", left);
    return chdir("/") == 0 && rmdir(folder) == 0 && left == 0 ? 0 : -1;
}

static void create(int threads, recollect_predictor **predictor)
{
    SUCCEEDS(recollect_predictor_create(model, threads, predictor));
}

/* ---- bits ------------------------------------------------------------------------------------------------------ */

static answers expected;

static void expect(void)
{
    recollect_predictor *predictor;
    recollect_outputs outputs = all_of(&expected);
    create(1, &predictor);
    SUCCEEDS(recollect_predictor_images(predictor, &data.images, &outputs));
    recollect_predictor_destroy(&predictor);
    assert_null(predictor);
}

static void answers_are_those_of_the_model(void **state)
{
    (void)state;
    static int32_t labels[IMAGES * CLASSES];
    static float probabilities[IMAGES * CLASSES], unfamiliarity[IMAGES];
    expect();
    SUCCEEDS(recollect_predict(model, &data.images, CLASSES, labels, probabilities, unfamiliarity));
    assert_memory_equal(labels, expected.labels, sizeof labels);
    assert_memory_equal(probabilities, expected.probabilities, sizeof probabilities);
    assert_memory_equal(unfamiliarity, expected.unfamiliarity, sizeof unfamiliarity);
}

/* Whoever asks for means over both has one answer to an image and to its mirror image, and measures by it how strange
 * known classes look. */
static void mirror_images_have_the_same_answers(void **state)
{
    (void)state;
    static const int label[CLASSES] = {0, 1, 2};
    static answers a[2];
    for (int both = 0; both < 2; both++) {
        rc_calibration measured[2] = {{0}};
        rc_calibration before = model->saved.calibration;
        model->saved.config.test_mirror = both;
        for (int i = 0; i < 2; i++) {
            recollect_predictor *predictor;
            recollect_outputs outputs = all_of(&a[i]);
            rc_split held = {.images = data.pixels, .labels = data.labels, .count = IMAGES};
            const rc_held_out held_out = {.images = &held, .label = label};
            create(1, &predictor);
            SUCCEEDS(recollect_predictor_images(predictor, &data.images, &outputs));
            recollect_predictor_destroy(&predictor);
            model->saved.calibration = (rc_calibration){0};
            assert_int_equal(rc_calibrate(&model->saved, NULL, &held_out), RC_OK);
            measured[i] = model->saved.calibration;
            model->saved.calibration = before;
            api_data_mirror(&data);
        }
        const rc_calibrated_lesson *own = measured[0].lesson, *mirrored = measured[1].lesson;
        assert_true(own->scores == IMAGES && mirrored->scores == IMAGES);
        assert_int_equal(memcmp(&a[0], &a[1], sizeof a[0]) == 0, both);
        assert_int_equal(memcmp(own->score, mirrored->score, IMAGES * sizeof *own->score) == 0, both);
        rc_calibration_destroy(&measured[0]);
        rc_calibration_destroy(&measured[1]);
    }
    model->saved.config.test_mirror = false;
}

/* Moved images have a say in the answers. */
static void moved_images_count(void **state)
{
    (void)state;
    static answers a[2];
    for (int shift = 0; shift < 2; shift++) {
        recollect_predictor *predictor;
        recollect_outputs outputs = all_of(&a[shift]);
        model->saved.config.test_shift = shift;
        create(1, &predictor);
        SUCCEEDS(recollect_predictor_images(predictor, &data.images, &outputs));
        recollect_predictor_destroy(&predictor);
    }
    model->saved.config.test_shift = 0;
    assert_memory_not_equal(&a[0], &a[1], sizeof a[0]);
}

/* The head is linear: its logits, and so the probabilities, follow from the features. The nearest class of what a model
 * was trained on is mostly its own. */
static void features_and_nearest_class_are_right(void **state)
{
    (void)state;
    int d = recollect_model_features(model), near = 0;
    static float weight[CLASSES * FEATURES];
    rc_learner *l = &model->saved.learner;
    expect();
    assert_true(d > 0);
    l->backend->read_real(l->backend, weight, l->student.head.weight, (size_t)CLASSES * (size_t)d);
    for (int i = 0; i < IMAGES; i++) {
        double e[CLASSES], sum = 0;
        for (int k = 0; k < CLASSES; k++) {
            double logit = 0;
            for (int j = 0; j < d; j++)
                logit += (double)weight[k * d + j] * (double)expected.features[i * d + j];
            sum += e[k] = exp(logit);
        }
        for (int k = 0; k < CLASSES; k++)
            assert_true(fabs(e[expected.labels[i * CLASSES + k]] / sum -
                             (double)expected.probabilities[i * CLASSES + k]) < 1e-5);
        near += expected.nearest[i] == data.labels[i];
        assert_true(expected.unfamiliarity[i] > 0);
        assert_int_equal(expected.status[i], RECOLLECT_OK);
    }
    assert_true(near > IMAGES * 8 / 10);
}

static void other_images_do_not_matter(void **state)
{
    (void)state;
    int d = recollect_model_features(model);
    recollect_predictor *predictor;
    expect();
    create(1, &predictor);
    for (int i = 0; i < IMAGES; i += 7) {
        answers one;
        recollect_outputs outputs = all_of(&one);
        recollect_images image = {data.pixels + (size_t)i * API_IMAGE, 1, API_SIZE, API_SIZE, 1};
        SUCCEEDS(recollect_predictor_images(predictor, &image, &outputs));
        assert_memory_equal(one.probabilities, expected.probabilities + i * CLASSES, CLASSES * sizeof(float));
        assert_memory_equal(one.features, expected.features + i * d, (size_t)d * sizeof(float));
        assert_true(one.unfamiliarity[0] == expected.unfamiliarity[i] && one.nearest[0] == expected.nearest[i]);
    }
    recollect_predictor_destroy(&predictor);
}

typedef struct thread_of {
    pthread_t thread;
    int threads; /* of its predictor */
    bool failed;
    answers got;
} thread_of;

/* Makes a predictor, predicts some times, destroys it: whatever the others do meanwhile. */
static void *predict_on_thread(void *argument)
{
    thread_of *t = argument;
    for (int round = 0; round < 3 && !t->failed; round++) {
        recollect_predictor *predictor;
        recollect_outputs outputs = all_of(&t->got);
        t->failed = recollect_predictor_create(model, t->threads, &predictor) != RECOLLECT_OK;
        for (int i = 0; i < 3 && !t->failed; i++)
            t->failed = recollect_predictor_images(predictor, &data.images, &outputs) != RECOLLECT_OK ||
                        memcmp(&t->got, &expected, sizeof expected) != 0;
        recollect_predictor_destroy(&predictor);
    }
    return NULL;
}

static void threads_predict_with_one_model(void **state)
{
    (void)state;
    enum { THREADS = 4 };
    static thread_of t[THREADS];
    static float probabilities[IMAGES * CLASSES];
    expect();
    for (int i = 0; i < THREADS; i++) {
        t[i] = (thread_of){.threads = i % 2 + 1};
        assert_int_equal(pthread_create(&t[i].thread, NULL, predict_on_thread, &t[i]), 0);
    }
    /* The context's own thread is not idle either. */
    for (int i = 0; i < 5; i++) {
        SUCCEEDS(recollect_predict(model, &data.images, CLASSES, NULL, probabilities, NULL));
        assert_memory_equal(probabilities, expected.probabilities, sizeof probabilities);
    }
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(t[i].thread, NULL), 0);
        assert_false(t[i].failed);
    }
}

/* A second predictor takes what a scorer of its own takes, and not the weights again. */
static void weights_are_not_copied(void **state)
{
    (void)state;
    recollect_context *c;
    recollect_model *wide;
    recollect_predictor *predictor[4];
    api_data few = {0}; /* the net is what counts */
    api_data_make(&few, 0, CLASSES, 2, 1);
    make_model(&c, &wide);
    SUCCEEDS(recollect_model_set(wide, "net_width", "32"));
    SUCCEEDS(recollect_model_set(wide, "net_blocks", "8")); /* the workspace is that of the largest layer alone */
    SUCCEEDS(recollect_model_set(wide, "epochs", "2"));
    SUCCEEDS(recollect_learn(wide, &few.images, few.labels, few.names, CLASSES, NULL));
    api_data_free(&few);
    size_t before = rc_bytes_allocated(), weights = recollect_model_stored_bytes(wide);
    for (int i = 0; i < 4; i++)
        SUCCEEDS(recollect_predictor_create(wide, 1, &predictor[i]));
    size_t each = (rc_bytes_allocated() - before) / 4;
    print_message("weights %zu bytes, a predictor %zu\n", weights, each);
    assert_true(each < weights / 2);
    for (int i = 0; i < 4; i++)
        recollect_predictor_destroy(&predictor[i]);
    assert_int_equal(rc_bytes_allocated(), before);
    recollect_model_destroy(&wide);
    recollect_context_destroy(&c);
}

/* ---- the model meanwhile --------------------------------------------------------------------------------------- */

static recollect_status learn_more(recollect_model *m)
{
    return recollect_learn(m, &more.images, more.labels, more.names, more.classes, NULL);
}

static void a_model_with_predictors_does_not_learn(void **state)
{
    (void)state;
    recollect_context *c;
    recollect_model *m;
    recollect_predictor *one, *two;
    uint8_t pixels[API_IMAGE];
    int made;
    answers before, after;
    make_model(&c, &m);
    REFUSED(recollect_predictor_create(m, 1, &one), "knows nothing yet");
    assert_null(one);
    SUCCEEDS(recollect_learn(m, &data.images, data.labels, data.names, CLASSES, NULL));
    SUCCEEDS(recollect_predictor_create(m, 1, &one));
    SUCCEEDS(recollect_predictor_create(m, 1, &two));
    recollect_outputs outputs = all_of(&before);
    SUCCEEDS(recollect_predictor_images(one, &data.images, &outputs));
    REFUSED(learn_more(m), "has 2 predictors, which read its weights: destroy them");
    SUCCEEDS(recollect_dream(m, 0, 1, pixels, &made)); /* which leaves the weights alone */
    recollect_predictor_destroy(&one);
    REFUSED(learn_more(m), "has 1 predictor, which reads its weights: destroy it");
    assert_int_equal(recollect_model_classes(m), CLASSES);
    outputs = all_of(&after);
    SUCCEEDS(recollect_predictor_images(two, &data.images, &outputs));
    assert_memory_equal(&before, &after, sizeof before);
    recollect_predictor_destroy(&two);
    SUCCEEDS(learn_more(m));
    assert_int_equal(recollect_model_classes(m), CLASSES + 1);
    SUCCEEDS(recollect_predictor_create(m, 1, &one));
    recollect_predictor_destroy(&one);
    recollect_model_destroy(&m);
    recollect_context_destroy(&c);
}

static void a_destroyed_model_goes_with_its_last_predictor(void **state)
{
    (void)state;
    size_t before = rc_bytes_allocated();
    recollect_context *c;
    recollect_model *m;
    recollect_predictor *one, *two;
    answers a, b;
    make_model(&c, &m);
    SUCCEEDS(recollect_learn(m, &data.images, data.labels, data.names, CLASSES, NULL));
    SUCCEEDS(recollect_predictor_create(m, 1, &one));
    SUCCEEDS(recollect_predictor_create(m, 1, &two));
    recollect_outputs outputs = all_of(&a);
    SUCCEEDS(recollect_predictor_images(one, &data.images, &outputs));
    recollect_context_destroy(&c);
    recollect_model_destroy(&m);
    assert_true(c == NULL && m == NULL);
    recollect_predictor_destroy(&one);
    outputs = all_of(&b);
    SUCCEEDS(recollect_predictor_images(two, &data.images, &outputs));
    assert_memory_equal(&a, &b, sizeof a);
    recollect_predictor_destroy(&two);
    assert_int_equal(rc_bytes_allocated(), before);
}

typedef struct meddler {
    recollect_model *model;
    recollect_status status;
    char message[200];
} meddler;

static void create_while_learning(void *user, const recollect_progress *progress)
{
    (void)progress;
    meddler *m = user;
    recollect_predictor *predictor;
    m->status = recollect_predictor_create(m->model, 1, &predictor);
    snprintf(m->message, sizeof m->message, "%s", recollect_last_message());
}

static void a_model_that_learns_or_dreams_gets_no_predictor(void **state)
{
    (void)state;
    recollect_settings settings;
    recollect_context *c;
    meddler m = {0};
    uint8_t pixels[API_IMAGE];
    int made;
    recollect_settings_default(&settings, sizeof settings);
    settings.threads = 1;
    settings.progress = create_while_learning;
    settings.user = &m;
    SUCCEEDS(recollect_context_create(&settings, &c));
    SUCCEEDS(recollect_model_create(c, &m.model));
    api_set_quick(m.model, 2);
    for (int lesson = 0; lesson < 3; lesson++) {
        m.status = RECOLLECT_OK;
        if (lesson == 0)
            SUCCEEDS(recollect_learn(m.model, &data.images, data.labels, data.names, CLASSES, NULL));
        else if (lesson == 1)
            SUCCEEDS(recollect_dream(m.model, 0, 1, pixels, &made));
        else
            SUCCEEDS(learn_more(m.model));
        assert_int_equal(m.status, RECOLLECT_INVALID_ARGUMENT);
        assert_non_null(strstr(m.message, "is learning or dreaming in another call"));
    }
    recollect_model_destroy(&m.model);
    recollect_context_destroy(&c);
}

/* ---- pictures -------------------------------------------------------------------------------------------------- */

/* A PPM of SIDE x 2 SIDE pixels, and the same as pixels. */
static size_t make_picture(uint8_t *file, const uint8_t **pixels)
{
    int head = sprintf((char *)file, "P6\n%d %d\n255\n", 2 * SIDE, SIDE);
    *pixels = file + head;
    for (int i = 0; i < 6 * SIDE * SIDE; i++)
        file[head + i] = (uint8_t)((i * 7 + i / 50 * 13) % 256);
    return (size_t)head + 6 * SIDE * SIDE;
}

static void images_of_any_size_are_resized_as_files_are(void **state)
{
    (void)state;
    static uint8_t file[64 + 6 * SIDE * SIDE];
    const uint8_t *pixels;
    size_t size = make_picture(file, &pixels);
    recollect_predictor *predictor;
    answers image, encoded;
    float probabilities[CLASSES];
    create(2, &predictor);
    recollect_outputs outputs = all_of(&image);
    SUCCEEDS(recollect_predictor_images(predictor, &(recollect_images){pixels, 1, SIDE, 2 * SIDE, 3}, &outputs));
    outputs = all_of(&encoded);
    SUCCEEDS(recollect_predictor_pictures(predictor, &(recollect_picture){.bytes = file, .size = size}, 1, &outputs));
    assert_memory_equal(&image, &encoded, sizeof image);
    SUCCEEDS(recollect_predict_encoded(model, file, size, CLASSES, NULL, probabilities, NULL));
    assert_memory_equal(probabilities, image.probabilities, sizeof probabilities);
    assert_memory_not_equal(probabilities, expected.probabilities, sizeof probabilities);
    recollect_predictor_destroy(&predictor);
}

static void a_broken_picture_does_not_lose_the_others(void **state)
{
    (void)state;
    static uint8_t file[64 + 6 * SIDE * SIDE];
    const uint8_t *pixels;
    size_t size = make_picture(file, &pixels);
    int d = recollect_model_features(model);
    recollect_predictor *predictor;
    answers a;
    recollect_outputs outputs = all_of(&a);
    recollect_picture pictures[4] = {{.bytes = file, .size = size},
                                     {.bytes = "no picture", .size = 10},
                                     {.path = "nowhere.png"},
                                     {.bytes = file, .size = size}};
    create(1, &predictor);
    logged = 0;
    SUCCEEDS(recollect_predictor_pictures(predictor, pictures, 4, &outputs));
    assert_int_equal(logged, 1);
    assert_int_equal(a.status[0], RECOLLECT_OK);
    assert_int_equal(a.status[1], RECOLLECT_FORMAT);
    assert_int_equal(a.status[2], RECOLLECT_IO);
    assert_int_equal(a.status[3], RECOLLECT_OK);
    for (int i = 1; i < 3; i++) {
        assert_true(a.nearest[i] == -1 && isnan(a.unfamiliarity[i]));
        for (int k = 0; k < CLASSES; k++)
            assert_true(a.labels[i * CLASSES + k] == -1 && isnan(a.probabilities[i * CLASSES + k]));
        assert_true(isnan(a.features[i * d]) && isnan(a.features[i * d + d - 1]));
    }
    assert_memory_equal(a.probabilities, a.probabilities + 3 * CLASSES, CLASSES * sizeof(float));
    assert_memory_equal(a.features, a.features + 3 * d, (size_t)d * sizeof(float));
    assert_true(a.unfamiliarity[0] == a.unfamiliarity[3] && a.nearest[0] == a.nearest[3] && a.nearest[0] >= 0);
    /* Without a place for the status it is the failure of the call. */
    outputs.status = NULL;
    assert_int_equal(recollect_predictor_pictures(predictor, pictures, 4, &outputs), RECOLLECT_FORMAT);
    assert_int_equal(recollect_predictor_pictures(predictor, pictures + 2, 1, &outputs), RECOLLECT_IO);
    assert_non_null(strstr(recollect_last_message(), "nowhere.png"));
    pictures[1].path = "its name"; /* of bytes */
    assert_int_equal(recollect_predictor_pictures(predictor, pictures + 1, 1, &outputs), RECOLLECT_FORMAT);
    assert_non_null(strstr(recollect_last_message(), "cannot decode 'its name': "));
    recollect_predictor_destroy(&predictor);
}

typedef struct told {
    int count, broken;
    char paths[400], messages[2000];
    int pictures[8];
    char json[4000];
    double probability;
    recollect_predictor *own;
    recollect_status misused;
} told;

static void on_line(void *user, const char *text)
{
    told *t = user;
    strncat(t->json, text, sizeof t->json - strlen(t->json) - 1);
    strncat(t->json, "\n", sizeof t->json - strlen(t->json) - 1);
}

static void on_prediction(void *user, const recollect_prediction *p)
{
    told *t = user;
    assert_int_equal(p->size, sizeof *p);
    assert_true(t->count < 8);
    t->pictures[t->count++] = p->picture;
    t->broken += p->status != RECOLLECT_OK;
    strcat(t->paths, p->path != NULL ? p->path : "?");
    strcat(t->paths, " ");
    strcat(t->messages, p->message);
    if (p->status == RECOLLECT_OK) {
        assert_true(p->top == 2 && p->probabilities[0] >= p->probabilities[1] && p->nearest >= 0);
        assert_true(p->unfamiliarity > 0 && p->features != NULL && p->labels[0] != p->labels[1]);
        t->probability = p->probabilities[0];
    } else {
        assert_true(p->top == 0 && p->labels == NULL && p->nearest == -1 && isnan(p->unfamiliarity));
    }
    SUCCEEDS(recollect_describe_prediction(model, p, on_line, t));
    if (t->own != NULL)
        t->misused = recollect_predictor_images(t->own, &data.images, NULL);
}

static void write_file(const char *path, const void *bytes, size_t size)
{
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, size, file), size);
    assert_int_equal(fclose(file), 0);
}

static void folders_are_searched_in_order(void **state)
{
    (void)state;
    static uint8_t file[64 + 6 * SIDE * SIDE];
    const uint8_t *pixels;
    size_t size = make_picture(file, &pixels);
    recollect_predictor *predictor;
    told t = {0};
    assert_int_equal(mkdir("all", 0700) | mkdir("all/b", 0700) | mkdir("none", 0700), 0);
    write_file("all/c.ppm", file, size);
    write_file("all/a.ppm", file, size);
    write_file("all/b/x.ppm", file, size / 2);
    write_file("all/notes.txt", "no picture", 10);
    recollect_picture pictures[4] = {
        {.path = "all/"}, {.path = "none"}, {.path = "first", .bytes = file, .size = size}, {.path = "all/c.ppm"}};
    create(1, &predictor);
    t.own = predictor;
    SUCCEEDS(recollect_predictor_each(predictor, pictures, 4, 2, on_prediction, &t));
    assert_string_equal(t.paths, "all/a.ppm all/b/x.ppm all/c.ppm none first all/c.ppm ");
    static const int from[6] = {0, 0, 0, 1, 2, 3};
    assert_true(t.count == 6 && t.broken == 2 && memcmp(t.pictures, from, sizeof from) == 0);
    assert_non_null(strstr(t.messages, "all/b/x.ppm"));
    assert_non_null(strstr(t.messages, "none: the folder holds no picture"));
    assert_int_equal(t.misused, RECOLLECT_INVALID_ARGUMENT);
    char expected_json[200];
    snprintf(expected_json, sizeof expected_json, "{\"file\":\"all/a.ppm\",\"top\":[{\"class\":\"");
    assert_int_equal(strncmp(t.json, expected_json, strlen(expected_json)), 0);
    assert_non_null(strstr(t.json, "\n{\"file\":\"all/b/x.ppm\",\"error\":\""));
    recollect_predictor_destroy(&predictor);
    assert_int_equal(remove("all/a.ppm") | remove("all/b/x.ppm") | remove("all/c.ppm") | remove("all/notes.txt"), 0);
    assert_int_equal(rmdir("all/b") | rmdir("all") | rmdir("none"), 0);
}

static void count_top(void *user, const recollect_prediction *p)
{
    *(int *)user = p->top;
}

static void destroy_it(void *user, const recollect_prediction *p)
{
    assert_int_equal(p->status, RECOLLECT_OK);
    recollect_predictor_destroy(user);
    assert_null(*(recollect_predictor **)user);
}

static void callbacks_may_destroy_the_predictor(void **state)
{
    (void)state;
    static uint8_t file[64 + 6 * SIDE * SIDE];
    const uint8_t *pixels;
    size_t size = make_picture(file, &pixels), before = rc_bytes_allocated();
    recollect_picture pictures[2] = {{.bytes = file, .size = size}, {.bytes = file, .size = size}};
    recollect_predictor *predictor;
    int top = -1;
    create(1, &predictor);
    SUCCEEDS(recollect_predictor_each(predictor, pictures, 2, 1000, count_top, &top));
    assert_int_equal(top, CLASSES);
    SUCCEEDS(recollect_predictor_each(predictor, pictures, 2, 0, count_top, &top));
    assert_int_equal(top, 0);
    SUCCEEDS(recollect_predictor_each(predictor, pictures, 2, 1, destroy_it, &predictor));
    assert_null(predictor);
    assert_int_equal(rc_bytes_allocated(), before);
}

static void calls_can_be_cancelled(void **state)
{
    (void)state;
    static uint8_t file[64 + 6 * SIDE * SIDE];
    const uint8_t *pixels;
    size_t size = make_picture(file, &pixels);
    recollect_predictor *predictor;
    answers a;
    recollect_outputs outputs = all_of(&a);
    recollect_picture picture = {.bytes = file, .size = size}, here = {.path = "."};
    int top;
    create(1, &predictor);
    cancel = 1;
    assert_int_equal(recollect_predictor_images(predictor, &data.images, &outputs), RECOLLECT_CANCELLED);
    assert_string_equal(recollect_last_message(), "stopped after 0 of 150 images");
    assert_int_equal(recollect_predictor_pictures(predictor, &picture, 1, &outputs), RECOLLECT_CANCELLED);
    assert_int_equal(recollect_predictor_each(predictor, &picture, 1, 1, count_top, &top), RECOLLECT_CANCELLED);
    assert_int_equal(recollect_predictor_each(predictor, &here, 1, 1, count_top, &top), RECOLLECT_CANCELLED);
    assert_non_null(strstr(recollect_last_message(), "looking for pictures"));
    cancel = 0;
    SUCCEEDS(recollect_predictor_images(predictor, &data.images, &outputs));
    recollect_predictor_destroy(&predictor);
}

/* ---- arguments ------------------------------------------------------------------------------------------------- */

static void creating_is_checked(void **state)
{
    (void)state;
    recollect_predictor *predictor = (recollect_predictor *)&data;
    REFUSED(recollect_predictor_create(model, 1, NULL), "predictor is NULL");
    REFUSED(recollect_predictor_create(NULL, 1, &predictor), "model is NULL");
    assert_null(predictor);
    REFUSED(recollect_predictor_create(model, -1, &predictor), "threads is -1");
    REFUSED(recollect_predictor_create(model, 1025, &predictor), "threads is 1025");
    recollect_predictor_destroy(&predictor);
    recollect_predictor_destroy(NULL);
    assert_int_equal(recollect_model_features(NULL), 0);
    assert_int_equal(recollect_predictor_left_out(NULL), 0);
}

static void predicting_is_checked(void **state)
{
    (void)state;
    recollect_predictor *predictor;
    answers a;
    recollect_outputs good = all_of(&a), bad = good;
    const recollect_images *images = &data.images;
    recollect_images odd = *images;
    recollect_picture picture = {.bytes = "P5", .size = 2}, nothing = {0}, empty = {.path = ""};
    create(1, &predictor);
    REFUSED(recollect_predictor_images(NULL, images, &good), "predictor is NULL");
    REFUSED(recollect_predictor_images(predictor, NULL, &good), "images is NULL");
    REFUSED(recollect_predictor_images(predictor, images, NULL), "outputs is NULL");
    bad.size = offsetof(recollect_outputs, status);
    REFUSED(recollect_predictor_images(predictor, images, &bad), "the output structure's size is");
    bad.size = 65537;
    REFUSED(recollect_predictor_images(predictor, images, &bad), "the output structure's size is 65537");
    bad = good;
    bad.top = CLASSES + 1;
    REFUSED(recollect_predictor_images(predictor, images, &bad), "top is 4, expected 1 to 3");
    bad.top = 0;
    REFUSED(recollect_predictor_images(predictor, images, &bad), "top is 0, expected 1 to 3");
    bad.labels = NULL;
    REFUSED(recollect_predictor_images(predictor, images, &bad), "top is 0, expected 1 to 3");
    bad.probabilities = NULL;
    SUCCEEDS(recollect_predictor_images(predictor, images, &bad));
    bad.top = -1;
    REFUSED(recollect_predictor_images(predictor, images, &bad), "top is -1");
    odd.pixels = NULL;
    REFUSED(recollect_predictor_images(predictor, &odd, &good), "pixels is NULL");
    odd = *images;
    odd.count = 0;
    REFUSED(recollect_predictor_images(predictor, &odd, &good), "count is 0");
    odd = *images;
    odd.channels = 2;
    REFUSED(recollect_predictor_images(predictor, &odd, &good), "2 channels");
    static const int sides[4][2] = {{0, 16}, {16, 0}, {16, 20001}, {20001, 16}};
    for (int i = 0; i < 4; i++) {
        odd = *images;
        odd.height = sides[i][0];
        odd.width = sides[i][1];
        REFUSED(recollect_predictor_images(predictor, &odd, &good), "expected sides of 1 to 20000");
    }
    odd.height = odd.width = 20000;
    REFUSED(recollect_predictor_images(predictor, &odd, &good), "at most 67108864 pixels");
    REFUSED(recollect_predictor_pictures(NULL, &picture, 1, &good), "predictor is NULL");
    REFUSED(recollect_predictor_pictures(predictor, NULL, 1, &good), "pictures is NULL");
    REFUSED(recollect_predictor_pictures(predictor, &picture, 0, &good), "count is 0");
    REFUSED(recollect_predictor_pictures(predictor, &nothing, 1, &good), "picture 0 has neither");
    REFUSED(recollect_predictor_pictures(predictor, &empty, 1, &good), "picture 0 has neither");
    REFUSED(recollect_predictor_pictures(predictor, &picture, 1, NULL), "outputs is NULL");
    REFUSED(recollect_predictor_each(NULL, &picture, 1, 1, count_top, NULL), "predictor is NULL");
    REFUSED(recollect_predictor_each(predictor, NULL, 1, 1, count_top, NULL), "pictures is NULL");
    REFUSED(recollect_predictor_each(predictor, &picture, -1, 1, count_top, NULL), "count is -1");
    REFUSED(recollect_predictor_each(predictor, &picture, 1, -1, count_top, NULL), "top is -1");
    REFUSED(recollect_predictor_each(predictor, &picture, 1, 1, NULL, NULL), "each is NULL");
    recollect_predictor_destroy(&predictor);
    recollect_prediction prediction = {.size = sizeof prediction};
    REFUSED(recollect_describe_prediction(NULL, &prediction, on_line, NULL), "model is NULL");
    REFUSED(recollect_describe_prediction(model, NULL, on_line, NULL), "prediction is NULL");
    REFUSED(recollect_describe_prediction(model, &prediction, NULL, NULL), "line is NULL");
    prediction.size = offsetof(recollect_prediction, stranger);
    REFUSED(recollect_describe_prediction(model, &prediction, on_line, NULL), "the prediction's size is ");
}

/* A caller whose structure is larger than ours, and one who wants a single array. */
static void outputs_may_be_newer_or_few(void **state)
{
    (void)state;
    struct {
        recollect_outputs known;
        char unknown[64];
    } newer = {.known = {.size = sizeof newer}};
    recollect_predictor *predictor;
    int32_t nearest[IMAGES];
    expect();
    create(1, &predictor);
    newer.known.nearest = nearest;
    SUCCEEDS(recollect_predictor_images(predictor, &data.images, &newer.known));
    assert_memory_equal(nearest, expected.nearest, sizeof nearest);
    recollect_predictor_destroy(&predictor);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(answers_are_those_of_the_model),
        cmocka_unit_test(mirror_images_have_the_same_answers),
        cmocka_unit_test(moved_images_count),
        cmocka_unit_test(features_and_nearest_class_are_right),
        cmocka_unit_test(other_images_do_not_matter),
        cmocka_unit_test(threads_predict_with_one_model),
        cmocka_unit_test(weights_are_not_copied),
        cmocka_unit_test(a_model_with_predictors_does_not_learn),
        cmocka_unit_test(a_destroyed_model_goes_with_its_last_predictor),
        cmocka_unit_test(a_model_that_learns_or_dreams_gets_no_predictor),
        cmocka_unit_test(images_of_any_size_are_resized_as_files_are),
        cmocka_unit_test(a_broken_picture_does_not_lose_the_others),
        cmocka_unit_test(folders_are_searched_in_order),
        cmocka_unit_test(callbacks_may_destroy_the_predictor),
        cmocka_unit_test(calls_can_be_cancelled),
        cmocka_unit_test(creating_is_checked),
        cmocka_unit_test(predicting_is_checked),
        cmocka_unit_test(outputs_may_be_newer_or_few),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
