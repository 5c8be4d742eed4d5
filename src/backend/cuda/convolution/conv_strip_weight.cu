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
 * are then neighbours in one of them, and the third is in another.
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
 * 10 kB, 410 clocks. docs/notes/gpu-steps.md has the layers of ResNet-18. */
#include "backend/cuda/convolution/conv_strip_weight.h"

#include "backend/cuda/convolution/conv_strip.cuh"

enum {
    THREADS = STRIP_FOURS * 128,
    VECTORS = STRIP_SIDE / 8,
    RUN_BYTES = STRIP_RUN * WGMMA_ROW,
    DRAW_RUNS = STRIP_UNDER + STRIP_AHEAD, /* in the ring of dL/draw */
    AGAIN = 3 * 8,                         /* rows that are twice in a ring: 15 + 2 may follow the last */
    PRODUCT_BYTES = 16 * WGMMA_ROW         /* the rows of a product */
};

__host__ __device__ static inline int ring_bytes(int more)
{
    return (DRAW_RUNS + more) * RUN_BYTES;
}

__host__ __device__ static inline int part_bytes(int more)
{
    return ring_bytes(more) + AGAIN * WGMMA_ROW;
}

/* ---- loading --------------------------------------------------------------------------------------------------- */

/* Runs on their way to shared memory, zeros for what the maps do not have. A thread copies eight channels of every
 * THREADS / VECTORS-th row: first those of dL/draw, then those of each part of the source. */
struct run_copier {
    const strip_weight_arguments &a;
    const bf16 *x, *dy; /* from the thread's channels on */
    unsigned draw_ring, x_ring;
    int draw_first, x_first; /* positions of the next runs; of the source: that of the offset 0 */
    int draw_slot, x_slot;

    __device__ run_copier(const strip_weight_arguments &all, unsigned shared, int first_run, int first_o, int first_i)
        : a(all), x(all.x + first_i + threadIdx.x % VECTORS * 8), dy(all.dy + first_o + threadIdx.x % VECTORS * 8),
          draw_ring(shared), x_ring(shared + DRAW_RUNS * RUN_BYTES), draw_first(first_run * STRIP_RUN),
          x_first(draw_first - all.row.columns - 1), draw_slot(0), x_slot(0)
    {
    }

    /* Pixel (y, x) of every step-th, of position `index`. */
    __device__ void copy(unsigned to, const bf16 *map, int index, int step, int part_y, int part_x, int h, int w, int c)
    {
        strip_place at = place_in_row(a.row, index > 0 ? index : 0);
        int py = at.y * step + part_y, px = at.x * step + part_x;
        bool exists = index >= 0 && at.image < a.images && py < h && px < w;
        copy16_async_part(to, exists ? map + (size_t)((at.image * h + py) * w + px) * c : map, exists ? 16 : 0);
    }

    /* From this row on: STRIP_RUN leaves out dL/draw. */
    __device__ void copy_run(int first_row)
    {
        for (int i = first_row + threadIdx.x / VECTORS; i < (1 + a.parts) * STRIP_RUN; i += THREADS / VECTORS) {
            int row = i % STRIP_RUN, part = i / STRIP_RUN - 1;
            unsigned place = row * WGMMA_ROW + (threadIdx.x % VECTORS ^ row % 8) * 16;
            if (part < 0) {
                copy(draw_ring + draw_slot * RUN_BYTES + place, dy, draw_first + row, 1, 0, 0, a.out_h, a.out_w, a.co);
                continue;
            }
            unsigned to = x_ring + part * part_bytes(a.more) + place;
            copy(to + x_slot * RUN_BYTES, x, x_first + row, a.source_step, a.part_y[part], a.part_x[part], a.source_h,
                 a.source_w, a.ci);
            if (x_slot == 0 && row < AGAIN)
                copy(to + ring_bytes(a.more), x, x_first + row, a.source_step, a.part_y[part], a.part_x[part],
                     a.source_h, a.source_w, a.ci);
        }
        x_first += STRIP_RUN;
        x_slot = x_slot + 1 == DRAW_RUNS + a.more ? 0 : x_slot + 1;
        if (first_row > 0)
            return;
        draw_first += STRIP_RUN;
        draw_slot = draw_slot + 1 == DRAW_RUNS ? 0 : draw_slot + 1;
    }
};

