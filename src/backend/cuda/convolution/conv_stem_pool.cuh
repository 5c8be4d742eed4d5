/* What the kernels of conv_stem_pool.cu and conv_stem_train.cu share: a warp that walks down the windows of a strip.
 *
 * As in conv_stem.cu, every warp works for itself and walks down a strip of 32 columns with a ring of lines. The
 * windows of a strip are 15: they need 31 columns, of which two strips both make the one between them. So that most of
 * a window lies in one lane, the four positions of a lane are neighbours, p = 4 g to 4 g + 3 for the lanes 4 g to 4 g +
 * 3. Window 2 g is p = 4 g to 4 g + 2, window 2 g + 1 takes a column of the next four lanes. In the ring a line has its
 * pixels in the order of their remainder by 4, so that the eight rows of a matrix lie side by side. */
#ifndef RC_BACKEND_CUDA_CONVOLUTION_CONV_STEM_POOL_CUH
#define RC_BACKEND_CUDA_CONVOLUTION_CONV_STEM_POOL_CUH

#include "backend/cuda/convolution/conv_stem.cuh"

enum {
    POOL_WINDOWS = STEM_POSITIONS / 2 - 1, /* of a strip */
    POOL_ROUND = STEM_POSITIONS / 4 + 1,   /* pixels of a line with the same remainder, 34 in all */
    POOL_LINE = 4 * POOL_ROUND * 16,
    POOL_WARP_BYTES = STEM_LINES * POOL_LINE,
    POOL_WORDS = 4 /* eight channels */
};

/* Where a warp works: `rows` rows of windows from `row` on. */
struct pool_piece {
    int image, strip, row, rows;
};

/* The place of pixel number `column` of a line in the ring, in bytes. */
__device__ inline int pool_place(int column)
{
    return (column % 4 * POOL_ROUND + column / 4) * 16;
}

__device__ inline int pool_line(int line)
{
    return line % STEM_LINES * POOL_LINE;
}

/* The image. Line 0 is the one above the first line of results, which is the one above the first row of windows. */
template <bool FINISHED> struct pool_reader {
    const tensor_view<bf16> &x;
    const bf16 *from;       /* this lane's pixel of the line that is copied next */
    char *to;               /* and its place in line 0 of the ring */
    int image, row, column; /* of that pixel in line 0 */
    bool inside, last_inside;
    unsigned near[stem_shape::TILES_M], far; /* rows of this lane: of taps 0 and 1, of tap 2 of the first tile */

    __device__ pool_reader(const tensor_view<bf16> &view, const pool_piece &piece, char *shared)
        : x(view), image(piece.image), row(2 * piece.row - 2)
    {
        int lane = threadIdx.x % 32, low = lane / 8 % 2, second = lane / 16;
        column = 2 * POOL_WINDOWS * piece.strip - 2 + lane;
        inside = (unsigned)column < (unsigned)x.w;
        last_inside = column + STEM_POSITIONS < x.w;
        from = x.raw + ((long long)(image * x.h + row) * x.w + column) * 8;
        to = shared + pool_place(lane);
#pragma unroll
        for (int tile = 0; tile < stem_shape::TILES_M; tile++)
            near[tile] = shared_address(shared) + pool_place(lane % 8 * 4 + tile * 2 + low + second);
        far = shared_address(shared) + pool_place(lane % 8 * 4 + low + 2);
    }

    __device__ void copy_pixel(char *at, int line, int more, bool exists)
    {
        if (FINISHED)
            copy16_async_part(shared_address(at), from + more * 8, exists ? 16 : 0);
        else
            *(uint4 *)at = exists ? pack8(load_value8(x, place_at(x, image, row + line, column + more), 0))
                                  : make_uint4(0, 0, 0, 0);
    }

    /* The next line, which has that number. */
    __device__ void copy(int line)
    {
        bool exists = (unsigned)(row + line) < (unsigned)x.h;
        char *at = to + pool_line(line);
        copy_pixel(at, line, 0, exists && inside);
        if (threadIdx.x % 32 == 0) /* the 33rd; the 34th is the last position's alone, which no window takes */
            copy_pixel(at + pool_place(STEM_POSITIONS), line, STEM_POSITIONS, exists && last_inside);
        from += x.w * 8;
    }

    /* The first lines begin to travel. */
    __device__ void begin()
    {
        __syncwarp(); /* nobody reads the piece before any more */
        copy(0);
        copy(1);
#pragma unroll
        for (int line = 0; line < STEM_AHEAD; line++) {
            copy(line + 2);
            close_copies();
        }
    }

    /* What line `line` of results takes is there, and another one begins to travel. rows: of the piece. */
    __device__ void arrive(int line, int rows)
    {
        wait_for_older_copies<STEM_AHEAD - 1>();
        __syncwarp(); /* the line is there, of all lanes, and nobody reads the line before */
        if (line + STEM_AHEAD <= 2 * rows)
            copy(line + STEM_AHEAD + 2);
        close_copies();
    }

    /* Positions tile * 2 and tile * 2 + 1 of all lanes. */
    __device__ void multiply(int line, int tile, const stem_weights &weights,
                             float (&sum)[stem_shape::TILES_N][4]) const
    {
        unsigned address[STEM_PRODUCTS];
        unsigned last = far + tile * (pool_place(4) - pool_place(2));
#pragma unroll
        for (int y = 0; y < 3; y++)
            address[y] = near[tile] + pool_line(line + y);
        address[3] = last + pool_line(threadIdx.x % 32 < 16 ? line : line + 1);
        address[4] = last + pool_line(line + 2);
        multiply_stem(address, weights, sum);
    }
};

/* run(piece) for this warp's part of the rows of all strips of all images. */
template <typename Arguments, typename Run> __device__ inline void for_pieces(const Arguments &a, Run run)
{
    int number = blockIdx.x * stem_shape::WARPS_M + threadIdx.x / 32 / stem_shape::WARPS_N;
    int all = gridDim.x * stem_shape::WARPS_M;
    long long rows = (long long)a.n * a.strips * a.oh;
    int next = (int)(rows * number / all), end = (int)(rows * (number + 1) / all);
    while (next < end) {
        int strip = next / a.oh, row = next - strip * a.oh, image = strip / a.strips;
        int left = a.oh - row < end - next ? a.oh - row : end - next;
        pool_piece piece = {image, strip - image * a.strips, row, left};
        run(piece);
        next += left;
    }
}

#endif
