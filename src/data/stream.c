#include "data/stream.h"

#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>

#include "base/memory.h"
#include "base/process.h"

/* How far the threads run ahead: enough that a slow picture holds nobody up. */
enum { WINDOW = 64 << 20, MOST_THREADS = 256 };

/* That copy images of a pack: a few, because each waits for the disk now and then. */
enum { COPIERS = 4 };

/* ---- one picture ------------------------------------------------------------------------------------------------- */

static int rounded(double x)
{
    return (int)floor(x + 0.5);
}

rc_window rc_stream_window(rc_rng rng, uint64_t number, int h, int w)
{
    enum { TRIES = 10, DRAWS = 4 };
    double area = (double)h * w;
    for (uint64_t try = 0; try < TRIES; try++) {
        uint64_t draw = (number * TRIES + try) * DRAWS;
        double part = area * (0.08 + 0.92 * (double)rc_rng_uniform(rng, draw));
        double ratio = exp(log(4.0 / 3) * (2 * (double)rc_rng_uniform(rng, draw + 1) - 1));
        rc_window window = {.w = rounded(sqrt(part * ratio)), .h = rounded(sqrt(part / ratio))};
        if (window.w < 1 || window.w > w || window.h < 1 || window.h > h)
            continue;
        window.top = (int)rc_rng_below(rng, draw + 2, (uint32_t)(h - window.h + 1));
        window.left = (int)rc_rng_below(rng, draw + 3, (uint32_t)(w - window.w + 1));
        return window;
    }
    rc_window middle = {.h = h, .w = w}; /* as much as the ratios allow */
    if ((double)w / h < 3.0 / 4)
        middle.h = rounded(w / (3.0 / 4));
    else if ((double)w / h > 4.0 / 3)
        middle.w = rounded(h * (4.0 / 3));
    middle.top = (h - middle.h) / 2;
    middle.left = (w - middle.w) / 2;
    return middle;
}

static rc_status cut_window(const rc_image *image, rc_window window, const rc_image_stream *s, uint8_t *out)
{
    size_t row = (size_t)window.w * (size_t)image->c;
    rc_image part = {window.h, window.w, image->c, rc_alloc(NULL, (size_t)window.h * row)};
    if (part.pixels == NULL)
        return RC_OUT_OF_MEMORY;
    for (int y = 0; y < window.h; y++)
        memcpy(part.pixels + (size_t)y * row,
               image->pixels + ((size_t)(window.top + y) * (size_t)image->w + (size_t)window.left) * (size_t)image->c,
               row);
    rc_image square = {s->fit.size, s->fit.size, image->c, out};
    rc_status status = rc_image_resize(&part, s->fit.interpolation, square.h, square.w, 0, 0, &square);
    rc_free(NULL, part.pixels);
    return status;
}

/* through: NULL shows it as it is. */
static rc_status show(const rc_image_stream *s, int number, const rc_rng *through, uint8_t *out)
{
    rc_image image;
    rc_image_options options = {.channels = s->fit.channels, .ignore_exif = s->ignore_exif};
    RC_TRY(rc_image_read(rc_image_files_path(&s->files, number), &options, &image));
    rc_status status = through != NULL
                           ? cut_window(&image, rc_stream_window(*through, (uint64_t)number, image.h, image.w), s, out)
                           : rc_image_fit_into(&image, &s->fit, out);
    rc_image_free(&image);
    return status;
}

rc_status rc_stream_read(const rc_image_stream *s, int number, uint8_t *out)
{
    return show(s, number, NULL, out);
}

void rc_stream_destroy(rc_image_stream *s)
{
    if (s == NULL)
        return;
    rc_image_files_free(&s->files);
    rc_free(NULL, s->checksum);
    rc_free(NULL, s);
}

/* ---- threads --------------------------------------------------------------------------------------------------- */

/* Turns count the pictures that this process fetches, from 0 on: turn t is place base + t / n * n * parts + t % n of
 * the order. Turn t lies in slot t % slots. */
struct rc_stream_reader {
    const rc_image_stream *stream; /* NULL: they lie in the pack of `split` */
    const rc_split *split;
    size_t bytes, slots;
    uint8_t *ring;  /* (slots, bytes) */
    int32_t *place; /* (slots): of the last fetch */
    int started;
    pthread_t thread[MOST_THREADS];
    uint32_t process;
    pthread_mutex_t mutex;
    pthread_cond_t work, done;
    /* Under the mutex. */
    int32_t *order; /* (capacity), of which `count` count */
    size_t capacity, count, base, next, reached, end;
    size_t *ready;     /* (slots): the turn that lies there, plus 1 */
    rc_status *status; /* (slots): what became of it */
    int n, parts, busy;
    bool windows, quit;
    rc_rng rng;
};

static int32_t number_of(const rc_stream_reader *r, size_t turn)
{
    size_t n = (size_t)r->n;
    return r->order[r->base + turn / n * n * (size_t)r->parts + turn % n];
}

