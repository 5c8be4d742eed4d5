/* Models made by hand, with each claim of their headers pushed to its edges, alone and two at a time, in everything
 * that uses models: info, predict, eval, dream, learn, and resuming a run. Each model must be refused with a message
 * that names the file, or work as it should. Nothing stays allocated, nothing takes long, and no more memory is taken
 * than was allowed. The sanitizers watch.
 *
 * RECOLLECT_CLAIM_PAIRS=N tries N pairs, "all" every one (2.4 million), and every claim alone under sanitizers,
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
#include <time.h>

#include <cmocka.h>

#include "api/describe_model.h"
#include "api/dream.h"
#include "api/evaluate.h"
#include "api/learn.h"
#include "api/pictures.h"
#include "base/memory.h"
#include "experiment/experiment.h"
#include "forecast/allowance.h"
#include "support/claims.h"
#include "support/craft.h"
#include "support/data_files.h"
#include "support/succeeds.h"

enum { SIZE = 16, OLD = 3, IMAGES = 18 };

/* What is allowed here, and what a process has besides: its code, and the tables of the tests. */
static const size_t allowed = (size_t)96 << 20, besides = (size_t)64 << 20;
static const double too_long = 10; /* seconds of a processor, which others may use meanwhile */

static rc_backend *backend;

/* Where everything is slow, some of the claims do. */
static bool light(void)
{
    return getenv("RECOLLECT_TEST_LIGHT") != NULL;
}

/* Does the claim leave what the model says about an image alone? Settings are of learning and dreaming, but for
 * these. */
static bool keeps_answers(const claim *c)
{
    return c->place == CLAIM_SETTING && strcmp(c->key, "resize") != 0 && strcmp(c->key, "exif") != 0 &&
           strcmp(c->key, "test_shift") != 0;
}

/* ---- what is done with a model ----------------------------------------------------------------------------------- */

typedef struct answer {
    int label;
    double probability;
} answer;

static rc_status keep_answer(void *user, int index, const rc_answer *from)
{
    (void)index;
    answer *a = user;
    if (from->status != RC_OK)
        return RC_OK;
    a->label = from->label[0];
    a->probability = from->probability[0];
    return RC_OK;
}

static void ignore_line(void *user, const char *text)
{
    (void)user;
    (void)text;
}

static rc_status describe(rc_saved_model *model)
{
    RC_TRY(rc_describe_model(model, false, ignore_line, NULL));
    return rc_describe_model(model, true, ignore_line, NULL);
}

static rc_status predict(rc_saved_model *model, answer *a)
{
    rc_predictor_settings settings = {.backend = model->learner.backend, .threads = 1, .room = 1};
    rc_picture_list list = {0};
    rc_question question = {.count = 1, .source = rc_picture_list_source, .user = &list, .top = 1, .familiarity = true};
    rc_predictor *predictor;
    *a = (answer){-1, NAN};
    RC_TRY(rc_predictor_create(model, &settings, &predictor));
    rc_status status = rc_picture_list_search(&list, 0, "new/d/1.ppm", &settings.watch);
    if (status == RC_OK)
        status = rc_predictor_run(predictor, &question, keep_answer, a);
    rc_picture_list_free(&list);
    rc_predictor_destroy(predictor);
    return status;
}

static rc_status evaluate(rc_saved_model *model)
{
    rc_evaluate_settings settings = {.data = "known", .threads = 1};
    rc_dataset data;
    rc_named_evaluation e;
    RC_TRY(rc_evaluate_data(model, &settings, &data, &e));
    rc_named_evaluation_destroy(&e);
    rc_dataset_close(&data);
    return RC_OK;
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

static double processor_seconds(void)
{
    return (double)clock() / CLOCKS_PER_SEC;
}

static int tried, refused, worked;
static char trying[512];

static void check_status(const char *action, rc_status status, double began)
{
    if (status != RC_OK && rc_message()[0] == '\0')
        fail_msg("%s: %s ends with status %d and no message", trying, action, (int)status);
    if (status == RC_INTERNAL)
        fail_msg("%s: %s: %s", trying, action, rc_message());
    if (!light() && processor_seconds() - began > too_long)
        fail_msg("%s: %s took %.1f s", trying, action, processor_seconds() - began);
    worked += status == RC_OK;
}

/* Everything that can be done with a model that was loaded. */
static void use(rc_saved_model *model, const answer *expected)
{
    answer a;
    double began = processor_seconds();
    check_status("info", describe(model), began);
    began = processor_seconds();
    rc_status status = predict(model, &a);
    check_status("predict", status, began);
    if (status == RC_OK && expected != NULL && (a.label != expected->label || a.probability != expected->probability))
        fail_msg("%s: class %d with %.9g is predicted, expected %d with %.9g", trying, a.label, a.probability,
                 expected->label, expected->probability);
    began = processor_seconds();
    check_status("eval", evaluate(model), began);
    began = processor_seconds();
    check_status("dream", dream(model), began);
    began = processor_seconds();
    check_status("learn", learn(model), began);
}

/* expected: what the model says about the picture; NULL: that may change. */
static void attempt(const char *path, const answer *expected)
{
    rc_saved_model model;
    size_t before = rc_bytes_allocated();
    double began = processor_seconds();
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
        use(&model, expected);
        rc_saved_model_destroy(&model);
    }
    rc_backend_close(backend);
    rc_memory_set_budget(SIZE_MAX);
    if (rc_bytes_allocated() != before)
        fail_msg("%s: %zu bytes stay allocated", trying, rc_bytes_allocated() - before);
}

