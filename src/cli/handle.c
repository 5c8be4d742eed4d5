#include "cli/handle.h"

#include <sys/stat.h>

/* Drops what a context logs while it opens, such as which device it found. */
static bool opening;

static void note(void *unused, recollect_log_level level, const char *text)
{
    if (!opening)
        rc_note_log(unused, (int)level, text);
}

static void tell(void *unused, const recollect_progress *progress)
{
    rc_tell_progress(unused, "", progress);
}

static int interrupted(void *unused)
{
    return rc_interrupted(unused);
}

static recollect_status open_model(const rc_handle_settings *s, const char *path, recollect_model **model)
{
    recollect_settings settings;
    recollect_context *context;
    recollect_settings_default(&settings, sizeof settings);
    settings.backend = s->backend;
    settings.threads = s->threads;
    settings.max_memory = (size_t)s->max_memory->integer;
    settings.log = note;
    settings.log_level = s->log_level;
    settings.progress = tell;
    settings.cancelled = interrupted;
    recollect_status status = recollect_context_create(&settings, &context);
    opening = s->import == NULL;
    if (status == RECOLLECT_OK)
        status = s->import != NULL ? recollect_model_import(context, path, s->import, model)
                 : path != NULL    ? recollect_model_load(context, path, model)
                                   : recollect_model_create(context, model);
    recollect_context_destroy(&context); /* the model holds it */
    return status;
}

recollect_model *rc_handle_open(const rc_handle_settings *s, const char *path)
{
    recollect_model *model = NULL;
    struct stat what;
    if (s->import == NULL && path != NULL && stat(path, &what) == 0 && S_ISDIR(what.st_mode)) {
        rc_complain("%s: '%s' is a folder, expected a model file; the model comes first, the images after it",
                    s->command, path);
        return NULL;
    }
    opening = true;
    recollect_status status = open_model(s, path, &model);
    opening = false;
    if (status == RECOLLECT_OK)
        return model;
    rc_failed(s->command, status);
    if (status == RECOLLECT_FORMAT && s->import == NULL)
        rc_note("The model comes first on the command line: a file that 'recollect learn' or 'recollect run' wrote.");
    return NULL;
}
