/* The folder of a run and the trials in it: what run.json says, who may work in the folder, and the message of
 * everything that is refused, word for word. No run is trained here. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/machine.h"
#include "base/memory.h"
#include "experiment/commit.h"
#include "experiment/trial.h"
#include "support/data_files.h"
#include "support/succeeds.h"

/* ---- a run ------------------------------------------------------------------------------------------------------ */

enum { CLASSES = 4 };

static char *names[CLASSES] = {(char[]){"ant"}, (char[]){"bee"}, (char[]){"cat"}, (char[]){"dog"}};
static uint8_t pixels[12];
static int32_t train_labels[] = {0, 1, 2, 3, 3, 1, 3}, test_labels[] = {0, 2, 2};
static const rc_backend backend = {
    .about = {.name = "a backend", .isa = "a set", .precision = "fp16", .device = "a device", .threads = 3}};

static rc_dataset the_data(void)
{
    return (rc_dataset){.name = "animals",
                        .h = 1,
                        .w = 1,
                        .c = 1,
                        .classes = CLASSES,
                        .class_name = names,
                        .train = {.count = 7, .images = pixels, .labels = train_labels},
                        .test = {.count = 3, .images = pixels + 7, .labels = test_labels}};
}

static void set(rc_config *config, const char *key, const char *value)
{
    SUCCEEDS(rc_config_set(config, key, value));
}

static rc_config the_config(void)
{
    rc_config config = rc_config_default();
    set(&config, "data", "zoo");
    set(&config, "class_order", "seed");
    set(&config, "order", "5");
    set(&config, "seed", "11");
    set(&config, "epochs", "7");
    set(&config, "refine_epochs", "3");
    set(&config, "tasks", "2");
    return config;
}

/* Opens "run" with this configuration and data. */
static rc_status open_run(const rc_config *config, const rc_dataset *data, bool resume, bool shared,
                          rc_run_folder *folder)
{
    const rc_run_identity who = {
        .config = config, .data = data, .data_seed = 8, .backend = &backend, .command_line = "recollect run it"};
    memset(folder, 0xff, sizeof *folder); /* what was there before does not matter */
    return rc_run_folder_open(folder, "run", &who, resume, shared);
}

/* Makes "run", which then nobody holds. */
static void make_run(void)
{
    const rc_config config = the_config();
    const rc_dataset data = the_data();
    rc_run_folder folder;
    SUCCEEDS(open_run(&config, &data, false, false, &folder));
    rc_run_folder_close(&folder);
    assert_true(folder.lock == 0 && folder.identity == NULL);
}

static rc_status resume_run(const rc_config *config, const rc_dataset *data)
{
    rc_run_folder folder;
    rc_status status = open_run(config, data, true, false, &folder);
    if (status == RC_OK)
        rc_run_folder_close(&folder);
    assert_true(folder.lock == 0 && folder.identity == NULL); /* a folder that is refused holds nothing */
    return status;
}

/* Puts another text into the file in the place of the first one. */
static void change_file(const char *path, const char *old, const char *with)
{
    char *text, *at, changed[1 << 15];
    size_t size;
    SUCCEEDS(rc_file_read(path, sizeof changed / 2, &text, &size));
    at = strstr(text, old);
    assert_non_null(at);
    snprintf(changed, sizeof changed, "%.*s%s%s", (int)(at - text), text, with, at + strlen(old));
    rc_free(NULL, text);
    data_write_text(path, changed);
}

/* ---- run.json --------------------------------------------------------------------------------------------------- */

