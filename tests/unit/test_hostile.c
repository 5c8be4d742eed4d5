/* Every kind of file that the library reads, cut short at every place and with bytes changed at every place (large
 * files: at many). Each must give a status and a message that names the file, or a sound result. Nothing stays
 * allocated, and no damage leads to a request for much memory. The sanitizers watch. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/file.h"
#include "base/memory.h"
#include "data/dataset.h"
#include "data/image.h"
#include "model/checkpoint.h"
#include "model/model_file.h"
#include "support/data_sets.h"

/* ---- memory ------------------------------------------------------------------------------------------------------ */

/* No small file is worth more. */
static const size_t largest_block = (size_t)32 << 20;
static size_t asked;

int __real_posix_memalign(void **block, size_t alignment, size_t size);
int __wrap_posix_memalign(void **block, size_t alignment, size_t size);

int __wrap_posix_memalign(void **block, size_t alignment, size_t size)
{
    if (size > asked)
        asked = size;
    return __real_posix_memalign(block, alignment, size);
}

/* ---- readers ----------------------------------------------------------------------------------------------------- */

static rc_backend *backend;

static rc_status read_config(const char *path)
{
    rc_config config = rc_config_default();
    return rc_config_load(&config, path, NULL);
}

static rc_status read_model(const char *path)
{
    rc_saved_model model;
    RC_TRY(rc_model_file_load(path, backend, &model));
    rc_saved_model_destroy(&model);
    return RC_OK;
}

static rc_status read_checkpoint(const char *path)
{
    rc_position position;
    rc_safetensors *file;
    float reals[5];
    int32_t integers[3];
    rc_state state = {0};
    rc_state_add(&state, "student.param", RC_STATE_REAL, reals, 5);
    rc_state_add(&state, "labels", RC_STATE_INT32, integers, 3);
    RC_TRY(rc_checkpoint_open(path, "fingerprint", &position, &file));
    rc_status status = rc_checkpoint_restore(file, backend, &state);
    rc_safetensors_close(file);
    return status == RC_OK ? RC_OK : rc_fail(status, "%s: %s", path, rc_message());
}

static rc_status read_image(const char *path)
{
    rc_image image;
    RC_TRY(rc_image_read(path, NULL, &image));
    rc_image_free(&image);
    return RC_OK;
}

/* The data set in the current folder. */
static rc_status read_data(const char *path)
{
    (void)path;
    rc_dataset dataset;
    RC_TRY(rc_dataset_open(".", NULL, &dataset));
    rc_dataset_close(&dataset);
    return RC_OK;
}

/* ---- damage ------------------------------------------------------------------------------------------------------ */

typedef rc_status reader(const char *path);

static int tried, refused;

static void attempt(reader *read, const char *path, const uint8_t *data, size_t size)
{
    size_t before = rc_bytes_allocated();
    remove(path); /* a file that is cut and written again goes to the disk at once */
    data_write(path, data, size);
    asked = 0;
    rc_clear_message();
    rc_status status = read(path);
    tried++;
    if (status != RC_OK) {
        refused++;
        if (strstr(rc_message(), path) == NULL)
            fail_msg("'%s' of %zu bytes: the message does not name it: %s", path, size, rc_message());
    }
    if (rc_bytes_allocated() != before)
        fail_msg("'%s' of %zu bytes: something stays allocated after: %s", path, size, rc_message());
    if (asked > largest_block)
        fail_msg("'%s' of %zu bytes: %zu bytes were asked for: %s", path, size, asked, rc_message());
}

/* Where everything is slow, every seventh place does. */
static bool light(void)
{
    return getenv("RECOLLECT_TEST_LIGHT") != NULL;
}

/* The next place to damage: every one of a small file and of both ends of a large one, some between. */
static size_t next_place(size_t at, size_t size)
{
    size_t every = light() ? 64 : 128, step = light() ? 7 : 1;
    if (at < every || at + every / 2 > size)
        return at + step;
    return at + (size / 32 > step ? size / 32 : step);
}

/* `least` percent of the damaged files must be refused, as long as both ends are damaged at every place: otherwise
 * nothing is checked. */
static void damage(reader *read, const char *path, const uint8_t *good, size_t size, int least)
{
    uint8_t *data = malloc(size + 1);
    assert_non_null(data);
    memcpy(data, good, size);
    data_write(path, good, size);
    if (read(path) != RC_OK)
        fail_msg("'%s' is refused as it is: %s", path, rc_message());
    tried = refused = 0;
    for (size_t at = 0; at < size; at = next_place(at, size)) {
        attempt(read, path, data, at);
        static const uint8_t values[] = {0x00, 0xFF, '9', '-', '\n'};
        data[at] = (uint8_t)(good[at] ^ 1u << at % 8);
        attempt(read, path, data, size);
        data[at] = values[at % sizeof values];
        attempt(read, path, data, size);
        data[at] = good[at];
    }
    data[size] = 'x';
    attempt(read, path, data, size + 1);
    data_write(path, good, size); /* as it was, for the others */
    free(data);
    print_message("%s: %d of %d damaged files were refused\n", path, refused, tried);
    if (!light() && 100 * refused < least * tried)
        fail_msg("'%s': no more than %d of %d damaged files were refused", path, refused, tried);
}

