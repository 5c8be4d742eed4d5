/* How much faster several threads predict with one model than one thread does: docs/performance.md.
 *
 *     cc -O2 -std=c11 -D_GNU_SOURCE -Iinclude bench/predictors.c build/release/lib/librecollect.so \
 *         -Wl,-rpath,build/release/lib -pthread -o predictors && ./predictors [THREADS] [ROUNDS]
 *
 * One thread and THREADS threads predict the same number of images each, in turns; a thread has a predictor of its own
 * that computes on it alone. Prints the median speed of both, and the median of the rounds' ratios of images a second.
 * The processor time of a thread, and how often it waited, are also told on a machine that has other work. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include <recollect/recollect.h>

enum { SIZE = 32, CHANNELS = 3, IMAGE = SIZE * SIZE * CHANNELS, CLASSES = 10, COUNT = 256, MOST = 64 };

static uint8_t pixels[COUNT][IMAGE];
static float expected[COUNT * CLASSES];
static pthread_barrier_t start;

static void check(recollect_status status)
{
    if (status == RECOLLECT_OK)
        return;
    fprintf(stderr, "%s: %s\n", recollect_status_text(status), recollect_last_message());
    exit(1);
}

static double now(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

typedef struct worker {
    pthread_t thread;
    recollect_predictor *predictor;
    double cpu; /* seconds of processor time */
    long waits; /* how often it gave its core away by itself */
    float probabilities[COUNT * CLASSES];
} worker;

static void *work(void *argument)
{
    worker *w = argument;
    recollect_images images = {pixels[0], COUNT, SIZE, SIZE, CHANNELS};
    recollect_outputs outputs = {.size = sizeof outputs, .top = CLASSES, .probabilities = w->probabilities};
    struct rusage before, after;
    pthread_barrier_wait(&start);
    double began = now(CLOCK_THREAD_CPUTIME_ID);
    getrusage(RUSAGE_THREAD, &before);
    check(recollect_predictor_images(w->predictor, &images, &outputs));
    getrusage(RUSAGE_THREAD, &after);
    w->cpu = now(CLOCK_THREAD_CPUTIME_ID) - began;
    w->waits = after.ru_nvcsw - before.ru_nvcsw;
    return NULL;
}

/* Seconds in which `threads` threads predict COUNT images each. */
static double run(worker *workers, int threads)
{
    pthread_barrier_init(&start, NULL, (unsigned)threads + 1);
    for (int i = 0; i < threads; i++)
        pthread_create(&workers[i].thread, NULL, work, &workers[i]);
    double began = now(CLOCK_MONOTONIC);
    pthread_barrier_wait(&start);
    for (int i = 0; i < threads; i++)
        pthread_join(workers[i].thread, NULL);
    double seconds = now(CLOCK_MONOTONIC) - began;
    pthread_barrier_destroy(&start);
    for (int i = 0; i < threads; i++)
        if (memcmp(workers[i].probabilities, expected, sizeof expected) != 0) {
            fprintf(stderr, "thread %d has other bits\n", i);
            exit(1);
        }
    return seconds;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *values, int count)
{
    qsort(values, (size_t)count, sizeof *values, by_value);
    return count % 2 ? values[count / 2] : (values[count / 2 - 1] + values[count / 2]) / 2;
}

int main(int argc, char **argv)
{
    int threads = argc > 1 ? atoi(argv[1]) : 2, rounds = argc > 2 ? atoi(argv[2]) : 9;
    static worker workers[MOST];
    static double one[100], many[100], ratio[100], cpu_one[100], cpu_many[100];
    long waits = 0;
    static int32_t labels[COUNT];
    static const char *const names[CLASSES] = {"a", "b", "c", "d", "e", "f", "g", "h", "i", "j"};
    recollect_context *context;
    recollect_model *model;
    if (threads < 1 || threads > MOST || rounds < 1 || rounds > 100)
        return 2;
    for (int i = 0; i < COUNT; i++) {
        labels[i] = i % CLASSES;
        for (int p = 0; p < IMAGE; p++)
            pixels[i][p] = (uint8_t)(rand() % 256);
    }
    check(recollect_context_create(NULL, &context));
    check(recollect_model_create(context, &model));
    check(recollect_model_set(model, "net", "resnet32"));
    check(recollect_model_set(model, "epochs", "2"));
    check(recollect_model_set(model, "refine_epochs", "1"));
    check(recollect_model_set(model, "min_steps", "1"));
    recollect_images images = {pixels[0], COUNT, SIZE, SIZE, CHANNELS};
    check(recollect_learn(model, &images, labels, names, CLASSES, NULL));
    check(recollect_predict(model, &images, CLASSES, NULL, expected, NULL));
    for (int i = 0; i < threads; i++)
        check(recollect_predictor_create(model, 1, &workers[i].predictor));
    run(workers, threads); /* makes room */
    for (int i = 0; i < rounds; i++) {
        one[i] = run(workers, 1);
        cpu_one[i] = workers[0].cpu;
        many[i] = run(workers, threads);
        for (int t = 0; t < threads; t++) {
            cpu_many[i] += workers[t].cpu / threads;
            waits += workers[t].waits;
        }
        ratio[i] = threads * one[i] / many[i];
        printf("round %d: 1 thread %.0f images/s, %d threads %.0f images/s, %.2f times\n", i + 1, COUNT / one[i], threads,
               threads * COUNT / many[i], ratio[i]);
    }
    double median_one = median(one, rounds), median_many = median(many, rounds);
    printf("medians: 1 thread %.0f images/s, %d threads %.0f images/s, %.2f times\n", COUNT / median_one, threads,
           threads * COUNT / median_many, median(ratio, rounds));
    printf("processor time of an image: alone %.3f ms, beside others %.3f ms; threads waited %ld times in all\n",
           1e3 * median(cpu_one, rounds) / COUNT, 1e3 * median(cpu_many, rounds) / COUNT, waits);
    for (int i = 0; i < threads; i++)
        recollect_predictor_destroy(&workers[i].predictor);
    recollect_model_destroy(&model);
    recollect_context_destroy(&context);
    return 0;
}
