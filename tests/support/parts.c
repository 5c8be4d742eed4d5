#include "support/parts.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "nn/pass.h"
#include "support/succeeds.h"

/* A part has 15 numbers of noise: the next one begins in the midst of a block of four. */
enum { BATCH = 9, SIDE = 6, CHANNELS = 3, NOISE = 5, IMAGES = 2 * BATCH };

typedef struct made {
    double pixels[BATCH * SIDE * SIDE * CHANNELS], noise[BATCH * NOISE];
    int32_t labels[BATCH];
} made;

/* Part `part` of `parts` of the second batch of an epoch, to its place in `to`. */
static void make_part(rc_backend *be, const rc_augment *augment, uint32_t part, uint32_t parts, made *to)
{
    int n = BATCH / (int)parts;
    uint8_t images[IMAGES * SIDE * SIDE * CHANNELS];
    int32_t order[IMAGES], labels[IMAGES];
    rc_tensor pixels, noise;
    void *memory;
    for (int i = 0; i < IMAGES; i++) {
        order[i] = (i * 7 + 3) % IMAGES;
        labels[i] = 100 + i;
    }
    for (size_t i = 0; i < sizeof images; i++)
        images[i] = (uint8_t)(i * 31 + i / 7);
    const rc_step step = {.seed = 5, .task = 2, .batch = 1, .step = 3, .part = part, .others = parts - 1};
    SUCCEEDS(be->alloc(be, sizeof step + sizeof images + sizeof order + 2 * sizeof labels, &memory));
    uint8_t *on_device = (uint8_t *)memory + sizeof step;
    int32_t *orders = (int32_t *)(void *)(on_device + sizeof images), *known = orders + IMAGES, *found = known + IMAGES;
    be->write_bytes(be, memory, &step, sizeof step);
    be->write_bytes(be, on_device, images, sizeof images);
    be->write_bytes(be, orders, order, sizeof order);
    be->write_bytes(be, known, labels, sizeof labels);
    SUCCEEDS(rc_tensor_create(be, n, SIDE, SIDE, CHANNELS, &pixels));
    SUCCEEDS(rc_tensor_create(be, n, 1, 1, NOISE, &noise));
    be->augment(be, augment, on_device, orders, n, memory, &pixels);
    be->random_normal(be, 9, memory, &noise);
    be->gather_labels(be, known, orders, n, memory, found);
    be->read_act(be, to->pixels + part * (size_t)n * SIDE * SIDE * CHANNELS, &pixels, pixels.raw);
    be->read_act(be, to->noise + part * (size_t)n * NOISE, &noise, noise.raw);
    be->read_bytes(be, to->labels + part * (size_t)n, found, (size_t)n * sizeof *found);
    SUCCEEDS(be->sync(be));
    rc_tensor_destroy(be, &pixels);
    rc_tensor_destroy(be, &noise);
    be->release(be, memory);
}

void assert_parts_make_the_batch(rc_backend *be)
{
    static made whole, parts;
    rc_augment plain = {.h = SIDE, .w = SIDE, .c = CHANNELS, .pad = 2, .flip = true, .std = {1, 1, 1}, .stream = 4};
    rc_augment strong = plain;
    strong.zoom = 0x40000000;
    strong.colour = 0.5f;
    for (int i = 0; i < 2; i++) {
        memset(&whole, 0, sizeof whole);
        memset(&parts, 0, sizeof parts);
        make_part(be, i > 0 ? &strong : &plain, 0, 1, &whole);
        for (uint32_t part = 0; part < 3; part++)
            make_part(be, i > 0 ? &strong : &plain, part, 3, &parts);
        assert_memory_equal(&whole, &parts, sizeof whole);
    }
}
