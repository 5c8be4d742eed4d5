/* recollect predict: what is on these images. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/handle.h"
#include "cli/predict_csv.h"
#include "cli/sandbox.h"

enum { TOP, REJECT, JSON, CSV, LIST, STRICT, BACKEND, PRECISION, DEVICE_MEMORY, MAX_MEMORY, THREADS, SANDBOX, OPTIONS };

static const rc_option options[OPTIONS] = {
    [TOP] = {"top", RC_OPTION_INTEGER, "N", "3", "classes to show for each image", 1, 100000},
    [REJECT] = {"reject", RC_OPTION_INTEGER, "PERCENT", NULL,
                "answer 'none of these' for images whose 'stranger' is below PERCENT", 1, 100},
    [JSON] = {"json", RC_OPTION_FLAG, NULL, NULL, "one JSON object a line", 0, 0},
    [CSV] = {"csv", RC_OPTION_FLAG, NULL, NULL, "a table: a line of CSV for each image below a line of names", 0, 0},
    [LIST] = {"list", RC_OPTION_FLAG, NULL, NULL, "'-' is a list of paths, one a line, not an image", 0, 0},
    [STRICT] = {"strict", RC_OPTION_FLAG, NULL, NULL, "exit with 3 if files of a folder were left out", 0, 0},
    [BACKEND] = {"backend", RC_OPTION_TEXT, RC_BACKENDS, "cpu", "what to compute on", 0, 0},
    [PRECISION] = RC_OPTION_PRECISION,
    [DEVICE_MEMORY] = RC_OPTION_DEVICE_MEMORY,
    [MAX_MEMORY] = RC_OPTION_MAX_MEMORY,
    [THREADS] = RC_OPTION_THREADS,
    [SANDBOX] = RC_OPTION_SANDBOX,
};

typedef struct printer {
    const recollect_model *model;
    bool json, csv;
    int top;     /* classes in a line of CSV */
    rc_csv line; /* of it */
    bool failed; /* a prediction could not be printed */
    bool strict;
    int images, broken, left_out;
} printer;

/* "cat 83.1 %, dog 12.0 %" in a new block; NULL: no memory. */
static char *list_classes(const recollect_model *model, const recollect_prediction *prediction)
{
    enum { ROOM = 32 }; /* for a percentage and a comma */
    size_t size = 1, used = 0;
    for (int i = 0; i < prediction->top; i++)
        size += strlen(recollect_model_class_name(model, prediction->labels[i])) + ROOM;
    char *text = calloc(size, 1);
    for (int i = 0; text != NULL && i < prediction->top; i++)
        used += (size_t)snprintf(text + used, size - used, "%s%s %.1f %%", i > 0 ? ", " : "",
                                 recollect_model_class_name(model, prediction->labels[i]),
                                 100 * prediction->probabilities[i]);
    return text;
}

static void print_text(printer *p, const recollect_prediction *prediction)
{
    char *text = list_classes(p->model, prediction), rate[64] = "";
    double percent = 100 * prediction->stranger;
    if (!isnan(percent))
        snprintf(rate, sizeof rate, "; stranger: %.*f %%", percent < 9.95 ? 1 : 0, percent);
    if (text == NULL) {
        rc_complain("predict: no memory for the classes of %s", prediction->path);
        p->failed = true;
    } else if (prediction->none_of_these) {
        rc_print("%s: none of these (%s)%s", prediction->path, text, rate);
    } else {
        rc_print("%s: %s%s", prediction->path, text, rate);
    }
    free(text);
}

/* The row of a prediction; NULL: that of the names of the columns. */
static void print_row(printer *p, const recollect_prediction *prediction)
{
    if (!rc_predict_csv(&p->line, p->model, prediction, p->top)) {
        rc_complain("predict: no memory for a line of the table");
        p->failed = true;
    }
}

static void print_prediction(void *user, const recollect_prediction *prediction)
{
    printer *p = user;
    char words[RC_WORDS_SIZE];
    bool read = prediction->status == RECOLLECT_OK;
    p->images += read;
    p->broken += !read;
    if (!read)
        rc_complain("predict: %s", rc_own_words(prediction->message, words, sizeof words));
    if (!read && strstr(prediction->path, "://") != NULL)
        rc_note("predict reads files alone: curl -s ADDRESS | recollect predict MODEL -");
    if (p->json && recollect_describe_prediction(p->model, prediction, rc_print_json, NULL) != RECOLLECT_OK) {
        rc_complain("predict: %s", recollect_last_message());
        p->failed = true;
    }
    if (p->csv)
        print_row(p, prediction);
    if (read && !p->json && !p->csv)
        print_text(p, prediction);
}

