/* Weight gradient of wide layers on sm_90: what conv_wide_weight.cu computes, with products that take both operands
 * from shared memory (wgmma.cuh).
 *
 * All images are one row of positions, as in conv_strip.h: dL/draw is 0 where a position has no pixel, and a tap is the
 * source some rows later. The inner dimension of the products is the row. A pixel is 64 channels, one row of
 * operand.cuh, so both operands are columns_at(): 64 channels of dL/draw by 64 of the source, 16 positions at a time. A
 * tap is an operand that begins some rows later, and three neighbouring taps are one operand of 192 columns, of which
 * each 64 begin one row after the 64 before. Four warps have such a line of taps, twelve warps have all nine: 96 sums
 * of a thread.
 *
 *     dL/draw   row p            | 64 channels |             A: rows p .. p + 15
 *     source    row p + offset   | 64 channels |             B: rows .. + 15, + 16, + 17 for the three taps
 *
 * A source that is read at every second pixel is up to four such rows, one for each of its phases. Two taps of a line
 * are then neighbours in one of them, and the third is in another. Of a map that is enlarged, dL/draw is four such rows
 * with four taps each, and a block has two of them, those of every second line: sixteen warps, each four two
 * neighbouring taps of one of the rows.
 *
 * A block walks along its part of the row, 64 positions at a time. They travel (cp.async) to rings in shared memory
 * while others are multiplied, so every pixel is read once for each 64 channels of the other map. The ring of the
 * source holds two lines of the map and what is on its way; its first rows are there twice, once more behind the last,
 * so that operands need not know where it ends.
 *
 * What bounds it, by the clocks of a multiprocessor with 2048 multiply-adds, 128 bytes of shared memory and some 25
 * bytes of L2 in each: sixteen positions are 16 * 9 * 64 * 64 multiply-adds, 288 clocks. Their three operands of 192
 * columns and three times dL/draw are 24 kB of shared memory, 192 clocks, and writing them there takes 32. They are
 * 4 kB of L2, 164 clocks. So the tensor cores do. Strided, L2 does: five rows for each position instead of two are
 * 10 kB, 410 clocks. Enlarged, both are alike: eight taps are 256 clocks for 6 kB, 245 clocks. docs/notes/gpu-steps.md
 * has the layers of ResNet-18. */
#include "backend/cuda/convolution/conv_strip_weight.h"

#include "backend/cuda/convolution/conv_strip.cuh"

enum {
    VECTORS = STRIP_SIDE / 8,
    RUN_BYTES = STRIP_RUN * WGMMA_ROW,
    RING_RUNS = STRIP_UNDER + STRIP_AHEAD, /* of dL/draw */
    DRAW_BYTES = RING_RUNS * RUN_BYTES,
    AGAIN = 3 * 8,                   /* rows that are twice in a ring of the source: 15 + 2 may follow the last */
    PRODUCT_BYTES = 16 * WGMMA_ROW,  /* the rows of a product */
    SPARE_BYTES = 3 * PRODUCT_BYTES, /* compute-sanitizer takes 192 columns for so much, though their rows overlap */
    MOST_RINGS = 5                   /* one of dL/draw and four of the source */
};
static_assert(2 * MOST_RINGS * STRIP_RUN * (int)sizeof(int) <= SPARE_BYTES, "the lists of pixels lie there");

/* Four warps for each line of taps. */
__host__ __device__ constexpr int line_threads(strip_line line)
{
    return line == LINE_TWO ? 4 * 128 : 3 * 128;
}

__host__ __device__ static inline int ring_bytes(int more)
{
    return (RING_RUNS + more) * RUN_BYTES;
}

__host__ __device__ static inline int part_bytes(int more)
{
    return ring_bytes(more) + AGAIN * WGMMA_ROW;
}

/* ---- loading --------------------------------------------------------------------------------------------------- */

/* Runs on their way to shared memory, zeros for what the maps do not have. Some warps list where the pixels of a run
 * are, and after a barrier other warps copy them: addresses cost more than copies, so they are computed once for all
 * channels of a pixel. Runs of all rings go on together: first those of dL/draw, then those of each part of the source.
 * dL/draw begins later by as many runs as the source has in front; what is listed for it until then nobody copies. */
