/* A program that was written for the first state of the header, a copy of which it is compiled with, and that is linked
 * with the library of today. It calls every function there was, and looks that structures are filled as far as that
 * header knew them, and no further. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "recollect_1.h"

enum { SIZE = 16, PIXELS = SIZE * SIZE, PER_CLASS = 12, CLASSES = 2, COUNT = CLASSES * PER_CLASS, CANARY = 0x5a };

#define CHECK(condition) \
    do { \
        if (!(condition)) { \
            fprintf(stderr, "%s:%d: %s (%s)\n", __FILE__, __LINE__, #condition, recollect_last_message()); \
            exit(1); \
        } \
    } while (0)
#define SUCCEEDS(call) CHECK((call) == RECOLLECT_OK)

static int lines, reports, asked;

static void take_line(void *user, recollect_log_level level, const char *text)
{
    CHECK(user == &lines && level >= RECOLLECT_LOG_INFO && text[0] != '\0');
    lines++;
}

static void take_progress(void *user, const recollect_progress *progress)
{
    CHECK(user == &lines && progress->size >= sizeof *progress && progress->step <= progress->steps);
    CHECK(progress->stage == RECOLLECT_STAGE_READING ||
          (progress->stage <= RECOLLECT_STAGE_ESTIMATION && progress->task >= 1));
    for (int i = 0; i < progress->loss_count; i++)
        CHECK(progress->losses[i].name[0] != '\0' && isfinite(progress->losses[i].value));
    reports++;
}

static int take_question(void *user)
{
    CHECK(user == &lines);
    asked++;
    return 0;
}

static void *take_memory(void *user, size_t size, size_t align)
{
    void *block;
    (void)user;
    return posix_memalign(&block, align, size) == 0 ? block : NULL;
}

static void give_memory(void *user, void *block)
{
    (void)user;
    free(block);
}

static void draw(int class, int seed, uint8_t *pixels)
{
    for (int i = 0; i < PIXELS; i++) {
        int y = i / SIZE, x = i % SIZE, bright = class % 2 ? x / (2 + class) % 2 : y / (2 + class) % 2;
        pixels[i] = (uint8_t)((bright ? 150 : 50) + (i * 7 + seed * 13) % 80);
    }
}

/* The bytes of a PGM file. */
static size_t encode(const uint8_t *pixels, uint8_t *bytes)
{
    int length = sprintf((char *)bytes, "P5 %d %d 255\n", SIZE, SIZE);
    memcpy(bytes + length, pixels, PIXELS);
    return (size_t)length + PIXELS;
}

/* A folder of two classes in the folder that the program runs in. */
static void write_folder(void)
{
    mkdir("pets", 0777);
    for (int class = 2; class < 4; class++) {
        char path[64];
        snprintf(path, sizeof path, "pets/%d", class);
        mkdir(path, 0777);
        for (int i = 0; i < PER_CLASS; i++) {
            uint8_t pixels[PIXELS], bytes[PIXELS + 64];
            draw(class, i, pixels);
            snprintf(path, sizeof path, "pets/%d/%d.pgm", class, i);
            FILE *file = fopen(path, "wb");
            CHECK(file != NULL);
            size_t size = encode(pixels, bytes);
            CHECK(fwrite(bytes, 1, size, file) == size && fclose(file) == 0);
        }
    }
}

/* A result as that header knew it, and what comes after it in memory. */
typedef struct guarded {
    recollect_learn_result result;
    unsigned char after[64];
} guarded;

static guarded guard(void)
{
    guarded g;
    memset(&g, CANARY, sizeof g);
    g.result.size = sizeof g.result;
    return g;
}

static void check_guarded(const guarded *g, int known)
{
    CHECK(g->result.size == sizeof g->result && g->result.known == known && g->result.added == CLASSES);
    CHECK(g->result.images > 0 && g->result.broken == 0 && g->result.seconds > 0);
    CHECK(g->result.held_out > 0 ? g->result.accuracy >= 0 && g->result.accuracy <= 100 : isnan(g->result.accuracy));
    for (size_t i = 0; i < sizeof g->after; i++)
        CHECK(g->after[i] == CANARY);
}

static recollect_context *open_context(void)
{
    struct {
        recollect_settings settings;
        unsigned char after[64];
    } s;
    recollect_context *context;
    memset(&s, CANARY, sizeof s);
    recollect_settings_default(&s.settings, sizeof s.settings);
    CHECK(s.settings.size == sizeof s.settings && strcmp(s.settings.backend, "cpu") == 0);
    for (size_t i = 0; i < sizeof s.after; i++)
        CHECK(s.after[i] == CANARY);
    s.settings.threads = 1;
    s.settings.allocator = (recollect_allocator){take_memory, give_memory, NULL};
    s.settings.log = take_line;
    s.settings.progress = take_progress;
    s.settings.cancelled = take_question;
    s.settings.user = &lines;
    s.settings.max_memory = (size_t)1 << 30;
    SUCCEEDS(recollect_context_create(&s.settings, &context));
    return context;
}

