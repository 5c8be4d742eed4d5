/* Models made by hand, each claim of their headers pushed to its edges, alone and two at a time, through everything
 * that is done with models: info, predict, eval, dream, learn, and the resumption of a run. Every one is refused with
 * a message that names the file, or it works as it should; nothing stays allocated, nothing takes long, and no more
 * memory is taken than was allowed. The sanitizers watch.
 *
 * RECOLLECT_CLAIM_PAIRS=N tries so many pairs, "all" every one (2.4 million), and every claim alone under sanitizers,
 * too. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/memory.h"
#include "run/allowance.h"
#include "run/describe_model.h"
#include "run/dream.h"
#include "run/evaluate.h"
#include "run/experiment.h"
#include "run/learn.h"
#include "run/predict.h"
#include "support/craft.h"
#include "support/data_files.h"
#include "support/succeeds.h"

enum { SIZE = 16, OLD = 3, IMAGES = 18 };

/* What is allowed here, and what a process has besides: its code, and the tables of the tests. */
static const size_t allowed = (size_t)96 << 20, besides = (size_t)64 << 20;
static const double too_long = 10; /* seconds */

static rc_backend *backend;

/* Where everything is slow, some of the claims do. */
static bool light(void)
{
    return getenv("RECOLLECT_TEST_LIGHT") != NULL;
}

/* ---- claims ------------------------------------------------------------------------------------------------------ */

typedef enum place { METADATA, SETTING, TENSOR } place;

typedef struct claim {
    place place;
    const char *key;   /* of the metadata, a setting, a tensor */
    const char *field; /* of a tensor */
    const char *value; /* NULL: missing */
} claim;

enum { MOST_CLAIMS = 4000 };
static claim claims[MOST_CLAIMS];
static int claim_count;

static void add(place place, const char *key, const char *field, const char *value)
{
    assert_true(claim_count < MOST_CLAIMS);
    claims[claim_count++] = (claim){place, key, field, value};
}

static void add_all(place place, const char *key, const char *field, const char *const *values)
{
    add(place, key, field, NULL);
    for (int i = 0; values[i] != NULL; i++)
        add(place, key, field, values[i]);
}

static const char *const any_text[] = {"",   " ",    "null", "0",       "-1",          "[]",
                                       "{}", "[[]]", "[1",   "[\"a\"]", "x\\u001b[2J", NULL};
static const char *const images[] = {"[16, 16]",
                                     "[16, 16, 1, 1]",
                                     "[16, 16, 2]",
                                     "[16, 16, 3]",
                                     "[16, 16, 4]",
                                     "[16, 16, 0]",
                                     "[16, 16, -1]",
                                     "[16, 16, 1.5]",
                                     "[16, 16, 256]",
                                     "[16, 8, 1]",
                                     "[8, 16, 1]",
                                     "[32, 16, 1]",
                                     "[16, 32, 1]",
                                     "[16.5, 16.5, 1]",
                                     "[16.0, 16, 1]",
                                     "[1, 1, 1]",
                                     "[0, 0, 1]",
                                     "[-16, -16, 1]",
                                     "[8, 8, 1]",
                                     "[17, 17, 1]",
                                     "[64, 64, 1]",
                                     "[1024, 1024, 1]",
                                     "[1025, 1025, 1]",
                                     "[2048, 2048, 1]",
                                     "[4096, 4096, 1]",
                                     "[4097, 4097, 1]",
                                     "[65536, 65536, 1]",
                                     "[2147483647, 2147483647, 1]",
                                     "[2147483648, 2147483648, 1]",
                                     "[1e18, 1e18, 1]",
                                     "[1e400, 1, 1]",
                                     "[NaN, NaN, 1]",
                                     "[\"16\", \"16\", \"1\"]",
                                     "[null, 16, 1]",
                                     "[true, true, true]",
                                     "{\"h\": 16}",
                                     NULL};
