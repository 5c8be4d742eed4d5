/* Example 4: several threads predict with one model in memory, each with a predictor of its own.
 *
 * The images are made here, in the model's size and twice as large, and as the bytes of a PGM file. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include <recollect/recollect.h>

enum { SIZE = 16, PIXELS = SIZE * SIZE, CLASSES = 2, COUNT = 80, THREADS = 2, LARGE = 2 * SIZE };

static const char *const names[CLASSES] = {"rows", "columns"};

static void draw(int class, int size, uint8_t *pixels)
{
    for (int i = 0; i < size * size; i++) {
        int along = (class == 0 ? i / size : i % size) * SIZE / size;
        pixels[i] = (uint8_t)((along / 2 % 2 ? 150 : 50) + rand() % 80);
    }
}

static void check(recollect_status status)
{
    if (status == RECOLLECT_OK)
        return;
    fprintf(stderr, "%s: %s\n", recollect_status_text(status), recollect_last_message());
    exit(1);
}

/* ---- one thread -------------------------------------------------------------------------------------------- */

typedef struct worker {
    pthread_t thread;
    const recollect_model *model; /* shared: nobody changes it */
    recollect_images images;      /* this thread's part */
    const int32_t *labels;
    int right;
} worker;

static void *work(void *argument)
{
    worker *w = argument;
    recollect_predictor *predictor;
    int32_t best[COUNT];
    check(recollect_predictor_create(w->model, 1, &predictor)); /* 1: it computes on this thread */
    recollect_outputs outputs = {.size = sizeof outputs, .top = 1, .labels = best};
    check(recollect_predictor_images(predictor, &w->images, &outputs));
    for (int i = 0; i < w->images.count; i++)
        w->right += best[i] == w->labels[i];
    recollect_predictor_destroy(&predictor);
    return NULL;
}

/* ---- pictures ---------------------------------------------------------------------------------------------- */

static void print_line(void *user, const char *text)
{
    (void)user;
    puts(text);
}

static void print_prediction(void *user, const recollect_prediction *prediction)
{
    check(recollect_describe_prediction(user, prediction, print_line, NULL));
}

/* A picture and something that is none: the second does not lose us the first. */
static int predict_pictures(const recollect_model *model)
{
    static uint8_t file[32 + LARGE * LARGE];
    int header = sprintf((char *)file, "P5\n%d %d\n255\n", LARGE, LARGE);
    draw(1, LARGE, file + header);
    recollect_picture pictures[2] = {{.path = "columns.pgm", .bytes = file, .size = (size_t)header + LARGE * LARGE},
                                     {.path = "broken.pgm", .bytes = "no picture", .size = 10}};
    recollect_predictor *predictor;
    int32_t best[2], nearest[2];
    float unfamiliarity[2], stranger[2],
        *features = calloc(2 * (size_t)recollect_model_features(model), sizeof *features);
    recollect_status status[2];
    recollect_outputs outputs = {.size = sizeof outputs,
                                 .top = 1,
                                 .labels = best,
                                 .unfamiliarity = unfamiliarity,
                                 .nearest = nearest,
                                 .features = features,
                                 .status = status,
                                 .stranger = stranger};
    check(recollect_predictor_create(model, 1, &predictor));
    check(recollect_predictor_pictures(predictor, pictures, 2, &outputs));
    printf("it is %s, its features are nearest to %s (unfamiliarity %.2f); the first of %d is %.3f\n",
           recollect_model_class_name(model, best[0]), recollect_model_class_name(model, nearest[0]),
           (double)unfamiliarity[0], recollect_model_features(model), (double)features[0]);
    printf("%.0f %% of the images that it knows look as strange\n", 100 * (double)stranger[0]);
    printf("the other one: %s\n", recollect_status_text(status[1]));
    /* The same one by one, as JSON. Paths of files and folders may stand here, too. What fewer than 5 % of the known
     * images are as strange as is "none of these". */
    check(recollect_predictor_reject(predictor, 0.05));
    check(recollect_predictor_each(predictor, pictures, 2, CLASSES, print_prediction, (void *)(uintptr_t)model));
    printf("%d files of folders were left out\n", recollect_predictor_left_out(predictor));
    recollect_predictor_destroy(&predictor);
    free(features);
    return status[0] == RECOLLECT_OK && best[0] == 1 && status[1] == RECOLLECT_FORMAT;
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
    check(recollect_model_set(model, "hold_out", "0.3")); /* to be scored, and to measure how strange images look */

    static uint8_t pixels[COUNT][PIXELS];
    static int32_t labels[COUNT];
    for (int i = 0; i < COUNT; i++) {
        labels[i] = i % CLASSES;
        draw(labels[i], SIZE, pixels[i]);
    }
    recollect_images images = {pixels[0], COUNT, SIZE, SIZE, 1};
    check(recollect_learn(model, &images, labels, names, CLASSES, NULL));

    /* New images, of which each thread takes a part. */
    worker workers[THREADS] = {{0}};
    for (int i = 0; i < COUNT; i++)
        draw(labels[i], SIZE, pixels[i]);
    for (int i = 0; i < THREADS; i++) {
        int first = i * COUNT / THREADS, end = (i + 1) * COUNT / THREADS;
        workers[i] = (worker){
            .model = model, .images = {pixels[first], end - first, SIZE, SIZE, 1}, .labels = labels + first};
        if (pthread_create(&workers[i].thread, NULL, work, &workers[i]) != 0)
            return 1;
    }
    int right = 0;
    for (int i = 0; i < THREADS; i++) {
        pthread_join(workers[i].thread, NULL);
        right += workers[i].right;
    }
    printf("%d threads named %d of %d images right\n", THREADS, right, COUNT);
    int good = predict_pictures(model);

    recollect_model_destroy(&model);
    recollect_context_destroy(&context);
    return right >= COUNT * 9 / 10 && good ? 0 : 1;
}
