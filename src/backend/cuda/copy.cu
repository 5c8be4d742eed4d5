/* Copies, finished values and skips: one thread per eight channels of a pixel. */
#include "backend/cuda/map.cuh"

/* The first reader of a tensor with memory for its value fills it. */
static bool must_fill(const rc_tensor *x)
{
    return x->value && !x->stored;
}

template <typename Act> __global__ static void copy_forward_kernel(tensor_view<Act> x, forward_epilogue<Act> e)
{
    begin_after_kernel_before();
    map_walk walk = walk_map(e.cut);
    channel_sums<typename sum_of<Act>::type> sums = {};
    for (int pixel = walk.first; pixel < walk.end; pixel += walk.step)
        finish_forward8(e, walk, pixel, take_value8(x, place_of(x, pixel), walk.channel), &sums);
    finish_sums(e.partial, e.cut, sums);
}

template <typename Act>
static void copy_forward(rc_backend *be, rc_tensor *x, rc_tensor *y, const rc_epilogue *epilogue)
{
    map_cut cut = cut_map(y);
    rc_cuda_launch_early(rc_cuda_of(be), "copy_forward", copy_forward_kernel<Act>, map_grid(cut), MAP_THREADS, 0,
                         view_tensor<Act>(x), view_epilogue<Act>(y, epilogue, cut));
    x->stored = x->stored || must_fill(x);
}

template <typename Act> __global__ static void copy_backward_kernel(grad_view<Act> dy, backward_epilogue<Act> e)
{
    begin_after_kernel_before();
    map_walk walk = walk_map(e.cut);
    channel_sums<typename sum_of<Act>::type> sums = {};
    for (int pixel = walk.first; pixel < walk.end; pixel += walk.step)
        finish_backward8(e, walk, pixel, load_draw8(dy, place_of(dy.y, pixel), walk.channel), &sums);
    finish_sums(e.partial, e.cut, sums);
}

template <typename Act>
static void copy_backward(rc_backend *be, const rc_grad *dy, void *dx, const rc_back_epilogue *epilogue)
{
    map_cut cut = cut_map(epilogue->x);
    rc_cuda_launch_early(rc_cuda_of(be), "copy_backward", copy_backward_kernel<Act>, map_grid(cut), MAP_THREADS, 0,
                         view_grad<Act>(dy), view_back_epilogue<Act>(dx, epilogue, cut));
}

template <typename Act> __global__ static void materialise_kernel(tensor_view<Act> x, Act *value, map_cut cut)
{
    begin_after_kernel_before();
    map_walk walk = walk_map(cut);
    for (int pixel = walk.first; pixel < walk.end; pixel += walk.step)
        store8(value + offset8(x, pixel, walk.channel), load_pending8(x, place_of(x, pixel), walk.channel));
}

template <typename Act> static void materialise(rc_backend *be, rc_tensor *x)
{
    map_cut cut = cut_map(x);
    rc_cuda_launch_early(rc_cuda_of(be), "materialise", materialise_kernel<Act>, map_grid(cut), MAP_THREADS, 0,
                         view_tensor<Act>(x), (Act *)x->value, cut);
    x->stored = true;
}

/* dz of eight channels that need not begin at a vector of y. */
template <typename Act> __device__ static float8 load_dz_from(const grad_view<Act> &dy, place at, int first)
{
    if (first % 8 == 0)
        return first < dy.y.cp ? load_dz8(dy, at, first) : zero8();
    float8 out = zero8();
    int begin = first / 8 * 8;
    for (int part = 0; part < 2; part++) {
        int vector = begin + 8 * part;
        float8 dz = vector < dy.y.cp ? load_dz8(dy, at, vector) : zero8();
        for (int i = 0; i < 8; i++)
            if (vector + i >= first && vector + i < first + 8)
                out.v[vector + i - first] = dz.v[i];
    }
    return out;
}

/* Over the skip's source: pixels and channels that y did not take get nothing. */
template <typename Act> __global__ static void skip_backward_kernel(grad_view<Act> dy, backward_epilogue<Act> e)
{
    begin_after_kernel_before();
    map_walk walk = walk_map(e.cut);
    channel_sums<typename sum_of<Act>::type> sums = {};
    int stride = dy.y.skip_stride;
    for (int pixel = walk.first; pixel < walk.end; pixel += walk.step) {
        place to = place_of(e.x, pixel);
        bool taken = to.y % stride == 0 && to.x % stride == 0;
        place from = place_at(dy.y, to.image, to.y / stride, to.x / stride);
        float8 dz = taken ? load_dz_from(dy, from, walk.channel + dy.y.skip_offset) : zero8();
        finish_backward8(e, walk, pixel, dz, &sums);
    }
    finish_sums(e.partial, e.cut, sums);
}

template <typename Act>
static void skip_backward(rc_backend *be, const rc_grad *dy, void *dskip, const rc_back_epilogue *epilogue)
{
    map_cut cut = cut_map(epilogue->x);
    rc_cuda_launch_early(rc_cuda_of(be), "skip_backward", skip_backward_kernel<Act>, map_grid(cut), MAP_THREADS, 0,
                         view_grad<Act>(dy), view_back_epilogue<Act>(dskip, epilogue, cut));
}

template <typename Act> static void fill(rc_backend *table)
{
    table->copy_forward = copy_forward<Act>;
    table->copy_backward = copy_backward<Act>;
    table->materialise = materialise<Act>;
    table->skip_backward = skip_backward<Act>;
}

void rc_cuda_fill_copy(rc_cuda *cuda)
{
    if (cuda->bf16)
        fill<__nv_bfloat16>(&cuda->table);
    else
        fill<float>(&cuda->table);
}