static void assert_describes(const rc_json *run, const char *command_line, const char *device)
{
    const rc_config config = the_config();
    const rc_dataset data = the_data();
    char hash[RC_HASH_SIZE], value[RC_CONFIG_VALUE];
    rc_data_hash(&data, hash);
    const char *const text[][2] = {{"format", "recollect-run-3"},
                                   {"version", recollect_version()},
                                   {"commit", rc_commit},
                                   {"command_line", command_line},
                                   {"backend", "a backend"},
                                   {"precision", "fp16"},
                                   {"isa", "a set"},
                                   {"device", device},
                                   {"dataset", "animals"},
                                   {"data", "zoo"},
                                   {"data_fingerprint", hash}};
    for (size_t i = 0; i < sizeof text / sizeof *text; i++)
        assert_string_equal(rc_json_string(rc_json_member(run, text[i][0])), text[i][1]);
    assert_int_equal(rc_json_integer(rc_json_member(run, "order")), 5);
    assert_int_equal(rc_json_integer(rc_json_member(run, "seed")), 11);
    assert_int_equal(rc_json_integer(rc_json_member(run, "data_seed")), 8);
    assert_int_equal(rc_json_integer(rc_json_member(run, "threads")), 3);
    assert_int_equal(rc_json_count(run), sizeof text / sizeof *text + 5);
    const rc_json *settings = rc_json_member(run, "config");
    rc_config_item item;
    int items = 0;
    for (; rc_config_item_at(items, &item); items++) {
        const rc_json *member = rc_json_member(settings, item.name);
        assert_true((member == NULL) == (strcmp(item.name, "data") == 0)); /* it may move */
        SUCCEEDS(rc_config_get(&config, item.name, value, sizeof value));
        if (member != NULL)
            assert_string_equal(rc_json_string(member), value);
    }
    assert_int_equal(rc_json_count(settings), items - 1);
}

static void the_folder_says_what_decides_the_run(void **state)
{
    (void)state;
    const rc_config config = the_config();
    rc_config again = rc_config_default();
    const rc_dataset data = the_data();
    rc_run_folder folder;
    rc_json *file;
    char machine[128], a[RC_CONFIG_VALUE], b[RC_CONFIG_VALUE];
    SUCCEEDS(open_run(&config, &data, false, false, &folder));
    assert_true(folder.lock > 0);
    assert_describes(folder.identity, "recollect run it", "a device");
    rc_run_folder_close(&folder);
    SUCCEEDS(rc_json_load("run/run.json", 1 << 20, &file));
    assert_describes(file, "recollect run it", "a device");
    rc_json_free(file);
    rc_config_item item;
    SUCCEEDS(rc_config_load(&again, "run/config.yaml", NULL));
    for (int i = 0; rc_config_item_at(i, &item); i++) {
        SUCCEEDS(rc_config_get(&config, item.name, a, sizeof a));
        SUCCEEDS(rc_config_get(&again, item.name, b, sizeof b));
        assert_string_equal(a, b);
    }
    /* Without a name the device is the machine; a command line may be missing. */
    rc_backend nameless = backend;
    nameless.about.device = NULL;
    const rc_run_identity who = {.config = &config, .data = &data, .data_seed = 8, .backend = &nameless};
    SUCCEEDS(rc_run_folder_open(&folder, "deep/other", &who, false, false));
    rc_machine_name(machine, sizeof machine);
    assert_describes(folder.identity, "", machine);
    rc_run_folder_close(&folder);
}

/* ---- to go on --------------------------------------------------------------------------------------------------- */

static void another_run_is_told_apart(void **state)
{
    (void)state;
    rc_config config = the_config();
    rc_dataset data = the_data();
    make_run();
    set(&config, "data", "elsewhere"); /* it may lie there now */
    SUCCEEDS(resume_run(&config, &data));
    set(&config, "epochs", "8");
    REFUSED(
        resume_run(&config, &data), RC_INVALID_ARGUMENT,
        "the run in run has epochs '7', but '8' is asked for now: resume it with the settings it began with, or begin "
        "another one with another setting 'out'");
    set(&config, "epochs", "7");
    pixels[3] ^= 1;
    REFUSED(
        resume_run(&config, &data), RC_INVALID_ARGUMENT,
        "the data is not what the run in run began with: other images, labels, names or numbers of them. Bring the old "
        "data back (it may lie elsewhere: the setting 'data'), or begin another run with another setting 'out'");
    pixels[3] ^= 1;
    change_file("run/run.json", "\"epochs\"", "\"epochen\"");
    REFUSED(resume_run(&config, &data), RC_INVALID_ARGUMENT,
            "the run in run has epochs 'unknown to it', but '7' is asked for now: resume it with the settings it began "
            "with, or begin another one with another setting 'out'");
    change_file("run/run.json", "\"epochen\"", "\"epochs\"");
    SUCCEEDS(resume_run(&config, &data));
}

