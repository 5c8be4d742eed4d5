#include "backend/cpu/fast/product/tile.h"

#include <string.h>

#include "backend/cpu/fast/activation.h"

/* The loops over the registers of a tile must vanish, or the sums live in memory. */
#if defined(__clang__)
#define UNROLLED _Pragma("clang loop unroll(full)")
#else
#define UNROLLED _Pragma("GCC unroll 32")
#endif

/* gcc for AArch64 moves sums from register to register inside the loop, at a third of the speed, unless each of them
 * is pinned after it has been added to. This emits no instruction. */
#if defined(__aarch64__) && !defined(__clang__)
#define PINNED(v) __asm__("" : "+w"(v))
#else
#define PINNED(v) (void)(v)
#endif

/* The compiler must not know where a pointer points: it would keep the addresses of all pixels of a tile, for which
 * there are no registers, from the loads before the loop to the stores after it. */
#define FORGOTTEN(pointer) __asm__("" : "+r"(pointer))

/* NEON multiplies by a lane of a register: four floats of x come in one load. x86 broadcasts from memory. */
#if defined(__aarch64__)
#define FOUR_AT_ONCE 1
#else
#define FOUR_AT_ONCE 0
#endif

/* Pixels of the widest tile for a number of vectors, and the number that is best where the row allows it. */
#if defined(__aarch64__)
enum { MAX_SUMS = 20 };
static const int max_pixels[] = {0, 8, 8, 6, 5}, best_pixels[] = {0, 8, 8, 6, 4};
#elif defined(__AVX512F__)
enum { MAX_SUMS = 24 };
static const int max_pixels[] = {0, 16, 12}, best_pixels[] = {0, 16, 12};
#else
enum { MAX_SUMS = 12 };
static const int max_pixels[] = {0, 12, 6}, best_pixels[] = {0, 12, 6};
#endif

/* ---- rows of output pixels ------------------------------------------------------------------------------------- */

/* One vector of outputs makes too few sums on NEON: every second float adds to a set of its own. */
#define SPLIT(vectors) (FOUR_AT_ONCE && (vectors) == 1)

#if FOUR_AT_ONCE
RC_INLINE void multiply_four(vec sum[MAX_SUMS], const int pixels, const int vectors, const float *x, ptrdiff_t x_pixel,
                             const float *w)
{
    vec four[8];
    UNROLLED
    for (int p = 0; p < pixels; p++)
        four[p] = vec_load(x + p * x_pixel);
    UNROLLED
    for (int l = 0; l < 4; l++) {
        const int set = SPLIT(vectors) && l % 2 ? pixels : 0;
        vec weight[TILE_VECTORS];
        UNROLLED
        for (int v = 0; v < vectors; v++)
            weight[v] = vec_load(w + (l * vectors + v) * RC_LANES);
        UNROLLED
        for (int i = 0; i < pixels * vectors; i++)
            sum[set + i] += weight[i % vectors] * four[i / vectors][l];
        UNROLLED
        for (int i = 0; i < pixels * vectors; i++)
            PINNED(sum[set + i]);
    }
}
#endif

RC_INLINE void multiply_one(vec sum[MAX_SUMS], const int pixels, const int vectors, const float *x, ptrdiff_t x_pixel,
                            const float *w)
{
    vec weight[TILE_VECTORS];
    UNROLLED
    for (int v = 0; v < vectors; v++)
        weight[v] = vec_load(w + v * RC_LANES);
    UNROLLED
    for (int i = 0; i < pixels * vectors; i++)
        sum[i] += weight[i % vectors] * x[i / vectors * x_pixel];
}

