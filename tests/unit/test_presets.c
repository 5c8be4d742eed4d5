/* Presets and published files in full: every value of every preset, every key of a published file, our own keys and
 * their ranges, and that what is printed loads as itself. */
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
#include "config/config.h"
#include "support/page.h"
#include "support/succeeds.h"

typedef struct notes {
    int lines;
    char text[RC_LOG_LINE_SIZE];
} notes;

static void keep_note(void *user, int level, const char *text)
{
    (void)level;
    notes *n = user;
    n->lines++;
    snprintf(n->text, sizeof n->text, "%s", text);
}

static rc_config parse(const char *yaml)
{
    rc_config config = rc_config_default();
    SUCCEEDS(rc_config_parse_yaml(&config, "here", yaml, strlen(yaml), NULL));
    return config;
}

static void assert_default(const rc_config *config)
{
    const rc_config expected = rc_config_default();
    rc_config_item item;
    for (int i = 0; rc_config_item_at(i, &item); i++) {
        char here[RC_CONFIG_VALUE], there[RC_CONFIG_VALUE];
        SUCCEEDS(rc_config_get(config, item.name, here, sizeof here));
        SUCCEEDS(rc_config_get(&expected, item.name, there, sizeof there));
        assert_string_equal(here, there);
    }
}

/* The message of a text that is refused. */
static const char *refused(const char *yaml)
{
    static char message[RC_MESSAGE_SIZE];
    rc_config config = rc_config_default();
    assert_int_not_equal(rc_config_parse_yaml(&config, "here", yaml, strlen(yaml), NULL), RC_OK);
    snprintf(message, sizeof message, "%s", rc_message());
    assert_default(&config); /* all or nothing */
    return message;
}

static void assert_value(const rc_config *config, const char *key, const char *expected)
{
    char text[2200];
    SUCCEEDS(rc_config_get(config, key, text, sizeof text));
    if (strcmp(text, expected) != 0)
        fail_msg("%s is '%s', expected '%s'", key, text, expected);
}

/* ---- the published files ----------------------------------------------------------------------------------------- */

static const char published_file[] = RC_SOURCE_DIR "/tests/fixtures/published_keys.yaml";

static const struct {
    const char *theirs, *ours, *value;
} meant[] = {
    {"seed_everything", "seed", "7"},
    {"max_epochs", "epochs", "9"},
    {"base_lr", "learning_rate", "0.11"},
    {"momentum", "momentum", "0.8"},
    {"weight_decay", "weight_decay", "0.0003"},
    {"lr_factor", "decay", "0.2"},
    {"milestones", "milestone", "[4, 6]"},
    {"finetuning_epochs", "refine_epochs", "2"},
    {"finetuning_lr", "refine_rate", "0.007"},
    {"lambda_ce", "lambda_ce", "0.6"},
    {"lambda_hkd", "lambda_hkd", "0.16"},
    {"lambda_rkd", "lambda_rkd", "0.4"},
    {"lambda_norm", "lambda_war", "0.12"},
    {"num_inv_iters", "inversion_steps", "321"},
    {"inv_lr", "inversion_rate", "0.002"},
    {"inv_tau", "temperature", "900"},
    {"inv_alpha_ce", "weight_content", "1.1"},
    {"inv_alpha_cb", "weight_diversity", "1.2"},
    {"inv_alpha_pr", "weight_prior", "0.003"},
    {"inv_alpha_rf", "weight_bn", "51"},
    {"inv_alpha_gem", "lambda_dce", "0.06"},
    {"bn_mmt", "dce_momentum", "0.7"},
    {"batch_size", "batch", "48"},
    {"num_tasks", "tasks", "3"},
    {"class_order", "class_order", "5, 3, 1, 0, 4, 2"},
    {"init_task_splits", "first_task", "2"},
    {"root", "data", "./somewhere/imagenet100"},
    {"dataset", "net", "resnet18"},
};

static bool has_meaning(const char *key)
{
    for (size_t i = 0; i < sizeof meant / sizeof *meant; i++)
        if (strcmp(meant[i].theirs, key) == 0)
            return true;
    return false;
}

