/* Example 5: learn from image files, say what was learnt, and hand the model on: without a file, and to other
 * programs.
 *
 * The files are made here: PGM pictures of 16 x 16 pixels, a folder for each class. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <recollect/recollect.h>

enum { SIZE = 16, PIXELS = SIZE * SIZE, CLASSES = 2, PER_CLASS = 30, MOST_BYTES = PIXELS + 32 };

static const char *const names[CLASSES] = {"rows", "disc"};
static const char *const folder = "example-05";

static void check(recollect_status status)
{
    if (status == RECOLLECT_OK)
        return;
    fprintf(stderr, "%s: %s\n", recollect_status_text(status), recollect_last_message());
    exit(1);
}

/* A picture as the bytes of a file; returns how many. */
static size_t draw(int class, char *bytes)
{
    int length = snprintf(bytes, MOST_BYTES, "P5 %d %d 255\n", SIZE, SIZE);
    for (int i = 0; i < PIXELS; i++) {
        int y = i / SIZE, x = i % SIZE, dy = 2 * y - SIZE + 1, dx = 2 * x - SIZE + 1;
        int bright = class == 0 ? y / 2 % 2 : dy * dy + dx * dx < 80;
        bytes[length + i] = (char)((bright ? 150 : 50) + rand() % 80);
    }
    return (size_t)length + PIXELS;
}

/* Makes example-05/rows/0.pgm and so on, or removes them again. */
static void make_files(int remove_them)
{
    char path[64], bytes[MOST_BYTES];
    mkdir(folder, 0777);
    for (int class = 0; class < CLASSES; class ++) {
        snprintf(path, sizeof path, "%s/%s", folder, names[class]);
        mkdir(path, 0777);
        for (int i = 0; i < PER_CLASS; i++) {
            snprintf(path, sizeof path, "%s/%s/%d.pgm", folder, names[class], i);
            FILE *file = remove_them ? NULL : fopen(path, "wb");
            if (file != NULL) {
                fwrite(bytes, 1, draw(class, bytes), file);
                fclose(file);
            } else {
                remove(path);
            }
        }
        snprintf(path, sizeof path, "%s/%s", folder, names[class]);
        if (remove_them)
            rmdir(path);
    }
    if (remove_them)
        rmdir(folder);
}

static void print_line(void *user, const char *text)
{
    (void)user;
    puts(text);
}

static void learn(recollect_model *model)
{
    static const char *const options[][2] = {
        {"net_width", "8"}, {"epochs", "20"}, {"min_steps", "100"}, {"flip", "false"}, {"skip_broken", "true"}};
    char value[16];
    for (size_t i = 0; i < sizeof options / sizeof *options; i++)
        check(recollect_model_set(model, options[i][0], options[i][1]));
    check(recollect_model_get(model, "batch", value, sizeof value));
    printf("a batch has %s images\n", value);

    recollect_learn_result result = {.size = sizeof result};
    check(recollect_learn_folder(model, folder, &result));
    double low, high;
    int tells = recollect_accuracy_interval(result.accuracy, result.held_out, &low, &high);
    printf("%.0f %% of %d images that were held out are recognised: between %.0f and %.0f %% of all%s\n",
           result.accuracy, result.held_out, low, high, tells ? "" : ", too few to tell");
    const recollect_review *review = recollect_model_review(model);
    printf("verdict: %s\n", review->text);
    for (int i = 0; i < review->findings; i++)
        printf("warning: %s\n", review->finding[i]->text);
    check(recollect_describe_learning(model, &result, NULL, NULL, print_line, NULL)); /* the same as JSON */
}

/* What the model knows, and what it keeps. */
static void look(const recollect_model *model)
{
    recollect_model_info info = {.size = sizeof info};
    check(recollect_model_get_info(model, &info));
    printf("%s; %zu bytes of weights, %zu of statistics, %zu of images\n",
           info.data_free ? "nothing of the images is kept" : "something of the images is kept", info.weights,
           info.class_means + info.covariance, info.images);
    printf("images of %d x %d pixels and %d channel; '%s' is class %d, learnt in task 1 of %d with %d classes\n",
           recollect_model_image_width(model), recollect_model_image_height(model),
           recollect_model_image_channels(model), names[0], recollect_model_find_class(model, names[0]),
           recollect_model_tasks(model), recollect_model_task_classes(model, 0));
    check(recollect_describe_model(model, 0, print_line, NULL)); /* all of it in words */
}

int main(void)
{
    recollect_context *context;
    recollect_model *model, *received;
    check(recollect_context_create(NULL, &context));
    check(recollect_model_create(context, &model));
    make_files(0);
    learn(model);
    make_files(1);
    look(model);

    /* To a socket, a database, another program: the bytes of the model, without a file. */
    void *bytes;
    size_t size;
    check(recollect_model_save_memory(model, &bytes, &size));

    /* To programs without recollect: a graph for ONNX Runtime and OpenCV. "torch" and "c" are the other formats. */
    check(recollect_model_export(model, "onnx", "example-05.onnx", 1));
    remove("example-05.onnx");
    recollect_model_destroy(&model);
    check(recollect_model_load_memory(context, bytes, size, &received));
    recollect_free(bytes);

    int right = 0;
    for (int class = 0; class < CLASSES; class ++) {
        char picture[MOST_BYTES];
        int32_t best;
        float probability;
        size_t length = draw(class, picture);
        check(recollect_predict_encoded(received, picture, length, 1, &best, &probability, NULL));
        printf("a picture of %s: %s %.1f %%\n", names[class], recollect_model_class_name(received, best),
               100 * (double)probability);
        right += best == recollect_model_find_class(received, names[class]);
    }
    recollect_model_destroy(&received);
    recollect_context_destroy(&context);
    return right == CLASSES ? 0 : 1;
}