static void files_of_other_versions_are_refused(void **state)
{
    (void)state;
    const rc_config config = the_config();
    const rc_dataset data = the_data();
    static const struct {
        const char *text, *message;
    } cases[] = {
        {"{\"format\": \"recollect-run-2\", \"version\": \"0.0.7\"}",
         "the run in run was begun by recollect 0.0.7, whose files do not say all that this version asks of them "
         "(recollect-run-2, expected format 'recollect-run-3'): it cannot go on with them. The models serve learn, "
         "predict "
         "and eval as before; begin another run with another setting 'out'"},
        {"{}", "the run in run was begun by recollect of no version, whose files do not say all that this version asks "
               "of them "
               "(no format, expected format 'recollect-run-3'): it cannot go on with them. The models serve learn, "
               "predict and "
               "eval as before; begin another run with another setting 'out'"},
        {"{\"format\": \"recollect-run-3\"}", "run/run.json: key 'config' is missing"},
        {"{\"format\": \"recollect-run-3\", \"config\": {}}", "run/run.json: key 'data_fingerprint' is missing"}};
    make_run();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        data_write_text("run/run.json", cases[i].text);
        rc_status status = i < 2 ? RC_INVALID_ARGUMENT : RC_FORMAT;
        REFUSED(resume_run(&config, &data), status, cases[i].message);
    }
}

static void the_configuration_beside_it_must_be_that_of_the_run(void **state)
{
    (void)state;
    const rc_config config = the_config();
    const rc_dataset data = the_data();
    make_run();
    change_file("run/config.yaml", "zoo", "elsewhere");
    SUCCEEDS(resume_run(&config, &data));
    change_file("run/config.yaml", "\nepochs: 7\n", "\nepochs: 9\n");
    REFUSED(resume_run(&config, &data), RC_INVALID_ARGUMENT,
            "run/config.yaml has epochs '9', but the run beside it '7': remove it, and it is written anew");
    assert_int_equal(unlink("run/config.yaml"), 0);
    SUCCEEDS(resume_run(&config, &data));
    change_file("run/config.yaml", "\nepochs: 7\n", "\nepochs: 7\n");
}

/* ---- who may work in it ----------------------------------------------------------------------------------------- */

static void a_folder_that_is_taken_is_left_alone(void **state)
{
    (void)state;
    static const char *const file[] = {"config.yaml", "summary.json", "summary.csv", "summary.txt"};
    const rc_config config = the_config();
    const rc_dataset data = the_data();
    rc_run_folder folder;
    char path[64], message[256];
    for (int i = 0; i < 4; i++) {
        snprintf(path, sizeof path, "run/%s", file[i]);
        data_write_text(path, "mine");
        snprintf(message, sizeof message,
                 "'%s' is there already, and a run would replace it: choose another setting 'out'", path);
        REFUSED(rc_run_folder_is_free("run"), RC_INVALID_ARGUMENT, message);
        for (int resume = 0; resume < 2; resume++)
            REFUSED(open_run(&config, &data, resume, false, &folder), RC_INVALID_ARGUMENT, message);
        assert_int_equal(access("run/run.json", F_OK), -1);
        assert_int_equal(unlink(path), 0);
    }
    SUCCEEDS(rc_run_folder_is_free("run"));
    SUCCEEDS(rc_run_folder_is_free("nowhere"));
    make_run();
    static const char taken[] =
        "run holds a run already: the setting 'resume' goes on with it, another setting 'out' leaves "
        "it alone";
    REFUSED(rc_run_folder_is_free("run"), RC_INVALID_ARGUMENT, taken);
    REFUSED(open_run(&config, &data, false, false, &folder), RC_INVALID_ARGUMENT, taken);
}

/* What a killed process left goes, unless others may be writing it now. */
static void leftovers_go_unless_others_work_there(void **state)
{
    (void)state;
    const rc_config config = the_config();
    const rc_dataset data = the_data();
    rc_run_folder folder;
    make_run();
    for (int shared = 1; shared >= 0; shared--) {
        data_write_text("run/results.json.tmp-12-3", "half");
        SUCCEEDS(open_run(&config, &data, true, shared, &folder));
        rc_run_folder_close(&folder);
        assert_int_equal(access("run/results.json.tmp-12-3", F_OK), shared - 1);
    }
}

/* Another process: does it get the folder, or else hear that somebody has it? */
static void expect_of_another(bool shared, bool gets_it)
{
    const rc_config config = the_config();
    const rc_dataset data = the_data();
    rc_run_folder folder;
    pid_t child = fork();
    if (child == 0) {
        rc_status status = open_run(&config, &data, true, shared, &folder);
        bool told = strcmp(rc_message(), "another process is working on the run in run: wait for it, or stop it") == 0;
        _exit(gets_it ? status != RC_OK : status != RC_INVALID_ARGUMENT || !told);
    }
    int how;
    assert_int_equal(waitpid(child, &how, 0), child);
    assert_true(WIFEXITED(how) && WEXITSTATUS(how) == 0);
}

