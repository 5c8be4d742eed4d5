/* recollect predict: what is on these images. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/predict.h"
#include "api/unfamiliarity.h"
#include "cli/cli.h"
#include "cli/model.h"

enum { TOP, JSON, LIST, BACKEND, PRECISION, DEVICE_MEMORY, MAX_MEMORY, THREADS, OPTIONS };

static const rc_option options[OPTIONS] = {
    [TOP] = {"top", RC_OPTION_INTEGER, "N", "3", "classes to show for each image", 1, 100000},
    [JSON] = {"json", RC_OPTION_FLAG, NULL, NULL, "one JSON object a line", 0, 0},
    [LIST] = {"list", RC_OPTION_FLAG, NULL, NULL, "'-' is a list of paths, one a line, not an image", 0, 0},
    [BACKEND] = {"backend", RC_OPTION_TEXT, "cpu|reference|cuda", "cpu", "what to compute on", 0, 0},
    [PRECISION] = RC_OPTION_PRECISION,
    [DEVICE_MEMORY] = RC_OPTION_DEVICE_MEMORY,
    [MAX_MEMORY] = RC_OPTION_MAX_MEMORY,
    [THREADS] = {"threads", RC_OPTION_INTEGER, "N", "0", "threads to use; 0: all cores", 0, 1024},
};

typedef struct printer {
    const rc_saved_model *model;
    bool json;
    bool failed; /* a prediction could not be printed */
} printer;

/* "cat 83.1 %, dog 12.0 %" in a new block; NULL: no memory. */
static char *list_classes(const rc_saved_model *model, const rc_prediction *prediction)
{
    enum { ROOM = 32 }; /* for a percentage and a comma */
    size_t size = 1, used = 0;
    for (int i = 0; i < prediction->count; i++)
        size += strlen(model->class_name[prediction->label[i]]) + ROOM;
    char *text = calloc(size, 1);
    for (int i = 0; text != NULL && i < prediction->count; i++)
        used += (size_t)snprintf(text + used, size - used, "%s%s %.1f %%", i > 0 ? ", " : "",
                                 model->class_name[prediction->label[i]], 100 * prediction->probability[i]);
    return text;
}

static void print_prediction(void *user, const rc_prediction *prediction)
{
    printer *p = user;
    if (prediction->message != NULL)
        rc_complain("predict: %s", prediction->message);
    if (p->json) {
        if (rc_prediction_json(p->model, prediction, rc_print_json, NULL) != RC_OK) {
            rc_complain("predict: %s", rc_message());
            p->failed = true;
        }
        return;
    }
    if (prediction->message != NULL)
        return;
    char *text = list_classes(p->model, prediction);
    if (text == NULL) {
        rc_complain("predict: no memory for the classes of %s", prediction->name);
        p->failed = true;
        return;
    }
    if (isnan(prediction->unfamiliarity))
        rc_print("%s: %s", prediction->name, text);
    else
        rc_print("%s: %s; unfamiliarity %.2f%s", prediction->name, text, prediction->unfamiliarity,
                 prediction->unfamiliarity >= RC_UNFAMILIAR ? " (unlike anything learnt)" : "");
    free(text);
}

/* All of stdin, to be freed also after a failure; a zero byte follows the last one. */
static rc_status read_stdin(char **data, size_t *size)
{
    enum { PIECE = 1 << 16, MOST = 1 << 29 };
    *data = NULL;
    *size = 0;
    for (size_t got = 1; got > 0; *size += got) {
        if (*size > MOST)
            return rc_fail(RC_IO, "stdin holds more than %d MB", MOST / 1000000);
        char *grown = realloc(*data, *size + PIECE + 1);
        if (grown == NULL)
            return rc_fail(RC_OUT_OF_MEMORY, "no memory for stdin, of which %zu bytes have come", *size);
        *data = grown;
        got = fread(*data + *size, 1, PIECE, stdin);
    }
    (*data)[*size] = '\0';
    return ferror(stdin) ? rc_fail(RC_IO, "cannot read stdin: %s", strerror(errno)) : RC_OK;
}