static const char *const numbers[] = {"[]",     "[0]",    "[0.5, 0.5]", "[-1]",    "[101]", "[1e-6]",
                                      "[1e-7]", "[1e38]", "[1e39]",     "[1e400]", "[NaN]", "[\"0\"]",
                                      "[[0]]",  "[null]", "0.5",        NULL};
static const char *const tasks[] = {"[3]",
                                    "[1, 2]",
                                    "[1, 1, 1]",
                                    "[2]",
                                    "[4]",
                                    "[1.5, 1.5]",
                                    "[3.0]",
                                    "[0, 3]",
                                    "[-1, 4]",
                                    "[2.9999999999999999999]",
                                    "[3, 0]",
                                    "[2147483647]",
                                    "[2147483648, 3]",
                                    "[-2147483645]",
                                    "[30000]",
                                    "[30001]",
                                    "[1000000]",
                                    "[1e9]",
                                    "[1e400]",
                                    "[\"3\"]",
                                    "[[3]]",
                                    "3",
                                    NULL};
static const char *const names[] = {"[\"a\", \"b\"]",
                                    "[\"a\", \"b\", \"c\", \"d\"]",
                                    "[\"a\", \"a\", \"b\"]",
                                    "[\"a\", \"b\", \"\"]",
                                    "[\"a\", \"b\", 3]",
                                    "[\"a\", \"b\", null]",
                                    "[\"a\", \"b\", [\"c\"]]",
                                    "{\"a\": 1, \"b\": 2, \"c\": 3}",
                                    "[\"a\", \"b\", \"c\\u0000\"]",
                                    "[\"a\", \"b\", \"c\\n\"]",
                                    "[\"a\", \"b\", \"c\\u202e\"]",
                                    "[\"a\", \"b\", \"c\\u2066\"]",
                                    "[\"a\", \"b\", \"c\\u200f\"]",
                                    "[\"a\", \"b\", \"\\ud800\"]",
                                    "[\"\\u00e4\", \"\\ud83d\\ude00\", \"b\"]",
                                    NULL};
static const char *const offered[] = {"[]",           "[0]",          "[-1]",   "[6.5]", "[1e18]",
                                      "[4294967295]", "[4294967296]", "[1, 2]", NULL};
static const char *const formats[] = {"recollect-model-0", "recollect-model-2", "recollect-model-1 ",
                                      "recollect-checkpoint-1", NULL};
static const char *const methods[] = {"finetune", "joint", "er",  "dgr",  "lwf", "deepinversion-pixels",
                                      "cwd",      "cwd ",  "CWD", "none", NULL};
static const char *const whole[] = {"0",
                                    "1",
                                    "-1",
                                    "2",
                                    "3",
                                    "7",
                                    "8",
                                    "31",
                                    "64",
                                    "255",
                                    "4095",
                                    "4096",
                                    "4097",
                                    "65535",
                                    "65536",
                                    "65537",
                                    "1000000",
                                    "100000000",
                                    "2147483646",
                                    "2147483647",
                                    "2147483648",
                                    "-2147483648",
                                    "9223372036854775807",
                                    "9223372036854775808",
                                    "99999999999999999999999",
                                    "1.5",
                                    "1e3",
                                    "0x10",
                                    " 1",
                                    "1 ",
                                    "",
                                    "NaN",
                                    "a",
                                    "!3",
                                    "![3]",
                                    "!null",
                                    NULL};
static const char *const reals[] = {"0",     "-0",    "1",     "-1",     "1e-320", "1e-30", "1e6",
                                    "1e30",  "1e300", "1e400", "-1e400", "nan",    "inf",   "-inf",
                                    "0x1p3", "1,5",   "",      "a",      "!0.5",   "!null", NULL};
static const char *const switches[] = {"true", "false", "maybe", "", "1", "!true", NULL};
static const char *const words[] = {"",
                                    "x",
                                    "resnet32",
                                    "resnet18",
                                    "resnet-small",
                                    "generator",
                                    "generator-small",
                                    "vae-decoder",
                                    "paper",
                                    "code",
                                    "published",
                                    "seed",
                                    "3,1,2",
                                    "0.5",
                                    "0.5, 0.5",
                                    "1e400",
                                    "2147483648",
                                    "!7",
                                    "0123456789012345678901234567890",
                                    "01234567890123456789012345678901",
                                    NULL};
