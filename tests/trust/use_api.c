/* A program as a user of the library would write it, through all of the public interface, for tests that let its
 * memory run out.
 *
 * usage: use_api PRESET FIRST_FOLDER SECOND_FOLDER PICTURE OUT
 *
 * Code 0: all went well. Code 1: a call ran out of memory, said so, and left the model as it was. Anything else is
 * wrong: 3 is another status, or one without a message; 4 a model that has changed; 5 memory that is still held. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "recollect/recollect.h"

enum { WRONG_STATUS = 3, CHANGED = 4, HELD = 5, MOST_CLASSES = 8, MOST_BYTES = 1 << 16, MOST_PIXELS = 1 << 12 };

typedef struct program {
    recollect_context *context;
    recollect_model *model;
    unsigned char picture[MOST_BYTES];
    size_t size;
    int known;                       /* classes when it answered last; 0: it has not yet */
    float probability[MOST_CLASSES]; /* that it answered */
    float unfamiliarity;
} program;

static recollect_status answer(program *p, float *probability, float *unfamiliarity)
{
    return recollect_predict_encoded(p->model, p->picture, p->size, recollect_model_classes(p->model), NULL,
                                     probability, unfamiliarity);
}

static recollect_status ask(program *p)
{
    p->known = 0;
    recollect_status status = answer(p, p->probability, &p->unfamiliarity);
    if (status == RECOLLECT_OK)
        p->known = recollect_model_classes(p->model);
    return status;
}

static recollect_status lesson(program *p, const char *folder)
{
    recollect_learn_result result = {.size = sizeof result};
    recollect_status status = recollect_learn_folder(p->model, folder, &result);
    if (status == RECOLLECT_OK)
        printf("%d of %d classes are new, from %d images: %.3f %%\n", result.added, result.known + result.added,
               result.images, result.accuracy);
    return status == RECOLLECT_OK ? ask(p) : status;
}

static recollect_status dream(program *p)
{
    static uint8_t pixels[MOST_PIXELS];
    int made;
    recollect_status status = recollect_dream(p->model, 0, 1, pixels, &made);
    if (status == RECOLLECT_OK)
        printf("%d dreams\n", made);
    return status;
}

/* Up to the first failure. */
static recollect_status run(program *p, char **argv)
{
    recollect_settings settings;
    recollect_settings_default(&settings, sizeof settings);
    settings.threads = 1;
    recollect_status status = recollect_context_create(&settings, &p->context);
    if (status == RECOLLECT_OK)
        status = recollect_model_create(p->context, &p->model);
    if (status == RECOLLECT_OK)
        status = recollect_model_set(p->model, "preset", argv[1]);
    if (status == RECOLLECT_OK)
        status = recollect_model_set(p->model, "seed", "7");
    if (status == RECOLLECT_OK)
        status = lesson(p, argv[2]);
    if (status == RECOLLECT_OK)
        status = dream(p);
    if (status == RECOLLECT_OK)
        status = lesson(p, argv[3]);
    if (status == RECOLLECT_OK)
        status = recollect_model_save(p->model, argv[5], 0);
    if (status == RECOLLECT_OK) {
        recollect_model_destroy(&p->model);
        p->known = 0;
        status = recollect_model_load(p->context, argv[5], &p->model);
    }
    if (status == RECOLLECT_OK)
        status = ask(p);
    return status;
}

/* What is wrong with a failure; 0: nothing. */
static int judge(program *p, recollect_status status)
{
    float probability[MOST_CLASSES], unfamiliarity;
    int of_a_file = getenv("RECOLLECT_CALLS") != NULL && (status == RECOLLECT_IO || status == RECOLLECT_UNSYNCED);
    if ((status != RECOLLECT_OUT_OF_MEMORY && !of_a_file) || recollect_last_message()[0] == '\0')
        return WRONG_STATUS;
    if (p->known == 0)
        return 0;
    if (recollect_model_classes(p->model) != p->known)
        return CHANGED;
    status = answer(p, probability, &unfamiliarity);
    if (status != RECOLLECT_OK) /* it may have run out for good */
        return status == RECOLLECT_OUT_OF_MEMORY ? 0 : WRONG_STATUS;
    return memcmp(probability, p->probability, (size_t)p->known * sizeof *probability) != 0 ||
                   memcmp(&unfamiliarity, &p->unfamiliarity, sizeof unfamiliarity) != 0
               ? CHANGED
               : 0;
}

static size_t read_file(const char *path, unsigned char *bytes, size_t most)
{
    FILE *file = fopen(path, "rb");
    size_t size = file != NULL ? fread(bytes, 1, most, file) : 0;
    if (file != NULL)
        fclose(file);
    return size;
}

int main(int argc, char **argv)
{
    static program p;
    if (argc != 6)
        return 2;
    p.size = read_file(argv[4], p.picture, sizeof p.picture);
    if (p.size == 0) {
        fprintf(stderr, "recollect: cannot read %s\n", argv[4]);
        return 1;
    }
    recollect_status status = run(&p, argv);
    int code = 0;
    if (status != RECOLLECT_OK) {
        fprintf(stderr, "recollect: %s: %s\n", recollect_status_text(status), recollect_last_message());
        code = judge(&p, status);
        code = code == 0 ? 1 : code;
        remove(argv[5]);
    } else {
        for (int i = 0; i < p.known; i++)
            printf("%.9g%c", (double)p.probability[i], i + 1 < p.known ? ' ' : '\n');
    }
    recollect_model_destroy(&p.model);
    recollect_context_destroy(&p.context);
    return rc_bytes_allocated() == 0 ? code : HELD;
}
