/* Example 7: learn from images that are made, or read, when the library asks for them; hold some of them out; and see
 * how right the model is, on images in memory and in files. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <recollect/recollect.h>

enum { SIZE = 16, PIXELS = SIZE * SIZE, CLASSES = 2, COUNT = 100, FILES = 5 };

static const char *const names[CLASSES] = {"rows", "columns"};

/* Image `index`: always the same one. A program would read it from a file or a database here. */
static recollect_status read_image(void *user, int index, uint8_t *pixels)
{
    unsigned noise = (unsigned)index * 2654435761u;
    int class = index % CLASSES;
    *(int *)user += 1;
    for (int i = 0; i < PIXELS; i++) {
        int along = class == 0 ? i / SIZE : i % SIZE;
        noise = noise * 1664525u + 1013904223u;
        pixels[i] = (uint8_t)((along / 2 % 2 ? 150 : 50) + (int)(noise >> 26));
    }
    return RECOLLECT_OK;
}

static void check(recollect_status status)
{
    if (status == RECOLLECT_OK)
        return;
    fprintf(stderr, "%s: %s\n", recollect_status_text(status), recollect_last_message());
    exit(1);
}

static void print_line(void *user, const char *text)
{
    (void)user;
    puts(text);
}

/* folder/rows/0.pgm ... folder/columns/4.pgm. */
static void write_files(const char *folder)
{
    for (int i = 0; i < CLASSES * FILES; i++) {
        char path[256];
        uint8_t pixels[PIXELS];
        int calls = 0;
        snprintf(path, sizeof path, "%s/%s", folder, names[i % CLASSES]);
        mkdir(path, 0700);
        snprintf(path, sizeof path, "%s/%s/%d.pgm", folder, names[i % CLASSES], i / CLASSES);
        FILE *file = fopen(path, "wb");
        if (file == NULL)
            exit(1);
        read_image(&calls, COUNT + i, pixels);
        fprintf(file, "P5\n%d %d\n255\n", SIZE, SIZE);
        fwrite(pixels, 1, PIXELS, file);
        fclose(file);
    }
}

static void remove_files(const char *folder)
{
    char path[256];
    for (int i = 0; i < CLASSES * FILES; i++) {
        snprintf(path, sizeof path, "%s/%s/%d.pgm", folder, names[i % CLASSES], i / CLASSES);
        remove(path);
    }
    for (int k = 0; k < CLASSES; k++) {
        snprintf(path, sizeof path, "%s/%s", folder, names[k]);
        remove(path);
    }
    remove(folder);
}

int main(void)
{
    recollect_context *context;
    recollect_model *model;
    check(recollect_context_create(NULL, &context));
    check(recollect_model_create(context, &model));
    check(recollect_model_set(model, "net_width", "8"));
    check(recollect_model_set(model, "epochs", "20"));
    check(recollect_model_set(model, "min_steps", "100"));
    check(recollect_model_set(model, "flip", "false"));
    check(recollect_model_set(model, "hold_out", "0.2")); /* a fifth of every class is scored, not trained on */

    static int32_t labels[COUNT];
    int calls = 0;
    for (int i = 0; i < COUNT; i++)
        labels[i] = i % CLASSES;
    recollect_stream stream = {.size = sizeof stream,
                               .count = COUNT,
                               .height = SIZE,
                               .width = SIZE,
                               .channels = 1,
                               .labels = labels,
                               .read = read_image,
                               .user = &calls};
    recollect_learn_result result = {.size = sizeof result};
    check(recollect_learn_stream(model, &stream, names, CLASSES, &result));
    printf("learnt from %d images, %.1f %% right on the %d others; the library asked for an image %d times\n",
           result.images, result.accuracy, result.held_out, calls);

    /* New images in memory. */
    static uint8_t pixels[COUNT][PIXELS];
    for (int i = 0; i < COUNT; i++)
        read_image(&calls, COUNT + i, pixels[i]);
    recollect_images images = {pixels[0], COUNT, SIZE, SIZE, 1};
    recollect_evaluation *evaluation;
    check(recollect_evaluate(model, &images, labels, &evaluation));
    printf("%.1f %% of %d images right; %d of '%s' were taken for '%s'\n", evaluation->accuracy, evaluation->images,
           (int)evaluation->confusion[0 * CLASSES + 1], names[0], names[1]);
    int good = evaluation->accuracy > 90;
    recollect_evaluation_destroy(&evaluation);

    /* Images in files, one folder for each class; the result as JSON. */
    char folder[] = "recollect-example-7";
    mkdir(folder, 0700);
    write_files(folder);
    check(recollect_evaluate_folder(model, folder, &evaluation));
    check(recollect_describe_evaluation(model, evaluation, NULL, print_line, NULL));
    good = good && evaluation->images == CLASSES * FILES;
    recollect_evaluation_destroy(&evaluation);
    remove_files(folder);

    recollect_model_destroy(&model);
    recollect_context_destroy(&context);
    return good && result.held_out == COUNT / 5 ? 0 : 1;
}