static rc_status predict_stdin(rc_predictor *predictor, bool list)
{
    size_t size;
    char *data;
    rc_status status = read_stdin(&data, &size);
    if (status == RC_OK && !list)
        status = rc_predictor_add_bytes(predictor, "-", data, size);
    for (char *line = data, *end; list && status == RC_OK && line < data + size; line = end + 1) {
        end = line + strcspn(line, "\n");
        *end = '\0';
        if (end > line && end[-1] == '\r')
            end[-1] = '\0';
        if (line[0] != '\0')
            status = rc_predictor_add(predictor, line);
    }
    free(data);
    return status;
}

static rc_status predict_all(rc_predictor *predictor, int count, char **arguments, bool list)
{
    rc_status status = RC_OK;
    for (int i = 0; status == RC_OK && i < count; i++)
        status = strcmp(arguments[i], "-") == 0 ? predict_stdin(predictor, list)
                                                : rc_predictor_add(predictor, arguments[i]);
    return status == RC_OK ? rc_predictor_finish(predictor) : status;
}

static int run(const rc_option_value *value, int count, char **arguments)
{
    if (count < 2)
        return rc_wrong_usage(&rc_command_predict, count < 1 ? "which model?" : "which images?");
    rc_open_model *open =
        rc_model_open("predict", rc_backend_name(&value[BACKEND]), (int)value[THREADS].integer,
                      &value[MAX_MEMORY], arguments[0]);
    if (open == NULL)
        return RC_EXIT_FAILED;
    rc_catch_interrupts();
    rc_saved_model *model = &open->model;
    printer p = {.model = model, .json = value[JSON].given};
    rc_predict_settings settings = {.top = (int)value[TOP].integer,
                                    .threads = (int)value[THREADS].integer,
                                    .each = print_prediction,
                                    .user = &p,
                                    .watch = {.log = {.write = rc_note_log}, .cancelled = rc_interrupted}};
    rc_predictor *predictor = NULL;
    rc_status status = rc_predictor_create(model, &settings, &predictor);
    if (status == RC_OK && !rc_predictor_knows_familiar(predictor) && !value[JSON].given)
        rc_note("note: the model has no class statistics (%s stores none), so unfamiliarity is not shown",
                model->learner.method->title);
    if (status == RC_OK)
        status = predict_all(predictor, count - 1, arguments + 1, value[LIST].given);
    int broken = predictor != NULL ? rc_predictor_broken(predictor) : 0;
    int images = predictor != NULL ? rc_predictor_images(predictor) : 0;
    rc_predictor_destroy(predictor);
    rc_model_close(open);
    if (status != RC_OK)
        rc_complain("predict: %s", rc_message());
    else if (broken > 0)
        rc_complain("predict: %d of %d could not be read", broken, broken + images);
    return status == RC_CANCELLED                      ? RC_EXIT_INTERRUPTED
           : status != RC_OK || broken > 0 || p.failed ? RC_EXIT_FAILED
                                                       : RC_EXIT_DONE;
}

const rc_command rc_command_predict = {
    .name = "predict",
    .summary = "Names what is on images, and says how unfamiliar they are.",
    .arguments = "MODEL IMAGE|FOLDER|-...",
    .details =
        "Images are JPEG, PNG, PPM or PGM files; folders are searched to the bottom; '-' reads one image "
        "from\n"
        "stdin, or with --list the paths of many. Unfamiliarity is the Mahalanobis distance of the image's\n"
        "features from the nearest class: 1 is an average training image, 2 and more is like nothing "
        "learnt.\n"
        "A file that cannot be read is named, the others are still predicted, and the exit code is 1.",
    .examples = "  recollect predict animals.safetensors cat.jpg\n"
                "  recollect predict animals.safetensors photos/ --top 1 --json\n"
                "  find . -name '*.png' | recollect predict animals.safetensors --list -",
    .option = options,
    .options = OPTIONS,
    .run = run,
};
