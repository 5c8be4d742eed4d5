/* A program as a user of the library would write it, through all of the public interface, for tests that let its
 * memory run out.
 *
 * usage: use_api PRESET FIRST_FOLDER SECOND_FOLDER PICTURE WEIGHTS OUT
 *
 * It calls every public function: the lint looks. Beside the file OUT it leaves OUT.c.h, OUT.onnx, OUT.torch and the
 * folder OUT.dreams.
 *
 * Code 0: all went well. Code 1: a call ran out of memory, said so, and left the model as it was. Anything else is
 * wrong: 3 is another status, or one without a message; 4 a model that has changed; 5 memory that is still held. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "recollect/recollect.h"

enum { WRONG_STATUS = 3, CHANGED = 4, HELD = 5, MOST_CLASSES = 8, MOST_BYTES = 1 << 16, MOST_PIXELS = 1 << 12 };

enum { MODEL, ONNX, TORCH, HEADER, DREAMS, NAMES };

typedef struct program {
    recollect_context *context;
    recollect_model *model;
    unsigned char picture[MOST_BYTES];
    size_t size;
    int known;                       /* classes when it answered last; 0: it has not yet */
    float probability[MOST_CLASSES]; /* that it answered */
    float unfamiliarity;
    recollect_status told;  /* by a callback */
    char message[256];      /* of that; the call around it has its own */
    char name[NAMES][1024]; /* of what it writes */
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

/* Images in memory, of one class that is new, in the model's shape. */
enum { NEW_IMAGES = 5 };

static uint8_t new_pixels[NEW_IMAGES * MOST_PIXELS];
static const int32_t new_labels[NEW_IMAGES];

static recollect_images new_images(const program *p)
{
    recollect_images images = {new_pixels, NEW_IMAGES, recollect_model_image_height(p->model),
                               recollect_model_image_width(p->model), recollect_model_image_channels(p->model)};
    for (size_t i = 0; i < sizeof new_pixels; i++)
        new_pixels[i] = (uint8_t)(i * i / 7);
    return images;
}

static recollect_status give_image(void *user, int index, uint8_t *pixels)
{
    const recollect_images *images = user;
    size_t size = (size_t)images->height * (size_t)images->width * (size_t)images->channels;
    memcpy(pixels, images->pixels + (size_t)index * size, size);
    return RECOLLECT_OK;
}

static recollect_status more_lessons(program *p)
{
    static const char *const names[] = {"from memory", "from a stream"};
    recollect_images images = new_images(p);
    recollect_stream stream = {.size = sizeof stream,
                               .count = images.count,
                               .height = images.height,
                               .width = images.width,
                               .channels = images.channels,
                               .labels = new_labels,
                               .read = give_image,
                               .user = &images};
    recollect_status status = recollect_learn(p->model, &images, new_labels, names, 1, NULL);
    if (status == RECOLLECT_OK)
        status = ask(p);
    if (status == RECOLLECT_OK)
        status = recollect_learn_stream(p->model, &stream, names + 1, 1, NULL);
    return status == RECOLLECT_OK ? ask(p) : status;
}

static void print_line(void *user, const char *text)
{
    (void)user;
    puts(text);
}

static void count_line(void *user, const char *text)
{
    *(size_t *)user += strlen(text);
}

static const char *advise(void *user, const recollect_finding *finding)
{
    (void)user;
    return finding->code;
}

static recollect_status dream(program *p)
{
    static uint8_t pixels[MOST_PIXELS];
    const recollect_dream_settings settings = {.size = sizeof settings, .per_class = 1, .steps = 1, .scale = 1};
    recollect_dream_result result = {.size = sizeof result};
    size_t said = 0; /* with times in it */
    int made;
    recollect_status status = recollect_dream(p->model, 0, 1, pixels, &made);
    if (status == RECOLLECT_OK)
        printf("%d dreams\n", made);
    if (status == RECOLLECT_OK)
        status = recollect_dream_folder(p->model, p->name[DREAMS], &settings, &result);
    return status == RECOLLECT_OK ? recollect_describe_dreams(p->model, &result, p->name[DREAMS], count_line, &said)
                                  : status;
}

