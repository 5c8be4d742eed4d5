/* The tables and figures of the paper as cells: how many there are, with which settings, in which shards; and what a
 * scale makes of settings and data. */
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
#include "experiment/run_data.h"
#include "reproduce/artefact.h"
#include "reproduce/shrink.h"
#include "support/succeeds.h"

static rc_cell_list cells_of(const char *name, rc_cell_filter filter)
{
    const rc_artefact *artefact;
    rc_cell_list list;
    SUCCEEDS(rc_artefact_find(name, &artefact));
    SUCCEEDS(rc_cell_list_create(artefact, &filter, &list));
    return list;
}

/* ---- how many --------------------------------------------------------------------------------------------------- */

/* Rows times numbers of tasks times class orders. What names share counts once. */
static void every_name_has_the_cells_that_the_paper_has(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        int cells;
    } expected[] = {
        {"table-cifar100", 12 * 3 * 3},
        {"table-tiny-imagenet", 9 * 3 * 3},
        {"table-imagenet100", 9 * 3},
        {"table-debias", 5 * 3 * 3},
        {"table-ablation", 4 * 3 * 3},
        {"table-dkl", 1},
        {"table-cost", 3 * 3 * 3},
        {"fig-5tasks", 1},
        {"fig-debias", 4},
        {"fig-parameters", (10 - 1) * 3 * 3}, /* two of the ten points are CwD */
        {"fig-norm", 4 * 3},
        {"fig-gradients", 1},
        {"published", 3 * 3 * 3},
        {"table-plus", 2 * 3 * 3 + 4 + 2}, /* the parts and Tiny-ImageNet in one order */
        {"table-strong", 5 * 3 * 3},
        {"table-main", 108 + 81 + 27},
        {"figures", 1 + (4 - 1) + 81 + 12},
        {"all", 216 + 4 * 9 + 2 * 9 + 1 + 8 * 9 + 12 + 2 * 9},
    };
    int names = 0;
    for (; rc_artefact_at(names) != NULL; names++) {
        assert_string_equal(rc_artefact_at(names)->name, expected[names].name);
        rc_cell_list list = cells_of(expected[names].name, (rc_cell_filter){0});
        assert_int_equal(list.cells, expected[names].cells);
        for (int a = 0; a < list.cells; a++)
            for (int b = 0; b < a; b++)
                assert_string_not_equal(list.cell[a].path, list.cell[b].path);
        rc_cell_list_free(&list);
    }
    assert_int_equal(names, sizeof expected / sizeof *expected);
}

/* Every number of bench/paper.csv has its cells, as many as it has orders. */
static void every_number_of_the_paper_has_cells(void **state)
{
    (void)state;
    char *text, set[32], method[32];
    size_t size;
    int tasks, numbers = 0;
    rc_cell_list list = cells_of("all", (rc_cell_filter){0});
    SUCCEEDS(rc_file_read(RC_SOURCE_DIR "/bench/paper.csv", 1 << 20, &text, &size));
    for (const char *line = strchr(text, '\n'); line != NULL && line[1] != '\0'; line = strchr(line + 1, '\n')) {
        int cells = 0;
        assert_int_equal(sscanf(line + 1, "%31[^,],%d,%31[^,],", set, &tasks, method), 3);
        for (int i = 0; i < list.cells; i++)
            cells += strcmp(list.cell[i].set->name, set) == 0 && list.cell[i].tasks == tasks &&
                     strcmp(list.cell[i].line.name, method) == 0;
        if (cells != (strcmp(set, "imagenet100") == 0 ? 1 : 3))
            fail_msg("%s, %d tasks, %s has %d cells", set, tasks, method, cells);
        numbers++;
    }
    assert_int_equal(numbers, (12 + 6 + 9 + 9) * 3);
    rc_free(NULL, text);
    rc_cell_list_free(&list);
}

/* ---- which of them ---------------------------------------------------------------------------------------------- */

