#include "cli/verdict.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *rc_interval_text(double percent, int images, char text[RC_INTERVAL_SIZE])
{
    double low, high;
    bool tells = recollect_accuracy_interval(percent, images, &low, &high);
    snprintf(text, RC_INTERVAL_SIZE, "%.1f to %.1f %%%s", low, high, tells ? "" : ", too few to tell");
    return text;
}

/* ---- command lines ----------------------------------------------------------------------------------------------- */

/* Adds a piece to the command. What does not fit makes it empty, for good: half a command is none. */
static void add(rc_advice *a, const char *piece)
{
    size_t used = strlen(a->text), length = strlen(piece);
    if (used == 0 || used + length >= sizeof a->text)
        a->text[0] = '\0';
    else
        memcpy(a->text + used, piece, length + 1);
}

/* A blank and the argument, in quotes if a shell would read anything else. */
static void add_argument(rc_advice *a, const char *argument)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./=,:+@%";
    add(a, " ");
    if (argument[0] != '\0' && argument[strspn(argument, plain)] == '\0') {
        add(a, argument);
        return;
    }
    add(a, "'");
    for (const char *p = argument; *p != '\0'; p++) {
        char letter[2] = {*p, '\0'};
        add(a, *p == '\'' ? "'\\''" : letter);
    }
    add(a, "'");
}

/* A name on the command line; one that begins with a dash would be an option. */
static void add_name(rc_advice *a, const char *name)
{
    if (name[0] != '-') {
        add_argument(a, name);
        return;
    }
    char *path = malloc(strlen(name) + 3);
    if (path == NULL) {
        a->text[0] = '\0';
        return;
    }
    sprintf(path, "./%s", name);
    add_argument(a, path);
    free(path);
}

static void begin(rc_advice *a, const char *command)
{
    snprintf(a->text, sizeof a->text, "recollect %s", command);
}

static bool is_among(const char *name, size_t length, const char *const *names)
{
    while (*names != NULL && (strlen(*names) != length || memcmp(*names, name, length) != 0))
        names++;
    return *names != NULL;
}

/* The lesson, `more`, and its options but those of these names, also where --set gives them (NULL ends the list). */
static void repeat_lesson(rc_advice *a, const char *more, const char *const *left_out)
{
    char name[80];
    begin(a, "learn");
    if (a->model != NULL)
        add_name(a, a->model);
    add_name(a, a->data);
    add_argument(a, "--out");
    add_argument(a, a->out);
    add(a, more);
    for (int i = 0; i < a->command->options; i++) {
        const rc_option *o = &a->command->option[i];
        const rc_option_value *v = &a->value[i];
        if (!v->given || is_among(o->name, strlen(o->name), left_out))
            continue;
        snprintf(name, sizeof name, "--%s", o->name);
        bool list = o->type == RC_OPTION_LIST;
        for (int k = 0; k < (list ? v->repeats : 1); k++) {
            if (list && is_among(v->each[k], strcspn(v->each[k], "="), left_out))
                continue;
            add_argument(a, name);
            if (o->type != RC_OPTION_FLAG)
                add_argument(a, list ? v->each[k] : v->text);
        }
    }
}

/* The lesson again, in place of the model that it has made; `option` and `text` change it, unless they are NULL. Where
 * the last stage learnt, the command says so: with --epochs another choice would be made. */
static void learn_again(rc_advice *a, const char *option, const char *text)
{
    char name[80];
    const char *left_out[] = {"out", "force", "json", "strict", "resume", option, NULL, NULL};
    if (a->top)
        left_out[option != NULL ? 6 : 5] = "adapt";
    repeat_lesson(a, a->top ? " --force --adapt top" : " --force", left_out);
    if (option == NULL)
        return;
    snprintf(name, sizeof name, "--%s", option);
    add_argument(a, name);
    if (text != NULL)
        add_argument(a, text);
}