static void one_process_works_in_it_or_all_that_share(void **state)
{
    (void)state;
    const rc_config config = the_config();
    const rc_dataset data = the_data();
    rc_run_folder folder;
    make_run();
    expect_of_another(false, true);
    SUCCEEDS(open_run(&config, &data, true, false, &folder));
    expect_of_another(false, false);
    expect_of_another(true, false);
    rc_run_folder_close(&folder);
    SUCCEEDS(open_run(&config, &data, true, true, &folder));
    expect_of_another(false, false);
    expect_of_another(true, true);
    rc_run_folder_close(&folder);
    expect_of_another(false, true);
}

/* ---- runs of others --------------------------------------------------------------------------------------------- */

static void runs_of_other_orders_and_seeds_are_alike(void **state)
{
    (void)state;
    rc_config config = the_config();
    const rc_dataset data = the_data();
    rc_run_folder own, other;
    bool alike = true;
    SUCCEEDS(open_run(&config, &data, false, false, &own));
    SUCCEEDS(rc_run_folder_look(&other, "nowhere", own.identity, &alike));
    assert_false(alike);
    static const struct {
        const char *key, *value;
        bool alike;
    } cases[] = {{"order", "3", true},
                 {"seed", "12", true},
                 {"data", "moved", true},
                 {"epochs", "8", false},
                 {"tasks", "4", false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char path[32];
        rc_config changed = config;
        const rc_run_identity who = {.config = &changed, .data = &data, .backend = &backend};
        set(&changed, cases[i].key, cases[i].value);
        snprintf(path, sizeof path, "run-%zu", i);
        SUCCEEDS(rc_run_folder_open(&other, path, &who, false, false));
        rc_run_folder_close(&other);
        SUCCEEDS(rc_run_folder_look(&other, path, own.identity, &alike));
        assert_int_equal(alike, cases[i].alike);
        assert_int_equal(other.lock, 0);
        assert_non_null(rc_json_member(other.identity, "config"));
        rc_run_folder_close(&other);
    }
    static const char *const change[][2] = {{"recollect-run-3", "recollect-run-2"},
                                            {"\"format\"", "\"former\""},
                                            {"\"epochs\"", "\"epochen\""},
                                            {"\"data_fingerprint\"", "\"data_footprint\""},
                                            {"\"data_fingerprint\": \"", "\"data_fingerprint\": \"f"}};
    for (size_t i = 0; i < sizeof change / sizeof *change; i++) {
        change_file("run-0/run.json", change[i][0], change[i][1]);
        SUCCEEDS(rc_run_folder_look(&other, "run-0", own.identity, &alike));
        assert_false(alike);
        rc_run_folder_close(&other);
        change_file("run-0/run.json", change[i][1], change[i][0]);
    }
    rc_run_folder_close(&own);
    change_file("run/run.json", "\"config\": {", "\"config\": {\n    \"of_later\": 3,");
    change_file("run-0/run.json", "\"config\": {", "\"config\": {\n    \"of_later\": \"3\",");
    SUCCEEDS(open_run(&config, &data, true, false, &own));
    SUCCEEDS(rc_run_folder_look(&other, "run-0", own.identity, &alike));
    assert_false(alike);
    rc_run_folder_close(&other);
    rc_run_folder_close(&own);
}

/* ---- trials ----------------------------------------------------------------------------------------------------- */

static void trials_have_names_and_folders(void **state)
{
    (void)state;
    static const int order = 3;
    static const uint64_t seed = 12345678901234u;
    static const struct {
        const int *order;
        const uint64_t *seed;
        const char *name, *path;
    } cases[] = {{NULL, NULL, "", "out"},
                 {&order, NULL, "order 3", "out/order-3"},
                 {NULL, &seed, "seed 12345678901234", "out/seed-12345678901234"},
                 {&order, &seed, "order 3, seed 12345678901234", "out/order-3-seed-12345678901234"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        rc_trial t = {.config = the_config()};
        SUCCEEDS(rc_trial_name(&t, "out", cases[i].order, cases[i].seed));
        assert_string_equal(t.name, cases[i].name);
        assert_string_equal(t.path, cases[i].path);
        assert_int_equal(t.config.order, cases[i].order != NULL ? 3 : 5);
        assert_true(t.config.settings.seed == (cases[i].seed != NULL ? seed : 11));
    }
    /* The longest path that there is room for, and one more. */
    char out[RC_PATH_SIZE];
    memset(out, 'x', sizeof out);
    for (int over = 0; over < 2; over++) {
        rc_trial t = {.config = the_config()};
        out[RC_PATH_SIZE - 1 - 8 + over] = '\0';
        rc_status status = rc_trial_name(&t, out, &order, NULL);
        assert_int_equal(status, over ? RC_INVALID_ARGUMENT : RC_OK);
        out[RC_PATH_SIZE - 1 - 8 + over] = 'x';
    }
    assert_memory_equal(rc_message(), "the path xxx", 12);
}

static rc_status make_trial(rc_trial *t, const rc_dataset *data, const char *order, const char *most, int stop_after)
{
    *t = (rc_trial){.config = the_config()};
    set(&t->config, "class_order", order);
    set(&t->config, "images_per_class", most);
    return rc_trial_create(t, data, stop_after);
}

static void trials_count_their_images(void **state)
{
    (void)state;
    static const int counts[][CLASSES] = {{3, 1, 2, 1}, {2, 1, 2, 1}, {1, 1, 1, 1}};
    static const char *const most[] = {"0", "2", "1"};
    const rc_dataset data = the_data();
    rc_trial t;
    for (int i = 0; i < 3; i++) {
        SUCCEEDS(make_trial(&t, &data, "3,2,1,0", most[i], 0));
        assert_memory_equal(t.images, counts[i], sizeof counts[i]);
        for (int k = 0; k < CLASSES; k++)
            assert_string_equal(t.class_name[k], names[CLASSES - 1 - k]);
        assert_true(t.data == &data && t.stream.task_end[0] == 2 && t.stream.task_end[1] == 4);
        rc_trial_destroy(&t);
    }
    static const int stop[][2] = {{0, 2}, {1, 1}, {2, 2}, {3, 2}};
    for (int i = 0; i < 4; i++) {
        SUCCEEDS(make_trial(&t, &data, "0,1,2,3", "0", stop[i][0]));
        assert_int_equal(t.tasks, stop[i][1]);
        rc_trial_destroy(&t);
    }
}

static void classes_and_tasks_without_images_are_named(void **state)
{
    (void)state;
    rc_dataset data = the_data();
    rc_trial t;
    static const char *const first_or_last[] = {"0,1,2,3", "3,2,1,0"};
    train_labels[0] = 2;
    for (int i = 0; i < 2; i++) {
        REFUSED(make_trial(&t, &data, first_or_last[i], "0", 0), RC_INVALID_ARGUMENT,
                "class 'ant' has no training image");
        rc_trial_destroy(&t);
    }
    train_labels[0] = 0;
    REFUSED(make_trial(&t, &data, "0,2,1,3", "0", 0), RC_INVALID_ARGUMENT,
            "task 2 has no test image: none of its 2 classes, from 'bee' on, has one");
    rc_trial_destroy(&t);
    data.test.count = 0;
    REFUSED(make_trial(&t, &data, "3,2,1,0", "0", 0), RC_INVALID_ARGUMENT,
            "task 1 has no test image: none of its 2 classes, from 'dog' on, has one");
    rc_trial_destroy(&t);
    data.classes = 3;
    REFUSED(make_trial(&t, &data, "3,2,1,0", "0", 0), RC_INVALID_ARGUMENT,
            "class_order lists 4 classes, the data has 3");
    rc_trial_destroy(&t);
}

int main(void)
{
#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, data_enter_folder, data_leave_folder)
    const struct CMUnitTest tests[] = {
        IN_FOLDER(the_folder_says_what_decides_the_run),
        IN_FOLDER(another_run_is_told_apart),
        IN_FOLDER(files_of_other_versions_are_refused),
        IN_FOLDER(the_configuration_beside_it_must_be_that_of_the_run),
        IN_FOLDER(a_folder_that_is_taken_is_left_alone),
        IN_FOLDER(leftovers_go_unless_others_work_there),
        IN_FOLDER(one_process_works_in_it_or_all_that_share),
        IN_FOLDER(runs_of_other_orders_and_seeds_are_alike),
        cmocka_unit_test(trials_have_names_and_folders),
        cmocka_unit_test(trials_count_their_images),
        cmocka_unit_test(classes_and_tasks_without_images_are_named),
    };
    for (size_t i = 0; i < sizeof pixels; i++)
        pixels[i] = (uint8_t)(17 * i);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
