#include "data/procedural.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/rng.h"
#include "data/reader.h"

typedef enum shape { DISC, SQUARE, TRIANGLE, CROSS, RING, BAR, HALF_DISC, FRAME, HOURGLASS, CRESCENT, SHAPES } shape;
typedef enum texture { PLAIN, STRIPED, CHECKED, DOTTED, RINGED, HALVED, TEXTURES } texture;
enum { COLOURS = 7, CLUTTER = 3, SAMPLES = 2 };

static const char *const shape_names[SHAPES] = {"disc", "square",   "triangle", "cross",     "ring",
                                                "bar",  "halfdisc", "frame",    "hourglass", "crescent"};
static const char *const texture_names[TEXTURES] = {"plain", "striped", "checked", "dotted", "ringed", "halved"};
static const struct {
    const char *name;
    float rgb[3];
} colours[COLOURS] = {
    {"red", {0.85f, 0.20f, 0.20f}},    {"green", {0.20f, 0.75f, 0.25f}},  {"blue", {0.25f, 0.35f, 0.90f}},
    {"yellow", {0.85f, 0.80f, 0.20f}}, {"violet", {0.70f, 0.25f, 0.80f}}, {"cyan", {0.20f, 0.75f, 0.80f}},
    {"white", {0.80f, 0.80f, 0.80f}},
};

typedef struct kind {
    shape shape;
    texture texture;
    int colour;
} kind;

/* Shape and texture repeat after 60 classes, and 67 is coprime to 7: no two of 420 classes are alike. */
static kind kind_of(int label)
{
    return (kind){(shape)(label % SHAPES), (texture)(label / SHAPES % TEXTURES),
                  (label + label / SHAPES + label / (SHAPES * TEXTURES)) % COLOURS};
}

void rc_procedural_name(int label, int channels, char *text, size_t size)
{
    kind k = kind_of(label);
    bool colour = channels == 3;
    snprintf(text, size, "%s-%s%s%s", shape_names[k.shape], texture_names[k.texture], colour ? "-" : "",
             colour ? colours[k.colour].name : "");
}

/* ---- drawing ---------------------------------------------------------------------------------------------------- */

/* Where a figure lies: figure coordinates are in [-1, 1]. */
typedef struct placement {
    float x, y, radius; /* in pixels */
    float cosine, sine;
} placement;

typedef struct scene {
    kind kind;
    placement figure, clutter[CLUTTER];
    int clutters;
    float light[3], dark[3];           /* the figure's two tones */
    float ground[3], slope_x, slope_y; /* the ground and how its brightness changes across */
    float clutter_colour[CLUTTER][3];
    float phase;
    float noise;
} scene;

static bool inside(shape which, float u, float v)
{
    float square = u * u + v * v, across = u < 0 ? -u : u, along = v < 0 ? -v : v;
    switch (which) {
    case DISC: return square < 0.81f;
    case SQUARE: return across < 0.78f && along < 0.78f;
    case TRIANGLE: return v < 0.75f && v > -0.95f && across < (v + 0.95f) * 0.56f;
    case CROSS: return (across < 0.30f && along < 0.95f) || (along < 0.30f && across < 0.95f);
    case RING: return square < 0.90f && square > 0.22f;
    case BAR: return across < 1.0f && along < 0.36f;
    case HALF_DISC: return u * u + (v + 0.4f) * (v + 0.4f) < 0.95f && v > -0.4f;
    case FRAME: return across < 0.85f && along < 0.85f && (across > 0.45f || along > 0.45f);
    case HOURGLASS: return along < 0.90f && across < along * 0.85f + 0.08f;
    case CRESCENT: return square < 0.90f && (u - 0.45f) * (u - 0.45f) + v * v > 0.50f;
    default: return false;
    }
}

/* The fractional part of x / period, in [0, 1); x is small. */
static float fraction(float x, float period)
{
    float turns = x / period + 64.0f;
    return turns - (float)(int)turns;
}

/* Does the texture show its light tone here? */
static bool is_light(texture which, float u, float v, float phase)
{
    bool odd_u = fraction(u + phase, 0.72f) < 0.5f, odd_v = fraction(v + phase, 0.72f) < 0.5f;
    switch (which) {
    case STRIPED: return odd_u;
    case CHECKED: return odd_u != odd_v;
    case DOTTED: {
        float a = fraction(u + phase, 0.62f) - 0.5f, b = fraction(v + phase, 0.62f) - 0.5f;
        return a * a + b * b > 0.075f;
    }
    case RINGED: return fraction(u * u + v * v + phase, 0.5f) < 0.5f;
    case HALVED: return u + 0.3f * v > 0;
    default: return true;
    }
}

