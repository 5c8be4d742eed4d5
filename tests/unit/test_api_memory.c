/* Memory that runs out. Every allocation of a small program fails once. The call that needed it must return
 * RECOLLECT_OUT_OF_MEMORY with a message, leave the model as it was, and leak nothing. First for the caller's own
 * allocator, from which the engine takes its memory, then for everything that the library takes from the heap (the
 * linker redirects its calls to the functions here). tests/trust/test_sweep.sh refuses what other libraries allocate
 * for it. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/file.h"
#include "base/memory.h"
#include "support/api_data.h"
#include "support/published_weights.h"
#include "support/torch_write.h"

/* ---- the heap ------------------------------------------------------------------------------------------ */

static int heap_calls, heap_fails_at; /* 0: never */
static size_t heap_largest;           /* block that was asked for */
static size_t picture_largest;        /* the same while pictures were drawn, which heap_largest leaves out */

static int heap_held; /* blocks */

int __real_posix_memalign(void **block, size_t align, size_t size);
void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *block, size_t size);
void __real_free(void *block);
int __wrap_posix_memalign(void **block, size_t align, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *block, size_t size);
void __wrap_free(void *block);

/* Counts one; true: it fails. */
static bool heap_refuses(size_t size)
{
    heap_largest = size > heap_largest ? size : heap_largest;
    return ++heap_calls == heap_fails_at;
}

static void *heap_gave(void *block)
{
    heap_held += block != NULL;
    return block;
}

int __wrap_posix_memalign(void **block, size_t align, size_t size)
{
    int error = heap_refuses(size) ? ENOMEM : __real_posix_memalign(block, align, size);
    heap_held += error == 0;
    return error;
}

void *__wrap_malloc(size_t size)
{
    return heap_refuses(size) ? NULL : heap_gave(__real_malloc(size));
}

void *__wrap_calloc(size_t count, size_t size)
{
    return heap_refuses(count * size) ? NULL : heap_gave(__real_calloc(count, size));
}

void *__wrap_realloc(void *block, size_t size)
{
    if (heap_refuses(size))
        return NULL;
    void *moved = __real_realloc(block, size);
    return block == NULL ? heap_gave(moved) : moved;
}

void __wrap_free(void *block)
{
    heap_held -= block != NULL;
    __real_free(block);
}

/* ---- an allocator -------------------------------------------------------------------------------------- */

typedef struct counter {
    int calls, fails_at; /* 0: never */
    int held;            /* blocks */
    size_t bytes;        /* all that were ever asked for */
    size_t largest;      /* of the blocks */
} counter;

static void *counted_alloc(void *user, size_t size, size_t align)
{
    counter *c = user;
    void *block;
    assert_true(size > 0 && align <= 64 && (align & (align - 1)) == 0);
    if (++c->calls == c->fails_at || __real_posix_memalign(&block, align, size) != 0)
        return NULL;
    c->held++;
    c->largest = size > c->largest ? size : c->largest;
    c->bytes += size;
    return block;
}

static void counted_free(void *user, void *block)
{
    counter *c = user;
    assert_non_null(block);
    c->held--;
    __real_free(block);
}

/* ---- a small program ----------------------------------------------------------------------------------- */

enum { IMAGES = 8, CLASSES = 2 };

static api_data first, second;
static char folder[] = "/tmp/recollect-test-XXXXXX";
static char dreams[] = "/tmp/recollect-test-XXXXXX"; /* another folder */
static char path[64], published[64], exported[64];

typedef struct program {
    recollect_context *context;
    recollect_model *model;
    recollect_predictor *predictor;
    counter *counter;
    const char *path, *dreams;
    /* What the model said after its first lesson. */
    bool taught;
    float probabilities[IMAGES * CLASSES];
} program;

static recollect_status open_context(program *p)
{
    recollect_settings settings;
    recollect_settings_default(&settings, sizeof settings);
    settings.threads = 1;
    if (p->counter != NULL)
        settings.allocator = (recollect_allocator){counted_alloc, counted_free, p->counter};
    return recollect_context_create(&settings, &p->context);
}

static recollect_status set_options(program *p)
{
    static const char *const options[][2] = {
        {"net_width", "2"},  {"generator_width", "4"}, {"noise", "4"},  {"batch", "4"},
        {"crop_pad", "0"},   {"min_steps", "1"},       {"epochs", "2"}, {"refine_epochs", "1"},
        {"milestone", "[]"}, {"inversion_steps", "1"},
    };
    recollect_status status = RECOLLECT_OK;
    for (size_t i = 0; status == RECOLLECT_OK && i < sizeof options / sizeof *options; i++)
        status = recollect_model_set(p->model, options[i][0], options[i][1]);
    return status;
}