/* Every key has its meaning, or stands in the one note. */
static void every_published_key_is_read_or_noted(void **state)
{
    (void)state;
    notes n = {.lines = 0};
    rc_log log = {.write = keep_note, .user = &n, .level = RC_LOG_INFO};
    rc_config config = rc_config_default();
    SUCCEEDS(rc_config_load(&config, published_file, &log));
    SUCCEEDS(rc_config_check(&config));
    for (size_t i = 0; i < sizeof meant / sizeof *meant; i++)
        assert_value(&config, meant[i].ours, meant[i].value);
    assert_value(&config, "size", "224");
    assert_value(&config, "resize", "256");
    assert_value(&config, "exif", "false");
    assert_value(&config, "mean", "0.485, 0.456, 0.406");
    assert_int_equal(n.lines, 1);
    char *text, section[64] = "", name[64], key[130];
    size_t size;
    int keys = 0, ignored = 0;
    SUCCEEDS(rc_file_read(published_file, 1 << 16, &text, &size));
    for (char *line = strtok(text, "\n"); line != NULL; line = strtok(NULL, "\n")) {
        char *colon = strchr(line, ':');
        if (colon == NULL || line[0] == '#' || strchr(line, '#') != NULL)
            continue;
        *colon = '\0';
        assert_int_equal(sscanf(line, "%63s", name), 1);
        bool top = line[0] != ' ';
        if (top && strcmp(name, "seed_everything") != 0) {
            snprintf(section, sizeof section, "%s", name);
            continue;
        }
        keys++;
        snprintf(key, sizeof key, "%s.%s", section, name);
        bool noted = strstr(n.text, key) != NULL;
        ignored += noted;
        if (!top && noted == has_meaning(name))
            fail_msg("%s is %s", key, noted ? "ignored" : "neither read nor in the note");
    }
    rc_free(NULL, text);
    char count[64];
    snprintf(count, sizeof count, "%d keys mean nothing here", ignored);
    assert_non_null(strstr(n.text, count));
    assert_true(keys > 90 && ignored > 60);
}

/* ---- our own keys ------------------------------------------------------------------------------------------------ */

/* mean and std of a known set, by its name. */
static void known_sets_have_their_numbers(void **state)
{
    (void)state;
    static const char *const sets[][3] = {
        {"cifar100", "0.5071, 0.4867, 0.4408", "0.2675, 0.2565, 0.2761"},
        {"tiny-imagenet", "0.4803, 0.4481, 0.3976", "0.2764, 0.2688, 0.2816"},
        {"imagenet100", "0.485, 0.456, 0.406", "0.229, 0.224, 0.225"},
        {"mnist", "mnist", "mnist"}, /* not known: a text like any other, which the check refuses */
    };
    for (size_t i = 0; i < sizeof sets / sizeof *sets; i++) {
        rc_config config = rc_config_default();
        SUCCEEDS(rc_config_set(&config, "mean", sets[i][0]));
        SUCCEEDS(rc_config_set(&config, "std", sets[i][0]));
        SUCCEEDS(rc_config_set(&config, "format", sets[i][0]));
        assert_value(&config, "mean", sets[i][1]);
        assert_value(&config, "std", sets[i][2]);
        assert_value(&config, "format", sets[i][0]);
        float mean[3], std[3];
        rc_status status = rc_config_normalisation(&config, 3, mean, std);
        assert_int_equal(status, strcmp(sets[i][0], "mnist") == 0 ? RC_INVALID_ARGUMENT : RC_OK);
    }
}