static const char *const lists[] = {
    "", "[]", "[1]", "[3, 1]", "[-1]", "[2147483648]", "[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13]", "x", NULL};
static const char *const types[] = {"\"F64\"", "\"F16\"", "\"I32\"", "\"U8\"", "\"\"", "5", "null", NULL};
static const char *const shapes[] = {"[]",
                                     "[0]",
                                     "[1]",
                                     "[-1]",
                                     "[1.5]",
                                     "[9223372036854775807]",
                                     "[4294967296, 4294967296]",
                                     "[1, 1, 1, 1, 1]",
                                     "[2147483648, 2]",
                                     "null",
                                     NULL};
static const char *const offsets[] = {"[]",
                                      "[0]",
                                      "[0, 0]",
                                      "[0, 4]",
                                      "[-4, 0]",
                                      "[4, 0]",
                                      "[0, 9223372036854775807]",
                                      "[9223372036854775804, 9223372036854775807]",
                                      "[0.0, 4.0]",
                                      "[0, 4, 8]",
                                      "null",
                                      NULL};

static void list_claims(void)
{
    static const char *const keys[] = {"format", "method",  "image",          "mean",   "std",
                                       "tasks",  "classes", "buffer_offered", "config", "version"};
    static const char *const tensors[] = {"backbone.conv_1_3x3.weight",
                                          "backbone.bn_1.running_var",
                                          "head.classifiers.0.weight",
                                          "statistics.class_mean",
                                          "statistics.covariance",
                                          "buffer.images",
                                          "buffer.labels",
                                          "encoder.conv_1.weight"};
    claim_count = 0;
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        add_all(METADATA, keys[i], NULL, any_text);
    add_all(METADATA, "format", NULL, formats);
    add_all(METADATA, "method", NULL, methods);
    add_all(METADATA, "image", NULL, images);
    add_all(METADATA, "mean", NULL, numbers);
    add_all(METADATA, "std", NULL, numbers);
    add_all(METADATA, "tasks", NULL, tasks);
    add_all(METADATA, "classes", NULL, names);
    add_all(METADATA, "buffer_offered", NULL, offered);
    rc_config_item item;
    for (int i = 0; rc_config_item_at(i, &item); i++)
        add_all(SETTING, item.name, NULL,
                strcmp(item.type, "whole number") == 0    ? whole
                : strcmp(item.type, "number") == 0        ? reals
                : strcmp(item.type, "true or false") == 0 ? switches
                : strcmp(item.type, "text") == 0          ? words
                                                          : lists);
    for (size_t i = 0; i < sizeof tensors / sizeof *tensors; i++) {
        add_all(TENSOR, tensors[i], "dtype", types);
        add_all(TENSOR, tensors[i], "shape", shapes);
        add_all(TENSOR, tensors[i], "data_offsets", offsets);
    }
}

static bool make(craft *file, const claim *c)
{
    return c->place == METADATA  ? craft_metadata(file, c->key, c->value)
           : c->place == SETTING ? craft_setting(file, c->key, c->value)
                                 : craft_tensor(file, c->key, c->field, c->value);
}

/* Does the claim leave what the model says about an image alone? Settings are of learning and dreaming, but for
 * these. */
static bool keeps_answers(const claim *c)
{
    return c->place == SETTING && strcmp(c->key, "resize") != 0 && strcmp(c->key, "exif") != 0;
}

/* ---- what is done with a model ------------------------------------------------------------------------------------
 * */

typedef struct answer {
    int label;
    double probability;
} answer;

static void keep_answer(void *user, const rc_prediction *prediction)
{
    answer *a = user;
    if (prediction->message != NULL || prediction->count < 1)
        return;
    a->label = prediction->label[0];
    a->probability = prediction->probability[0];
}

