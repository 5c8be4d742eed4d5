/* Example 1: train a classifier on images in memory and ask it about new ones.
 *
 * The images are made here: 16 x 16 pixels, grey, a pattern and noise. */
#include <stdio.h>
#include <stdlib.h>

#include <recollect/recollect.h>

enum { SIZE = 16, PIXELS = SIZE * SIZE, CLASSES = 3, PER_CLASS = 40, COUNT = CLASSES * PER_CLASS };

static const char *const names[CLASSES] = {"rows", "columns", "disc"};

static void draw(int class, uint8_t *pixels)
{
    for (int i = 0; i < PIXELS; i++) {
        int y = i / SIZE, x = i % SIZE, dy = 2 * y - SIZE + 1, dx = 2 * x - SIZE + 1;
        int bright = class == 0 ? y / 2 % 2 : class == 1 ? x / 2 % 2 : dy * dy + dx * dx < 80;
        pixels[i] = (uint8_t)((bright ? 150 : 50) + rand() % 80);
    }
}

/* Every function that can fail returns a status; the message says what was wrong. */
static void check(recollect_status status)
{
    if (status == RECOLLECT_OK)
        return;
    fprintf(stderr, "%s: %s\n", recollect_status_text(status), recollect_last_message());
    exit(1);
}

static void show_progress(void *user, const recollect_progress *progress)
{
    (void)user;
    printf("%s: step %u of %u", progress->stage_name, (unsigned)progress->step, (unsigned)progress->steps);
    for (int i = 0; i < progress->loss_count; i++)
        printf(", %s %.3f", progress->losses[i].name, progress->losses[i].value);
    printf("\n");
}

int main(void)
{
    /* A context is a device and how it talks to us. */
    recollect_settings settings;
    recollect_context *context;
    recollect_settings_default(&settings, sizeof settings);
    settings.threads = 1; /* enough for images this small; 0 would take all cores */
    settings.progress = show_progress;
    check(recollect_context_create(&settings, &context));

    /* The defaults suit photographs. Our images are small and easy: a small net and few steps will do. */
    recollect_model *model;
    check(recollect_model_create(context, &model));
    check(recollect_model_set(model, "net_width", "8"));
    check(recollect_model_set(model, "epochs", "20"));
    check(recollect_model_set(model, "min_steps", "100"));
    check(recollect_model_set(model, "flip", "false"));

    static uint8_t pixels[COUNT][PIXELS];
    static int32_t labels[COUNT];
    for (int i = 0; i < COUNT; i++) {
        labels[i] = i % CLASSES;
        draw(labels[i], pixels[i]);
    }
    recollect_images images = {pixels[0], COUNT, SIZE, SIZE, 1};
    check(recollect_learn(model, &images, labels, names, CLASSES, NULL));

    /* One new image of each class: the best two classes, and how unfamiliar the image is. */
    static uint8_t unseen[CLASSES][PIXELS];
    int32_t best[CLASSES][2];
    float probability[CLASSES][2], unfamiliarity[CLASSES];
    for (int class = 0; class < CLASSES; class ++)
        draw(class, unseen[class]);
    recollect_images questions = {unseen[0], CLASSES, SIZE, SIZE, 1};
    check(recollect_predict(model, &questions, 2, best[0], probability[0], unfamiliarity));
    int right = 0;
    for (int i = 0; i < CLASSES; i++) {
        printf("an image of %s: ", names[i]);
        for (int k = 0; k < 2; k++)
            printf("%s %.1f %%, ", recollect_model_class_name(model, best[i][k]), 100 * (double)probability[i][k]);
        printf("unfamiliarity %.2f\n", (double)unfamiliarity[i]);
        right += best[i][0] == i;
    }

    recollect_model_destroy(&model);
    recollect_context_destroy(&context);
    return right == CLASSES ? 0 : 1;
}
