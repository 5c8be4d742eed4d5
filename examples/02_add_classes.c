/* Example 2: teach a saved model new classes, without the images of the old ones.
 *
 * The two halves could be two programs on two machines: all that passes between them is the model file, and no image is
 * in it. */
#include <stdio.h>
#include <stdlib.h>

#include <recollect/recollect.h>

enum { SIZE = 16, PIXELS = SIZE * SIZE, PER_CLASS = 40, OLD = 2, NEW = 2, ALL = OLD + NEW };

static const char *const names[ALL] = {"rows", "columns", "disc", "frame"};
static const char *const path = "example-02.safetensors";

static void draw(int class, uint8_t *pixels)
{
    for (int i = 0; i < PIXELS; i++) {
        int y = i / SIZE, x = i % SIZE, dy = 2 * y - SIZE + 1, dx = 2 * x - SIZE + 1;
        int disc = dy * dy + dx * dx < 80, frame = y < 3 || x < 3 || y >= SIZE - 3 || x >= SIZE - 3;
        int bright = class == 0 ? y / 2 % 2 : class == 1 ? x / 2 % 2 : class == 2 ? disc : frame;
        pixels[i] = (uint8_t)((bright ? 150 : 50) + rand() % 80);
    }
}

static void check(recollect_status status)
{
    if (status == RECOLLECT_OK)
        return;
    fprintf(stderr, "%s: %s\n", recollect_status_text(status), recollect_last_message());
    exit(1);
}

/* Images of `classes` classes from `first` on, labelled from 0. */
static void learn(recollect_model *model, int first, int classes)
{
    static uint8_t pixels[ALL * PER_CLASS][PIXELS];
    static int32_t labels[ALL * PER_CLASS];
    recollect_images images = {pixels[0], classes * PER_CLASS, SIZE, SIZE, 1};
    recollect_learn_result result = {.size = sizeof result};
    for (int i = 0; i < images.count; i++) {
        labels[i] = i % classes;
        draw(first + labels[i], pixels[i]);
    }
    check(recollect_learn(model, &images, labels, names + first, classes, &result));
    printf("learnt %d classes beside %d in %.1f s; %zu bytes are all that is kept\n", result.added, result.known,
           result.seconds, recollect_model_stored_bytes(model));
}

/* Percent right on new images of the first `classes` classes. */
static double test(recollect_model *model, int classes)
{
    static uint8_t pixels[ALL * PER_CLASS][PIXELS];
    int32_t best[ALL * PER_CLASS];
    recollect_images images = {pixels[0], classes * PER_CLASS, SIZE, SIZE, 1};
    int right = 0;
    for (int i = 0; i < images.count; i++)
        draw(i % classes, pixels[i]);
    check(recollect_predict(model, &images, 1, best, NULL, NULL));
    for (int i = 0; i < images.count; i++)
        right += best[i] == i % classes;
    return 100.0 * right / images.count;
}

/* Small and easy images need little. What is set for the first model stays with it, in its file. */
static void set_options(recollect_model *model)
{
    static const char *const options[][2] = {
        {"net_width", "8"},        {"generator_width", "16"},  {"noise", "32"},
        {"batch", "16"},           {"crop_pad", "0"},          {"flip", "false"},
        {"learning_rate", "0.02"}, {"epochs", "40"},           {"refine_epochs", "15"},
        {"min_steps", "60"},       {"inversion_steps", "200"},
    };
    for (size_t i = 0; i < sizeof options / sizeof *options; i++)
        check(recollect_model_set(model, options[i][0], options[i][1]));
}

int main(void)
{
    recollect_settings settings;
    recollect_context *context;
    recollect_model *model;
    recollect_settings_default(&settings, sizeof settings);
    settings.threads = 1;
    check(recollect_context_create(&settings, &context));

    check(recollect_model_create(context, &model));
    set_options(model);
    learn(model, 0, OLD);
    check(recollect_model_save(model, path, 1));
    recollect_model_destroy(&model);

    check(recollect_model_load(context, path, &model));
    printf("the model from %s knows %s and %s\n", path, recollect_model_class_name(model, 0),
           recollect_model_class_name(model, 1));
    learn(model, OLD, NEW);
    double accuracy = test(model, ALL);
    printf("%.0f %% of new images of all %d classes are recognised\n", accuracy, recollect_model_classes(model));

    recollect_model_destroy(&model);
    recollect_context_destroy(&context);
    remove(path);
    return accuracy >= 70 ? 0 : 1;
}