static void damage_file(reader *read, const char *path, const char *source, int least)
{
    char *data;
    size_t size;
    if (rc_file_read(source, 1 << 20, &data, &size) != RC_OK)
        fail_msg("%s", rc_message());
    damage(read, path, (const uint8_t *)data, size, least);
    rc_free(NULL, data);
}

static void damage_and_free(reader *read, const char *path, data_bytes bytes, int least)
{
    damage(read, path, bytes.data, bytes.size, least);
    free(bytes.data);
}

static void write_and_free(const char *path, data_bytes bytes)
{
    data_write(path, bytes.data, bytes.size);
    free(bytes.data);
}

/* ---- the files --------------------------------------------------------------------------------------------------- */

static const char settings[] = "# ours\nformat: 'cifar100'\nexif: false\nclass_order: [3, 1, 2]\ntasks: 5\n"
                               "learning_rate: 1.5e-1\nmilestone: [80, 120]\nnet: resnet-small\nnet_width: 16\n";
static const char published[] =
    "seed_everything: 1\ntrainer:\n  logger: true\n  callbacks: null\n  max_epochs: 200\n  deterministic: true\n"
    "model:\n  base_lr: 0.1\n  milestones:\n  - 80\n  - 120\n  lambda_norm: 0.1\n  inv_alpha_gem: 0.05\n"
    "  bn_mmt: 0.9\n  num_inv_iters: 5000\n  finetuning_epochs: 40\n  tag: test\n"
    "data:\n  root: ./data\n  dataset: cifar100\n  num_tasks: 10\n  class_order: [23, 8, 11]\n  init_task_splits: 0\n";

static void damaged_configurations(void **state)
{
    (void)state;
    damage(read_config, "own.yaml", (const uint8_t *)settings, sizeof settings - 1, 30);
    damage(read_config, "published.yaml", (const uint8_t *)published, sizeof published - 1, 5);
}

static void damaged_models_and_checkpoints(void **state)
{
    (void)state;
    assert_int_equal(rc_backend_open("cpu", 1, NULL, &backend), RC_OK);
    rc_saved_model model = {.config = rc_config_default()};
    rc_augment image = {.h = 14, .w = 14, .c = 1, .mean = {0.1f}, .std = {0.4f}};
    const rc_method *method;
    assert_int_equal(rc_config_set(&model.config, "net", "resnet-small"), RC_OK);
    assert_int_equal(rc_config_set(&model.config, "net_width", "4"), RC_OK);
    assert_int_equal(rc_config_set(&model.config, "generator", "generator-small"), RC_OK);
    assert_int_equal(rc_method_find("cwd", &method), RC_OK);
    assert_int_equal(rc_learner_create(&model.learner, backend, &model.config.settings, method, &image), RC_OK);
    assert_int_equal(rc_head_grow(&model.learner.student.head, 1, (rc_rng){9, 1}), RC_OK);
    model.class_name = rc_alloc_zeroed(NULL, 1, sizeof *model.class_name);
    model.class_name[0] = rc_alloc_zeroed(NULL, 2, 1);
    model.class_name[0][0] = 'a';
    assert_int_equal(rc_model_file_save("good", &model, true), RC_OK);
    rc_saved_model_destroy(&model);
    damage_file(read_model, "model.safetensors", "good", 60);

    float reals[5] = {1, 2, 3, 4, 5};
    int32_t integers[3] = {7, 8, 9};
    rc_state saved = {0};
    rc_state_add(&saved, "student.param", RC_STATE_REAL, reals, 5);
    rc_state_add(&saved, "labels", RC_STATE_INT32, integers, 3);
    rc_position position = {.task = 2, .stage = RC_STAGE_REFINEMENT, .step = 40, .seconds = 12.5, .log_offset = 77};
    assert_int_equal(rc_checkpoint_save("good", backend, &saved, &position, "fingerprint"), RC_OK);
    damage_file(read_checkpoint, "checkpoint.safetensors", "good", 60);
    rc_backend_close(backend);
}

static void damaged_pictures(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        int least;
    } pictures[] = {{"baseline_420.jpg", 30},  {"progressive.jpg", 30}, {"cmyk.jpg", 30},
                    {"orientation_6.jpg", 30}, {"rgb.png", 90},         {"interlaced.png", 90},
                    {"bytes.pgm", 30},         {"text.ppm", 30},        {"sixteen.ppm", 30}};
    for (size_t i = 0; i < sizeof pictures / sizeof *pictures; i++) {
        char source[512];
        snprintf(source, sizeof source, RC_SOURCE_DIR "/tests/fixtures/pictures/%s", pictures[i].name);
        damage_file(read_image, pictures[i].name, source, pictures[i].least);
    }
}