static void ignore_line(void *user, const char *text)
{
    (void)user;
    (void)text;
}

static rc_status describe(const char *path, rc_saved_model *model)
{
    RC_TRY(rc_describe_model(path, model, false, ignore_line, NULL));
    return rc_describe_model(path, model, true, ignore_line, NULL);
}

static rc_status predict(rc_saved_model *model, answer *a)
{
    rc_predict_settings settings = {.top = 1, .threads = 1, .each = keep_answer, .user = a};
    rc_predictor *predictor;
    *a = (answer){-1, NAN};
    RC_TRY(rc_predictor_create(model, &settings, &predictor));
    rc_status status = rc_predictor_add(predictor, "new/d/1.ppm");
    if (status == RC_OK)
        status = rc_predictor_finish(predictor);
    rc_predictor_destroy(predictor);
    return status;
}

static rc_status evaluate(rc_saved_model *model)
{
    rc_evaluate_settings settings = {.data = "known", .threads = 1};
    rc_dataset data;
    rc_named_evaluation e;
    RC_TRY(rc_evaluate_data(model, &settings, &data, &e));
    rc_status status = rc_evaluation_print(model, &e, ignore_line, NULL);
    rc_named_evaluation_destroy(&e);
    rc_dataset_close(&data);
    return status;
}

static rc_status dream(rc_saved_model *model)
{
    rc_dream_settings settings = {.per_class = 1, .steps = 1};
    rc_dreams dreams;
    RC_TRY(rc_dream(model, &settings, &dreams));
    rc_dreams_destroy(&dreams);
    return RC_OK;
}

/* How long it learns is nobody's claim here. */
static rc_status learn(rc_saved_model *model)
{
    static const char *const quick[] = {"epochs=1", "refine_epochs=0", "min_steps=1", "inversion_steps=1",
                                        "pixel_steps=1"};
    rc_learn_settings settings = {.data = "new", .set = quick, .sets = sizeof quick / sizeof *quick, .threads = 1};
    rc_learn_result result;
    RC_TRY(rc_learn(model, backend, &settings, &result));
    return rc_model_file_save("learnt.safetensors", model, true);
}

/* ---- trying ------------------------------------------------------------------------------------------------------ */

static int tried, refused, worked;
static char trying[512];

static void check_status(const char *action, rc_status status, double began)
{
    if (status != RC_OK && rc_message()[0] == '\0')
        fail_msg("%s: %s ends with status %d and no message", trying, action, (int)status);
    if (status == RC_INTERNAL)
        fail_msg("%s: %s: %s", trying, action, rc_message());
    if (!light() && rc_now() - began > too_long)
        fail_msg("%s: %s took %.1f s", trying, action, rc_now() - began);
    worked += status == RC_OK;
}

/* Everything that can be done with a model that was loaded. */
static void use(const char *path, rc_saved_model *model, const answer *expected)
{
    answer a;
    double began = rc_now();
    check_status("info", describe(path, model), began);
    began = rc_now();
    rc_status status = predict(model, &a);
    check_status("predict", status, began);
    if (status == RC_OK && expected != NULL && (a.label != expected->label || a.probability != expected->probability))
        fail_msg("%s: class %d with %.9g is predicted, expected %d with %.9g", trying, a.label, a.probability,
                 expected->label, expected->probability);
    began = rc_now();
    check_status("eval", evaluate(model), began);
    began = rc_now();
    check_status("dream", dream(model), began);
    began = rc_now();
    check_status("learn", learn(model), began);
}

/* expected: what the model says about the picture; NULL: that may change. */
static void attempt(const char *path, const answer *expected)
{
    rc_saved_model model;
    size_t before = rc_bytes_allocated();
    double began = rc_now();
    rc_memory_allow(allowed, 0);
    assert_int_equal(rc_backend_open("cpu", 1, NULL, &backend), RC_OK);
    rc_clear_message();
    rc_status status = rc_model_file_load(path, backend, &model);
    tried++;
    if (status != RC_OK) {
        refused++;
        check_status("loading", status, began);
        if (status != RC_OUT_OF_MEMORY && strstr(rc_message(), path) == NULL)
            fail_msg("%s: the message does not name the file: %s", trying, rc_message());
    } else {
        use(path, &model, expected);
        rc_saved_model_destroy(&model);
    }
    rc_backend_close(backend);
    rc_memory_set_budget(SIZE_MAX);
    if (rc_bytes_allocated() != before)
        fail_msg("%s: %zu bytes stay allocated", trying, rc_bytes_allocated() - before);
}