/* All shards together have every cell once, in the same order, and no folder is torn. */
static void shards_are_disjoint_and_complete(void **state)
{
    (void)state;
    const rc_artefact *artefact;
    for (int a = 0; (artefact = rc_artefact_at(a)) != NULL; a++) {
        rc_cell_list all = cells_of(artefact->name, (rc_cell_filter){0});
        for (int shards = 1; shards <= 12; shards++) {
            int next = 0;
            char before[96] = "";
            for (int shard = 1; shard <= shards; shard++) {
                rc_cell_list part = cells_of(artefact->name, (rc_cell_filter){.shard = shard, .shards = shards});
                for (int i = 0; i < part.cells; i++)
                    assert_string_equal(part.cell[i].path, all.cell[next++].path);
                if (part.cells > 0) {
                    assert_string_not_equal(part.cell[0].folder, before);
                    snprintf(before, sizeof before, "%s", part.cell[part.cells - 1].folder);
                }
                rc_cell_list_free(&part);
            }
            assert_int_equal(next, all.cells);
        }
        rc_cell_list_free(&all);
    }
}

/* Three machines get an order each; two get about half of the work. */
static void shards_are_of_like_size(void **state)
{
    (void)state;
    for (int shard = 1; shard <= 3; shard++) {
        rc_cell_list part = cells_of("table-ablation", (rc_cell_filter){.shard = shard, .shards = 3});
        assert_int_equal(part.cells, 12);
        for (int i = 0; i < part.cells; i++)
            assert_int_equal(part.cell[i].order, shard - 1);
        rc_cell_list_free(&part);
    }
    rc_cell_list first = cells_of("table-ablation", (rc_cell_filter){.shard = 1, .shards = 2});
    assert_true(first.cells >= 16 && first.cells <= 20);
    rc_cell_list_free(&first);
}

static void filters_keep_what_they_name(void **state)
{
    (void)state;
    rc_cell_list list = cells_of("table-cifar100",
                                 (rc_cell_filter){.rows = "cwd,rdfcil-published", .tasks = "10,20", .orders = "1"});
    static const char *const paths[] = {"cifar100-10-published/order-1/rdfcil", "cifar100-10/order-1/cwd",
                                        "cifar100-20-published/order-1/rdfcil", "cifar100-20/order-1/cwd"};
    assert_int_equal(list.cells, 4);
    for (int i = 0; i < 4; i++)
        assert_string_equal(list.cell[i].path, paths[i]);
    rc_cell_list_free(&list);
    list = cells_of("table-ablation", (rc_cell_filter){.most_orders = 2});
    assert_int_equal(list.cells, 24);
    rc_cell_list_free(&list);
}

static void a_filter_that_names_nothing_is_refused(void **state)
{
    (void)state;
    static const struct {
        rc_cell_filter filter;
        const char *message;
    } cases[] = {{{.rows = "cwd,cdw"}, "table-ablation has no row 'cdw'"},
                 {{.tasks = "5,6"}, "table-ablation has no number of tasks '6'"},
                 {{.orders = "3"}, "table-ablation has no class order '3'"},
                 {{.shard = 3, .shards = 2}, "there is no part 3 of 2"},
                 {{.shard = 0, .shards = 2}, "there is no part 0 of 2"}};
    const rc_artefact *artefact;
    rc_cell_list list;
    SUCCEEDS(rc_artefact_find("table-ablation", &artefact));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(rc_cell_list_create(artefact, &cases[i].filter, &list), RC_INVALID_ARGUMENT);
        assert_string_equal(rc_message(), cases[i].message);
        assert_null(list.cell);
    }
    assert_int_equal(rc_artefact_find("table-ablatoin", &artefact), RC_INVALID_ARGUMENT);
    assert_non_null(strstr(rc_message(), "did you mean 'table-ablation'?"));
}

/* ---- settings --------------------------------------------------------------------------------------------------- */

static void assert_same_config(const rc_config *a, const rc_config *b)
{
    rc_config_item item;
    char here[RC_CONFIG_VALUE], there[RC_CONFIG_VALUE];
    for (int i = 0; rc_config_item_at(i, &item); i++) {
        SUCCEEDS(rc_config_get(a, item.name, here, sizeof here));
        SUCCEEDS(rc_config_get(b, item.name, there, sizeof there));
        if (strcmp(here, there) != 0)
            fail_msg("%s is '%s', expected '%s'", item.name, here, there);
    }
}

/* A row without settings of its own is run with the preset of its tasks, in its order; one with settings differs from
 * that in these alone. */