static uint8_t *slot_of(const rc_stream_reader *r, size_t turn)
{
    return r->ring + turn % r->slots * r->bytes;
}

/* Picture `number` in its slot. */
static rc_status make(const rc_stream_reader *r, int32_t number, const rc_rng *through, uint8_t *slot)
{
    if (r->stream != NULL)
        return show(r->stream, number, through, slot);
    RC_TRY(rc_split_check(r->split, &number, 1));
    memcpy(slot, r->split->images + (size_t)number * r->bytes, r->bytes);
    return RC_OK;
}

static bool has_work(const rc_stream_reader *r)
{
    return r->next < r->end && r->next < r->reached + r->slots;
}

static void *run(void *context)
{
    rc_stream_reader *r = context;
    pthread_mutex_lock(&r->mutex);
    while (!r->quit) {
        if (!has_work(r)) {
            pthread_cond_wait(&r->work, &r->mutex);
            continue;
        }
        size_t turn = r->next++, slot = turn % r->slots;
        int32_t number = number_of(r, turn);
        rc_rng rng = r->rng;
        const rc_rng *through = r->windows ? &rng : NULL;
        r->busy++;
        pthread_mutex_unlock(&r->mutex);
        rc_status status = number >= 0 ? make(r, number, through, slot_of(r, turn)) : RC_OK;
        pthread_mutex_lock(&r->mutex);
        r->busy--;
        r->status[slot] = status;
        r->ready[slot] = turn + 1;
        pthread_cond_broadcast(&r->done);
    }
    pthread_mutex_unlock(&r->mutex);
    return NULL;
}