static void see(void *user, const recollect_prediction *prediction)
{
    program *p = user;
    if (prediction->status != RECOLLECT_OK) {
        p->told = prediction->status;
        snprintf(p->message, sizeof p->message, "%s", prediction->message);
    } else if ((p->told = recollect_describe_prediction(p->model, prediction, print_line, NULL)) != RECOLLECT_OK) {
        snprintf(p->message, sizeof p->message, "%s", recollect_last_message());
    }
}

static recollect_status predict(program *p)
{
    float probability[NEW_IMAGES];
    recollect_images images = new_images(p);
    const recollect_outputs outputs = {.size = sizeof outputs, .top = 1, .probabilities = probability};
    const recollect_picture picture = {.bytes = p->picture, .size = p->size};
    recollect_predictor *predictor = NULL;
    recollect_status status = recollect_predict(p->model, &images, 1, NULL, probability, NULL);
    if (status == RECOLLECT_OK)
        status = recollect_predictor_create(p->model, 1, &predictor);
    if (status == RECOLLECT_OK)
        status = recollect_predictor_reject(predictor, 0);
    if (status == RECOLLECT_OK)
        status = recollect_predictor_images(predictor, &images, &outputs);
    if (status == RECOLLECT_OK)
        status = recollect_predictor_pictures(predictor, &picture, 1, &outputs);
    p->told = RECOLLECT_OK;
    if (status == RECOLLECT_OK)
        status = recollect_predictor_each(predictor, &picture, 1, 1, see, p);
    if (status == RECOLLECT_OK)
        status = p->told;
    if (status == RECOLLECT_OK)
        printf("%d left out, %d features\n", recollect_predictor_left_out(predictor),
               recollect_model_features(p->model));
    recollect_predictor_destroy(&predictor);
    return status;
}

static recollect_status evaluate(program *p, const char *folder)
{
    recollect_images images = new_images(p);
    recollect_evaluation *evaluation = NULL;
    double low, high;
    recollect_status status = recollect_evaluate(p->model, &images, new_labels, &evaluation);
    if (status == RECOLLECT_OK)
        status = recollect_describe_evaluation(p->model, evaluation, advise, print_line, NULL);
    recollect_evaluation_destroy(&evaluation);
    if (status == RECOLLECT_OK)
        status = recollect_evaluate_folder(p->model, folder, &evaluation);
    if (status == RECOLLECT_OK && recollect_accuracy_interval(evaluation->accuracy, evaluation->images, &low, &high))
        printf("%.3f to %.3f %%\n", low, high);
    recollect_evaluation_destroy(&evaluation);
    return status;
}

static const char *name_of(const void *user, int index)
{
    const program *p = user;
    return recollect_model_class_name(p->model, index);
}

/* What cannot fail. */
static void look(const program *p)
{
    recollect_method method = {.size = sizeof method};
    recollect_setting setting = {.size = sizeof setting};
    recollect_preset preset = {.size = sizeof preset};
    const recollect_review *review = recollect_model_review(p->model);
    const char *near = recollect_nearest("from memori", name_of, p);
    char text[64];
    recollect_escape("a\nb", text, sizeof text);
    printf("%s %d %s %s %s\n", recollect_version(), recollect_api_version(), text, near != NULL ? near : "none",
           review != NULL ? review->verdict : "no verdict");
    printf("%d %d %zu %d\n", recollect_model_tasks(p->model), recollect_model_task_classes(p->model, 0),
           recollect_model_stored_bytes(p->model), recollect_model_find_class(p->model, "from memory"));
    printf("%d %d %d %s %s\n", recollect_method_at(0, &method), recollect_setting_at(0, &setting),
           recollect_preset_at(0, &preset), recollect_net_at(0), recollect_published_net_at(0));
}

static recollect_status describe(program *p)
{
    recollect_learn_result result = {.size = sizeof result};
    recollect_model_info info = {.size = sizeof info};
    char text[64];
    size_t said = 0; /* of the machine, whose memory is another every time */
    look(p);
    recollect_status status = recollect_model_get_info(p->model, &info);
    if (status == RECOLLECT_OK)
        status = recollect_model_get(p->model, "seed", text, sizeof text);
    if (status == RECOLLECT_OK)
        status = recollect_check_option("preset", "learn");
    if (status == RECOLLECT_OK)
        status = recollect_describe_machine(count_line, &said);
    if (status == RECOLLECT_OK)
        status = recollect_describe_methods(1, print_line, NULL);
    if (status == RECOLLECT_OK)
        status = recollect_describe_net("resnet32", 3, 32, print_line, NULL);
    if (status == RECOLLECT_OK)
        status = recollect_describe_model(p->model, 1, print_line, NULL);
    if (status == RECOLLECT_OK)
        status = recollect_describe_learning(p->model, &result, "x", advise, print_line, NULL);
    return status;
}