static void cells_have_the_settings_of_their_presets(void **state)
{
    (void)state;
    rc_cell_list list = cells_of("all", (rc_cell_filter){0});
    for (int i = 0; i < list.cells; i++) {
        const rc_paper_cell *cell = &list.cell[i];
        rc_config config, preset = rc_config_default();
        char name[64], pair[128];
        SUCCEEDS(rc_paper_cell_config(cell, 1, &config));
        snprintf(name, sizeof name, "%s-%d", cell->set->name, cell->tasks == 2 ? 5 : cell->tasks);
        SUCCEEDS(rc_config_load(&preset, name, NULL));
        preset.tasks = cell->tasks;
        preset.order = cell->order;
        for (const char *p = cell->line.settings; sscanf(p, "%127s", pair) == 1;) {
            SUCCEEDS(rc_config_set_pair(&preset, pair));
            p = strstr(p, pair) + strlen(pair);
        }
        assert_same_config(&config, &preset);
    }
    rc_cell_list_free(&list);
}

/* What the cells of a name are of. */
static void sets_have_their_sizes_and_orders(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        int classes, orders, first, last;
    } expected[] = {{"cifar100", 100, 3, 0, 2}, {"tiny-imagenet", 200, 3, 0, 2}, {"imagenet100", 100, 1, 1993, 1993}};
    for (int i = 0; i < RC_PAPER_SETS; i++) {
        const rc_paper_set *set = rc_paper_set_at(i);
        assert_string_equal(set->name, expected[i].name);
        assert_int_equal(set->classes, expected[i].classes);
        assert_int_equal(set->orders, expected[i].orders);
        for (int k = 0; k < set->orders; k++)
            assert_int_equal(set->order[k], expected[i].first + k);
        assert_int_equal(set->order[set->orders - 1], expected[i].last);
    }
    assert_null(rc_paper_set_at(RC_PAPER_SETS));
    rc_cell_list list = cells_of("table-dkl", (rc_cell_filter){0});
    assert_string_equal(list.cell[0].path, "cifar100-2/order-0/cwd"); /* 50 classes, and no more */
    assert_int_equal(list.cell[0].stop_after, 1);
    rc_cell_list_free(&list);
    list = cells_of("fig-5tasks", (rc_cell_filter){0});
    assert_string_equal(list.cell[0].path, "cifar100-5/order-0/rdfcil");
    assert_int_equal(list.cell[0].stop_after, 0);
    rc_cell_list_free(&list);
    list = cells_of("fig-gradients", (rc_cell_filter){0});
    assert_string_equal(list.cell[0].path, "cifar100-2-schemes/order-0/sce");
    rc_cell_list_free(&list);
}

static void names_have_their_analyses(void **state)
{
    (void)state;
    static const char *const analyses[][2] = {
        {"table-ablation", NULL}, {"table-dkl", "dkl"},  {"table-cost", "cost"},   {"fig-5tasks", "norms"},
        {"fig-debias", "norms"},  {"fig-norm", "norms"}, {"fig-parameters", NULL}, {"fig-gradients", "gradient"}};
    for (size_t i = 0; i < sizeof analyses / sizeof *analyses; i++) {
        const rc_artefact *artefact;
        SUCCEEDS(rc_artefact_find(analyses[i][0], &artefact));
        if (analyses[i][1] == NULL)
            assert_null(artefact->analysis);
        else
            assert_string_equal(artefact->analysis, analyses[i][1]);
    }
}

/* The cited figures of DeepInversion were made with the settings of ABD's code. */
static void rows_know_the_papers_numbers(void **state)
{
    (void)state;
    static const char *const papers[][2] = {{"cwd", "cwd"},
                                            {"rdfcil-published", "rdfcil-published"},
                                            {"deepinversion-published", "deepinversion"},
                                            {"abd-published", ""},
                                            {"cwd-dce-0.2", ""},
                                            {"scheme-real-lce", ""},
                                            {"er-5120", "er-5120"}};
    for (size_t i = 0; i < sizeof papers / sizeof *papers; i++) {
        rc_paper_line line;
        SUCCEEDS(rc_paper_line_find(papers[i][0], &line));
        assert_string_equal(line.paper, papers[i][1]);
    }
}