/* Texts of which somebody might have meant something else than would be read. */
static void what_is_not_clear_is_refused(void **state)
{
    (void)state;
    static const struct {
        const char *yaml, *message;
    } cases[] = {
        {"batch: 32\nepochs: 4\nbatch: 64\n", "here, line 3, column 1: 'batch' is set a second time"},
        {"{batch: 32, 'batch': 32}", "here, line 1, column 13: 'batch' is set a second time"},
        {"learning_rate: 1\nmodel: {base_lr: 2}\n",
         "here, line 2, column 9: 'model.base_lr' is set a second time, as learning_rate"},
        {"model:\n  a: 1\nmodel:\n  b: 1\n", "here, line 3, column 1: 'model' is set a second time"},
        {"model:\n  a: 1\n  a: 1\n", "here, line 3, column 3: 'model.a' is set a second time"},
        {"batch: 32\n---\nbatch: 64\n", "here, line 2, column 1: a second document begins, expected one"},
        {"batch: 32\n...\n---\n", "here, line 3, column 1: a second document begins, expected one"},
        {"batch: &size 32\n", "here, line 1, column 8: anchors (&name) are not read"},
        {"&all {batch: 32}\n", "here, line 1, column 1: anchors (&name) are not read"},
        {"milestone: &m [1, 2]\n", "here, line 1, column 12: anchors (&name) are not read"},
        {"batch: *size\n", "here, line 1, column 8: expected 'key: value'; aliases, nested lists"},
        {"batch: !!int 32\n", "here, line 1, column 8: tags (!name) are not read"},
        {"milestone: !list [1]\n", "here, line 1, column 12: tags (!name) are not read"},
        {"!settings {batch: 32}\n", "here, line 1, column 1: tags (!name) are not read"},
        {"milestone: [1, !!int 2]\n", "here, line 1, column 16: tags (!name) are not read"},
        {"tasks: 2.5\n", "here, line 1, column 8: tasks is '2.5', expected a whole number"},
        {"tasks: 5.0\n", "here, line 1, column 8: tasks is '5.0', expected a whole number"},
        {"milestone: [80.5]\n", "here, line 1, column 12: milestone is '80.5', expected a list of whole numbers"},
        {"batch: 3\nepochs 2\n", "here, line 3, column 1: "},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (strncmp(refused(cases[i].yaml), cases[i].message, strlen(cases[i].message)) != 0)
            fail_msg("%s: \"%s\" does not begin with \"%s\"", cases[i].yaml, rc_message(), cases[i].message);
    /* Keys without end. */
    static char many[65536];
    for (int keys = 1023; keys <= 1025; keys++) {
        size_t used = (size_t)snprintf(many, sizeof many, "model:\n");
        for (int i = 0; i < keys; i++)
            used += (size_t)snprintf(many + used, sizeof many - used, " k%d: 1\n", i);
        if (keys == 1023)
            (void)parse(many);
        else
            assert_non_null(strstr(refused(many), "here, line 1025, column 2: more than 1024 keys"));
    }
    (void)parse("--- {batch: 32}\n...\n");
}

static void unknown_keys_get_the_nearest_name(void **state)
{
    (void)state;
    const char *message = refused("batch: 32\nlambda_warr: 3\n");
    assert_non_null(strstr(message, "here, line 2, column 14: there is no setting 'lambda_warr'; did you mean"));
    assert_non_null(strstr(message, "'lambda_war'?"));
    assert_non_null(strstr(refused("invresion_steps: 3"), "did you mean 'inversion_steps'?"));
    assert_non_null(strstr(refused("batch_size: 3"), "did you mean 'batch'?"));
    assert_non_null(strstr(refused("wd: 3"), "did you mean 'weight_decay'?"));
    assert_non_null(strstr(refused("hflip: true"), "did you mean 'flip'?"));
    assert_non_null(strstr(refused("zzzzzzzzzzzzzzzzzzzzzzz: 3"), "docs/settings.md lists them"));
    assert_non_null(strstr(refused("batch: many"), "batch is 'many', expected a whole number"));
    assert_non_null(strstr(refused("learning_rate: 1e"), "learning_rate is '1e', expected a number"));
    assert_non_null(strstr(refused("learning_rate: inf"), "expected a number"));
    static const char *const unclear[] = {"flip: perhaps", "flip: t", "flip: Truex", "flip: ''"};
    for (int i = 0; i < 4; i++)
        assert_non_null(strstr(refused(unclear[i]), "expected true or false"));
    assert_non_null(strstr(refused("milestone: [1, x]"), "expected a list of whole numbers"));
    assert_non_null(strstr(refused("profile: printed"), "profile is 'printed', expected code or paper"));
    assert_non_null(strstr(refused("batch: [1, [2]]"), "line 1"));
    assert_non_null(strstr(refused("- batch"), "expected a map of settings"));
    rc_config config = rc_config_default();
    assert_int_equal(rc_config_load(&config, "cifar100-7", NULL), RC_INVALID_ARGUMENT);
    assert_non_null(strstr(rc_message(), "cifar100-5"));
    assert_int_equal(rc_config_set_pair(&config, "epochs"), RC_INVALID_ARGUMENT);
}

static void lists_have_both_brackets_or_none(void **state)
{
    (void)state;
    static const char *const right[] = {"80,120", " 80 , 120 ", "[80, 120]", "\t[ 80\n120,]\r", "80 120"};
    static const char *const wrong[] = {"[80, 120", "80, 120]", "80[120]", "[[80, 120]]", "80+120", "80 +120",
                                        "80;120",   "[",        "]",       "80, 120x",    "][",     "80, 2147483648"};
    for (size_t i = 0; i < sizeof right / sizeof *right; i++) {
        rc_config config = rc_config_default();
        SUCCEEDS(rc_config_set(&config, "milestone", right[i]));
        assert_int_equal(config.settings.milestones, 2);
        assert_true(config.settings.milestone[0] == 80 && config.settings.milestone[1] == 120);
        rc_task_split split;
        SUCCEEDS(rc_config_set(&config, "task_sizes", right[i]));
        SUCCEEDS(rc_config_split(&config, &split));
        assert_true(split.sizes == 2 && split.size[0] == 80 && split.size[1] == 120);
    }
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        rc_config config = rc_config_default();
        int *order;
        assert_int_equal(rc_config_set(&config, "milestone", wrong[i]), RC_INVALID_ARGUMENT);
        assert_non_null(strstr(rc_message(), "expected a list of whole numbers"));
        SUCCEEDS(rc_config_set(&config, "class_order", wrong[i]));
        assert_int_equal(rc_config_class_order(&config, 200, &order), RC_INVALID_ARGUMENT);
        assert_non_null(strstr(rc_message(), "or a list of numbers"));
    }
    rc_config config = rc_config_default();
    SUCCEEDS(rc_config_set(&config, "milestone", "[]"));
    assert_int_equal(config.settings.milestones, 0);
}