/* All floats of a tap row. x_pixel is what row->x_pixel says, perhaps as a constant. */
RC_INLINE const float *multiply_run(vec sum[MAX_SUMS], const int pixels, const int vectors, const tile_row *row,
                                    const float *x, const ptrdiff_t x_pixel, const float *w)
{
    const int step = vectors * RC_LANES;
    int f = 0;
#if FOUR_AT_ONCE
    for (; f + 4 <= row->run; f += 4, x += row->x_chunk, w += 4 * step)
        multiply_four(sum, pixels, vectors, x, x_pixel, w);
#else
    for (; x_pixel == TILE_CHUNK && f + TILE_CHUNK <= row->run; f += TILE_CHUNK, x += row->x_chunk) {
        UNROLLED
        for (int i = 0; i < TILE_CHUNK; i++)
            multiply_one(sum, pixels, vectors, x + i, x_pixel, w + i * step);
        w += TILE_CHUNK * step;
    }
#endif
    for (; f < row->run; f++, x++, w += step)
        multiply_one(sum, pixels, vectors, x, x_pixel, w);
    return w;
}

RC_INLINE void finish_sums(vec sum[MAX_SUMS], const int pixels, const int vectors, const tile_row *row)
{
    if (row->scale) {
        UNROLLED
        for (int i = 0; i < pixels * vectors; i++)
            sum[i] = sum[i] * vec_load(row->scale + i % vectors * RC_LANES) +
                     vec_load(row->shift + i % vectors * RC_LANES);
    }
    UNROLLED
    for (int i = 0; i < pixels * vectors; i++)
        sum[i] = vec_cut_off(sum[i], row->low, row->high);
}

RC_INLINE void run_tile(const int pixels, const int vectors, const tile_row *row, const ptrdiff_t x_pixel,
                        const float *x, const float *w, float *y)
{
    ptrdiff_t y_pixel = row->y_pixel;
    vec sum[MAX_SUMS];
    if (row->start) {
        UNROLLED
        for (int i = 0; i < pixels * vectors; i++)
            sum[i] = vec_load(row->start + i % vectors * RC_LANES);
    } else {
        UNROLLED
        for (int i = 0; i < pixels * vectors; i++)
            sum[i] = vec_load(y + i / vectors * y_pixel + i % vectors * RC_LANES);
    }
    if (SPLIT(vectors)) {
        UNROLLED
        for (int i = 0; i < pixels; i++)
            sum[pixels + i] = vec_set(0);
    }
    for (int r = 0; r < row->rows; r++, x += row->x_row)
        w = multiply_run(sum, pixels, vectors, row, x, x_pixel, w);
    if (SPLIT(vectors)) {
        UNROLLED
        for (int i = 0; i < pixels; i++)
            sum[i] += sum[pixels + i];
    }
    FORGOTTEN(y);
    if (row->finish)
        finish_sums(sum, pixels, vectors, row);
    UNROLLED
    for (int i = 0; i < pixels * vectors; i++)
        vec_store(y + i / vectors * y_pixel + i % vectors * RC_LANES, sum[i]);
}

/* `tiles` tiles side by side, each `pixels` wide. */
RC_INLINE void run_tiles(const int pixels, const int vectors, const tile_row *row, const ptrdiff_t x_pixel, int first,
                         int tiles)
{
    for (int b = 0; b < row->batch; b++)
        for (int t = 0; t < tiles; t++)
            run_tile(pixels, vectors, row, x_pixel, row->x + b * row->x_batch + (first + t * pixels) * x_pixel,
                     row->w + b * row->w_batch, row->y + b * row->y_batch + (first + t * pixels) * row->y_pixel);
}

typedef void row_tiles(const tile_row *row, int first, int tiles);

/* Pixels at any distance, and at a distance that the compiler knows: there it needs one address for all of them. */
#define TILE(pixels, vectors) \
    static __attribute__((noinline)) void tile_##pixels##_##vectors(const tile_row *row, int first, int tiles) \
    { \
        run_tiles(pixels, vectors, row, row->x_pixel, first, tiles); \
    }
#define CHUNK_TILE(pixels, vectors) \
    static __attribute__((noinline)) void chunk_tile_##pixels##_##vectors(const tile_row *row, int first, int tiles) \
    { \
        run_tiles(pixels, vectors, row, TILE_CHUNK, first, tiles); \
    }
