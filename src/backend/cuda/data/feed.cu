/* Images that are supplied (rc_image_supply): pictures that are decoded when they are read, and packs of which the
 * device has no room for all.
 *
 * Threads of the supply make the images of the next batches in a ring of host memory, which is pinned. Before repeat()
 * enqueues a step, the host waits for the step's batch to be made, and a stream of its own copies the batch to one of
 * two places on the device, while the step before still runs:
 *
 *     host      made 1   copy 1, step 1 enqueued   made 2   copy 2, step 2 enqueued   ...
 *     copies             1                                  2, once step 0 has ended  ...
 *     steps              0 ---------------------   1, once copy 1 has ended ---------------
 *
 * The captured step holds nothing of this. A kernel knows the place by the number of the batch, and whether there are
 * such places at all by a cell in device memory. So the step stays valid when memory runs out and the copy of all
 * images on the device makes room. Neither the time that a picture takes nor the number of threads changes a bit. */
#include <stdio.h>
#include <stdlib.h>

#include "backend/cuda/cuda.h"

/* An order of them that is read. */
struct rc_cuda_feed {
    struct rc_cuda_feed *next;
    struct rc_cuda_supplied *of;
    const int32_t *order; /* in device memory: its name */
    int32_t *record;      /* (count): the images in that order, as the supply knows them */
    size_t count;
    bool viewed;
    rc_image_view view;
    rc_cuda_fed *cell; /* in device memory */

    void *reader;  /* NULL: all lie on the device, and nothing has been brought yet; nor is there what follows */
    bool told;     /* the reader knows the order */
    void *ring;    /* of the reader; NULL: not pinned */
    void *brought; /* (RC_CUDA_BROUGHT, most, bytes), in device memory */
    cudaStream_t copies;
    cudaEvent_t copied, read[RC_CUDA_BROUGHT];
};

struct rc_cuda_supplied {
    rc_lent_images lent;
    const void *more;     /* in device memory: the address of the images behind them */
    const void *resident; /* all of them, in device memory; NULL: they come batch by batch */
    struct rc_cuda_feed *feeds;
};

/* What the supply failed with. */
static bool keep_failure(rc_cuda *cuda, rc_status status)
{
    if (status != RC_OK && cuda->status == RC_OK) {
        cuda->status = status;
        snprintf(cuda->message, sizeof cuda->message, "%s", cuda->host.message());
    }
    return cuda->status == RC_OK;
}

static bool set_cell(rc_cuda *cuda, const struct rc_cuda_feed *feed)
{
    const struct rc_cuda_supplied *of = feed->of;
    const rc_cuda_fed fed = {(const unsigned char *)(of->resident ? of->resident : feed->brought),
                             (const unsigned char *const *)of->more, of->lent.count, of->resident == NULL};
    cudaError_t error = cudaMemcpyAsync(feed->cell, &fed, sizeof fed, cudaMemcpyHostToDevice, cuda->supply);
    if (error == cudaSuccess)
        error = cudaStreamSynchronize(cuda->supply);
    return rc_cuda_check(cuda, error, "placing images");
}

/* ---- orders ------------------------------------------------------------------------------------------------------ */

static struct rc_cuda_feed *find_feed(const struct rc_cuda_supplied *supplied, const int32_t *order)
{
    struct rc_cuda_feed *feed = supplied->feeds;
    while (feed && feed->order != order)
        feed = feed->next;
    return feed;
}

static void stop_bringing(rc_cuda *cuda, struct rc_cuda_feed *feed)
{
    if (feed->copies) {
        cudaStreamSynchronize(feed->copies);
        cudaStreamDestroy(feed->copies);
    }
    if (feed->copied)
        cudaEventDestroy(feed->copied);
    for (int i = 0; i < RC_CUDA_BROUGHT; i++)
        if (feed->read[i])
            cudaEventDestroy(feed->read[i]);
    if (feed->ring)
        cudaHostUnregister(feed->ring);
    if (feed->reader)
        feed->of->lent.supply->close(feed->reader);
    if (feed->brought)
        rc_cuda_give_back(cuda, feed->brought);
}

static void drop_feed(rc_cuda *cuda, struct rc_cuda_feed *feed)
{
    struct rc_cuda_feed **at = &feed->of->feeds;
    rc_cuda_drop_graphs(cuda);
    while (*at != feed)
        at = &(*at)->next;
    *at = feed->next;
    stop_bringing(cuda, feed);
    if (feed->cell)
        rc_cuda_give_back(cuda, feed->cell);
    free(feed->record);
    free(feed);
}