/* ---- what to predict ----------------------------------------------------------------------------------------- */

/* What the command line names. */
typedef struct questions {
    recollect_picture *picture; /* (count) */
    int count, capacity;
    char **input; /* (arguments): what stdin held where '-' stood; else NULL */
} questions;

/* All of stdin; a zero byte follows the last one. False after a complaint, or without one after Ctrl-C. */
static bool read_stdin(char **data, size_t *size)
{
    enum { PIECE = 1 << 16, MOST = 1 << 29 };
    *size = 0;
    for (size_t got = 1; got > 0 && !rc_interrupted(NULL); *size += got) {
        if (*size > MOST) {
            rc_complain("predict: stdin holds more than %d MB", MOST / 1000000);
            return false;
        }
        char *grown = realloc(*data, *size + PIECE + 1);
        if (grown == NULL) {
            rc_complain("predict: no memory for stdin, of which %zu bytes have come", *size);
            return false;
        }
        *data = grown;
        got = fread(*data + *size, 1, PIECE, stdin);
    }
    if (rc_interrupted(NULL))
        return false;
    (*data)[*size] = '\0';
    if (ferror(stdin))
        rc_complain("predict: cannot read stdin: %s", strerror(errno));
    return !ferror(stdin);
}

static bool ask(questions *q, recollect_picture picture)
{
    if (q->count == q->capacity) {
        int capacity = q->capacity > 0 ? 2 * q->capacity : 64;
        recollect_picture *grown = realloc(q->picture, (size_t)capacity * sizeof *grown);
        if (grown == NULL) {
            rc_complain("predict: no memory for the names of %d pictures", q->count);
            return false;
        }
        q->picture = grown;
        q->capacity = capacity;
    }
    q->picture[q->count++] = picture;
    return true;
}

/* The picture that stdin is, or with `list` those that its lines name. */
static bool ask_stdin(questions *q, char **input, bool list)
{
    size_t size;
    bool good = read_stdin(input, &size);
    if (good && !list)
        return ask(q, (recollect_picture){"-", *input, size});
    for (char *line = *input, *end; good && line < *input + size; line = end + 1) {
        end = line + strcspn(line, "\n");
        *end = '\0';
        if (end > line && end[-1] == '\r')
            end[-1] = '\0';
        if (line[0] != '\0')
            good = ask(q, (recollect_picture){.path = line});
    }
    return good;
}

static bool ask_all(questions *q, int count, char **arguments, bool list)
{
    bool good = true;
    q->input = calloc((size_t)count, sizeof *q->input);
    if (q->input == NULL) {
        rc_complain("predict: no memory for the names of %d pictures", count);
        return false;
    }
    for (int i = 0; good && i < count; i++)
        good = strcmp(arguments[i], "-") == 0 ? ask_stdin(q, &q->input[i], list)
                                              : ask(q, (recollect_picture){.path = arguments[i]});
    return good;
}

static void free_questions(questions *q, int arguments)
{
    for (int i = 0; q->input != NULL && i < arguments; i++)
        free(q->input[i]);
    free(q->input);
    free(q->picture);
}

/* ---- the command --------------------------------------------------------------------------------------------- */

static int finish(recollect_status status, const printer *p)
{
    if (status == RECOLLECT_OK && rc_interrupted(NULL))
        status = RECOLLECT_CANCELLED;
    if (status == RECOLLECT_CANCELLED)
        rc_complain("predict: interrupted");
    else if (status != RECOLLECT_OK)
        rc_failed(rc_command_predict.name, status);
    else if (p->broken > 0)
        rc_complain("predict: %d of %d could not be read", p->broken, p->broken + p->images);
    if (p->left_out > 0 && p->json)
        rc_print("{\"left_out\":%d}", p->left_out);
    return status == RECOLLECT_CANCELLED                          ? RC_EXIT_INTERRUPTED
           : status != RECOLLECT_OK || p->broken > 0 || p->failed ? RC_EXIT_FAILED
           : p->strict && p->left_out > 0                         ? RC_EXIT_DOUBTFUL
                                                                  : RC_EXIT_DONE;
}