static void name_claim(const claim *c, char *text, size_t size)
{
    snprintf(text, size, "%s%s%s = %.80s", c->key, c->field ? " " : "", c->field ? c->field : "",
             c->value ? c->value : "(missing)");
}

static void try_claims(const char *model, const craft *good, const claim *a, const claim *b, const answer *expected)
{
    char first[200], second[200] = "";
    craft file = craft_copy(good);
    bool made = make(&file, a);
    name_claim(a, first, sizeof first);
    if (b != NULL) {
        name_claim(b, second, sizeof second);
        made = make(&file, b) && made;
    }
    snprintf(trying, sizeof trying, "%s, %s%s%s", model, first, b ? ", " : "", second);
    if (made) {
        craft_write(&file, "hostile.safetensors");
        attempt("hostile.safetensors", keeps_answers(a) && (b == NULL || keeps_answers(b)) ? expected : NULL);
    }
    craft_free(&file);
}

/* ---- the models -------------------------------------------------------------------------------------------------- */

/* Folders of pictures: of classes that the models know, and of new ones. */
static void write_pictures(void)
{
    static const char *const folder[] = {"known/a", "known/b", "known/c", "new/d", "new/e"};
    for (int k = 0; k < 5; k++)
        for (int i = 0; i < 4; i++) {
            char path[64];
            snprintf(path, sizeof path, "%s/%d.ppm", folder[k], i);
            data_write_colour(path, SIZE, SIZE, 50 * k, 40 + 9 * i, 200 - 30 * k);
        }
}

/* A model of three classes by that method, with all that it keeps. */
static void make_model(const char *method, const char *path)
{
    static const char *const small[] = {
        "net=resnet-small",  "net_width=4",  "net_blocks=1",      "generator=generator-small",
        "generator_width=8", "noise=8",      "batch=6",           "epochs=2",
        "refine_epochs=1",   "min_steps=1",  "inversion_steps=1", "milestone=[1]",
        "buffer_size=6",     "vae_width=16", "pixel_batches=1",   "pixel_steps=1",
        "channels=1",        "size=16",      "learning_rate=0.01"};
    static const char *const class_name[] = {"a", "b", "c"};
    uint8_t pixels[IMAGES * SIZE * SIZE];
    int32_t labels[IMAGES];
    for (size_t i = 0; i < sizeof pixels; i++)
        pixels[i] = (uint8_t)(i * 7 % 251 + i / 1000);
    for (int i = 0; i < IMAGES; i++)
        labels[i] = i % OLD;
    rc_dataset data = {.format = "memory",
                       .name = "memory",
                       .h = SIZE,
                       .w = SIZE,
                       .c = 1,
                       .classes = OLD,
                       .class_name = (char **)(uintptr_t)class_name,
                       .train = {.count = IMAGES, .images = pixels, .labels = labels}};
    rc_dataset_measure(&data);
    rc_saved_model model = {0};
    rc_learn_settings settings = {
        .in_memory = &data, .method = method, .set = small, .sets = sizeof small / sizeof *small, .threads = 1};
    rc_learn_result result;
    SUCCEEDS(rc_learn(&model, backend, &settings, &result));
    SUCCEEDS(rc_model_file_save(path, &model, true));
    rc_saved_model_destroy(&model);
}

static const char *const model_methods[] = {"cwd", "finetune", "er", "dgr"};
enum { MODELS = sizeof model_methods / sizeof *model_methods };

typedef struct fixture {
    craft good[MODELS];
    answer expected[MODELS];
} fixture;

