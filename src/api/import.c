#include "api/import.h"

#include <stdio.h>
#include <string.h>

#include "api/learn_config.h"

enum { CHANNELS = 3 };

/* What learning on goes by: the settings of first models of photographs, and what the net was made for. */
static rc_status configure(const rc_published *published, const rc_log *log, rc_config *config)
{
    const rc_learn_settings none = {0};
    const rc_dataset data = {.h = published->size, .w = published->size, .c = CHANNELS};
    *config = rc_config_default();
    RC_TRY(rc_config_load(config, "learn", log));
    rc_learn_fit_config(config, &none, &data);
    config->resize = published->resize;
    RC_TRY(rc_config_set(config, "net", published->net));
    RC_TRY(rc_config_set(config, "interpolation", published->interpolation));
    RC_TRY(rc_config_set(config, "mean", published->mean));
    return rc_config_set(config, "std", published->std);
}

/* As many names as the head has rows. */
static rc_status name_classes(const char *path, const char *file, int classes, const rc_log *log, rc_labels *labels)
{
    if (file == NULL) {
        rc_log_write(
            log, RC_LOG_INFO,
            "note: the classes have no names, so they are class-0000 to class-%04d; the setting 'classes' takes "
            "a file with a name a line",
            classes - 1);
        return rc_labels_number(classes, labels);
    }
    RC_TRY(rc_labels_read(file, labels));
    if (labels->renamed > 0)
        rc_log_write(log, RC_LOG_INFO,
                     "note: %d line%s of '%.300s' repeat%s a name, and got a number behind it, as in 'crane (2)'",
                     labels->renamed, labels->renamed == 1 ? "" : "s", file, labels->renamed == 1 ? "s" : "");
    if (labels->count == classes)
        return RC_OK;
    return rc_fail(RC_INVALID_ARGUMENT, "'%.300s' has %d name%s, one a line, but '%.300s' has %d class%s", file,
                   labels->count, labels->count == 1 ? "" : "s", path, classes, classes == 1 ? "" : "es");
}

static rc_status import_weights(const char *path, const rc_weights *weights, const char *net, const char *classes,
                                const rc_log *log, rc_backend *backend, rc_saved_model *model)
{
    const rc_published *published;
    const rc_method *method;
    rc_labels labels = {0};
    rc_config config;
    int rows;
    RC_TRY(rc_import_recognise(path, weights, net, &published, &rows));
    rc_log_write(log, RC_LOG_INFO, "'%.300s' is of %s and knows %d classes; images become %d x %d pixels", path,
                 published->net, rows, published->size, published->size);
    RC_TRY(rc_method_find("cwd", &method));
    RC_TRY(configure(published, log, &config));
    rc_status status = name_classes(path, classes, rows, log, &labels);
    if (status == RC_OK)
        status = rc_import_build(weights, published, &config, method, &labels, backend, model);
    rc_labels_destroy(&labels);
    return status == RC_FORMAT || status == RC_UNSUPPORTED ? rc_fail(status, "'%.300s': %s", path, rc_message())
                                                           : status;
}

rc_status rc_import_file(const char *path, const char *net, const char *classes, const rc_log *log, rc_backend *backend,
                         rc_saved_model *model)
{
    rc_weights *weights;
    memset(model, 0, sizeof *model);
    if (net != NULL && strcmp(net, "auto") == 0)
        net = NULL;
    if (net != NULL)
        RC_TRY(rc_import_check_net(net)); /* before a large file is read */
    RC_TRY(rc_weights_open(path, &weights));
    rc_status status = import_weights(path, weights, net, classes, log, backend, model);
    rc_weights_close(weights);
    return status;
}