template <int THREADS> struct run_copier {
    const strip_weight_arguments &a;
    const bf16 *x, *dy; /* from the thread's channels on */
    int *lists;         /* two, (rings, STRIP_RUN), for runs in turn */
    unsigned draw_ring, x_ring;
    int listed;            /* runs that have been listed */
    int x_first;           /* position of the next run to be listed, for the offset 0 */
    int draw_slot, x_slot; /* to be copied to */

    __device__ run_copier(const strip_weight_arguments &all, char *shared, int first_run, int first_o, int first_i)
        : a(all), x(all.x + first_i + threadIdx.x % VECTORS * 8), dy(all.dy + first_o + threadIdx.x % VECTORS * 8),
          lists((int *)(shared + all.draws * DRAW_BYTES + all.parts * part_bytes(all.more))),
          draw_ring(shared_address(shared)), x_ring(draw_ring + all.draws * DRAW_BYTES), listed(0),
          x_first(first_run * STRIP_RUN - all.row.columns - 1), draw_slot(0), x_slot(0)
    {
    }

    /* Where position `index` is, in vectors of eight channels, in a phase of a map that has every step-th pixel; -1: it
     * has no such pixel. */
    __device__ int place(int index, int step, int phase_y, int phase_x, int h, int w, int c) const
    {
        strip_place at = place_in_row(a.row, index > 0 ? index : 0);
        int py = at.y * step + phase_y, px = at.x * step + phase_x;
        bool exists = index >= 0 && at.image < a.images && py < h && px < w;
        return exists ? ((at.image * h + py) * w + px) * (c / 8) : -1;
    }

    /* The next run; the last warps begin. */
    __device__ void list()
    {
        int *to = lists + listed % 2 * MOST_RINGS * STRIP_RUN, draw_first = x_first + a.row.columns + 1;
        draw_first -= a.more * STRIP_RUN;
#pragma unroll 1
        for (int i = THREADS - 1 - threadIdx.x; i < (a.draws + a.parts) * STRIP_RUN; i += THREADS) {
            int ring = i / STRIP_RUN, row = i % STRIP_RUN, part = ring - a.draws;
            to[i] = part < 0 ? place(draw_first + row, a.out_step, blockIdx.z, ring, a.out_h, a.out_w, a.co)
                             : place(x_first + row, a.source_step, a.part_y[part], a.part_x[part], a.source_h,
                                     a.source_w, a.ci);
        }
        listed++;
        x_first += STRIP_RUN;
    }

    /* Four neighbouring rows of a run: eight channels of each. */
    __device__ static void copy_rows(const bf16 *map, const int *list, unsigned to)
    {
        uint4 four = *(const uint4 *)list;
        const int at[4] = {(int)four.x, (int)four.y, (int)four.z, (int)four.w};
        to += (threadIdx.x % VECTORS ^ to / WGMMA_ROW % 8) * 16;
#pragma unroll
        for (int j = 0; j < 4; j++)
            copy16_async_if(at[j], (to ^ j * 16) + j * WGMMA_ROW,
                            (const uint4 *)map + (unsigned)(at[j] > 0 ? at[j] : 0));
    }

    /* Run number `run` of all, which has been listed and not yet been followed by another two; of the source alone, or
     * of both. */
    __device__ void copy(int run, bool both)
    {
        const int *list = lists + run % 2 * MOST_RINGS * STRIP_RUN;
        int first = threadIdx.x / VECTORS * 4 + (both ? 0 : a.draws * STRIP_RUN);
#pragma unroll 1
        for (int i = first; i < (a.draws + a.parts) * STRIP_RUN; i += THREADS / VECTORS * 4) {
            int ring = i / STRIP_RUN, row = i % STRIP_RUN, part = ring - a.draws;
            if (part < 0) {
                copy_rows(dy, list + i, draw_ring + ring * DRAW_BYTES + draw_slot * RUN_BYTES + row * WGMMA_ROW);
                continue;
            }
            unsigned to = x_ring + part * part_bytes(a.more) + row * WGMMA_ROW;
            copy_rows(x, list + i, to + x_slot * RUN_BYTES);
            if (x_slot == 0 && row < AGAIN)
                copy_rows(x, list + i, to + ring_bytes(a.more));
        }
        x_slot = x_slot + 1 == RING_RUNS + a.more ? 0 : x_slot + 1;
        if (both)
            draw_slot = draw_slot + 1 == RING_RUNS ? 0 : draw_slot + 1;
    }
};

/* ---- products -------------------------------------------------------------------------------------------------- */

