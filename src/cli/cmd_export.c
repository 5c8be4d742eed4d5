/* recollect export: a model for other programs. */
#include <errno.h>
#include <string.h>

#include "cli/handle.h"
#include "cli/saving.h"

enum { ONNX, TORCH, C_HEADER, FORMATS, FORCE = FORMATS, MAX_MEMORY, OPTIONS };

static const rc_option options[OPTIONS] = {
    [ONNX] = {"onnx", RC_OPTION_OUTPUT, "FILE", NULL, "for ONNX Runtime, OpenCV and others: a graph, opset 17", 0, 0},
    [TORCH] = {"torch", RC_OPTION_OUTPUT, "FILE", NULL,
               "for PyTorch: safetensors with the names of the net's state_dict", 0, 0},
    [C_HEADER] = {"c-header", RC_OPTION_OUTPUT, "FILE", NULL, "for boards: weights and a predictor in plain C", 0, 0},
    [FORCE] = {"force", RC_OPTION_FLAG, NULL, NULL, "replace files that exist", 0, 0},
    [MAX_MEMORY] = RC_OPTION_MAX_MEMORY,
};

/* What the library calls the formats. */
static const char *const format[FORMATS] = {[ONNX] = "onnx", [TORCH] = "torch", [C_HEADER] = "c"};

/* Can all files be written, as far as can be told before? False after a complaint. */
static bool can_write(const rc_option_value *value, const char *input)
{
    const char *self = rc_command_export.name;
    struct stat source, target[FORMATS];
    if (!rc_look_at(self, input, &source))
        return false;
    for (int i = 0; i < FORMATS; i++) {
        const char *path = value[i].text;
        if (path == NULL)
            continue;
        if (!rc_look_at(self, path, &target[i]))
            return false;
        if (rc_same_file(&target[i], &source)) {
            rc_complain("%s: --%s is the model that is read, which is never written; choose another name", self,
                        options[i].name);
            return false;
        }
        for (int other = 0; other < i; other++)
            if (value[other].text != NULL &&
                (strcmp(value[other].text, path) == 0 || rc_same_file(&target[other], &target[i]))) {
                rc_complain("%s: --%s and --%s name the same file '%s'", self, options[other].name, options[i].name,
                            path);
                return false;
            }
        recollect_status status = recollect_check_save(path, 0, value[FORCE].given);
        if (status != RECOLLECT_OK) {
            rc_failed(self, status);
            return false;
        }
    }
    return true;
}

static int write_files(const recollect_model *model, const rc_option_value *value)
{
    for (int i = 0; i < FORMATS; i++) {
        if (value[i].text == NULL)
            continue;
        recollect_status status = recollect_model_export(model, format[i], value[i].text, value[FORCE].given);
        if (status != RECOLLECT_OK && status != RECOLLECT_UNSYNCED)
            return rc_failed(rc_command_export.name, status);
        if (status == RECOLLECT_UNSYNCED)
            rc_note("warning: %s", recollect_last_message());
        struct stat file;
        if (stat(value[i].text, &file) != 0) {
            rc_complain("%s: '%s' is written and in its place, but cannot be looked at: %s", rc_command_export.name,
                        value[i].text, strerror(errno));
            return RC_EXIT_FAILED;
        }
        double bytes = (double)file.st_size;
        rc_print(bytes < 1e6 ? "%s: %.0f kB" : "%s: %.1f MB", value[i].text, bytes / (bytes < 1e6 ? 1e3 : 1e6));
    }
    return RC_EXIT_DONE;
}

static int run(const rc_option_value *value, int count, char **arguments)
{
    const rc_command *self = &rc_command_export;
    int files = 0;
    if (count != 1)
        return count < 1 ? rc_wrong_usage(self, "which model?")
                         : rc_wrong_usage(self, "unexpected argument '%s'", arguments[1]);
    for (int i = 0; i < FORMATS; i++) {
        if (value[i].text != NULL && value[i].text[0] == '\0')
            return rc_wrong_usage(self, "option '--%s' is empty, expected the name of a file", options[i].name);
        files += value[i].text != NULL;
    }
    if (files == 0)
        return rc_wrong_usage(self, "as what? --onnx FILE, --torch FILE or --c-header FILE says it");
    if (!can_write(value, arguments[0]))
        return RC_EXIT_FAILED;
    rc_handle_settings settings = {.command = self->name,
                                   .backend = "cpu",
                                   .threads = 1,
                                   .max_memory = &value[MAX_MEMORY],
                                   .log_level = RECOLLECT_LOG_ERROR};
    recollect_model *model = rc_handle_open(&settings, arguments[0]);
    if (model == NULL)
        return RC_EXIT_FAILED;
    rc_outlive_readers();
    int code = write_files(model, value);
    recollect_model_destroy(&model);
    return code;
}

const rc_command rc_command_export = {
    .name = "export",
    .summary = "Writes a model for other programs: ONNX, PyTorch, or a C header for boards.",
    .arguments = "MODEL",
    .details =
        "The ONNX graph takes images of 0 to 1 and gives logits and probabilities; class names and how a picture\n"
        "is prepared are in its metadata. The C header needs no files and no heap, and computes as recollect's\n"
        "reference backend does. None of them can learn more: the model itself can.",
    .examples = "  recollect export animals.safetensors --onnx animals.onnx\n"
                "  recollect export animals.safetensors --torch animals_torch.safetensors\n"
                "  recollect export animals.safetensors --c-header animals.h",
    .option = options,
    .options = OPTIONS,
    .run = run,
};
