/* Example 3: look at what a model remembers. The dreams that keep old classes alive while new ones are
 * learnt are images, made from the model alone. */
#include <stdio.h>
#include <stdlib.h>

#include <recollect/recollect.h>

enum { SIZE = 16, PIXELS = SIZE * SIZE, CLASSES = 2, COUNT = 80, DREAMS = 3 };

static const char *const names[CLASSES] = {"rows", "disc"};

static void draw(int class, uint8_t *pixels)
{
    for (int i = 0; i < PIXELS; i++) {
        int y = i / SIZE, x = i % SIZE, dy = 2 * y - SIZE + 1, dx = 2 * x - SIZE + 1;
        int bright = class == 0 ? y / 2 % 2 : dy * dy + dx * dx < 80;
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

/* `count` images side by side, as characters. */
static void print(const uint8_t *pixels, int count)
{
    static const char shades[] = " .:-=+*#%@";
    for (int y = 0; y < SIZE; y++) {
        for (int i = 0; i < count; i++) {
            for (int x = 0; x < SIZE; x++)
                putchar(shades[pixels[i * PIXELS + y * SIZE + x] * 10 / 256]);
            printf("  ");
        }
        putchar('\n');
    }
}

static void print_line(void *user, const char *text)
{
    (void)user;
    puts(text);
}

/* Asked several times a second while the library works; anything but 0 would stop it. Here: never. */
static int is_cancelled(void *user)
{
    (void)user;
    return 0;
}

int main(void)
{
    recollect_settings settings;
    recollect_context *context;
    recollect_model *model;
    recollect_settings_default(&settings, sizeof settings);
    settings.threads = 1;
    settings.cancelled = is_cancelled;
    check(recollect_context_create(&settings, &context));
    check(recollect_model_create(context, &model));
    static const char *const options[][2] = {
        {"net_width", "8"},  {"generator_width", "16"},  {"noise", "32"},           {"batch", "16"},
        {"crop_pad", "0"},   {"flip", "false"},          {"learning_rate", "0.02"}, {"epochs", "20"},
        {"min_steps", "60"}, {"inversion_steps", "200"},
    };
    for (size_t i = 0; i < sizeof options / sizeof *options; i++)
        check(recollect_model_set(model, options[i][0], options[i][1]));

    static uint8_t pixels[COUNT][PIXELS];
    static int32_t labels[COUNT];
    for (int i = 0; i < COUNT; i++) {
        labels[i] = i % CLASSES;
        draw(labels[i], pixels[i]);
    }
    recollect_images images = {pixels[0], COUNT, SIZE, SIZE, 1};
    check(recollect_learn(model, &images, labels, names, CLASSES, NULL));

    int all = 0;
    for (int label = 0; label < recollect_model_classes(model); label++) {
        static uint8_t dreams[DREAMS * PIXELS];
        int made;
        check(recollect_dream(model, label, DREAMS, dreams, &made));
        printf("%s, %d of %d dreams:\n", recollect_model_class_name(model, label), made, DREAMS);
        print(dreams, made);
        all += made;
    }

    /* The same as PNG files, a row for each class in all.png; how many of the dreams the model takes for which, and how
     * sure it is of those that are shown. */
    static const char *const files[] = {"all.png", "01-rows.png", "02-disc.png"};
    int taken[CLASSES];
    float probabilities[CLASSES * DREAMS];
    const recollect_dream_settings pictures = {.size = sizeof pictures, .per_class = DREAMS, .overwrite = 1};
    recollect_dream_result result = {.size = sizeof result, .taken = taken, .probabilities = probabilities};
    check(recollect_dream_folder(model, "example-03", &pictures, &result));
    for (int label = 0; label < CLASSES; label++)
        printf("%d of %d dreams are of %s, the first with %.0f %%\n", taken[label], result.dreams, names[label],
               100 * probabilities[label * DREAMS]);
    check(recollect_describe_dreams(model, &result, "example-03", print_line, NULL)); /* all of it as JSON */
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        char path[64];
        snprintf(path, sizeof path, "example-03/%s", files[i]);
        remove(path);
    }
    remove("example-03");

    recollect_model_destroy(&model);
    recollect_context_destroy(&context);
    return all > 0 ? 0 : 1;
}