static fixture *begin(void)
{
    fixture *f = calloc(1, sizeof *f);
    assert_non_null(f);
    assert_int_equal(rc_backend_open("cpu", 1, NULL, &backend), RC_OK);
    write_pictures();
    for (int m = 0; m < MODELS; m++) {
        rc_saved_model model;
        make_model(model_methods[m], "good.safetensors");
        craft_read("good.safetensors", &f->good[m]);
        SUCCEEDS(rc_model_file_load("good.safetensors", backend, &model));
        SUCCEEDS(describe("good.safetensors", &model)); /* all of it works as long as nobody lies */
        SUCCEEDS(predict(&model, &f->expected[m]));
        SUCCEEDS(evaluate(&model));
        SUCCEEDS(dream(&model));
        SUCCEEDS(learn(&model));
        rc_saved_model_destroy(&model);
    }
    rc_backend_close(backend);
    list_claims();
    tried = refused = worked = 0;
    return f;
}

static void end(fixture *f)
{
    print_message("%d claims: %d models tried, %d refused, %d actions done\n", claim_count, tried, refused, worked);
    assert_true(refused > tried / 5 && worked > tried / 5); /* otherwise nothing is tested */
    for (int m = 0; m < MODELS; m++)
        craft_free(&f->good[m]);
    free(f);
    struct rusage usage;
    assert_int_equal(getrusage(RUSAGE_SELF, &usage), 0);
    print_message("%ld kB at most\n", usage.ru_maxrss);
    if (!light() && (size_t)usage.ru_maxrss * 1024 > allowed + besides)
        fail_msg("the process had %ld kB, allowed were %zu", usage.ru_maxrss, allowed / 1024);
}

static void claims_alone(void **state)
{
    (void)state;
    fixture *f = begin();
    for (int m = 0; m < MODELS; m++)
        for (int i = 0; i < claim_count; i++) {
            /* Settings are the same in all models. */
            bool other = claims[i].place == SETTING && i % MODELS != m;
            if (!other && (!light() || getenv("RECOLLECT_CLAIM_PAIRS") != NULL || (i + m) % 9 == 0))
                try_claims(model_methods[m], &f->good[m], &claims[i], NULL, &f->expected[m]);
        }
    end(f);
}

static int wanted_pairs(void)
{
    const char *text = getenv("RECOLLECT_CLAIM_PAIRS");
    if (text != NULL && strcmp(text, "all") == 0)
        return -1;
    return text != NULL ? atoi(text) : light() ? 60 : 1500;
}

static void claims_in_pairs(void **state)
{
    (void)state;
    fixture *f = begin();
    int pairs = wanted_pairs();
    for (int a = 0; pairs < 0 && a < claim_count; a++)
        for (int b = a + 1; b < claim_count; b++)
            try_claims(model_methods[(a + b) % MODELS], &f->good[(a + b) % MODELS], &claims[a], &claims[b],
                       &f->expected[(a + b) % MODELS]);
    for (int i = 0; i < pairs; i++) {
        rc_rng rng = {11, 5};
        int a = (int)rc_rng_below(rng, (uint64_t)(2 * i), (uint32_t)claim_count);
        int b = (int)rc_rng_below(rng, (uint64_t)(2 * i + 1), (uint32_t)claim_count), m = i % MODELS;
        try_claims(model_methods[m], &f->good[m], &claims[a], &claims[b], &f->expected[m]);
    }
    end(f);
}

/* ---- runs -------------------------------------------------------------------------------------------------------- */