#define NAME(pixels, vectors)       tile_##pixels##_##vectors,
#define CHUNK_NAME(pixels, vectors) chunk_tile_##pixels##_##vectors,

/* Every number of pixels up to the widest, for a number of vectors. */
#define UP_TO_5(T, v)  T(1, v) T(2, v) T(3, v) T(4, v) T(5, v)
#define UP_TO_6(T, v)  UP_TO_5(T, v) T(6, v)
#define UP_TO_8(T, v)  UP_TO_6(T, v) T(7, v) T(8, v)
#define UP_TO_12(T, v) UP_TO_8(T, v) T(9, v) T(10, v) T(11, v) T(12, v)
#define UP_TO_16(T, v) UP_TO_12(T, v) T(13, v) T(14, v) T(15, v) T(16, v)

#if defined(__aarch64__)
UP_TO_8(TILE, 1)
UP_TO_8(TILE, 2)
UP_TO_6(TILE, 3)
UP_TO_5(TILE, 4)
static row_tiles *const tiles_1[] = {UP_TO_8(NAME, 1)}, *const tiles_2[] = {UP_TO_8(NAME, 2)},
                        *const tiles_3[] = {UP_TO_6(NAME, 3)}, *const tiles_4[] = {UP_TO_5(NAME, 4)};
static row_tiles *const *const tiles_of[] = {NULL, tiles_1, tiles_2, tiles_3, tiles_4};
#define TILES_FOR(row) tiles_of
#else
#if defined(__AVX512F__)
#define ALL_WITH_1(T) UP_TO_16(T, 1)
#define ALL_WITH_2(T) UP_TO_12(T, 2)
#else
#define ALL_WITH_1(T) UP_TO_12(T, 1)
#define ALL_WITH_2(T) UP_TO_6(T, 2)
#endif
ALL_WITH_1(TILE)
ALL_WITH_2(TILE)
ALL_WITH_1(CHUNK_TILE)
ALL_WITH_2(CHUNK_TILE)
static row_tiles *const tiles_1[] = {ALL_WITH_1(NAME)}, *const tiles_2[] = {ALL_WITH_2(NAME)},
                        *const chunk_tiles_1[] = {ALL_WITH_1(CHUNK_NAME)},
                        *const chunk_tiles_2[] = {ALL_WITH_2(CHUNK_NAME)};
static row_tiles *const *const tiles_of[] = {NULL, tiles_1, tiles_2};
static row_tiles *const *const chunk_tiles_of[] = {NULL, chunk_tiles_1, chunk_tiles_2};
#define TILES_FOR(row) ((row)->x_pixel == TILE_CHUNK ? chunk_tiles_of : tiles_of)
#endif

/* Cuts the row into tiles of equal width, or nearly so. */
static void run_row(const tile_row *row)
{
    int vectors = row->width / RC_LANES, pixels = row->pixels;
    int tiles = (pixels + max_pixels[vectors] - 1) / max_pixels[vectors];
    if (tiles < pixels / best_pixels[vectors])
        tiles = pixels / best_pixels[vectors];
    int narrow = pixels / tiles, wide = pixels - narrow * tiles; /* `wide` of them get one pixel more */
    row_tiles *const *of_width = TILES_FOR(row)[vectors];
    if (wide > 0)
        of_width[narrow](row, 0, wide);
    of_width[narrow - 1](row, wide * (narrow + 1), tiles - wide);
}