static void try_claims(const char *model, const craft *good, const claim *a, const claim *b, const answer *expected)
{
    char first[200], second[200] = "";
    craft file = craft_copy(good);
    bool made = claim_make(&file, a);
    claim_text(a, first, sizeof first);
    if (b != NULL) {
        claim_text(b, second, sizeof second);
        made = claim_make(&file, b) && made;
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
                       .class_name = rc_without_const(class_name),
                       .train = {.count = IMAGES, .images = pixels, .labels = labels}};
    rc_given given = {.data = data};
    rc_saved_model model = {0};
    rc_learn_settings settings = {
        .given = &given, .method = method, .set = small, .sets = sizeof small / sizeof *small, .threads = 1};
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
        SUCCEEDS(describe(&model)); /* all of it works as long as nobody lies */
        SUCCEEDS(predict(&model, &f->expected[m]));
        SUCCEEDS(evaluate(&model));
        SUCCEEDS(dream(&model));
        SUCCEEDS(learn(&model));
        rc_saved_model_destroy(&model);
    }
    rc_backend_close(backend);
    claims_list();
    tried = refused = worked = 0;
    return f;
}

static void end(fixture *f)
{
    print_message("%d claims: %d models tried, %d refused, %d actions done\n", claims_count, tried, refused, worked);
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
        for (int i = 0; i < claims_count; i++) {
            /* Settings are the same in all models. */
            bool other = claims[i].place == CLAIM_SETTING && i % MODELS != m;
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
    return text != NULL ? atoi(text) : light() ? 240 : 1500; /* with fewer, chance decides how many of them work */
}

static void claims_in_pairs(void **state)
{
    (void)state;
    fixture *f = begin();
    int pairs = wanted_pairs();
    for (int a = 0; pairs < 0 && a < claims_count; a++)
        for (int b = a + 1; b < claims_count; b++)
            try_claims(model_methods[(a + b) % MODELS], &f->good[(a + b) % MODELS], &claims[a], &claims[b],
                       &f->expected[(a + b) % MODELS]);
    for (int i = 0; i < pairs; i++) {
        rc_rng rng = {11, 5};
        int a = (int)rc_rng_below(rng, (uint64_t)(2 * i), (uint32_t)claims_count);
        int b = (int)rc_rng_below(rng, (uint64_t)(2 * i + 1), (uint32_t)claims_count), m = i % MODELS;
        try_claims(model_methods[m], &f->good[m], &claims[a], &claims[b], &f->expected[m]);
    }
    end(f);
}

/* ---- what must be refused, whatever else is right ---------------------------------------------------------------- */

static void must_refuse(const craft *file, const char *says)
{
    rc_saved_model model;
    craft_write(file, "hostile.safetensors");
    rc_status status = rc_model_file_load("hostile.safetensors", backend, &model);
    if (status == RC_OK || strstr(rc_message(), says) == NULL)
        fail_msg("expected '%s', but: %s", says, status == RC_OK ? "it is loaded" : rc_message());
}

static void lies_are_named(void **state)
{
    (void)state;
    static const struct {
        const char *method;
        claim claim;
        const char *says;
    } cases[] = {
        {"cwd", {CLAIM_METADATA, "tasks", NULL, "[1.5, 1.5]"}, "'tasks' holds 1.5, expected a whole number"},
        {"cwd", {CLAIM_METADATA, "tasks", NULL, "[3.5]"}, "'tasks' holds 3.5, expected a whole number"},
        {"cwd", {CLAIM_METADATA, "tasks", NULL, "[0, 3]"}, "'tasks' holds 0, expected a whole number from 1"},
        {"cwd",
         {CLAIM_METADATA, "tasks", NULL, "[30001]"},
         "'tasks' holds 30001, expected a whole number from 1 to 30000"},
        {"cwd", {CLAIM_METADATA, "image", NULL, "[16.5, 16.5, 1]"}, "'image' holds 16.5, expected a whole number"},
        {"cwd", {CLAIM_METADATA, "image", NULL, "[16, 16, 1.25]"}, "'image' holds 1.25, expected a whole number"},
        {"cwd", {CLAIM_METADATA, "image", NULL, "[16, 32, 1]"}, "images have 32 x 16 pixels, expected squares"},
        {"finetune", {CLAIM_METADATA, "image", NULL, "[32, 16, 1]"}, "images have 16 x 32 pixels, expected squares"},
        {"cwd", {CLAIM_METADATA, "image", NULL, "[16, 16, 2]"}, "images have 2 channels, expected 1 (grey) or 3"},
        {"cwd", {CLAIM_METADATA, "image", NULL, "[1025, 1025, 1]"}, "expected squares of 1 to 1024"},
        {"cwd", {CLAIM_METADATA, "classes", NULL, "[\"a\", \"b\", \"a\"]"}, "two classes are called 'a'"},
        {"cwd", {CLAIM_METADATA, "classes", NULL, "[\"a\", \"b\", \"c\\u202e\"]"}, "name of class 2: byte 1"},
        {"er", {CLAIM_METADATA, "buffer_offered", NULL, "[18.5]"}, "18.5 images were offered"},
        {"er", {CLAIM_METADATA, "buffer_offered", NULL, "[4294967296]"}, "4294967296 images were offered"},
        {"cwd", {CLAIM_SETTING, "test_batch", NULL, "0"}, "test_batch is 0, expected 1 to 65536"},
        {"cwd", {CLAIM_SETTING, "resize", NULL, "-5"}, "resize is -5, expected 0 to 4096"},
        {"cwd", {CLAIM_SETTING, "resize", NULL, "2147483647"}, "resize is 2147483647, expected 0 to 4096"},
        {"cwd", {CLAIM_SETTING, "size", NULL, "1025"}, "size is 1025, expected 0 to 1024"},
    };
    assert_int_equal(rc_backend_open("cpu", 1, NULL, &backend), RC_OK);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        craft file;
        make_model(cases[i].method, "good.safetensors");
        craft_read("good.safetensors", &file);
        assert_true(claim_make(&file, &cases[i].claim));
        must_refuse(&file, cases[i].says);
        craft_free(&file);
    }
    rc_backend_close(backend);
}

