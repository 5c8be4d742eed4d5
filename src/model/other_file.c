#include "model/other_file.h"

#include <string.h>

const char *rc_other_format(const unsigned char begin[8])
{
    static const char torch[] = "; it begins like a file of torch.save, of which 'recollect import' makes a model";
    static const struct {
        size_t at, length;
        const char *bytes, *words;
    } formats[] = {
        {0, 4, "PK\3\4", torch},
        {0, 2, "\x80\2", torch}, /* a pickle, before PyTorch 1.6 */
        {0, 4, "\x89HDF", "; it begins like a file of Keras, which recollect does not read"},
        {4, 4, "TFL3", "; it begins like a file of TensorFlow Lite, which recollect does not read"},
        {0, 3, "\xFF\xD8\xFF", "; it begins like a JPEG picture"},
        {0, 4, "\x89PNG", "; it begins like a PNG picture"},
    };
    static const unsigned char none[5] = {0};
    if (memcmp(begin + 3, none, sizeof none) == 0)
        return ""; /* a header may be as long as that: the file is cut off */
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
        if (memcmp(begin + formats[i].at, formats[i].bytes, formats[i].length) == 0)
            return formats[i].words;
    /* The version of the format, 3 to 31, then the name of the program that wrote it. */
    return begin[0] == 8 && begin[1] >= 3 && begin[1] < 32 && begin[2] == 0x12
               ? "; it begins like an ONNX graph, which cannot learn: take the model or the weights that it was made of"
               : "";
}

const char *rc_other_metadata(const rc_safetensors *file)
{
    static const char checkpoint[] = "recollect-checkpoint-"; /* then a version */
    const char *format = rc_safetensors_metadata(file, "format");
    if (format != NULL && strncmp(format, checkpoint, strlen(checkpoint)) == 0)
        return "; a lesson or a run was stopped there, and the setting 'resume' goes on with it";
    return rc_safetensors_metadata(file, "recollect.version") != NULL
               ? "; it was exported for PyTorch: take the model that it was made of"
               : "";
}