static void learn(recollect_model *model)
{
    static const char *const options[][2] = {
        {"net_width", "2"},  {"generator_width", "4"}, {"noise", "4"},  {"batch", "8"},
        {"crop_pad", "0"},   {"min_steps", "1"},       {"epochs", "2"}, {"refine_epochs", "1"},
        {"milestone", "[]"}, {"inversion_steps", "2"}, {"method", "cwd"}, {"merge", "false"},
    };
    static uint8_t pixels[COUNT][PIXELS];
    static int32_t labels[COUNT];
    static const char *const names[CLASSES] = {"0", "1"};
    recollect_images images = {pixels[0], COUNT, SIZE, SIZE, 1};
    char text[64];
    for (size_t i = 0; i < sizeof options / sizeof *options; i++)
        SUCCEEDS(recollect_model_set(model, options[i][0], options[i][1]));
    SUCCEEDS(recollect_model_get(model, "batch", text, sizeof text));
    CHECK(strcmp(text, "8") == 0);
    for (int i = 0; i < COUNT; i++)
        draw(labels[i] = i % CLASSES, i, pixels[i]);
    guarded g = guard();
    SUCCEEDS(recollect_learn(model, &images, labels, names, CLASSES, &g.result));
    check_guarded(&g, 0);
    g = guard();
    SUCCEEDS(recollect_learn_folder(model, "pets", &g.result));
    check_guarded(&g, CLASSES);
}

static void check_knowledge(const recollect_model *model)
{
    CHECK(recollect_model_classes(model) == 2 * CLASSES && recollect_model_tasks(model) == 2);
    CHECK(strcmp(recollect_model_class_name(model, 3), "3") == 0 && recollect_model_find_class(model, "2") == 2);
    CHECK(recollect_model_task_classes(model, 1) == CLASSES);
    CHECK(recollect_model_image_height(model) == SIZE && recollect_model_image_width(model) == SIZE);
    CHECK(recollect_model_image_channels(model) == 1 && recollect_model_stored_bytes(model) > 1000);
}

/* Answers of the model to one picture, in both ways that there are. */
static void predict(recollect_model *model, float probabilities[2 * CLASSES])
{
    uint8_t pixels[PIXELS], bytes[PIXELS + 64];
    int32_t labels[2 * CLASSES];
    float unfamiliarity, again[2 * CLASSES];
    draw(0, 99, pixels);
    recollect_images image = {pixels, 1, SIZE, SIZE, 1};
    SUCCEEDS(recollect_predict(model, &image, 2 * CLASSES, labels, probabilities, &unfamiliarity));
    CHECK(unfamiliarity > 0 && labels[0] >= 0 && labels[0] < 2 * CLASSES);
    SUCCEEDS(recollect_predict_encoded(model, bytes, encode(pixels, bytes), 2 * CLASSES, NULL, again, NULL));
    CHECK(memcmp(again, probabilities, sizeof again) == 0);
}

/* The whole file. */
static size_t read_file(const char *path, uint8_t **bytes)
{
    struct stat what;
    FILE *file = fopen(path, "rb");
    CHECK(file != NULL && stat(path, &what) == 0);
    *bytes = malloc((size_t)what.st_size);
    CHECK(*bytes != NULL && fread(*bytes, 1, (size_t)what.st_size, file) == (size_t)what.st_size);
    fclose(file);
    return (size_t)what.st_size;
}

int main(void)
{
    static const char path[] = "model.safetensors";
    static uint8_t dreams[2 * PIXELS];
    float expected[2 * CLASSES], found[2 * CLASSES];
    recollect_model *model, *loaded, *parsed;
    uint8_t *bytes;
    int made = -1;
    write_folder();
    CHECK(strchr(recollect_version(), '.') != NULL && strcmp(recollect_status_text(RECOLLECT_UNSYNCED),
                                                             recollect_status_text(RECOLLECT_OK)) != 0);
    recollect_context *context = open_context();
    SUCCEEDS(recollect_model_create(context, &model));
    CHECK(recollect_model_set(model, "epoch", "1") == RECOLLECT_INVALID_ARGUMENT);
    CHECK(strstr(recollect_last_message(), "epochs") != NULL);
    learn(model);
    check_knowledge(model);
    predict(model, expected);
    SUCCEEDS(recollect_dream(model, 0, 2, dreams, &made));
    CHECK(made >= 0 && made <= 2);
    SUCCEEDS(recollect_model_save(model, path, 1));
    size_t size = read_file(path, &bytes);
    SUCCEEDS(recollect_model_load(context, path, &loaded));
    SUCCEEDS(recollect_model_load_memory(context, bytes, size, &parsed));
    predict(loaded, found);
    CHECK(memcmp(found, expected, sizeof found) == 0);
    predict(parsed, found);
    CHECK(memcmp(found, expected, sizeof found) == 0);
    free(bytes);
    recollect_model_destroy(&model);
    recollect_model_destroy(&loaded);
    recollect_model_destroy(&parsed);
    recollect_context_destroy(&context);
    CHECK(model == NULL && context == NULL && lines > 0 && reports > 0 && asked > 0);
    return 0;
}
