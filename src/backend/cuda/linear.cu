/* Linear layers inside a net: (n, 1, 1, c_in) -> (n, h, w, c), weight (c * h * w, c_in) in PyTorch's order of a reshape
 * to (c, h, w). The product runs over PyTorch's rows; loads and stores translate a row into its place in NHWC. */
#include "backend/cuda/map.cuh"
#include "backend/cuda/product.cuh"

/* Row r = (channel * h + y) * w + x of the weight, as an element of one image (h, w, cp). */
struct row_place {
    int pixels, cp; /* h * w */
    __host__ __device__ int pixel(int row) const { return row % pixels; }
    __host__ __device__ int channel(int row) const { return row / pixels; }
    __host__ __device__ int element(int row) const { return pixel(row) * cp + channel(row); }
};

static row_place places_of(const rc_linear *linear)
{
    row_place places = {linear->h * linear->w, rc_cuda_padded(linear->c)};
    return places;
}

/* The value of x (n, 1, 1, cp): image i, channel k. Loads eight channels for one, which the caches forgive. */
template <typename Act> struct value_source {
    static const bool by_row = false;
    tensor_view<Act> x;
    __device__ float operator()(int i, int k) const
    {
        return load_value8(x, place_at(x, i, 0, 0), k / 8 * 8).v[k % 8];
    }
};

/* The same with channel i of image k. */
template <typename Act> struct value_by_channel {
    static const bool by_row = true;
    tensor_view<Act> x;
    __device__ float operator()(int i, int k) const
    {
        return load_value8(x, place_at(x, k, 0, 0), i / 8 * 8).v[i % 8];
    }
};

/* dL/draw of y: image i, row k. */
template <typename Act> __device__ static float draw_of(const grad_view<Act> &dy, row_place places, int image, int row)
{
    int pixel = places.pixel(row), channel = places.channel(row);
    place at = place_at(dy.y, image, pixel / dy.y.w, pixel % dy.y.w);
    return load_draw8(dy, at, channel / 8 * 8).v[channel % 8];
}

template <typename Act> struct draw_source {
    static const bool by_row = false;
    grad_view<Act> dy;
    row_place places;
    __device__ float operator()(int i, int k) const { return draw_of(dy, places, i, k); }
};

template <typename Act> struct draw_by_row {
    static const bool by_row = true;
    grad_view<Act> dy;
    row_place places;
    __device__ float operator()(int i, int k) const { return draw_of(dy, places, k, i); }
};

/* ---- forward ---------------------------------------------------------------------------------------------------- */

template <typename Act> struct raw_store {
    Act *raw;
    row_place places;
    const float *bias;
    __device__ void operator()(int image, int row, float sum) const
    {
        size_t at = (size_t)image * places.pixels * places.cp + places.element(row);
        store(raw + at, sum + (bias ? bias[row] : 0));
    }
};

/* What the epilogue asks for, once raw is there; pad channels become 0. */
template <typename Act> __global__ static void finish_kernel(forward_epilogue<Act> e)
{
    map_walk walk = walk_map(e.cut);
    channel_sums<typename sum_of<Act>::type> sums = {};
    for (int pixel = walk.first; pixel < walk.end; pixel += walk.step)
        finish_forward8(e, walk, pixel, load8(e.raw + offset8(e.y, pixel, walk.channel)), &sums);
    finish_sums(e.partial, e.cut, sums);
}

template <typename Act>
static void linear_forward(rc_backend *be, const rc_linear *linear, rc_tensor *x, const void *weight, const void *bias,
                           rc_tensor *y, const rc_epilogue *epilogue)
{
    rc_cuda *cuda = rc_cuda_of(be);
    if (x->value && !x->stored)
        be->materialise(be, x);
    value_source<Act> values = {view_tensor<Act>(x)};
    row_source weights = {(const float *)weight, linear->c_in};
    raw_store<Act> results = {(Act *)y->raw, places_of(linear), (const float *)bias};
    launch_product(cuda, "linear_forward", x->n, linear->c * linear->h * linear->w, linear->c_in, values, weights,
                   results);
    if (!epilogue->partial && !epilogue->apply && linear->c % RC_CUDA_CHANNELS == 0)
        return;
    map_cut cut = cut_map(y);
    rc_cuda_launch(cuda, "linear_forward", finish_kernel<Act>, map_grid(cut), MAP_THREADS, 0,
                   view_epilogue<Act>(y, epilogue, cut));
}