static rc_status make_feed(rc_cuda *cuda, struct rc_cuda_supplied *supplied, const int32_t *order,
                           struct rc_cuda_feed **made)
{
    void *cell;
    *made = NULL;
    struct rc_cuda_feed *feed = (struct rc_cuda_feed *)calloc(1, sizeof *feed);
    if (!feed) {
        cuda->host.set_message("out of memory for %zu bytes", sizeof *feed);
        return RC_OUT_OF_MEMORY;
    }
    feed->of = supplied;
    feed->order = order;
    feed->next = supplied->feeds;
    supplied->feeds = feed;
    rc_status status = rc_cuda_take(cuda, sizeof *feed->cell, &cell);
    feed->cell = (rc_cuda_fed *)cell;
    if (status == RC_OK && set_cell(cuda, feed))
        *made = feed;
    else
        drop_feed(cuda, feed);
    return status == RC_OK ? cuda->status : status;
}

/* From places in the handle to what the supply knows. */
static void find_records(const rc_lent_images *lent, int32_t *place, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (place[i] >= lent->count)
            place[i] = -1; /* behind them: on the device already */
        else if (lent->index)
            place[i] = lent->index[place[i]];
}

rc_status rc_cuda_expect_supplied(rc_cuda *cuda, struct rc_cuda_supplied *supplied, const int32_t *order, size_t count,
                                  const rc_image_view *view)
{
    struct rc_cuda_feed *feed = find_feed(supplied, order);
    if (count == 0) {
        if (feed)
            drop_feed(cuda, feed);
        return RC_OK;
    }
    rc_status status = feed ? RC_OK : make_feed(cuda, supplied, order, &feed);
    if (status != RC_OK)
        return status;
    int32_t *record = (int32_t *)realloc(feed->record, count * sizeof *record);
    if (!record) {
        cuda->host.set_message("out of memory for %zu bytes", count * sizeof *record);
        return RC_OUT_OF_MEMORY;
    }
    feed->record = record;
    feed->count = 0;
    feed->told = false;
    cuda->table.read_bytes(&cuda->table, record, order, count * sizeof *record);
    if (cuda->status != RC_OK)
        return cuda->status;
    find_records(&supplied->lent, record, count);
    feed->count = count;
    feed->viewed = view != NULL;
    if (view)
        feed->view = *view;
    return RC_OK;
}

/* ---- handles ----------------------------------------------------------------------------------------------------- */

rc_status rc_cuda_open_supplied(rc_cuda *cuda, const rc_lent_images *lent, const void *more,
                                struct rc_cuda_supplied **supplied)
{
    *supplied = (struct rc_cuda_supplied *)calloc(1, sizeof **supplied);
    if (!*supplied) {
        cuda->host.set_message("out of memory for %zu bytes", sizeof **supplied);
        return RC_OUT_OF_MEMORY;
    }
    (*supplied)->lent = *lent;
    (*supplied)->more = more;
    return RC_OK;
}

void rc_cuda_close_supplied(rc_cuda *cuda, struct rc_cuda_supplied *supplied)
{
    while (supplied && supplied->feeds)
        drop_feed(cuda, supplied->feeds);
    free(supplied);
}

void rc_cuda_show_supplied(rc_cuda *cuda, struct rc_cuda_supplied *supplied, const void *resident)
{
    supplied->resident = resident;
    for (const struct rc_cuda_feed *feed = supplied->feeds; feed; feed = feed->next)
        set_cell(cuda, feed);
}

/* ---- batches ----------------------------------------------------------------------------------------------------- */

/* The pictures of the ring are read by copies that go on while the host does something else, if it can be pinned. If
 * not, a copy takes the time of the host. */
static void pin(struct rc_cuda_feed *feed)
{
    size_t bytes;
    void *ring = feed->of->lent.supply->ring(feed->reader, &bytes);
    if (cudaHostRegister(ring, bytes, cudaHostRegisterPortable) == cudaSuccess)
        feed->ring = ring;
    else
        cudaGetLastError();
}

static bool start_bringing(rc_cuda *cuda, struct rc_cuda_feed *feed)
{
    const rc_lent_images *lent = &feed->of->lent;
    if (!keep_failure(cuda, rc_cuda_take(cuda, RC_CUDA_BROUGHT * (size_t)lent->most * lent->bytes, &feed->brought)) ||
        !keep_failure(cuda, lent->supply->open(lent->owner, lent->bytes, lent->most, &feed->reader)))
        return false;
    pin(feed);
    cudaError_t error = cudaStreamCreateWithFlags(&feed->copies, cudaStreamNonBlocking);
    if (error == cudaSuccess)
        error = cudaEventCreateWithFlags(&feed->copied, cudaEventDisableTiming | cudaEventBlockingSync);
    for (int i = 0; i < RC_CUDA_BROUGHT && error == cudaSuccess; i++)
        error = cudaEventCreateWithFlags(&feed->read[i], cudaEventDisableTiming);
    return rc_cuda_check(cuda, error, "opening a stream for images") && set_cell(cuda, feed);
}

/* To place `slot` on the device; neighbours in the ring travel together. */
static cudaError_t copy_batch(const struct rc_cuda_feed *feed, int slot, int n, const uint8_t *from,
                              const int32_t *place)
{
    size_t bytes = feed->of->lent.bytes;
    char *to = (char *)feed->brought + (size_t)slot * (size_t)n * bytes;
    cudaError_t error = cudaSuccess;
    for (int b = 0, run; b < n && error == cudaSuccess; b += run) {
        for (run = 1; b + run < n && place[b + run] == place[b] + run; run++) {
        }
        error = cudaMemcpyAsync(to + (size_t)b * bytes, from + (size_t)place[b] * bytes, (size_t)run * bytes,
                                cudaMemcpyHostToDevice, feed->copies);
    }
    return error;
}