/* With weights that fit them, so that nothing but the rule stands between them and the readers of images. */
static void two_channels_are_none(void **state)
{
    (void)state;
    craft file;
    assert_int_equal(rc_backend_open("cpu", 1, NULL, &backend), RC_OK);
    make_model("finetune", "good.safetensors");
    craft_read("good.safetensors", &file);
    assert_true(craft_resize(&file, "backbone.conv_1_3x3.weight", "[4,1,3,3]", 36));
    rc_saved_model model;
    craft_write(&file, "hostile.safetensors");
    SUCCEEDS(rc_model_file_load("hostile.safetensors", backend, &model)); /* so far all is well */
    rc_saved_model_destroy(&model);
    assert_true(craft_resize(&file, "backbone.conv_1_3x3.weight", "[4,2,3,3]", 72));
    assert_true(craft_metadata(&file, "image", "[16, 16, 2]") && craft_metadata(&file, "mean", "[0.5, 0.5]") &&
                craft_metadata(&file, "std", "[0.5, 0.5]"));
    must_refuse(&file, "images have 2 channels");
    assert_true(craft_resize(&file, "backbone.conv_1_3x3.weight", "[4,3,3,3]", 108));
    assert_true(craft_metadata(&file, "image", "[16, 16, 3]") && craft_metadata(&file, "mean", "[0.5, 0.5, 0.5]") &&
                craft_metadata(&file, "std", "[0.5, 0.5, 0.5]"));
    craft_write(&file, "hostile.safetensors");
    answer a;
    write_pictures();
    SUCCEEDS(rc_model_file_load("hostile.safetensors", backend, &model));
    SUCCEEDS(predict(&model, &a));
    rc_saved_model_destroy(&model);
    craft_free(&file);
    rc_backend_close(backend);
}