/* The sums of four warps: channels of dL/draw by up to three taps of 64 channels of the source. */
template <strip_line LINE> struct line_sums {
    float sum[96];
    unsigned place, third; /* of the next product in the rings */

    /* A product further in the ring. */
    __device__ static void go_on(unsigned &place, unsigned ring)
    {
        place += PRODUCT_BYTES;
        place -= place >= ring ? ring : 0;
    }

    /* A run; draw: of dL/draw; rings: of the source, each so long. */
    __device__ void multiply(const strip_four &four, unsigned draw, unsigned rings, unsigned length)
    {
        fence_sums();
#pragma unroll
        for (int product = 0; product < STRIP_RUN / 16; product++) {
            unsigned long long a = columns_at(draw + product * PRODUCT_BYTES, 16);
            unsigned long long b = columns_at(rings + four.tap[0].ring + place, WGMMA_ROW);
            if (LINE == LINE_THREE)
                multiply_three(sum, a, b);
            else
                multiply_first_two(sum, a, b);
            if (LINE == LINE_TWO_AND_ONE) {
                multiply_third(sum, a, columns_at(rings + four.tap[2].ring + third, 16));
                go_on(third, length);
            }
            go_on(place, length);
        }
        close_products();
    }

    /* to: (taps, co, ci) from the block's channels on. */
    __device__ void store(const strip_four &four, float *to, int co, int ci) const
    {
        int lane = threadIdx.x % 32, row = threadIdx.x % 128 / 32 * 16 + lane / 4;
        to += (size_t)row * ci + lane % 4 * 2;
#pragma unroll
        for (int i = 0; i < (LINE == LINE_TWO ? 2 : 3); i++) {
            float *tap = to + (size_t)four.tap[i].tap * co * ci;
#pragma unroll
            for (int j = 0; j < 8; j++) {
                const float *from = sum + i * 32 + j * 4;
                *(float2 *)(tap + j * 8) = make_float2(from[0], from[1]);
                *(float2 *)(tap + (size_t)8 * ci + j * 8) = make_float2(from[2], from[3]);
            }
        }
    }
};

/* Grid: (blocks, tiles of c_out x tiles of c_in, phases of dL/draw from line to line). All lines have the bound of the
 * one with most threads: 128 registers leave room for a block that finishes a gradient meanwhile (conv_plain.cu). */
template <strip_line LINE>
__global__ void __launch_bounds__(line_threads(LINE_TWO), 1)
    strip_weight_kernel(const __grid_constant__ strip_weight_arguments a)
{
    int tiles_i = a.ci / STRIP_SIDE, first_o = blockIdx.y / tiles_i * STRIP_SIDE;
    int first_i = blockIdx.y % tiles_i * STRIP_SIDE;
    int first = (int)((long long)a.runs * blockIdx.x / gridDim.x);
    int runs = (int)((long long)a.runs * (blockIdx.x + 1) / gridDim.x) - first;
    char *memory = operand_memory();
    unsigned shared = shared_address(memory), rings = shared + a.draws * DRAW_BYTES;
    const strip_four &four = a.fours[blockIdx.z][same_in_warp(threadIdx.x / 128)];
    line_sums<LINE> mine = {{}, four.tap[0].offset, four.tap[2].offset};
    run_copier<line_threads(LINE)> copier(a, memory, first, first_o, first_i);
    wait_for_kernel_before(); /* and lets nobody begin early: blocks that wait to add the sums would keep others out */
    copier.list();
    for (int i = 0; i < a.more + STRIP_AHEAD; i++) {
        __syncthreads(); /* the run has been listed */
        if (i < a.more + runs)
            copier.copy(i, i >= a.more);
        copier.list();
        if (i >= a.more)
            close_copies();
    }
    for (int run = 0, slot = 0; run < runs; run++) {
        wait_for_older_copies<STRIP_AHEAD - 1>();
        wait_for_products<STRIP_UNDER - 1>();
        show_products();
        __syncthreads(); /* the run is there, another is listed, and nobody multiplies that of STRIP_UNDER before */
        mine.multiply(four, shared + four.draw + slot * RUN_BYTES, rings, ring_bytes(a.more));
        if (run + STRIP_AHEAD < runs) {
            copier.copy(a.more + run + STRIP_AHEAD, true);
            copier.list();
        }
        close_copies();
        slot = slot + 1 == RING_RUNS ? 0 : slot + 1;
    }
    wait_for_products<0>();
    float *sums = a.sums + (size_t)blockIdx.x * a.taps * a.co * a.ci;
    mine.store(four, sums + (size_t)first_o * a.ci + first_i, a.co, a.ci);
}

/* ---- plan ------------------------------------------------------------------------------------------------------ */

static int shares(int whole, int part)
{
    return (whole + part - 1) / part;
}

static int greatest(int a, int b)
{
    return a > b ? a : b;
}

/* Adds a tap to those of four warps: of one ring in their order, a row apart. */
static void add_tap(strip_four *four, int *count, unsigned ring, unsigned offset, int tap)
{
    int i = (*count)++;
    for (; i > 0 && four->tap[i - 1].ring == ring && four->tap[i - 1].offset > offset; i--)
        four->tap[i] = four->tap[i - 1];
    four->tap[i] = {ring, offset, tap};
}

static bool are_neighbours(const strip_four *four, int i)
{
    return four->tap[i].ring == four->tap[i + 1].ring &&
           four->tap[i + 1].offset - four->tap[i].offset == (unsigned)WGMMA_ROW;
}

