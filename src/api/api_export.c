/* The public interface: models for other programs. */
#include <string.h>

#include "api/api.h"
#include "export/exported.h"
#include "model/saving.h"

static const struct {
    const char *name;
    rc_status (*write)(const rc_exported *exported, const char *path, bool replace);
} formats[] = {{"onnx", rc_export_onnx}, {"torch", rc_export_torch}, {"c", rc_export_c_header}};
enum { FORMATS = sizeof formats / sizeof *formats };

static rc_status write_as(const recollect_model *model, int format, const char *path, bool replace)
{
    rc_exported exported;
    RC_TRY(rc_exported_take(&model->saved, &exported));
    rc_status status = formats[format].write(&exported, path, replace);
    rc_exported_drop(&exported);
    return status;
}

recollect_status recollect_model_export(const recollect_model *model, const char *format, const char *path,
                                        int overwrite)
{
    RC_TRY(rc_api_begin_model(model));
    int found = 0;
    if (format == NULL)
        return rc_api_is_null("format", "\"onnx\", \"torch\" or \"c\"");
    while (found < FORMATS && strcmp(formats[found].name, format) != 0)
        found++;
    if (found == FORMATS)
        return rc_fail(RC_INVALID_ARGUMENT, "format is '%.64s', expected onnx, torch or c", format);
    if (path == NULL || path[0] == '\0')
        return rc_fail(RC_INVALID_ARGUMENT, "path is %s, expected the name of a file", path ? "empty" : "NULL");
    RC_TRY(rc_api_check_has_learnt(model));
    if (!overwrite)
        RC_TRY(rc_saving_check_free(path));
    return rc_api_end(write_as(model, found, path, overwrite != 0));
}