static bool reads_stdin(int count, char **arguments)
{
    while (count > 0 && strcmp(arguments[count - 1], "-") != 0)
        count--;
    return count > 0;
}

static int run(const rc_option_value *value, int count, char **arguments)
{
    if (count < 2)
        return rc_wrong_usage(&rc_command_predict, count < 1 ? "which model?" : "which images?");
    if (value[JSON].given && value[CSV].given)
        return rc_wrong_usage(&rc_command_predict, "JSON or CSV? Both together cannot be read again");
    if (value[LIST].given && !reads_stdin(count - 1, arguments + 1))
        return rc_wrong_usage(&rc_command_predict, "--list is for '-', which reads the paths from stdin: --list - < %s",
                              arguments[1]);
    int refused = rc_sandbox_asked(&rc_command_predict, &value[SANDBOX], &value[BACKEND]);
    if (refused != RC_EXIT_DONE)
        return refused;
    bool table = value[JSON].given || value[CSV].given;
    rc_handle_settings opening = {.command = "predict",
                                  .backend = rc_backend_name(&value[BACKEND]),
                                  .threads = 1, /* the predictor has the others */
                                  .max_memory = &value[MAX_MEMORY],
                                  .log_level = table ? RECOLLECT_LOG_WARNING : RECOLLECT_LOG_INFO};
    recollect_model *model = rc_handle_open(&opening, arguments[0]);
    if (model == NULL)
        return RC_EXIT_FAILED;
    rc_catch_interrupts();
    int classes = recollect_model_classes(model), top = (int)value[TOP].integer;
    printer p = {.model = model,
                 .json = value[JSON].given,
                 .csv = value[CSV].given,
                 .top = top < classes ? top : classes,
                 .strict = value[STRICT].given};
    questions q = {0};
    recollect_predictor *predictor;
    recollect_status status = recollect_predictor_create(model, (int)value[THREADS].integer, &predictor);
    if (status == RECOLLECT_OK && value[REJECT].given)
        status = recollect_predictor_reject(predictor, (double)value[REJECT].integer / 100);
    bool asked = status == RECOLLECT_OK && ask_all(&q, count - 1, arguments + 1, value[LIST].given);
    if (asked && p.csv)
        print_row(&p, NULL);
    if (asked && q.count > 0)
        status = recollect_predictor_each(predictor, q.picture, q.count, top, print_prediction, &p);
    p.left_out = recollect_predictor_left_out(predictor);
    int code = asked || status != RECOLLECT_OK || rc_interrupted(NULL) ? finish(status, &p) : RC_EXIT_FAILED;
    rc_csv_free(&p.line);
    free_questions(&q, count - 1);
    recollect_predictor_destroy(&predictor);
    recollect_model_destroy(&model);
    return code;
}

const rc_command rc_command_predict = {
    .name = "predict",
    .summary = "Names what is on images, and says how strange they look.",
    .arguments = "MODEL IMAGE|FOLDER|-...",
    .details = "Images are JPEG, PNG, PPM, PGM and BMP files, and WebP, TIFF and GIF where the build has them\n"
               "('recollect info' says so). Folders are searched recursively, and what is left out of them is named\n"
               "at the end. '-' reads one image from stdin, or with --list the paths of many.\n"
               "'stranger: 3 %' means that 3 % of images of known classes\n"
               "look as strange to the model as this one; it has measured that on the images that 'learn' held out.\n"
               "--reject 5 answers 'none of these' below 5 %, and so gives up 5 % of the images of known classes.\n"
               "A file that cannot be read is named, the others are still predicted, and the exit code is 1.",
    .examples = "  recollect predict animals.safetensors cat.jpg\n"
                "  recollect predict animals.safetensors photos/ --reject 5\n"
                "  recollect predict animals.safetensors photos/ --csv > photos.csv\n"
                "  recollect predict animals.safetensors photos/ --top 1 --json\n"
                "  find . -name '*.png' | recollect predict animals.safetensors --list -",
    .option = options,
    .options = OPTIONS,
    .run = run,
};