static void values_out_of_range_are_refused(void **state)
{
    (void)state;
    static const char *const wrong[] = {"batch=1",      "epochs=0",      "refine_epochs=200", "learning_rate=-1",
                                        "momentum=1",   "temperature=0", "inversion_steps=0", "channels=2",
                                        "test_batch=0", "size=100000",   "dce_momentum=1",    "images_per_class=-1"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        rc_config config = rc_config_default();
        SUCCEEDS(rc_config_set_pair(&config, wrong[i]));
        assert_int_equal(rc_config_check(&config), RC_INVALID_ARGUMENT);
        char key[32];
        assert_int_equal(sscanf(wrong[i], "%31[a-z_]", key), 1);
        assert_non_null(strstr(rc_message(), key)); /* names the setting */
    }
}

/* ---- presets ----------------------------------------------------------------------------------------------------- */

/* Those of the published configurations. */
static void presets_have_the_published_values(void **state)
{
    (void)state;
    static const char *const same[][2] = {
        {"learning_rate", "0.1"},
        {"decay", "0.1"},
        {"refine_rate", "0.005"},
        {"momentum", "0.9"},
        {"temperature", "1000"},
        {"weight_content", "1"},
        {"weight_diversity", "1"},
        {"weight_bn", "50"},
        {"weight_prior", "0"},
        {"lambda_dce", "0.05"},
        {"dce_momentum", "0.9"},
        {"inversion_rate", "0.001"},
        {"lambda_ce", "0.5"},
        {"lambda_hkd", "0.15"},
        {"lambda_rkd", "0.5"},
        {"lambda_war", "0.1"},
        {"crop_pad", "4"},
        {"flip", "true"},
        {"exif", "false"},
        {"generator", "generator"},
        {"seed", "1"},
        {"profile", "code"},
        {"min_steps", "0"},
        {"images_per_class", "0"},
        {"test_per_class", "0"},
        {"zoom", "0"},
        {"colour", "0"},
        {"trivial", "false"},
        {"rotations", "method"},
        {"cutout", "0"},
        {"mixup", "0"},
        {"cutmix", "0"},
        {"smoothing", "0"},
    };
    static const struct {
        const char *name, *net, *batch, *epochs, *refine, *milestone, *decay, *steps, *size, *resize;
    } sets[] = {
        {"cifar100", "resnet32", "128", "200", "40", "[80, 120]", "0.0005", "5000", "0", "0"},
        {"tiny-imagenet", "resnet32", "128", "200", "40", "[80, 120]", "0.0002", "5000", "64", "64"},
        {"imagenet100", "resnet18", "64", "120", "30", "[30, 60]", "0.0001", "10000", "224", "256"},
    };
    static const char *const tasks[] = {"5", "10", "20"};
    for (int s = 0; s < 3; s++)
        for (int t = 0; t < 3; t++) {
            char name[32];
            rc_config config = rc_config_default();
            snprintf(name, sizeof name, "%s-%s", sets[s].name, tasks[t]);
            SUCCEEDS(rc_config_load(&config, name, NULL));
            SUCCEEDS(rc_config_check(&config));
            for (size_t i = 0; i < sizeof same / sizeof *same; i++)
                assert_value(&config, same[i][0], same[i][1]);
            assert_value(&config, "tasks", tasks[t]);
            assert_value(&config, "net", sets[s].net);
            assert_value(&config, "batch", sets[s].batch);
            assert_value(&config, "epochs", sets[s].epochs);
            assert_value(&config, "refine_epochs", sets[s].refine);
            assert_value(&config, "milestone", sets[s].milestone);
            assert_value(&config, "weight_decay", sets[s].decay);
            assert_value(&config, "lode_rho", s == 1 ? "0.05" : "0"); /* published for Tiny-ImageNet with any buffer */
            assert_value(&config, "inversion_steps", sets[s].steps);
            assert_value(&config, "size", sets[s].size);
            assert_value(&config, "resize", sets[s].resize);
            assert_value(&config, "mean", s == 2 ? "0.485, 0.456, 0.406" : ""); /* else the data set's own */
            assert_value(&config, "std", s == 2 ? "0.229, 0.224, 0.225" : "");
            int *order;
            SUCCEEDS(rc_config_class_order(&config, s == 1 ? 200 : 100, &order));
            assert_int_equal(order[0], s == 0 ? 23 : s == 1 ? 131 : 68);
            rc_free(NULL, order);
        }
}