/* ---- runs -------------------------------------------------------------------------------------------------------- */

static bool inverting;

static void look_at_progress(void *user, const char *where, const recollect_progress *progress)
{
    (void)user;
    (void)where;
    inverting = inverting || progress->stage == RECOLLECT_STAGE_INVERSION;
}

static bool is_inverting(void *user)
{
    (void)user;
    return inverting;
}

/* stop: in the first inversion, with a checkpoint. */
static rc_status run(const char *folder, bool resume, int stop_after, bool stop)
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
                                .line = ignore_line,
                                .watch = {.progress = look_at_progress, .cancelled = stop ? is_inverting : NULL}};
    inverting = false;
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
    claim_text(c, name, sizeof name);
    snprintf(trying, sizeof trying, "a run with %s", name);
    if (!claim_make(&file, c)) {
        craft_free(&file);
        return;
    }
    assert_int_equal(system("rm -rf run && cp -r stopped run"), 0);
    craft_write(&file, "run/cwd/task-1.safetensors");
    craft_free(&file);
    size_t before = rc_bytes_allocated();
    double began = processor_seconds();
    rc_memory_allow(allowed, 0);
    rc_clear_message();
    rc_status status = run("run", true, 0, false);
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
    claims_list();
    tried = refused = worked = 0;
    SUCCEEDS(run("stopped", false, 1, false));
    assert_int_equal(system("cp -r stopped run"), 0);
    SUCCEEDS(run("run", true, 0, false));
    craft_read("stopped/cwd/task-1.safetensors", &good);
    craft_read("run/cwd/task-2.safetensors", &expected);
    for (int i = 0, step = light() ? 307 : 61; i < claims_count; i += step)
        resume_with(&claims[i], &good, &expected);
    static const claim chosen[] = {{CLAIM_SETTING, "batch", NULL, "7"},
                                   {CLAIM_SETTING, "seed", NULL, "9"},
                                   {CLAIM_SETTING, "epochs", NULL, "3"},
                                   {CLAIM_SETTING, "learning_rate", NULL, "0.5"},
                                   {CLAIM_SETTING, "generator_width", NULL, "16"},
                                   {CLAIM_METADATA, "mean", NULL, "[0.25, 0.25, 0.25]"},
                                   {CLAIM_METADATA, "image", NULL, "[32, 32, 3]"},
                                   {CLAIM_METADATA, "image", NULL, "[8, 8, 3]"},
                                   {CLAIM_METADATA, "method", NULL, "finetune"},
                                   {CLAIM_METADATA, "classes", NULL, "[\"b\", \"a\"]"},
                                   {CLAIM_METADATA, "tasks", NULL, "[1, 1]"}};
    for (size_t i = 0; i < sizeof chosen / sizeof *chosen; i++)
        resume_with(&chosen[i], &good, &expected);
    print_message("%d runs, %d refused\n", tried, refused);
    assert_true(refused > tried / 4 && refused < tried);
    craft_free(&good);
    craft_free(&expected);
}

/* A checkpoint that is said to lie behind the end of its stage would skip the rest of it. */
static void checkpoints_lie_within_their_stage(void **state)
{
    (void)state;
    craft file;
    write_pictures();
    SUCCEEDS(run("run", false, 1, false));
    assert_int_equal(run("run", true, 0, true), RC_CANCELLED);
    craft_read("run/cwd/checkpoint.safetensors", &file);
    assert_true(craft_metadata(&file, "step", "2"));
    craft_write(&file, "run/cwd/checkpoint.safetensors");
    craft_free(&file);
    assert_int_equal(run("run", true, 0, false), RC_FORMAT);
    data_assert_message("checkpoint.safetensors is at step 2 of inversion, which has 1");
    assert_int_equal(remove("run/cwd/checkpoint.safetensors"), 0);
    SUCCEEDS(run("run", true, 0, false));
}

int main(void)
{
#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, data_enter_folder, data_leave_folder)
    const struct CMUnitTest tests[] = {
        IN_FOLDER(claims_alone),   IN_FOLDER(claims_in_pairs),       IN_FOLDER(runs_go_on_from_no_lie),
        IN_FOLDER(lies_are_named), IN_FOLDER(two_channels_are_none), IN_FOLDER(checkpoints_lie_within_their_stage)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