static void rows_have_the_settings_of_their_own_code(void **state)
{
    (void)state;
    static const struct {
        const char *name, *method, *key, *value;
    } cases[] = {{"rdfcil-published", "rdfcil", "weight_prior", "0.001"},
                 {"rdfcil-published", "rdfcil", "diversity_epsilon", "0"},
                 {"rdfcil-published", "rdfcil", "epochs", "200"},
                 {"abd-published", "abd", "weight_prior", "0.001"},
                 {"abd-published", "abd", "diversity_epsilon", "0"},
                 {"abd-published", "abd", "net", "resnet32-abd"},
                 {"abd-published", "abd", "epochs", "250"},
                 {"abd-published", "abd", "refine_epochs", "0"},
                 {"abd-published", "abd", "milestone", "[100, 150, 200]"},
                 {"abd-published", "abd", "weight_decay", "0.0002"},
                 {"abd-published", "abd", "inversion_steps", "10000"},
                 {"deepinversion-published", "deepinversion", "inversion_steps", "10000"},
                 {"deepinversion-published", "deepinversion", "net", "resnet32-abd"},
                 {"cwd-dce-0.01", "cwd", "lambda_dce", "0.01"},
                 {"cwd-dce-0.02", "cwd", "lambda_dce", "0.02"},
                 {"cwd-dce-0.1", "cwd", "lambda_dce", "0.1"},
                 {"cwd-dce-0.2", "cwd", "lambda_dce", "0.2"},
                 {"cwd-dce-0.2", "cwd", "lambda_war", "0.1"},
                 {"cwd-war-0.02", "cwd", "lambda_war", "0.02"},
                 {"cwd-war-0.05", "cwd", "lambda_war", "0.05"},
                 {"cwd-war-0.2", "cwd", "lambda_war", "0.2"},
                 {"cwd-war-0.5", "cwd", "lambda_war", "0.5"},
                 {"cwd-war-0.5", "cwd", "lambda_dce", "0.05"},
                 {"scheme-dreams-hkd", "rdfcil", "paper_no_refinement", "true"},
                 {"scheme-dreams-hkd", "rdfcil", "lambda_rkd", "0"},
                 {"scheme-real-lce", "real-lce", "paper_no_refinement", "true"},
                 {"scheme-real-hkd", "real-hkd", "paper_no_refinement", "true"},
                 {"scheme-dreams-lce", "sce", "lambda_dce", "0"},
                 {"scheme-dreams-lce", "sce", "lambda_rkd", "0"},
                 {"cwd+-without-drawn", "cwd+", "plus_drawn", "0"},
                 {"cwd+-without-moved", "cwd+", "plus_statistics", "dreams"},
                 {"cwd+-without-turned", "cwd+", "rotations", "off"},
                 {"cwd+-without-second", "cwd+", "generators", "1"},
                 {"rdfcil", "rdfcil", "weight_prior", "0"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        rc_paper_cell cell = {.set = rc_paper_set_at(0), .tasks = 5};
        rc_config config;
        char value[RC_CONFIG_VALUE];
        SUCCEEDS(rc_paper_line_find(cases[i].name, &cell.line));
        assert_string_equal(cell.line.name, cases[i].name);
        assert_string_equal(cell.line.method->name, cases[i].method);
        SUCCEEDS(rc_paper_cell_config(&cell, 1, &config));
        SUCCEEDS(rc_config_get(&config, cases[i].key, value, sizeof value));
        assert_string_equal(value, cases[i].value);
    }
    rc_paper_line line;
    assert_int_equal(rc_paper_line_find("nothing", &line), RC_INVALID_ARGUMENT);
}

/* Nobody compares recipes: all rows of a number of tasks have one, and none stands beside the paper's numbers. */
static void the_strong_recipe_is_one_for_all_rows(void **state)
{
    (void)state;
    static const char *const recipe[] = {"trivial=true",     "cutout=8",     "cosine=true",
                                         "test_mirror=true", "test_shift=2", "epochs=300"};
    rc_cell_list list = cells_of("table-strong", (rc_cell_filter){0});
    for (int i = 0; i < list.cells; i++) {
        const rc_paper_cell *cell = &list.cell[i];
        rc_config config, expected = rc_config_default();
        char name[64];
        snprintf(name, sizeof name, "cifar100-%d", cell->tasks);
        SUCCEEDS(rc_config_load(&expected, name, NULL));
        for (size_t s = 0; s < sizeof recipe / sizeof *recipe; s++)
            SUCCEEDS(rc_config_set_pair(&expected, recipe[s]));
        SUCCEEDS(rc_config_set_pair(&expected, cell->tasks == 20 ? "rotations=all" : "rotations=first"));
        expected.order = cell->order;
        SUCCEEDS(rc_paper_cell_config(cell, 1, &config));
        assert_same_config(&config, &expected);
        snprintf(name, sizeof name, "cifar100-%d-strong/order-%d", cell->tasks, cell->order);
        assert_string_equal(cell->folder, name);
        assert_string_equal(cell->line.paper, "");
    }
    rc_cell_list_free(&list);
}

/* Rows of one folder share its run, so they must share all settings. */
static void cells_of_a_folder_have_one_configuration(void **state)
{
    (void)state;
    static const char *const names[] = {"all", "table-plus", "table-strong"};
    for (size_t n = 0; n < sizeof names / sizeof *names; n++) {
        rc_cell_list list = cells_of(names[n], (rc_cell_filter){0});
        for (int i = 1; i < list.cells; i++) {
            rc_config a, b;
            if (strcmp(list.cell[i].folder, list.cell[i - 1].folder) != 0)
                continue;
            SUCCEEDS(rc_paper_cell_config(&list.cell[i], 1, &a));
            SUCCEEDS(rc_paper_cell_config(&list.cell[i - 1], 1, &b));
            assert_same_config(&a, &b);
            assert_int_equal(list.cell[i].stop_after, list.cell[i - 1].stop_after);
        }
        rc_cell_list_free(&list);
    }
}

/* ---- shrinking -------------------------------------------------------------------------------------------------- */

static void a_scale_shrinks_settings(void **state)
{
    (void)state;
    static const struct {
        double scale;
        int set, epochs, refine, first_milestone, steps, batch, size, train, test;
        const char *net;
    } cases[] = {
        {1, 0, 200, 40, 80, 5000, 128, 0, 0, 0, "resnet32"},    {0.5, 0, 100, 20, 40, 2500, 64, 0, 250, 50, "resnet32"},
        {0.1, 0, 20, 4, 8, 500, 16, 0, 50, 10, "resnet32"},     {0.05, 0, 10, 2, 4, 250, 16, 0, 25, 5, "resnet-small"},
        {0.001, 0, 3, 1, 1, 20, 16, 0, 10, 5, "resnet-small"},  {0.05, 1, 10, 2, 4, 250, 16, 32, 25, 5, "resnet-small"},
        {0.05, 2, 7, 2, 2, 500, 16, 32, 65, 5, "resnet-small"}, {0.2, 2, 24, 6, 6, 2000, 16, 224, 260, 10, "resnet18"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        rc_paper_cell cell = {.set = rc_paper_set_at(cases[i].set), .tasks = 5, .order = 1};
        rc_config c;
        SUCCEEDS(rc_paper_line_find("cwd", &cell.line));
        SUCCEEDS(rc_paper_cell_config(&cell, cases[i].scale, &c));
        assert_int_equal(c.settings.epochs, cases[i].epochs);
        assert_int_equal(c.settings.refine_epochs, cases[i].refine);
        assert_int_equal(c.settings.milestone[0], cases[i].first_milestone);
        assert_int_equal(c.settings.inversion_steps, cases[i].steps);
        assert_int_equal(c.settings.batch, cases[i].batch);
        assert_int_equal(c.size, cases[i].size);
        assert_int_equal(c.images_per_class, cases[i].train);
        assert_int_equal(c.test_per_class, cases[i].test);
        assert_string_equal(c.settings.net, cases[i].net);
    }
    rc_paper_cell cell = {.set = rc_paper_set_at(0), .tasks = 5};
    rc_config c;
    SUCCEEDS(rc_paper_line_find("abd-published", &cell.line));
    SUCCEEDS(rc_paper_cell_config(&cell, 0.05, &c));
    assert_int_equal(c.settings.refine_epochs, 0); /* as it was */
    assert_int_equal(c.settings.milestone[2], 10);
    assert_int_equal(c.settings.net_width, 8);
    assert_string_equal(c.settings.generator, "generator-small");
    assert_int_equal(c.settings.generator_width, 16);
    assert_int_equal(c.settings.noise, 64);
    assert_int_equal(c.settings.vae_width, 32);
    assert_int_equal(c.settings.pixel_steps, 100);
    assert_int_equal(rc_shrink_orders(1), 0);
    assert_int_equal(rc_shrink_orders(0.99), 3);
    assert_int_equal(rc_shrink_orders(0.5), 2);
    assert_int_equal(rc_shrink_orders(0.02), 1);
}

static void what_was_shrunk_is_told(void **state)
{
    (void)state;
    rc_config whole = rc_config_default(), now = whole;
    char text[256];
    now.settings.epochs = 4;
    now.settings.batch = 16;
    rc_shrink_text(&whole, &now, text, sizeof text);
    assert_string_equal(text, "batch 16 for 128, epochs 4 for 200");
}

/* The first images of every class stay; those to train on are the run's own business. */
static void test_images_are_limited(void **state)
{
    (void)state;
    enum { CLASSES = 3, LIMIT = 4 };
    rc_config config = rc_config_default();
    rc_watch watch = {0};
    rc_dataset all, few;
    SUCCEEDS(rc_config_set(&config, "data", "procedural:3"));
    SUCCEEDS(rc_run_data_open(&config, 1, false, &watch, &all));
    config.test_per_class = LIMIT;
    SUCCEEDS(rc_run_data_open(&config, 1, false, &watch, &few));
    assert_int_equal(few.train.count, all.train.count);
    assert_int_equal(few.test.count, CLASSES * LIMIT);
    assert_string_equal(all.name, "procedural");
    assert_string_equal(few.name, "procedural-part");
    size_t image = (size_t)all.h * (size_t)all.w * (size_t)all.c;
    int found = 0, taken[CLASSES] = {0};
    for (int i = 0; i < all.test.count && found < few.test.count; i++) {
        if (taken[all.test.labels[i]]++ >= LIMIT)
            continue;
        assert_int_equal(few.test.labels[found], all.test.labels[i]);
        assert_memory_equal(few.test.images + (size_t)found * image, all.test.images + (size_t)i * image, image);
        found++;
    }
    assert_int_equal(found, CLASSES * LIMIT);
    rc_dataset_close(&all);
    rc_dataset_close(&few);
}

/* The last images of every class are scored, and trained on no more; test images are not touched. */
static void validation_holds_out_training_images(void **state)
{
    (void)state;
    enum { CLASSES = 3 };
    rc_config config = rc_config_default();
    rc_watch watch = {0};
    rc_dataset all, held;
    SUCCEEDS(rc_config_set(&config, "data", "procedural:3"));
    SUCCEEDS(rc_run_data_open(&config, 1, false, &watch, &all));
    SUCCEEDS(rc_config_set(&config, "validation", "0.1"));
    SUCCEEDS(rc_run_data_open(&config, 1, false, &watch, &held));
    assert_string_equal(held.name, "procedural-validation");
    size_t image = (size_t)all.h * (size_t)all.w * (size_t)all.c;
    int count[CLASSES] = {0}, seen[CLASSES] = {0}, train = 0, test = 0;
    for (int i = 0; i < all.train.count; i++)
        count[all.train.labels[i]]++;
    for (int i = 0; i < all.train.count; i++) {
        int label = all.train.labels[i], last = (count[label] + 9) / 10; /* a tenth, rounded up */
        bool out = seen[label]++ >= count[label] - last;
        const rc_split *split = out ? &held.test : &held.train;
        int at = out ? test++ : train++;
        assert_in_range(at, 0, split->count - 1);
        assert_int_equal(split->labels[at], label);
        assert_memory_equal(split->images + (size_t)at * image, all.train.images + (size_t)i * image, image);
    }
    assert_true(train == held.train.count && test == held.test.count && test > 0);
    rc_dataset_close(&all);
    rc_dataset_close(&held);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(validation_holds_out_training_images),
        cmocka_unit_test(every_name_has_the_cells_that_the_paper_has),
        cmocka_unit_test(every_number_of_the_paper_has_cells),
        cmocka_unit_test(shards_are_disjoint_and_complete),
        cmocka_unit_test(shards_are_of_like_size),
        cmocka_unit_test(filters_keep_what_they_name),
        cmocka_unit_test(a_filter_that_names_nothing_is_refused),
        cmocka_unit_test(cells_have_the_settings_of_their_presets),
        cmocka_unit_test(sets_have_their_sizes_and_orders),
        cmocka_unit_test(names_have_their_analyses),
        cmocka_unit_test(rows_know_the_papers_numbers),
        cmocka_unit_test(rows_have_the_settings_of_their_own_code),
        cmocka_unit_test(the_strong_recipe_is_one_for_all_rows),
        cmocka_unit_test(cells_of_a_folder_have_one_configuration),
        cmocka_unit_test(a_scale_shrinks_settings),
        cmocka_unit_test(what_was_shrunk_is_told),
        cmocka_unit_test(test_images_are_limited),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