/* They take no signals, which are for the threads of the program. One of them is enough to go on. */
static rc_status start(rc_stream_reader *r, int threads)
{
    int error = 0;
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    while ((r->started < threads || r->started < 1) && r->started < MOST_THREADS && error == 0) {
        error = pthread_create(&r->thread[r->started], NULL, run, r);
        r->started += error == 0;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return r->started > 0
               ? RC_OK
               : rc_fail(RC_OUT_OF_MEMORY, "cannot start a thread that decodes pictures: %s", strerror(error));
}

static rc_status open_reader(const rc_image_stream *stream, const rc_split *split, size_t bytes, int threads, int most,
                             rc_stream_reader **reader)
{
    *reader = NULL;
    rc_stream_reader *r = rc_alloc_zeroed(NULL, 1, sizeof *r);
    if (r == NULL)
        return RC_OUT_OF_MEMORY;
    size_t least = 2 * (size_t)most, enough = 16 * (size_t)most;
    r->stream = stream;
    r->split = split;
    r->bytes = bytes;
    r->slots = WINDOW / r->bytes;
    r->slots = r->slots > enough ? enough : r->slots < least ? least : r->slots;
    pthread_mutex_init(&r->mutex, NULL);
    pthread_cond_init(&r->work, NULL);
    pthread_cond_init(&r->done, NULL);
    r->ring = rc_alloc_zeroed(NULL, r->slots, r->bytes);
    r->place = rc_alloc_zeroed(NULL, r->slots, sizeof *r->place);
    r->ready = rc_alloc_zeroed(NULL, r->slots, sizeof *r->ready);
    r->status = rc_alloc_zeroed(NULL, r->slots, sizeof *r->status);
    rc_status status = rc_process_mark(&r->process);
    if (status == RC_OK && (r->ring == NULL || r->place == NULL || r->ready == NULL || r->status == NULL))
        status = RC_OUT_OF_MEMORY;
    if (status == RC_OK)
        status = start(r, threads);
    if (status == RC_OK)
        *reader = r;
    else
        rc_stream_close(r);
    return status;
}

rc_status rc_stream_open(const rc_image_stream *stream, int most, rc_stream_reader **reader)
{
    size_t bytes = (size_t)stream->fit.size * (size_t)stream->fit.size * (size_t)stream->fit.channels;
    return open_reader(stream, NULL, bytes, stream->threads, most, reader);
}

rc_status rc_stream_open_pack(const rc_split *split, size_t bytes, int most, rc_stream_reader **reader)
{
    return open_reader(NULL, split, bytes, COPIERS, most, reader);
}

void *rc_stream_ring(const rc_stream_reader *r, size_t *bytes)
{
    *bytes = r->slots * r->bytes;
    return r->ring;
}

void rc_stream_close(rc_stream_reader *r)
{
    if (r == NULL)
        return;
    if (rc_process_is(r->process)) {
        pthread_mutex_lock(&r->mutex);
        r->quit = true;
        pthread_cond_broadcast(&r->work);
        pthread_mutex_unlock(&r->mutex);
        for (int i = 0; i < r->started; i++)
            pthread_join(r->thread[i], NULL);
        pthread_cond_destroy(&r->work);
        pthread_cond_destroy(&r->done);
        pthread_mutex_destroy(&r->mutex);
    }
    rc_free(NULL, r->order);
    rc_free(NULL, r->ring);
    rc_free(NULL, r->place);
    rc_free(NULL, r->ready);
    rc_free(NULL, r->status);
    rc_free(NULL, r);
}

/* ---- orders ---------------------------------------------------------------------------------------------------- */

/* Nothing is on its way any more, and the slots are free. Under the mutex. */
static void come_to_rest(rc_stream_reader *r)
{
    r->end = 0;
    while (r->busy > 0)
        pthread_cond_wait(&r->done, &r->mutex);
    r->next = r->reached = 0;
    memset(r->ready, 0, r->slots * sizeof *r->ready);
}

/* From `first` on, by pieces of n. Under the mutex. */
static void begin_at(rc_stream_reader *r, size_t first, int n)
{
    come_to_rest(r);
    r->base = first;
    r->n = n;
    size_t left = r->count - first, round = (size_t)n * (size_t)r->parts, rest = left % round;
    r->end = left / round * (size_t)n + (rest < (size_t)n ? rest : (size_t)n);
}

rc_status rc_stream_expect(rc_stream_reader *r, const int32_t *order, size_t count, const rc_rng *through, int parts)
{
    int32_t *grown = NULL, *old = NULL;
    if (count > r->capacity) { /* only this function changes it */
        grown = rc_alloc_zeroed(NULL, count, sizeof *grown);
        if (grown == NULL)
            return RC_OUT_OF_MEMORY;
    }
    pthread_mutex_lock(&r->mutex);
    come_to_rest(r);
    if (grown != NULL) {
        old = r->order;
        r->order = grown;
        r->capacity = count;
    }
    memcpy(r->order, order, count * sizeof *order);
    r->count = count;
    r->windows = through != NULL;
    r->rng = through != NULL ? *through : (rc_rng){0};
    r->parts = parts;
    r->n = 0;
    pthread_mutex_unlock(&r->mutex);
    rc_free(NULL, old);
    return RC_OK;
}

/* Which turn place `first` is; SIZE_MAX: not one that follows what was fetched last. One process fetches pieces of any
 * size. */
static size_t turn_of(const rc_stream_reader *r, size_t first, int n)
{
    size_t before = (size_t)r->n, round = before * (size_t)r->parts;
    if (r->n == 0 || first < r->base || (r->parts > 1 && (n != r->n || (first - r->base) % round != 0)))
        return SIZE_MAX;
    size_t turn = r->parts > 1 ? (first - r->base) / round * before : first - r->base;
    return turn == r->reached || turn == r->reached + before ? turn : SIZE_MAX;
}

rc_status rc_stream_fetch(rc_stream_reader *r, size_t first, int n, const uint8_t **from, const int32_t **place)
{
    *from = r->ring;
    *place = r->place;
    if (2 * (size_t)n > r->slots || first + (size_t)n > r->count)
        return rc_fail(RC_INTERNAL, "%d pictures from place %zu on were asked for, of %zu", n, first, r->count);
    pthread_mutex_lock(&r->mutex);
    size_t turn = turn_of(r, first, n);
    if (turn == SIZE_MAX) {
        begin_at(r, first, n);
        turn = 0;
    }
    r->reached = turn;
    r->n = n;
    pthread_cond_broadcast(&r->work);
    for (size_t t = turn; t < turn + (size_t)n; t++) {
        while (r->ready[t % r->slots] != t + 1)
            pthread_cond_wait(&r->done, &r->mutex);
        r->place[t - turn] = (int32_t)(t % r->slots);
    }
    pthread_mutex_unlock(&r->mutex);
    /* The message of a failure was that of another thread: each is made once more, unless the picture is back. */
    for (size_t t = turn; t < turn + (size_t)n; t++)
        if (r->status[t % r->slots] != RC_OK)
            RC_TRY(make(r, number_of(r, t), r->windows ? &r->rng : NULL, slot_of(r, t)));
    return RC_OK;
}

/* ---- once over a split ------------------------------------------------------------------------------------------ */

rc_status rc_split_pass_open(const rc_split *split, const int32_t *index, int count, int most, rc_split_pass *pass)
{
    *pass = (rc_split_pass){.split = split, .index = index};
    if (split->stream == NULL)
        return RC_OK;
    RC_TRY(rc_stream_open(split->stream, most, &pass->reader));
    rc_status status = rc_stream_expect(pass->reader, index, (size_t)count, NULL, 1);
    if (status != RC_OK)
        rc_split_pass_close(pass);
    return status;
}

rc_status rc_split_pass_next(const rc_split_pass *pass, int from, int n, const uint8_t **images, const int32_t **which)
{
    *images = pass->split->images;
    *which = pass->index + from;
    return pass->reader != NULL ? rc_stream_fetch(pass->reader, (size_t)from, n, images, which)
                                : rc_split_check(pass->split, *which, n);
}

void rc_split_pass_close(rc_split_pass *pass)
{
    rc_stream_close(pass->reader);
    pass->reader = NULL;
}