const char *rc_advise_resume(rc_advice *a)
{
    repeat_lesson(a, "", (const char *const[]){"out", "resume", NULL});
    add(a, " --resume");
    return a->text;
}

/* A command about the model that there is now. */
static void about_model(rc_advice *a, const char *command, const char *data, const char *more)
{
    begin(a, command);
    add_name(a, a->out);
    if (data != NULL)
        add_name(a, data);
    add(a, more);
}

/* ---- what to try ------------------------------------------------------------------------------------------------- */

/* Each makes the command, and returns why one would try it. */
static const char *try_other_images(rc_advice *a, const recollect_finding *finding)
{
    (void)finding;
    about_model(a, "eval", "TEST", "");
    return "score other images, in a folder TEST";
}

static const char *try_longer(rc_advice *a, const recollect_finding *finding)
{
    char epochs[16];
    (void)finding;
    if (a->head) {
        learn_again(a, NULL, NULL);
        return "add images, then learn again";
    }
    snprintf(epochs, sizeof epochs, "%d", a->epochs);
    learn_again(a, "epochs", epochs);
    return "add images, or train twice as long";
}

static const char *try_to_keep(rc_advice *a, const recollect_finding *finding)
{
    (void)finding;
    bool merges = a->dreams || a->head;
    learn_again(a, merges ? "merge" : "method", merges ? NULL : "cwd");
    if (!merges)
        return "learn with dreams of the old classes";
    return a->merged ? "put more images of old classes beside the new ones"
                     : "put a few images of old classes beside the new ones";
}

static const char *try_again(rc_advice *a, const recollect_finding *finding)
{
    learn_again(a, NULL, NULL);
    return strcmp(finding->code, "imbalance") == 0 ? "add images of these classes, then learn again"
                                                   : "convert or replace them, then learn again";
}

static const char *try_without_twins(rc_advice *a, const recollect_finding *finding)
{
    learn_again(a, NULL, NULL);
    return strcmp(finding->code, "same_images") == 0 ? "leave each image in one class, then learn again"
                                                     : "delete copies of images, then learn again";
}

static const char *try_one_name(rc_advice *a, const recollect_finding *finding)
{
    (void)finding;
    learn_again(a, NULL, NULL);
    return "if they are one class, give them one name, then learn again";
}

static const char *try_dreams(rc_advice *a, const recollect_finding *finding)
{
    (void)finding;
    about_model(a, "dream", NULL, " --out dreams");
    return "look at what the model remembers of these classes";
}

static const char *try_never_right(rc_advice *a, const recollect_finding *finding)
{
    return finding->labels[0] < a->known ? try_dreams(a, finding) : try_longer(a, finding);
}

/* The images of a new class are there beside dreams of the old one, which a few real images help. */
static const char *try_look_alikes(rc_advice *a, const recollect_finding *finding)
{
    for (int i = 0; i < finding->label_count; i += 2)
        if (finding->labels[i] < a->known && finding->labels[i + 1] >= a->known)
            return try_to_keep(a, finding);
    return try_other_images(a, finding);
}

static const char *try_same_data(rc_advice *a, const recollect_finding *finding)
{
    about_model(a, "eval", a->data, "");
    bool files = strcmp(finding->code, "broken_images") == 0 || strcmp(finding->code, "left_out") == 0;
    return files ? "convert or replace them, then score again" : "add images, then score again";
}

static const char *try_single_answers(rc_advice *a, const recollect_finding *finding)
{
    (void)finding;
    about_model(a, "predict", a->data, " --top 3");
    return "look at single answers";
}

/* How long the model was trained, and on how many images, nobody knows any more: its file does not say. */
static const char *try_new_model(rc_advice *a, const recollect_finding *finding)
{
    (void)finding;
    begin(a, "learn FOLDER");
    add(a, " --out NEW.safetensors");
    return "teach a new model more images of each class, from FOLDER, or begin with a published net ('recollect import "
           "--help')";
}