/* Batch `now->batch` of the order, for what is enqueued on `stream` from here on. The ring keeps a batch until the next
 * one is fetched, so its copy must have ended by then. */
static bool bring(rc_cuda *cuda, struct rc_cuda_feed *feed, const rc_step *now, int n, cudaStream_t stream)
{
    const rc_image_supply *supply = feed->of->lent.supply;
    const uint8_t *from;
    const int32_t *place;
    int slot = (int)(now->batch % RC_CUDA_BROUGHT);
    if (!feed->copied && !start_bringing(cuda, feed))
        return false;
    if (!rc_cuda_check(cuda, cudaEventSynchronize(feed->copied), "copying images"))
        return false;
    if (!feed->told &&
        !keep_failure(cuda, supply->expect(feed->reader, feed->record, feed->count, feed->viewed ? &feed->view : NULL,
                                           cuda->table.parts > 1 ? cuda->table.parts : 1)))
        return false;
    feed->told = true;
    if (!keep_failure(cuda, supply->fetch(feed->reader, rc_step_first(now, n), n, &from, &place)))
        return false;
    cudaError_t error = cudaStreamWaitEvent(feed->copies, feed->read[slot], 0);
    if (error == cudaSuccess)
        error = copy_batch(feed, slot, n, from, place);
    if (error == cudaSuccess)
        error = cudaEventRecord(feed->copied, feed->copies);
    if (error == cudaSuccess)
        error = cudaStreamWaitEvent(stream, feed->copied, 0);
    return rc_cuda_check(cuda, error, "copying images");
}

/* ---- steps ------------------------------------------------------------------------------------------------------- */

static bool comes(const rc_cuda_reading *reading)
{
    return reading->feed->of->resident == NULL;
}

const rc_cuda_fed *rc_cuda_read_supplied(rc_cuda *cuda, struct rc_cuda_supplied *supplied, const int32_t *order, int n,
                                         const rc_step *step)
{
    rc_cuda_readings *readings = &cuda->readings;
    struct rc_cuda_feed *feed = find_feed(supplied, order);
    if (cuda->status != RC_OK)
        return NULL;
    bool full = cuda->capturing && readings->count == RC_CUDA_READINGS;
    if (!feed || feed->count == 0 || n > supplied->lent.most || full) {
        cuda->status = RC_INTERNAL;
        snprintf(cuda->message, sizeof cuda->message, "cuda: %d images were read in an order that nobody has announced",
                 n);
        return NULL;
    }
    rc_cuda_reading reading = {feed, step, n, readings->begun, {}};
    if (cuda->capturing) {
        readings->of[readings->count++] = reading;
    } else if (comes(&reading)) { /* what was brought before has been read when the step has */
        cuda->table.read_bytes(&cuda->table, &reading.now, step, sizeof reading.now);
        if (cuda->status == RC_OK)
            bring(cuda, feed, &reading.now, n, rc_cuda_stream(cuda));
    }
    return cuda->status == RC_OK ? feed->cell : NULL;
}

bool rc_cuda_begin_readings(rc_cuda *cuda, rc_cuda_readings *readings)
{
    for (int r = 0; r < readings->count; r++) {
        rc_cuda_reading *reading = &readings->of[r];
        if (comes(reading))
            cuda->table.read_bytes(&cuda->table, &reading->now, reading->step, sizeof reading->now);
    }
    return cuda->status == RC_OK;
}

/* The batch that repetition i reads. */
static rc_step step_of(const rc_cuda_readings *readings, const rc_cuda_reading *reading, uint32_t i)
{
    rc_step now = reading->now;
    now.batch += i * readings->begun + reading->begun;
    return now;
}

bool rc_cuda_bring_batches(rc_cuda *cuda, const rc_cuda_readings *readings, uint32_t i)
{
    for (int r = 0; r < readings->count && cuda->status == RC_OK; r++) {
        const rc_cuda_reading *reading = &readings->of[r];
        const rc_step now = step_of(readings, reading, i);
        if (comes(reading))
            bring(cuda, reading->feed, &now, reading->n, cuda->stream[0]);
    }
    return cuda->status == RC_OK;
}

void rc_cuda_end_reading(rc_cuda *cuda, const rc_cuda_readings *readings, uint32_t i)
{
    for (int r = 0; r < readings->count; r++) {
        const rc_cuda_reading *reading = &readings->of[r];
        int slot = (int)(step_of(readings, reading, i).batch % RC_CUDA_BROUGHT);
        if (comes(reading))
            rc_cuda_check(cuda, cudaEventRecord(reading->feed->read[slot], cuda->stream[0]), "reading images");
    }
}