/* ---- products -------------------------------------------------------------------------------------------------- */

/* The sums of four warps: channels of dL/draw by three taps of 64 channels of the source. JOINED: the taps are
 * neighbours, all three; otherwise the first two. */
template <bool JOINED> struct line_sums {
    float sum[96];
    unsigned place, third; /* of the next run in the rings */

    /* A product further in the ring. */
    __device__ static void go_on(unsigned &place, unsigned ring)
    {
        place += PRODUCT_BYTES;
        place -= place >= ring ? ring : 0;
    }

    /* draw: of this run; taps: those of these warps. */
    template <typename Taps> __device__ void multiply(const Taps &taps, unsigned draw, unsigned rings, unsigned ring)
    {
        fence_sums();
#pragma unroll
        for (int product = 0; product < STRIP_RUN / 16; product++) {
            unsigned long long a = columns_at(draw + product * PRODUCT_BYTES, 16);
            unsigned long long b = columns_at(rings + taps[0].ring + place, WGMMA_ROW);
            if (JOINED) {
                multiply_three(sum, a, b);
            } else {
                multiply_first_two(sum, a, b);
                multiply_third(sum, a, columns_at(rings + taps[2].ring + third, WGMMA_ROW));
                go_on(third, ring);
            }
            go_on(place, ring);
        }
        close_products();
    }

    /* to: (taps, co, ci) from the block's channels on. */
    template <typename Taps> __device__ void store(const Taps &taps, float *to, int co, int ci) const
    {
        int lane = threadIdx.x % 32, row = threadIdx.x % 128 / 32 * 16 + lane / 4;
        to += (size_t)row * ci + lane % 4 * 2;
#pragma unroll
        for (int i = 0; i < 3; i++) {
            float *tap = to + (size_t)taps[i].tap * co * ci;
#pragma unroll
            for (int j = 0; j < 8; j++) {
                const float *from = sum + i * 32 + j * 4;
                *(float2 *)(tap + j * 8) = make_float2(from[0], from[1]);
                *(float2 *)(tap + (size_t)8 * ci + j * 8) = make_float2(from[2], from[3]);
            }
        }
    }
};