static void damaged_cifar(void **state)
{
    (void)state;
    write_and_free("test.bin", data_cifar_binary(1, 1, 2, 100));
    write_and_free("fine_label_names.txt", data_names_text(100));
    damage_and_free(read_data, "train.bin", data_cifar_binary(0, 1, 2, 100), 30);
    damage_and_free(read_data, "fine_label_names.txt", data_names_text(100), 30);
}

static void damaged_pickles(void **state)
{
    (void)state;
    data_pickle_style python2 = {false, false}, python3 = {true, false};
    write_and_free("test", data_cifar_pickle(1, 1, "fine_labels", 100, python2));
    write_and_free("meta", data_names_pickle("fine_label_names", 100));
    damage_and_free(read_data, "train", data_cifar_pickle(0, 1, "fine_labels", 100, python2), 40);
    damage_and_free(read_data, "train", data_cifar_pickle(0, 1, "fine_labels", 100, python3), 40);
    damage_and_free(read_data, "meta", data_names_pickle("fine_label_names", 100), 30);
}

static void damaged_idx(void **state)
{
    (void)state;
    write_and_free("train-labels-idx1-ubyte", data_idx_labels(3, 2));
    write_and_free("t10k-images-idx3-ubyte", data_idx_images(2, 4, 4));
    write_and_free("t10k-labels-idx1-ubyte", data_idx_labels(2, 2));
    damage_and_free(read_data, "train-images-idx3-ubyte", data_idx_images(3, 4, 4), 40);
    damage_and_free(read_data, "train-labels-idx1-ubyte", data_idx_labels(3, 2), 40);
    remove("train-labels-idx1-ubyte");
    data_bytes labels = data_idx_labels(3, 2);
    data_write_gzip("good", labels.data, labels.size);
    free(labels.data);
    damage_file(read_data, "train-labels-idx1-ubyte.gz", "good", 40);
}

static rc_status read_archive(const char *path)
{
    rc_dataset dataset;
    RC_TRY(rc_dataset_open(path, &(rc_data_settings){.format = "cifar100"}, &dataset));
    rc_dataset_close(&dataset);
    return RC_OK;
}

static void damaged_archives(void **state)
{
    (void)state;
    data_bytes tar = {0}, image = data_cifar_binary(0, 1, 2, 100);
    data_add_tar(&tar, "cifar-100-binary/", '5', NULL, 0);
    data_add_tar(&tar, "cifar-100-binary/train.bin", '0', image.data, image.size);
    data_add_tar(&tar, "cifar-100-binary/test.bin", '0', image.data, image.size);
    data_end_tar(&tar);
    free(image.data);
    data_write_gzip("good", tar.data, tar.size);
    damage_file(read_archive, "cifar.tar.gz", "good", 60);
    damage_and_free(read_archive, "cifar.tar", tar, 30);
}

static void damaged_lists(void **state)
{
    (void)state;
    data_write_colour("train/a.ppm", 4, 4, 1, 2, 3);
    data_write_colour("train/b.ppm", 4, 4, 1, 2, 3);
    data_write_colour("val/a.ppm", 4, 4, 1, 2, 3);
    data_write_text("val_1.txt", "val/a.ppm 0\n");
    static const char list[] = "train/a.ppm 0\ntrain/b.ppm 1\n";
    char text[64];
    data_write_text("train_1.txt", list);
    assert_int_equal(read_data(NULL), RC_OK);
    /* A path that is changed leads elsewhere: then the message names the picture, not the list. */
    static const char values[] = {0, '\n', ' ', '/', '0', '9', 'x', '\xFF'};
    for (size_t at = 0; at < sizeof list - 1; at++)
        for (size_t i = 0; i < sizeof values; i++) {
            memcpy(text, list, sizeof list);
            text[at] = values[i];
            data_write("train_1.txt", text, sizeof list - 1);
            rc_clear_message();
            rc_dataset dataset;
            if (rc_dataset_open(".", &(rc_data_settings){.format = "list"}, &dataset) == RC_OK)
                rc_dataset_close(&dataset);
            else if (strstr(rc_message(), "train") == NULL)
                fail_msg("byte %zu is %d: %s", at, values[i], rc_message());
        }
}

int main(void)
{
#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, data_enter_folder, data_leave_folder)
    const struct CMUnitTest tests[] = {
        IN_FOLDER(damaged_configurations), IN_FOLDER(damaged_models_and_checkpoints),
        IN_FOLDER(damaged_pictures),       IN_FOLDER(damaged_cifar),
        IN_FOLDER(damaged_pickles),        IN_FOLDER(damaged_idx),
        IN_FOLDER(damaged_archives),       IN_FOLDER(damaged_lists),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
