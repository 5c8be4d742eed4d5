/* recollect import: a published classifier becomes a model. */
#include <string.h>

#include "cli/handle.h"
#include "cli/saving.h"

enum { OUT, AS, CLASSES, FORCE, MAX_MEMORY, OPTIONS };

static const rc_option options[OPTIONS] = {
    [OUT] = {"out", RC_OPTION_OUTPUT, "FILE", NULL, "where the model goes (required)", 0, 0},
    [AS] = {"as", RC_OPTION_TEXT, "NET", "auto", "whose weights they are; auto: recognised by names and shapes", 0, 0},
    [CLASSES] = {"classes", RC_OPTION_TEXT, "FILE", NULL, "names of the classes, one a line; else they are numbered", 0,
                 0},
    [FORCE] = {"force", RC_OPTION_FLAG, NULL, NULL, "replace FILE if it exists", 0, 0},
    [MAX_MEMORY] = RC_OPTION_MAX_MEMORY,
};

/* What --as takes. */
static const char *net_at(const void *unused, int index)
{
    (void)unused;
    return rc_option_choice(&rc_command_import, &options[AS], index);
}

static bool is_known(const char *net)
{
    for (int i = 0; net_at(NULL, i) != NULL; i++)
        if (strcmp(net, net_at(NULL, i)) == 0)
            return true;
    return false;
}

static int save(const recollect_model *model, const rc_option_value *value)
{
    const char *self = rc_command_import.name, *out = value[OUT].text;
    recollect_model_info info = {.size = sizeof info};
    recollect_status status = recollect_model_save(model, out, value[FORCE].given);
    if (status != RECOLLECT_OK)
        rc_failed(self, status);
    if (status != RECOLLECT_OK && status != RECOLLECT_UNSYNCED)
        return RC_EXIT_FAILED;
    int code = status == RECOLLECT_OK ? RC_EXIT_DONE : RC_EXIT_FAILED;
    status = recollect_model_get_info(model, &info);
    if (status != RECOLLECT_OK)
        return rc_failed(self, status);
    rc_print("saved as %s: %s, %d classes, %zu parameters", out, info.net, recollect_model_classes(model),
             info.parameters);
    return code;
}

static int run(const rc_option_value *value, int count, char **arguments)
{
    const rc_command *self = &rc_command_import;
    if (count != 1)
        return count > 1 ? rc_wrong_usage(self, "unexpected argument '%s'", arguments[1])
                         : rc_wrong_usage(self, "which file of weights?");
    if (value[OUT].text == NULL || value[OUT].text[0] == '\0')
        return rc_wrong_usage(self, "where should the model go? --out FILE says it");
    if (!is_known(value[AS].text)) {
        const char *nearest = recollect_nearest(value[AS].text, net_at, NULL);
        return nearest != NULL ? rc_wrong_usage(self, "--as is '%s'; did you mean '%s'?", value[AS].text, nearest)
                               : rc_wrong_usage(self, "--as is '%s', which is no net that is known", value[AS].text);
    }
    if (!rc_saving_possible(self->name, value[OUT].text, arguments[0], value[FORCE].given))
        return RC_EXIT_FAILED;
    recollect_import_settings import = {.size = sizeof import, .net = value[AS].text, .classes = value[CLASSES].text};
    rc_handle_settings opening = {.command = self->name,
                                  .backend = "cpu",
                                  .max_memory = &value[MAX_MEMORY],
                                  .log_level = RECOLLECT_LOG_INFO,
                                  .import = &import};
    recollect_model *model = rc_handle_open(&opening, arguments[0]);
    if (model == NULL)
        return RC_EXIT_FAILED;
    int code = save(model, value);
    recollect_model_destroy(&model);
    return code;
}

const rc_command rc_command_import = {
    .name = "import",
    .summary = "Makes a model of a published classifier's weights.",
    .arguments = "FILE",
    .details = "FILE holds the state_dict of a net: a .pth or .pt file of PyTorch (nothing in it is executed) or a\n"
               "safetensors file with the same names. The model that it becomes knows the classes of the net, can\n"
               "predict and dream, and learns more classes ('recollect learn'). How images are prepared (size, crop,\n"
               "mean and standard deviation) goes with the net. An imported model has no class statistics, so it\n"
               "cannot tell how strange an image is.",
    .examples = "  recollect import resnet50.pth --classes imagenet.txt --out resnet50.safetensors\n"
                "  recollect import resnet20-12fca82f.th --as cifar-resnet20 --out cifar10.safetensors",
    .option = options,
    .options = OPTIONS,
    .run = run,
};