static const char *try_to_teach(rc_advice *a, const recollect_finding *finding)
{
    (void)finding;
    about_model(a, "learn", "FOLDER", " --out NEW.safetensors");
    return "teach it these classes, from a FOLDER that has no others";
}

typedef const char *maker(rc_advice *a, const recollect_finding *finding);

static const struct {
    const char *code;
    maker *after_learn, *after_eval;
} rows[] = {
    {"old_classes_suffered", try_to_keep, NULL},
    {"near_chance", try_longer, try_single_answers},
    {"too_few", try_other_images, try_same_data},
    {"weak", try_longer, try_new_model},
    {"old_near_chance", try_to_keep, NULL},
    {"old_too_few", try_other_images, NULL},
    {"old_weak", try_to_keep, NULL},
    {"nothing_scored", try_other_images, NULL},
    {"classes_not_scored", try_other_images, NULL},
    {"classes_never_right", try_never_right, try_dreams},
    {"look_alikes", try_look_alikes, try_single_answers},
    {"similar_names", try_one_name, NULL},
    {"same_images", try_without_twins, NULL},
    {"held_out_seen", try_without_twins, NULL},
    {"imbalance", try_again, NULL},
    {"left_out", try_again, try_same_data},
    {"broken_images", try_again, try_same_data},
    {"unknown_classes", NULL, try_to_teach},
};

/* Makes the command; NULL: there is none for this finding, or it does not fit. */
static const char *make(rc_advice *a, const recollect_finding *finding)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        maker *make_it = a->command == &rc_command_learn ? rows[i].after_learn : rows[i].after_eval;
        if (strcmp(rows[i].code, finding->code) == 0 && make_it != NULL) {
            const char *why = make_it(a, finding);
            return a->text[0] != '\0' ? why : NULL;
        }
    }
    return NULL;
}

const char *rc_advise(void *advice, const recollect_finding *finding)
{
    rc_advice *a = advice;
    return make(a, finding) != NULL ? a->text : NULL;
}

void rc_advice_begin(rc_advice *a, const recollect_model *model, const recollect_learn_result *lesson)
{
    enum { MOST_EPOCHS = 100000 };
    int epochs = lesson != NULL ? lesson->epochs : 0;
    recollect_model_info info = {.size = sizeof info};
    a->epochs = epochs < MOST_EPOCHS / 2 ? 2 * epochs : MOST_EPOCHS;
    a->merged = lesson != NULL && lesson->merged > 0;
    a->head = lesson != NULL && strcmp(lesson->adapt, "head") == 0;
    a->top = lesson != NULL && strcmp(lesson->adapt, "top") == 0;
    a->dreams = recollect_model_get_info(model, &info) == RECOLLECT_OK &&
                (strcmp(info.method, "cwd") == 0 || strcmp(info.method, "cwd+") == 0);
}

/* ---- words ------------------------------------------------------------------------------------------------------- */

void rc_print_verdict(const recollect_review *review)
{
    if (review->findings == 0)
        rc_print("Verdict: %s", review->text);
    else
        rc_print("Verdict: %s (%d warning%s below)", review->text, review->findings, review->findings > 1 ? "s" : "");
}

void rc_tell_warnings(const recollect_review *review, rc_advice *advice, void (*print)(const char *format, ...))
{
    for (int i = 0; i < review->findings; i++) {
        const recollect_finding *finding = review->finding[i];
        const char *why = make(advice, finding);
        print("warning: %s", finding->text);
        if (why != NULL)
            print("  %s: %s", why, advice->text);
    }
}

int rc_strict_code(const rc_command *command, const recollect_review *review, bool strict, int code)
{
    if (!strict || review->findings == 0 || code != RC_EXIT_DONE)
        return code;
    rc_note("%s: %d warning%s, so --strict exits with %d", command->name, review->findings,
            review->findings > 1 ? "s" : "", RC_EXIT_DOUBTFUL);
    return RC_EXIT_DOUBTFUL;
}