/* As a file and as bytes, for itself and for others; then it is the one that was read back. */
static recollect_status save(program *p)
{
    void *bytes = NULL;
    size_t size;
    recollect_status status = recollect_check_save(p->name[MODEL], 0, 0);
    if (status == RECOLLECT_OK)
        status = recollect_model_save(p->model, p->name[MODEL], 0);
    if (status == RECOLLECT_OK)
        status = recollect_model_export(p->model, "onnx", p->name[ONNX], 0);
    if (status == RECOLLECT_OK)
        status = recollect_model_export(p->model, "torch", p->name[TORCH], 0);
    if (status == RECOLLECT_OK)
        status = recollect_model_export(p->model, "c", p->name[HEADER], 0);
    if (status == RECOLLECT_OK)
        status = recollect_model_save_memory(p->model, &bytes, &size);
    if (status == RECOLLECT_OK) {
        recollect_model_destroy(&p->model);
        p->known = 0;
        status = recollect_model_load_memory(p->context, bytes, size, &p->model);
    }
    recollect_free(bytes);
    if (status == RECOLLECT_OK) {
        recollect_model_destroy(&p->model);
        status = recollect_model_load(p->context, p->name[MODEL], &p->model);
    }
    return status == RECOLLECT_OK ? ask(p) : status;
}

static recollect_status import(program *p, const char *weights)
{
    recollect_model *imported = NULL;
    recollect_status status = recollect_model_import(p->context, weights, NULL, &imported);
    if (status == RECOLLECT_OK)
        printf("%d classes were imported\n", recollect_model_classes(imported));
    recollect_model_destroy(&imported);
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
        status = more_lessons(p);
    if (status == RECOLLECT_OK)
        status = predict(p);
    if (status == RECOLLECT_OK)
        status = evaluate(p, argv[2]);
    if (status == RECOLLECT_OK)
        status = describe(p);
    if (status == RECOLLECT_OK)
        status = import(p, argv[5]);
    return status == RECOLLECT_OK ? save(p) : status;
}

static const char *message_of(const program *p)
{
    return p->told != RECOLLECT_OK ? p->message : recollect_last_message();
}

/* What is wrong with a failure; 0: nothing. */
static int judge(program *p, recollect_status status)
{
    float probability[MOST_CLASSES], unfamiliarity;
    int of_a_file = getenv("RECOLLECT_CALLS") != NULL && (status == RECOLLECT_IO || status == RECOLLECT_UNSYNCED);
    if ((status != RECOLLECT_OUT_OF_MEMORY && !of_a_file) || message_of(p)[0] == '\0')
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
    static const char *const ends[NAMES] = {"", ".onnx", ".torch", ".c.h", ".dreams"};
    if (argc != 7)
        return 2;
    for (int i = 0; i < NAMES; i++)
        snprintf(p.name[i], sizeof p.name[i], "%s%s", argv[6], ends[i]);
    p.size = read_file(argv[4], p.picture, sizeof p.picture);
    if (p.size == 0) {
        fprintf(stderr, "recollect: cannot read %s\n", argv[4]);
        return 1;
    }
    recollect_status status = run(&p, argv);
    int code = 0;
    if (status != RECOLLECT_OK) {
        fprintf(stderr, "recollect: %s: %s\n", recollect_status_text(status), message_of(&p));
        code = judge(&p, status);
        code = code == 0 ? 1 : code;
        for (int i = MODEL; i < DREAMS; i++)
            remove(p.name[i]);
    } else {
        for (int i = 0; i < p.known; i++)
            printf("%.9g%c", (double)p.probability[i], i + 1 < p.known ? ' ' : '\n');
    }
    recollect_model_destroy(&p.model);
    recollect_context_destroy(&p.context);
    return rc_bytes_allocated() == 0 ? code : HELD;
}