/* Where the last vector reaches beyond the channels of y: through a buffer, a few pixels at a time. */
static void run_row_buffered(const tile_row *row)
{
    enum { AT_ONCE = 16 };
    float buffer[AT_ONCE * TILE_WIDTH];
    size_t bytes = (size_t)row->channels * sizeof(float);
    for (int first = 0; first < row->pixels; first += AT_ONCE) {
        tile_row part = *row;
        part.x += first * row->x_pixel;
        part.y = buffer;
        part.y_pixel = row->width;
        part.pixels = row->pixels - first < AT_ONCE ? row->pixels - first : AT_ONCE;
        float *y = row->y + first * row->y_pixel;
        if (!row->start) {
            memset(buffer, 0, sizeof buffer);
            for (int p = 0; p < part.pixels; p++)
                memcpy(buffer + p * row->width, y + p * row->y_pixel, bytes);
        }
        run_row(&part);
        for (int p = 0; p < part.pixels; p++)
            memcpy(y + p * row->y_pixel, buffer + p * row->width, bytes);
    }
}

void RC_FAST(tile_row)(const tile_row *row)
{
    if (row->pixels == 0)
        return;
    if (row->channels == row->width)
        run_row(row);
    else
        run_row_buffered(row);
}

/* ---- weight gradients ------------------------------------------------------------------------------------------ */

RC_INLINE void outer_pixel(vec sum[32], const int scalars, const int vectors, const float *a, ptrdiff_t a_four,
                           const float *b, ptrdiff_t b_vector)
{
    vec vector[OUTER_VECTORS];
    UNROLLED
    for (int v = 0; v < vectors; v++)
        vector[v] = vec_load(b + v * b_vector);
#if FOUR_AT_ONCE
    vec four[4];
    UNROLLED
    for (int i = 0; i < scalars / 4; i++)
        four[i] = vec_load(a + i * a_four);
    UNROLLED
    for (int i = 0; i < scalars * vectors; i++)
        sum[i] += vector[i % vectors] * four[i / vectors / 4][i / vectors % 4];
#else
    (void)a_four;
    UNROLLED
    for (int i = 0; i < scalars * vectors; i++)
        sum[i] += vector[i % vectors] * a[i / vectors];
#endif
}

RC_INLINE void run_outer(const int scalars, const int vectors, const tile_outer *outer)
{
    vec sum[32];
    UNROLLED
    for (int i = 0; i < scalars * vectors; i++)
        sum[i] = vec_set(0);
    ptrdiff_t a_pixel = outer->a_pixel, b_pixel = outer->b_pixel, a_four = outer->a_four, b_vector = outer->b_vector;
    for (int image = 0; image < outer->images; image++) {
        const float *a_row = outer->a + image * outer->a_image, *b_row = outer->b + image * outer->b_image;
        for (int r = 0; r < outer->rows; r++, a_row += outer->a_row, b_row += outer->b_row) {
            const float *a = a_row, *b = b_row;
            for (int p = 0; p < outer->pixels; p++, a += a_pixel, b += b_pixel)
                outer_pixel(sum, scalars, vectors, a, a_four, b, b_vector);
        }
    }
    if (outer->add) {
        UNROLLED
        for (int i = 0; i < scalars * vectors; i++)
            sum[i] += vec_load(outer->d + i * RC_LANES);
    }
    UNROLLED
    for (int i = 0; i < scalars * vectors; i++)
        vec_store(outer->d + i * RC_LANES, sum[i]);
}

#define OUTER(scalars, vectors) \
    static __attribute__((noinline)) void outer_##scalars##_##vectors(const tile_outer *outer) \
    { \
        run_outer(scalars, vectors, outer); \
    }
OUTER(4, 1)
OUTER(4, 2)
OUTER(8, 1)
OUTER(8, 2)
OUTER(12, 1)
OUTER(12, 2)
OUTER(16, 1)

void RC_FAST(tile_outer)(const tile_outer *outer)
{
    bool one = outer->width == RC_LANES;
    switch (outer->scalars) {
    case 4: (one ? outer_4_1 : outer_4_2)(outer); break;
    case 8: (one ? outer_8_1 : outer_8_2)(outer); break;
    case 12: (one ? outer_12_1 : outer_12_2)(outer); break;
    default: outer_16_1(outer); break;
    }
}