/* Gives each line of taps to four warps. Returns the greatest offset, or -1: they are no neighbours. */
static int deal_taps(strip_weight_plan *plan, const axis_taps *taps, const wide_parts *parts)
{
    strip_weight_arguments *a = &plan->arguments;
    int count[2][STRIP_FOURS] = {}, farthest = 0;
    for (int part = parts->count - 1; part >= 0; part--) { /* the last part of a line has most of its taps */
        int phase = a->out_step == 2 ? part : 0, ring = a->out_step == 2 ? 0 : part;
        for (int step = parts->first_step[part]; step < parts->first_step[part] + parts->steps[part]; step++) {
            int four = phase % 2 * 2 + parts->order[step] / taps->count[0];
            int tap = (a->out_step == 2 ? parts->first_step[part] : 0) + parts->order[step];
            a->fours[phase / 2][four].draw = (unsigned)(phase % 2 * DRAW_BYTES);
            add_tap(&a->fours[phase / 2][four], &count[phase / 2][four], (unsigned)ring, (unsigned)parts->offset[step],
                    tap);
            farthest = greatest(farthest, parts->offset[step]);
        }
    }
    plan->line = a->out_step == 2 ? LINE_TWO : LINE_THREE;
    for (int z = 0; z < a->out_step; z++)
        for (int i = 0; i < line_threads(plan->line) / 128; i++) {
            if (!are_neighbours(&a->fours[z][i], 0))
                return -1;
            if (a->out_step == 1 && !are_neighbours(&a->fours[z][i], 1))
                plan->line = LINE_TWO_AND_ONE;
        }
    return farthest;
}

bool rc_cuda_plan_strip_weight(const rc_cuda *cuda, const rc_conv *conv, const axis_taps *taps, int n,
                               strip_weight_plan *plan)
{
    *plan = {};
    strip_weight_arguments *a = &plan->arguments;
    axis_taps axis = rc_cuda_part_axis(taps);
    bool nine = taps->out_step == 1 && taps->count[0] == 3;
    bool enlarged = taps->out_step == 2 && taps->source_step == 1 && taps->count[0] == 2 && taps->count[1] == 2;
    if (!cuda->wgmma || !(nine || enlarged) || axis.low < -1 || axis.high > 1)
        return false;
    a->images = n;
    a->co = conv->c_out;
    a->ci = conv->c_in;
    a->source_h = conv->h;
    a->source_w = conv->w;
    a->source_step = taps->source_step;
    a->out_h = conv->oh;
    a->out_w = conv->ow;
    a->out_step = a->draws = taps->out_step;
    a->taps = nine ? 9 : 16;
    rc_cuda_set_row(&a->row, greatest(shares(conv->oh, a->out_step), shares(conv->h, a->source_step)),
                    greatest(shares(conv->ow, a->out_step), shares(conv->w, a->source_step)), false);
    wide_parts parts = {};
    rc_cuda_list_parts(&parts, taps, -1, a->row.columns, WGMMA_ROW);
    a->parts = nine ? parts.count : 1; /* enlarged, they are phases of the result */
    for (int part = 0; part < a->parts; part++) {
        a->part_y[part] = parts.y[part];
        a->part_x[part] = parts.x[part];
    }
    int farthest = deal_taps(plan, taps, &parts);
    if (farthest < 0 || !rc_cuda_row_takes(&a->row, n))
        return false;
    a->more = shares(farthest, RUN_BYTES);
    for (auto &phase : a->fours)
        for (strip_four &four : phase)
            for (auto &tap : four.tap)
                tap.ring *= (unsigned)part_bytes(a->more);
    a->runs = shares(n * a->row.lines * a->row.columns, STRIP_RUN);
    int tiles = conv->c_out / STRIP_SIDE * (conv->c_in / STRIP_SIDE);
    int blocks = cuda->multiprocessors / (tiles * a->out_step), most = shares(a->runs, STRIP_LEAST);
    blocks = blocks < most ? blocks : most;
    plan->grid = dim3((unsigned)greatest(blocks, 1), (unsigned)tiles, (unsigned)a->out_step);
    plan->shared_bytes = WGMMA_ALIGN + a->draws * DRAW_BYTES + a->parts * part_bytes(a->more) + SPARE_BYTES;
    return plan->shared_bytes <= rc_cuda_shared(cuda, CONV_SHARED_MOST);
}

void rc_cuda_launch_strip_weight(rc_cuda *cuda, const char *operation, const strip_weight_plan *plan)
{
    void (*kernel)(strip_weight_arguments) = plan->line == LINE_THREE ? strip_weight_kernel<LINE_THREE>
                                             : plan->line == LINE_TWO ? strip_weight_kernel<LINE_TWO>
                                                                      : strip_weight_kernel<LINE_TWO_AND_ONE>;
    rc_cuda_allow_shared(cuda, kernel, operation);
    rc_cuda_launch_early(cuda, operation, kernel, plan->grid, line_threads(plan->line), (size_t)plan->shared_bytes,
                         plan->arguments);
}