static void to_figure(const placement *place, float x, float y, float *u, float *v)
{
    float dx = (x - place->x) / place->radius, dy = (y - place->y) / place->radius;
    *u = dx * place->cosine + dy * place->sine;
    *v = dy * place->cosine - dx * place->sine;
}

/* The colour at a point, in pixels from the corner. */
static const float *look(const scene *s, float x, float y, bool *ground)
{
    float u, v;
    *ground = false;
    to_figure(&s->figure, x, y, &u, &v);
    if (inside(s->kind.shape, u, v))
        return is_light(s->kind.texture, u, v, s->phase) ? s->light : s->dark;
    for (int i = 0; i < s->clutters; i++) {
        to_figure(&s->clutter[i], x, y, &u, &v);
        if (inside(i % 2 == 0 ? BAR : DISC, u, v))
            return s->clutter_colour[i];
    }
    *ground = true;
    return s->ground;
}

/* The numbers of one picture, one after another. */
typedef struct dice {
    rc_rng rng;
    uint64_t next;
} dice;

static float between(dice *d, float low, float high)
{
    return low + (high - low) * rc_rng_uniform(d->rng, d->next++);
}

/* Turned by up to `limit` (tangent of half the angle): with it sine and cosine are quotients. */
static placement place(dice *d, float size, float low, float high, float margin, float limit)
{
    placement p;
    p.radius = size * between(d, low, high);
    p.x = size * between(d, margin, 1 - margin);
    p.y = size * between(d, margin, 1 - margin);
    float t = between(d, -limit, limit);
    p.cosine = (1 - t * t) / (1 + t * t);
    p.sine = 2 * t / (1 + t * t);
    return p;
}

static scene compose(rc_rng rng, int label, int size)
{
    dice d = {rng, 0};
    scene s = {.kind = kind_of(label)};
    s.figure = place(&d, (float)size, 0.26f, 0.42f, 0.36f, 0.22f);
    float brightness = between(&d, 0.65f, 1.10f), shade = between(&d, 0.15f, 0.45f), ground = between(&d, 0.05f, 0.75f);
    for (int c = 0; c < 3; c++) {
        s.light[c] = colours[s.kind.colour].rgb[c] * brightness + between(&d, -0.12f, 0.12f);
        s.dark[c] = s.light[c] * shade;
        s.ground[c] = ground + between(&d, -0.15f, 0.15f);
    }
    s.slope_x = between(&d, -0.25f, 0.25f) / (float)size;
    s.slope_y = between(&d, -0.25f, 0.25f) / (float)size;
    s.phase = between(&d, 0, 1);
    s.noise = between(&d, 0.04f, 0.16f);
    s.clutters = (int)rc_rng_below(rng, d.next++, CLUTTER + 1);
    for (int i = 0; i < CLUTTER; i++) {
        s.clutter[i] = place(&d, (float)size, 0.06f, 0.16f, 0.0f, 1.0f);
        for (int c = 0; c < 3; c++)
            s.clutter_colour[i][c] = between(&d, 0, 1);
    }
    return s;
}

static uint8_t to_byte(float value)
{
    value = value * 255.0f + 0.5f;
    return (uint8_t)(value < 0 ? 0 : value > 255 ? 255 : value);
}

void rc_procedural_draw(uint64_t seed, int label, uint32_t index, int test, int size, int channels, uint8_t *out)
{
    rc_rng rng = {seed, (uint64_t)RC_DATA_STREAM_PROCEDURAL + ((uint64_t)(2 * label + test) << 32) + index};
    scene s = compose(rng, label, size);
    uint64_t noise = 64; /* beyond what compose takes */
    for (int y = 0; y < size; y++)
        for (int x = 0; x < size; x++) {
            float colour[3] = {0};
            for (int i = 0; i < SAMPLES * SAMPLES; i++) {
                float px = (float)x + ((float)(i % SAMPLES) + 0.5f) / SAMPLES;
                float py = (float)y + ((float)(i / SAMPLES) + 0.5f) / SAMPLES;
                bool ground;
                const float *seen = look(&s, px, py, &ground);
                float slope = ground ? s.slope_x * (px - 0.5f * (float)size) + s.slope_y * (py - 0.5f * (float)size)
                                     : 0;
                for (int c = 0; c < 3; c++)
                    colour[c] += (seen[c] + slope) / (SAMPLES * SAMPLES);
            }
            /* One block of four numbers for each pixel: noise of three channels. */
            rc_philox bits = rc_rng_block(rng, noise++);
            if (channels == 1)
                colour[0] = 0.299f * colour[0] + 0.587f * colour[1] + 0.114f * colour[2];
            for (int c = 0; c < channels; c++)
                *out++ = to_byte(colour[c] + s.noise * 2 * (rc_uniform_from_bits(bits.lane[c]) - 0.5f));
        }
}

/* ---- the reader ------------------------------------------------------------------------------------------------- */