static rc_status run(const char *folder, bool resume, int stop_after)
{
    static const char *const small[] = {
        "net=resnet-small",   "net_width=4",       "net_blocks=1", "generator=generator-small",
        "generator_width=8",  "noise=8",           "batch=6",      "epochs=1",
        "refine_epochs=0",    "inversion_steps=1", "milestone=[]", "tasks=2",
        "images_per_class=3", "size=16",           "data=known"};
    rc_run_settings settings = {.config = rc_config_default(),
                                .methods = 1,
                                .backend = "cpu",
                                .threads = 1,
                                .jobs = 1,
                                .out = folder,
                                .resume = resume,
                                .stop_after = stop_after,
                                .checkpoint_seconds = 1000,
                                .report_seconds = 1,
                                .command_line = "test",
                                .line = ignore_line};
    for (size_t i = 0; i < sizeof small / sizeof *small; i++)
        SUCCEEDS(rc_config_set_pair(&settings.config, small[i]));
    SUCCEEDS(rc_config_set(&settings.config, "task_sizes", "2,1"));
    SUCCEEDS(rc_method_find("cwd", &settings.method[0]));
    return rc_experiment_run(&settings);
}

/* Goes on from a model that was changed: refused, or the run ends as if nobody had touched it. */
static void resume_with(const claim *c, const craft *good, const craft *expected)
{
    char name[200];
    craft file = craft_copy(good), found;
    name_claim(c, name, sizeof name);
    snprintf(trying, sizeof trying, "a run with %s", name);
    if (!make(&file, c)) {
        craft_free(&file);
        return;
    }
    assert_int_equal(system("rm -rf run && cp -r stopped run"), 0);
    craft_write(&file, "run/cwd/task-1.safetensors");
    craft_free(&file);
    size_t before = rc_bytes_allocated();
    double began = rc_now();
    rc_memory_allow(allowed, 0);
    rc_clear_message();
    rc_status status = run("run", true, 0);
    rc_memory_set_budget(SIZE_MAX);
    tried++;
    refused += status != RC_OK;
    check_status("resuming", status, began);
    if (rc_bytes_allocated() != before)
        fail_msg("%s: %zu bytes stay allocated", trying, rc_bytes_allocated() - before);
    if (status != RC_OK)
        return;
    craft_read("run/cwd/task-2.safetensors", &found);
    if (found.size != expected->size || memcmp(found.data, expected->data, found.size) != 0)
        fail_msg("%s: the run ends with another model", trying);
    craft_free(&found);
}

static void runs_go_on_from_no_lie(void **state)
{
    (void)state;
    craft good, expected;
    write_pictures();
    list_claims();
    tried = refused = worked = 0;
    SUCCEEDS(run("stopped", false, 1));
    assert_int_equal(system("cp -r stopped run"), 0);
    SUCCEEDS(run("run", true, 0));
    craft_read("stopped/cwd/task-1.safetensors", &good);
    craft_read("run/cwd/task-2.safetensors", &expected);
    for (int i = 0, step = light() ? 307 : 61; i < claim_count; i += step)
        resume_with(&claims[i], &good, &expected);
    static const claim chosen[] = {{SETTING, "batch", NULL, "7"},
                                   {SETTING, "seed", NULL, "9"},
                                   {SETTING, "epochs", NULL, "3"},
                                   {SETTING, "learning_rate", NULL, "0.5"},
                                   {SETTING, "generator_width", NULL, "16"},
                                   {METADATA, "mean", NULL, "[0.25, 0.25, 0.25]"},
                                   {METADATA, "image", NULL, "[32, 32, 3]"},
                                   {METADATA, "image", NULL, "[8, 8, 3]"},
                                   {METADATA, "method", NULL, "finetune"},
                                   {METADATA, "classes", NULL, "[\"b\", \"a\"]"},
                                   {METADATA, "tasks", NULL, "[1, 1]"}};
    for (size_t i = 0; i < sizeof chosen / sizeof *chosen; i++)
        resume_with(&chosen[i], &good, &expected);
    print_message("%d runs, %d refused\n", tried, refused);
    assert_true(refused > tried / 4 && refused < tried);
    craft_free(&good);
    craft_free(&expected);
}

int main(void)
{
#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, data_enter_folder, data_leave_folder)
    const struct CMUnitTest tests[] = {IN_FOLDER(claims_alone), IN_FOLDER(claims_in_pairs),
                                       IN_FOLDER(runs_go_on_from_no_lie)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