/* Grid: (blocks, tiles of c_out x tiles of c_in). */
template <bool JOINED>
__global__ void __launch_bounds__(THREADS, 1) strip_weight_kernel(const __grid_constant__ strip_weight_arguments a)
{
    int tiles_i = a.ci / STRIP_SIDE, first_o = blockIdx.y / tiles_i * STRIP_SIDE;
    int first_i = blockIdx.y % tiles_i * STRIP_SIDE;
    int first = (int)((long long)a.runs * blockIdx.x / gridDim.x);
    int runs = (int)((long long)a.runs * (blockIdx.x + 1) / gridDim.x) - first;
    unsigned shared = shared_address(operand_memory()), ring = ring_bytes(a.more);
    const auto &taps = a.taps[threadIdx.x / 128];
    line_sums<JOINED> mine = {{}, taps[0].offset, taps[2].offset};
    run_copier copier(a, shared, first, first_o, first_i);
    wait_for_kernel_before(); /* and lets nobody begin early: blocks that wait to add the sums would keep others out */
    for (int i = 0; i < a.more; i++)
        copier.copy_run(STRIP_RUN);
    for (int i = 0; i < STRIP_AHEAD; i++) {
        if (i < runs)
            copier.copy_run(0);
        close_copies();
    }
    for (int run = 0, slot = 0; run < runs; run++) {
        wait_for_older_copies<STRIP_AHEAD - 1>();
        wait_for_products<STRIP_UNDER - 1>();
        show_products();
        __syncthreads(); /* the run is there, and nobody multiplies the run of STRIP_UNDER before */
        mine.multiply(taps, shared + slot * RUN_BYTES, shared + DRAW_RUNS * RUN_BYTES, ring);
        if (run + STRIP_AHEAD < runs)
            copier.copy_run(0);
        close_copies();
        slot = slot + 1 == DRAW_RUNS ? 0 : slot + 1;
    }
    wait_for_products<0>();
    float *sums = a.sums + (size_t)blockIdx.x * STRIP_FOURS * 3 * a.co * a.ci;
    mine.store(taps, sums + (size_t)first_o * a.ci + first_i, a.co, a.ci);
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

/* Gives each line of taps to four warps: neighbours first. Returns the greatest offset, or -1: a line has none. */
static int deal_taps(strip_weight_plan *plan, const wide_parts *parts)
{
    strip_weight_arguments *a = &plan->arguments;
    int count[STRIP_FOURS] = {0}, farthest = 0;
    for (int part = parts->count - 1; part >= 0; part--) /* the last part of a line has most of its taps */
        for (int step = parts->first_step[part]; step < parts->first_step[part] + parts->steps[part]; step++) {
            int line = parts->order[step] / 3, i = count[line]++;
            for (; i > 0 && a->taps[line][i - 1].ring == (unsigned)part &&
                   a->taps[line][i - 1].offset > (unsigned)parts->offset[step];
                 i--)
                a->taps[line][i] = a->taps[line][i - 1];
            a->taps[line][i] = {(unsigned)part, (unsigned)parts->offset[step], parts->order[step]};
            farthest = greatest(farthest, parts->offset[step]);
        }
    plan->joined = true;
    for (auto &line : a->taps) {
        if (line[0].ring != line[1].ring || line[1].offset - line[0].offset != WGMMA_ROW)
            return -1;
        plan->joined &= line[1].ring == line[2].ring && line[2].offset - line[1].offset == WGMMA_ROW;
    }
    return farthest;
}

bool rc_cuda_plan_strip_weight(const rc_cuda *cuda, const rc_conv *conv, const axis_taps *taps, int n,
                               strip_weight_plan *plan)
{
    *plan = {};
    strip_weight_arguments *a = &plan->arguments;
    axis_taps axis = rc_cuda_part_axis(taps);
    if (!cuda->wgmma || taps->out_step != 1 || taps->count[0] != 3 || axis.low < -1 || axis.high > 1)
        return false;
    a->images = n;
    a->co = conv->c_out;
    a->ci = conv->c_in;
    a->source_h = conv->h;
    a->source_w = conv->w;
    a->source_step = taps->source_step;
    a->out_h = conv->oh;
    a->out_w = conv->ow;
    rc_cuda_set_row(&a->row, greatest(conv->oh, shares(conv->h, taps->source_step)),
                    greatest(conv->ow, shares(conv->w, taps->source_step)), false);
    wide_parts parts = {};
    rc_cuda_list_parts(&parts, taps, -1, a->row.columns, WGMMA_ROW);
    a->parts = parts.count;
    for (int part = 0; part < parts.count; part++) {
        a->part_y[part] = parts.y[part];
        a->part_x[part] = parts.x[part];
    }
    int farthest = deal_taps(plan, &parts);
    if (farthest < 0 || !rc_cuda_row_takes(&a->row, n))
        return false;
    a->more = shares(farthest, RUN_BYTES);
    for (auto &line : a->taps)
        for (auto &tap : line)
            tap.ring *= (unsigned)part_bytes(a->more);
    a->runs = shares(n * a->row.lines * a->row.columns, STRIP_RUN);
    plan->tiles = conv->c_out / STRIP_SIDE * (conv->c_in / STRIP_SIDE);
    plan->blocks = cuda->multiprocessors / plan->tiles;
    plan->blocks = plan->blocks > a->runs ? a->runs : greatest(plan->blocks, 1);
    plan->shared_bytes = WGMMA_ALIGN + DRAW_RUNS * RUN_BYTES + a->parts * part_bytes(a->more);
    return plan->shared_bytes <= rc_cuda_shared(cuda, CONV_SHARED_MOST);
}

void rc_cuda_launch_strip_weight(rc_cuda *cuda, const char *operation, const strip_weight_plan *plan)
{
    dim3 grid((unsigned)plan->blocks, (unsigned)plan->tiles);
    void (*kernel)(strip_weight_arguments) = plan->joined ? strip_weight_kernel<true> : strip_weight_kernel<false>;
    rc_cuda_allow_shared(cuda, kernel, operation);
    rc_cuda_launch_early(cuda, operation, kernel, grid, THREADS, (size_t)plan->shared_bytes, plan->arguments);
}