/* What is printed, and what a model file holds, comes back. */
static void every_preset_comes_back(void **state)
{
    (void)state;
    const char *name, *summary;
    int presets = 0;
    for (; rc_config_preset(presets, &name, &summary); presets++) {
        rc_config config = rc_config_default(), printed = rc_config_default(), stored = rc_config_default();
        page first = {.used = 0}, second = {.used = 0}, third = {.used = 0};
        rc_json_writer w = {0};
        rc_json *json;
        char *text;
        size_t size;
        assert_true(strlen(summary) > 10);
        SUCCEEDS(rc_config_load(&config, name, NULL));
        SUCCEEDS(rc_config_set(&config, "data", "a folder's \"name\": # x"));
        SUCCEEDS(rc_config_check(&config));
        SUCCEEDS(rc_config_print(&config, page_add_line, &first));
        SUCCEEDS(rc_config_parse_yaml(&printed, "printed", first.text, first.used, NULL));
        SUCCEEDS(rc_config_print(&printed, page_add_line, &second));
        assert_string_equal(first.text, second.text);
        rc_json_begin_object(&w, NULL);
        rc_config_put_json(&config, NULL, &w);
        rc_json_end(&w);
        SUCCEEDS(rc_json_finish(&w, &text, &size));
        SUCCEEDS(rc_json_parse("stored", text, size, &json));
        SUCCEEDS(rc_config_from_json(&stored, json));
        rc_json_free(json);
        rc_free(NULL, text);
        SUCCEEDS(rc_config_print(&stored, page_add_line, &third));
        assert_string_equal(first.text, third.text);
    }
    assert_true(presets >= 11);
}

static void switches_may_be_written_as_python_does(void **state)
{
    (void)state;
    static const char *const text[][2] = {{"flip: False", "false"}, {"flip: TRUE", "true"}, {"flip: No", "false"}};
    for (int i = 0; i < 3; i++) {
        rc_config config = parse(text[i][0]);
        assert_value(&config, "flip", text[i][1]);
    }
}

static void paper_profile_turns_every_switch(void **state)
{
    (void)state;
    rc_config config = parse("profile: paper\nflip: off\n");
    rc_config_item item;
    int switches = 0;
    for (int i = 0; rc_config_item_at(i, &item); i++)
        if (strncmp(item.name, "paper_", 6) == 0) {
            assert_value(&config, item.name, "true");
            switches++;
        }
    assert_int_equal(switches, 5);
    assert_value(&config, "flip", "false");
    config = parse("profile: paper\npaper_dce: false\n"); /* each is a switch of its own */
    assert_value(&config, "paper_dce", "false");
    assert_value(&config, "paper_bn_sum", "true");
}