static recollect_status learn(program *p, const api_data *data)
{
    return recollect_learn(p->model, &data->images, data->labels, data->names, data->classes, NULL);
}

static recollect_status read_image(void *user, int index, uint8_t *pixels)
{
    const api_data *data = user;
    memcpy(pixels, data->pixels + (size_t)index * API_IMAGE, API_IMAGE);
    return RECOLLECT_OK;
}

static recollect_status learn_stream(program *p, api_data *data)
{
    recollect_stream stream = {.size = sizeof stream,
                               .count = data->images.count,
                               .height = API_SIZE,
                               .width = API_SIZE,
                               .channels = 1,
                               .labels = data->labels,
                               .read = read_image,
                               .user = data};
    return recollect_learn_stream(p->model, &stream, data->names, data->classes, NULL);
}

static recollect_status predict(program *p, float *probabilities)
{
    float unfamiliarity[IMAGES];
    return recollect_predict(p->model, &first.images, CLASSES, NULL, probabilities, unfamiliarity);
}

static void ignore_prediction(void *user, const recollect_prediction *prediction)
{
    (void)prediction;
    *(int *)user += 1;
}

static void ignore_line(void *user, const char *text)
{
    (void)user;
    (void)text;
}

/* Everything that a predictor does. The folder has no picture, so that nothing is read from it. */
static recollect_status use_predictor(program *p)
{
    static uint8_t file[16 + API_IMAGE] = "P5 16 16 255\n";
    float features[64 * IMAGES];
    recollect_outputs outputs = {.size = sizeof outputs, .features = features};
    recollect_picture pictures[2] = {{.bytes = file, .size = 13 + API_IMAGE}, {.path = folder}};
    recollect_images large = {first.pixels, IMAGES / 4, 2 * API_SIZE, 2 * API_SIZE, 1};
    recollect_prediction prediction = {.size = sizeof prediction, .path = "a"};
    int seen = 0;
    recollect_status status = recollect_predictor_create(p->model, 1, &p->predictor);
    if (status == RECOLLECT_OK)
        status = recollect_predictor_images(p->predictor, &first.images, &outputs);
    if (status == RECOLLECT_OK)
        status = recollect_predictor_images(p->predictor, &large, &outputs);
    if (status == RECOLLECT_OK)
        status = recollect_predictor_pictures(p->predictor, pictures, 1, &outputs);
    if (status == RECOLLECT_OK)
        status = recollect_predictor_each(p->predictor, pictures + 1, 1, 1, ignore_prediction, &seen);
    if (status == RECOLLECT_OK)
        status = recollect_describe_prediction(p->model, &prediction, ignore_line, NULL);
    recollect_predictor_destroy(&p->predictor);
    return status;
}

/* What there is to be said of a model, and its bytes. */
static recollect_status describe(program *p)
{
    recollect_learn_result result = {.size = sizeof result, .added = CLASSES};
    void *bytes;
    size_t size;
    recollect_status status = recollect_describe_model(p->model, 1, ignore_line, NULL);
    if (status == RECOLLECT_OK)
        status = recollect_describe_learning(p->model, &result, "x", NULL, ignore_line, NULL);
    if (status == RECOLLECT_OK)
        status = recollect_describe_methods(1, ignore_line, NULL);
    if (status == RECOLLECT_OK)
        status = recollect_describe_net("resnet32", 3, 32, ignore_line, NULL);
    if (status == RECOLLECT_OK)
        status = recollect_check_option("preset", "learn");
    if (status == RECOLLECT_OK)
        status = recollect_check_save(p->path, 0, 1);
    if (status == RECOLLECT_OK)
        status = recollect_model_save_memory(p->model, &bytes, &size);
    if (status == RECOLLECT_OK)
        recollect_free(bytes);
    return status;
}

static recollect_status draw_dreams(program *p)
{
    const recollect_dream_settings settings = {
        .size = sizeof settings, .per_class = 1, .steps = 1, .scale = 1, .overwrite = 1};
    int taken[CLASSES];
    double spread[CLASSES];
    recollect_dream_result result = {.size = sizeof result, .taken = taken, .spread = spread};
    size_t before = heap_largest;
    heap_largest = 0;
    recollect_status status = recollect_dream_folder(p->model, p->dreams, &settings, &result);
    picture_largest = heap_largest;
    heap_largest = before;
    if (status == RECOLLECT_OK)
        status = recollect_describe_dreams(p->model, &result, p->dreams, ignore_line, NULL);
    return status;
}