/* ---- backward --------------------------------------------------------------------------------------------------- */

/* weight (rows, c_in) as B(j, k) = weight[k][j], 0 past c_in: the product covers the pad channels of dx. */
struct padded_weight {
    static const bool by_row = true;
    const float *weight;
    int c_in;
    __device__ float operator()(int j, int k) const { return j < c_in ? weight[(size_t)k * c_in + j] : 0; }
};

template <typename Act> struct gradient_store {
    Act *dx;
    int cp;
    bool add;
    __device__ void operator()(int image, int channel, float sum) const
    {
        Act *to = dx + (size_t)image * cp + channel;
        store(to, add ? to_float(*to) + sum : sum);
    }
};

template <typename Act>
static void linear_backward_data(rc_backend *be, const rc_linear *linear, const rc_grad *dy, const void *weight,
                                 void *dx, const rc_back_epilogue *epilogue)
{
    draw_source<Act> draws = {view_grad<Act>(dy), places_of(linear)};
    padded_weight weights = {(const float *)weight, linear->c_in};
    int cp = rc_cuda_padded(linear->c_in);
    gradient_store<Act> results = {(Act *)dx, cp, epilogue->add};
    launch_product(rc_cuda_of(be), "linear_backward_data", dy->y->n, cp, linear->c * linear->h * linear->w, draws,
                   weights, results);
    if (epilogue->partial) {
        const rc_grad finished = {epilogue->x, dx, NULL, NULL, NULL};
        be->bn_backward_sums(be, &finished, epilogue->partial);
    }
}

/* Block: one row of the weight, summed over the images. */
template <typename Act>
__global__ static void bias_kernel(grad_view<Act> dy, row_place places, int rows, float *dbias)
{
    int row = (int)(blockIdx.x * blockDim.x + threadIdx.x);
    if (row >= rows)
        return;
    float sum = 0;
    for (int image = 0; image < dy.y.n; image++)
        sum += draw_of(dy, places, image, row);
    dbias[row] = sum;
}

template <typename Act>
static void linear_backward_weight(rc_backend *be, const rc_linear *linear, const rc_tensor *x, const rc_grad *dy,
                                   void *dweight, void *dbias)
{
    rc_cuda *cuda = rc_cuda_of(be);
    int rows = linear->c * linear->h * linear->w;
    draw_by_row<Act> draws = {view_grad<Act>(dy), places_of(linear)};
    value_by_channel<Act> values = {view_tensor<Act>(x)};
    real_store results = {(float *)dweight, linear->c_in, NULL, false};
    launch_product(cuda, "linear_backward_weight", rows, linear->c_in, x->n, draws, values, results);
    if (dbias)
        rc_cuda_launch(cuda, "linear_backward_weight", bias_kernel<Act>, dim3((unsigned)(rows + 127) / 128), 128, 0,
                       view_grad<Act>(dy), places_of(linear), rows, (float *)dbias);
}

static rc_status reserve_linear(rc_backend *, const rc_linear *, int)
{
    return RC_OK;
}

template <typename Act> static void fill(rc_backend *table)
{
    table->reserve_linear = reserve_linear;
    table->linear_forward = linear_forward<Act>;
    table->linear_backward_data = linear_backward_data<Act>;
    table->linear_backward_weight = linear_backward_weight<Act>;
}

void rc_cuda_fill_linear(rc_cuda *cuda)
{
    if (cuda->bf16)
        fill<__nv_bfloat16>(&cuda->table);
    else
        fill<float>(&cuda->table);
}