/* Whatever came before: a profile sets all of its switches, a switch itself alone, and what is refused nothing. */
static void a_profile_sets_its_switches_in_every_order(void **state)
{
    (void)state;
    static const char *const set[] = {"profile=code", "profile=paper", "paper_war_mean=true", "paper_war_mean=false",
                                      "profile=printed"};
    enum { SETS = sizeof set / sizeof *set, LENGTH = 4 };
    int sequences = 1;
    for (int i = 0; i < LENGTH; i++)
        sequences *= SETS;
    for (int sequence = 0; sequence < sequences; sequence++) {
        rc_config config = rc_config_default();
        bool paper = false, war = false;
        for (int i = 0, rest = sequence; i < LENGTH; i++, rest /= SETS) {
            int what = rest % SETS;
            assert_int_equal(rc_config_set_pair(&config, set[what]), what == 4 ? RC_INVALID_ARGUMENT : RC_OK);
            paper = what < 2 ? what == 1 : paper;
            war = what < 2 ? paper : what < 4 ? what == 2 : war;
            assert_value(&config, "profile", paper ? "paper" : "code");
            rc_config_item item;
            for (int k = 0; rc_config_item_at(k, &item); k++)
                if (strncmp(item.name, "paper_", 6) == 0)
                    assert_value(&config, item.name,
                                 (strcmp(item.name, "paper_war_mean") == 0 ? war : paper) ? "true" : "false");
        }
    }
}

static void class_orders_by_name_and_by_list(void **state)
{
    (void)state;
    static const struct {
        const char *set[2];
        int expected[6];
    } orders[] = {
        {{"class_order=natural", "order=3"}, {0, 1, 2, 3, 4, 5}},
        {{"class_order=[5, 3, 1, 0, 4, 2]", "order=0"}, {5, 3, 1, 0, 4, 2}},
    };
    int *order, *again;
    for (size_t i = 0; i < sizeof orders / sizeof *orders; i++) {
        rc_config config = rc_config_default();
        for (int k = 0; k < 2; k++)
            SUCCEEDS(rc_config_set_pair(&config, orders[i].set[k]));
        SUCCEEDS(rc_config_class_order(&config, 6, &order));
        assert_memory_equal(order, orders[i].expected, sizeof orders[i].expected);
        rc_free(NULL, order);
    }
    rc_config config = rc_config_default();
    SUCCEEDS(rc_config_set(&config, "class_order", "1,2,3"));
    assert_int_equal(rc_config_class_order(&config, 6, &order), RC_INVALID_ARGUMENT);
    assert_non_null(strstr(rc_message(), "lists 3 classes, the data has 6"));
    SUCCEEDS(rc_config_set(&config, "class_order", "publish"));
    assert_int_equal(rc_config_class_order(&config, 6, &order), RC_INVALID_ARGUMENT);
    SUCCEEDS(rc_config_set(&config, "class_order", "seed"));
    SUCCEEDS(rc_config_set(&config, "order", "1"));
    SUCCEEDS(rc_config_class_order(&config, 60, &order));
    SUCCEEDS(rc_config_set(&config, "order", "2"));
    SUCCEEDS(rc_config_class_order(&config, 60, &again));
    assert_memory_not_equal(order, again, 60 * sizeof *order);
    rc_free(NULL, order);
    rc_free(NULL, again);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_sets_have_their_numbers),
        cmocka_unit_test(every_published_key_is_read_or_noted),
        cmocka_unit_test(what_is_not_clear_is_refused),
        cmocka_unit_test(unknown_keys_get_the_nearest_name),
        cmocka_unit_test(lists_have_both_brackets_or_none),
        cmocka_unit_test(values_out_of_range_are_refused),
        cmocka_unit_test(presets_have_the_published_values),
        cmocka_unit_test(every_preset_comes_back),
        cmocka_unit_test(switches_may_be_written_as_python_does),
        cmocka_unit_test(paper_profile_turns_every_switch),
        cmocka_unit_test(a_profile_sets_its_switches_in_every_order),
        cmocka_unit_test(class_orders_by_name_and_by_list),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