static recollect_status evaluate(program *p)
{
    recollect_evaluation *evaluation;
    recollect_images large = {first.pixels, IMAGES / 4, 2 * API_SIZE, 2 * API_SIZE, 1};
    recollect_status status = recollect_evaluate(p->model, &large, first.labels, &evaluation);
    if (status == RECOLLECT_OK)
        status = recollect_describe_evaluation(p->model, evaluation, NULL, ignore_line, NULL);
    recollect_evaluation_destroy(&evaluation);
    return status;
}

/* Up to the first failure. */
static recollect_status run(program *p)
{
    recollect_status status = open_context(p);
    if (status == RECOLLECT_OK)
        status = recollect_model_create(p->context, &p->model);
    if (status == RECOLLECT_OK)
        status = set_options(p);
    if (status == RECOLLECT_OK)
        status = learn(p, &first);
    if (status == RECOLLECT_OK)
        status = predict(p, p->probabilities);
    if (status != RECOLLECT_OK)
        return status;
    p->taught = true;
    status = use_predictor(p);
    if (status == RECOLLECT_OK)
        status = evaluate(p);
    if (status != RECOLLECT_OK)
        return status;
    static uint8_t pixels[2 * API_IMAGE];
    int made;
    status = recollect_dream(p->model, 0, 2, pixels, &made);
    if (status == RECOLLECT_OK)
        status = draw_dreams(p);
    if (status == RECOLLECT_OK)
        status = describe(p);
    if (status == RECOLLECT_OK)
        status = recollect_model_set(p->model, "hold_out", "0.25");
    if (status == RECOLLECT_OK)
        status = learn_stream(p, &second);
    if (status == RECOLLECT_OK)
        status = recollect_model_save(p->model, p->path, 1);
    if (status == RECOLLECT_OK) {
        recollect_model_destroy(&p->model);
        p->taught = false; /* it knows more by now */
        status = recollect_model_load(p->context, p->path, &p->model);
    }
    return status;
}

/* Somebody's weights become a model. */
static recollect_status import(program *p)
{
    const recollect_import_settings settings = {.size = sizeof settings, .net = "cifar-resnet20"};
    recollect_status status = open_context(p);
    return status == RECOLLECT_OK ? recollect_model_import(p->context, published, &settings, &p->model) : status;
}

/* A model becomes a file of every format. */
static recollect_status export_all(program *p)
{
    static const char *const formats[] = {"onnx", "torch", "c"};
    recollect_status status = open_context(p);
    if (status == RECOLLECT_OK)
        status = recollect_model_load(p->context, p->path, &p->model);
    for (int i = 0; status == RECOLLECT_OK && i < 3; i++)
        status = recollect_model_export(p->model, formats[i], exported, 1);
    return status;
}

/* After a failure the model must still answer as before. */
static void check_model(program *p)
{
    float again[IMAGES * CLASSES];
    if (!p->taught || p->model == NULL || recollect_model_classes(p->model) != CLASSES)
        return;
    assert_int_equal(predict(p, again), RECOLLECT_OK);
    assert_memory_equal(p->probabilities, again, sizeof again);
}

static void end(program *p)
{
    recollect_model_destroy(&p->model);
    recollect_context_destroy(&p->context);
}

/* ---- tests --------------------------------------------------------------------------------------------- */

static int set_up(void **state)
{
    (void)state;
    if (mkdtemp(folder) == NULL || mkdtemp(dreams) == NULL)
        return -1;
    snprintf(path, sizeof path, "%s/model.safetensors", folder);
    snprintf(published, sizeof published, "%s/published.pth", folder);
    snprintf(exported, sizeof exported, "%s/exported.h", folder);
    published_weights *weights = published_weights_make("cifar-resnet20", 2);
    size_t size;
    uint8_t *bytes = torch_write(weights->tensor, weights->count, (torch_style){0}, &size);
    published_weights_free(weights);
    rc_status written = rc_file_write_atomic(published, bytes, size);
    free(bytes);
    if (written != RC_OK)
        return -1;
    api_data_make(&first, 0, CLASSES, IMAGES / CLASSES, 1);
    api_data_make(&second, 2, 1, IMAGES, 2);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    api_data_free(&first);
    api_data_free(&second);
    remove(path);
    remove(published);
    remove(exported);
    static const char *const pictures[] = {"all.png", "01-rows.png", "02-columns.png"};
    for (size_t i = 0; i < sizeof pictures / sizeof *pictures; i++) {
        char name[96];
        snprintf(name, sizeof name, "%s/%s", dreams, pictures[i]);
        remove(name);
    }
    return rmdir(dreams) == 0 ? rmdir(folder) : -1;
}

