/* Example 8: start from a classifier that somebody else has trained, and add classes to it.
 *
 * Its weights are a file of PyTorch's or a safetensors file. So that the example needs no such file, it begins by
 * making one, as somebody else would have published it: the names of the tensors are those of PyTorch's module. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <recollect/recollect.h>

enum { SIZE = 32, CHANNELS = 3, BYTES = SIZE * SIZE * CHANNELS, PER_CLASS = 24, OLD = 2, NEW = 2, ALL = OLD + NEW };

static const char *const names[ALL] = {"rows", "columns", "disc", "frame"};
static const char *const weights = "example-08.safetensors", *const labels_file = "example-08.txt";

static void check(recollect_status status)
{
    if (status == RECOLLECT_OK)
        return;
    fprintf(stderr, "%s: %s\n", recollect_status_text(status), recollect_last_message());
    exit(1);
}

static void draw(int class, uint8_t *pixels)
{
    for (int i = 0; i < BYTES; i++) {
        int y = i / CHANNELS / SIZE, x = i / CHANNELS % SIZE, dy = 2 * y - SIZE + 1, dx = 2 * x - SIZE + 1;
        int disc = dy * dy + dx * dx < 320, frame = y < 6 || x < 6 || y >= SIZE - 6 || x >= SIZE - 6;
        int bright = class == 0 ? y / 4 % 2 : class == 1 ? x / 4 % 2 : class == 2 ? disc : frame;
        pixels[i] = (uint8_t)((bright ? 150 : 50) + rand() % 80);
    }
}

/* Images of `classes` classes from `first` on, one class after the other and again. */
static recollect_images draw_all(int first, int classes, int32_t *labels)
{
    static uint8_t pixels[ALL * PER_CLASS][BYTES];
    for (int i = 0; i < classes * PER_CLASS; i++) {
        labels[i] = i % classes;
        draw(first + labels[i], pixels[i]);
    }
    return (recollect_images){pixels[0], classes * PER_CLASS, SIZE, SIZE, CHANNELS};
}

/* What somebody else has done: trained a net, and published its weights and the names of its classes. */
static void publish(recollect_context *context)
{
    static const char *const options[][2] = {
        {"net", "cifar-resnet20"}, {"batch", "16"},   {"epochs", "6"},   {"min_steps", "18"},
        {"learning_rate", "0.05"}, {"crop_pad", "0"}, {"flip", "false"}, {"colour", "0"}};
    int32_t labels[ALL * PER_CLASS];
    recollect_images images = draw_all(0, OLD, labels);
    recollect_model *model;
    check(recollect_model_create(context, &model));
    for (size_t i = 0; i < sizeof options / sizeof *options; i++)
        check(recollect_model_set(model, options[i][0], options[i][1]));
    check(recollect_learn(model, &images, labels, names, OLD, NULL));
    check(recollect_model_export(model, "torch", weights, 1));
    recollect_model_destroy(&model);
    FILE *file = fopen(labels_file, "w");
    if (file == NULL || fprintf(file, "%s\n%s\n", names[0], names[1]) < 0 || fclose(file) != 0)
        exit(1);
}

int main(void)
{
    recollect_context *context;
    recollect_model *model;
    int32_t labels[ALL * PER_CLASS], best[ALL * PER_CLASS];
    check(recollect_context_create(NULL, &context));
    publish(context);

    /* The library finds out whose weights they are. */
    recollect_import_settings settings = {.size = sizeof settings, .classes = labels_file};
    check(recollect_model_import(context, weights, &settings, &model));
    remove(weights);
    remove(labels_file);
    printf("the net knows %d classes, the first is '%s'\n", recollect_model_classes(model),
           recollect_model_class_name(model, 0));

    /* "head": the net stays as it is, and so does every bit of what it says about the old classes. */
    recollect_images images = draw_all(OLD, NEW, labels);
    recollect_learn_result result = {.size = sizeof result};
    check(recollect_model_set(model, "adapt", "head"));
    check(recollect_learn(model, &images, labels, names + OLD, NEW, &result));
    printf("learnt %d classes beside %d in %.1f s, by rows of the %s alone\n", result.added, result.known,
           result.seconds, result.adapt);

    int right = 0;
    images = draw_all(0, ALL, labels);
    check(recollect_predict(model, &images, 1, best, NULL, NULL));
    for (int i = 0; i < images.count; i++)
        right += best[i] == labels[i];
    printf("%.0f %% of new images of all %d classes are recognised\n", 100.0 * right / images.count, ALL);
    recollect_model_destroy(&model);
    recollect_context_destroy(&context);
    return strcmp(result.adapt, "head") == 0 && 2 * right > images.count ? 0 : 1;
}