enum { DEFAULT_CLASSES = 20, DEFAULT_TRAIN = 500, DEFAULT_TEST = 100, DEFAULT_SIZE = 32, PIECE = 64 };

typedef struct drawing {
    const rc_dataset *dataset;
    rc_split *split;
    uint64_t seed;
    int first, test;
} drawing;

static void draw_piece(void *ctx, int task, int worker)
{
    (void)worker;
    const drawing *job = ctx;
    const rc_dataset *d = job->dataset;
    size_t bytes = (size_t)d->h * (size_t)d->w * (size_t)d->c;
    int i = job->first + task;
    int label = i % d->classes;
    job->split->labels[i] = label;
    rc_procedural_draw(job->seed, label, (uint32_t)(i / d->classes), job->test, d->h, d->c,
                       job->split->images + (size_t)i * bytes);
}

/* Classes take turns, so that more images of each are the same ones and some more. */
static rc_status draw_split(const rc_data_settings *settings, int per_class, int test, rc_dataset *dataset,
                            rc_split *split)
{
    RC_TRY(rc_split_allocate(dataset, split, per_class * dataset->classes));
    drawing job = {dataset, split, settings->procedural_seed, 0, test};
    const char *what = test ? "drawing test images" : "drawing images";
    while (job.first < split->count) {
        RC_TRY(rc_progress(settings, what, job.first, split->count));
        int count = split->count - job.first < PIECE * 16 ? split->count - job.first : PIECE * 16;
        rc_pool_run(settings->pool, count, draw_piece, &job);
        job.first += count;
    }
    return rc_progress(settings, what, split->count, split->count);
}

static bool is_procedural(const char *path)
{
    return strcmp(path, "procedural") == 0 || strncmp(path, "procedural:", 11) == 0;
}

static rc_status recognise(const char *path, bool *known)
{
    *known = is_procedural(path);
    return RC_OK;
}

static rc_status count_classes(const char *path, const rc_data_settings *settings, int channels, int *classes)
{
    *classes = settings->procedural_classes > 0 ? settings->procedural_classes : DEFAULT_CLASSES;
    int most = channels == 3 ? RC_PROCEDURAL_COLOUR_CLASSES : RC_PROCEDURAL_GREY_CLASSES;
    const char *colon = strchr(path, ':');
    if (is_procedural(path) && colon != NULL) {
        char *end;
        long value = strtol(colon + 1, &end, 10);
        if (end == colon + 1 || *end != 0 || value < 1 || value > most)
            return rc_fail(RC_INVALID_ARGUMENT, "'%.60s': expected procedural:CLASSES with 1 to %d classes (%s)", path,
                           most, channels == 3 ? "in colour" : "in grey");
        *classes = (int)value;
    }
    if (*classes > most)
        return rc_fail(RC_INVALID_ARGUMENT, "%d procedural classes, expected at most %d %s", *classes, most,
                       channels == 3 ? "in colour" : "in grey");
    return RC_OK;
}

static rc_status read_procedural(const char *path, const rc_data_settings *settings, rc_dataset *dataset)
{
    int train = settings->procedural_per_class, test = settings->procedural_test_per_class, classes;
    if (train < 0 || test < 0)
        return rc_fail(RC_INVALID_ARGUMENT,
                       "%d and %d procedural images of each class, expected 1 or more, or 0 for %d "
                       "and %d",
                       train, test, DEFAULT_TRAIN, DEFAULT_TEST);
    dataset->h = dataset->w = settings->size > 0 ? settings->size : DEFAULT_SIZE;
    dataset->c = settings->channels > 0 ? settings->channels : 3;
    RC_TRY(count_classes(path, settings, dataset->c, &classes));
    RC_TRY(rc_dataset_allocate_names(dataset, classes));
    for (int label = 0; label < classes; label++) {
        char name[64];
        rc_procedural_name(label, dataset->c, name, sizeof name);
        RC_TRY(rc_dataset_set_name(dataset, label, name, strlen(name)));
    }
    train = train > 0 ? train : DEFAULT_TRAIN;
    test = test > 0 ? test : DEFAULT_TEST;
    int more = train > test ? train : test;
    if (more > INT32_MAX / classes)
        return rc_fail(RC_INVALID_ARGUMENT, "%d procedural images of each of %d classes are too many", more, classes);
    RC_TRY(rc_check_memory(dataset, classes * ((int64_t)train + test)));
    RC_TRY(draw_split(settings, train, 0, dataset, &dataset->train));
    return draw_split(settings, test, 1, dataset, &dataset->test);
}

const rc_reader rc_reader_procedural = {
    .format = "procedural",
    .layout = "procedural, or procedural:CLASSES",
    .fitted = true,
    .recognise = recognise,
    .read = read_procedural,
};