static void own_memory_is_used_and_given_back(void **state)
{
    (void)state;
    counter c = {0};
    program p = {.counter = &c, .path = path, .dreams = dreams};
    size_t before = rc_bytes_allocated();
    heap_largest = 0;
    assert_int_equal(run(&p), RECOLLECT_OK);
    assert_true(c.held > 0);
    end(&p);
    print_message("%d allocations, %zu bytes, the largest of %zu; largest on the heap: %zu\n", c.calls, c.bytes,
                  c.largest, heap_largest);
    /* What stays on the heap is small: handles (a model's is the largest), names, lists, a file on its way; and a
     * picture that is drawn, one at a time. A sheet of two rows is 447 x 202 pixels, as wide as its legend. */
    assert_in_range(picture_largest, 447 * 202 * 3, 447 * 202 * 3 + 64); /* and what the heap notes of a block */
    assert_true(heap_largest < 262144 && c.largest > heap_largest && c.bytes > 10 * heap_largest);
    assert_int_equal(c.held, 0);
    assert_int_equal(rc_bytes_allocated(), before);
    assert_true(c.bytes > 500000); /* the workspace of the engine alone is half of it */
}

/* Fails every third allocation in turn (where everything is slow: every 13th; where all is asked for: each);
 * `*fails_at` says which. Returns how many there were. */
static int fail_each(recollect_status (*program_of)(program *), counter *c, int *fails_at, int *calls)
{
    size_t before = rc_bytes_allocated();
    int held = heap_held;
    int step = getenv("RECOLLECT_TEST_ALL") != NULL ? 1 : getenv("RECOLLECT_TEST_LIGHT") != NULL ? 13 : 3;
    for (int k = 1;; k += step) {
        program p = {.counter = c, .path = path, .dreams = dreams};
        *calls = 0;
        *fails_at = k;
        recollect_status status = program_of(&p);
        *fails_at = 0;
        if (*calls >= k) {
            if (status != RECOLLECT_OUT_OF_MEMORY || recollect_last_message()[0] == '\0')
                fail_msg("allocation %d failed, but the status is \"%s\" and the message \"%s\"", k,
                         recollect_status_text(status), recollect_last_message());
            check_model(&p);
        }
        end(&p);
        if (rc_bytes_allocated() != before)
            fail_msg("allocation %d failed, and %zu bytes leaked", k, rc_bytes_allocated() - before);
        if (heap_held != held)
            fail_msg("allocation %d failed, and %d blocks of the heap leaked", k, heap_held - held);
        if (*calls < k) {
            assert_int_equal(status, RECOLLECT_OK);
            return *calls;
        }
    }
}

static void every_failure_of_own_memory_is_survived(void **state)
{
    (void)state;
    counter c = {0};
    int count = fail_each(run, &c, &c.fails_at, &c.calls);
    print_message("%d allocations failed, one after the other\n", count);
    assert_int_equal(c.held, 0);
    assert_true(count > 30);
}

static void every_failure_of_the_heap_is_survived(void **state)
{
    (void)state;
    int count = fail_each(run, NULL, &heap_fails_at, &heap_calls);
    print_message("%d allocations failed, one after the other\n", count);
    assert_true(count > 100);
}

static void every_failure_of_import_is_survived(void **state)
{
    (void)state;
    int count = fail_each(import, NULL, &heap_fails_at, &heap_calls);
    print_message("%d allocations failed, one after the other\n", count);
    assert_true(count > 100);
}

static void every_failure_of_export_is_survived(void **state)
{
    (void)state;
    program p = {.path = path, .dreams = dreams};
    assert_int_equal(run(&p), RECOLLECT_OK); /* the model is saved */
    end(&p);
    int count = fail_each(export_all, NULL, &heap_fails_at, &heap_calls);
    print_message("%d allocations failed, one after the other\n", count);
    assert_true(count > 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(own_memory_is_used_and_given_back),
        cmocka_unit_test(every_failure_of_own_memory_is_survived),
        cmocka_unit_test(every_failure_of_the_heap_is_survived),
        cmocka_unit_test(every_failure_of_import_is_survived),
        cmocka_unit_test(every_failure_of_export_is_survived),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
