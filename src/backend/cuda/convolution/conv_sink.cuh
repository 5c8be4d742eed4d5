/* What becomes of the results of a fast convolution: of a lane's, V neighbouring channels at COUNT pixels. A negative
 * pixel: there is none; what is fetched for it is not used. */
#ifndef RC_BACKEND_CUDA_CONVOLUTION_CONV_SINK_CUH
#define RC_BACKEND_CUDA_CONVOLUTION_CONV_SINK_CUH

#include "backend/cuda/convolution/conv_source.cuh"
#include "backend/cuda/map/norm.cuh"

/* Per-channel vectors of the sink in shared memory, (4, N) float. Sums of products begin with the bias. */
enum { ROW_BIAS, ROW_CENTER, ROW_SCALE, ROW_SHIFT, SINK_ROWS };

template <int V> struct lane_sums {
    floats<V> first, second;
};
typedef lane_sums<8> sink_sums;

/* Of the V channels from which a table of N channels begins. */
template <int V> struct lane_rows {
    floats<V> center, scale, shift;
};
typedef lane_rows<8> sink_rows;

template <int V> __device__ inline floats<V> load_row(const float *from)
{
    floats<V> row;
    if (V == 2) {
        float2 two = *(const float2 *)from;
        row.v[0] = two.x;
        row.v[1] = two.y;
    }
#pragma unroll
    for (int i = 0; i + 3 < V; i += 4) {
        float4 four = *(const float4 *)(from + i);
        row.v[i] = four.x;
        row.v[i + 1] = four.y;
        row.v[i + 2] = four.z;
        row.v[i + 3] = four.w;
    }
    return row;
}

template <int V = 8> __device__ inline lane_rows<V> rows_at(const float *table, int width)
{
    lane_rows<V> rows = {load_row<V>(table + ROW_CENTER * width), load_row<V>(table + ROW_SCALE * width),
                         load_row<V>(table + ROW_SHIFT * width)};
    return rows;
}

/* Result of a forward operation: raw with its sums, or the finished value, or in conv_strip.cuh both. */
struct forward_sink {
    tensor_view<bf16> y;
    bf16 *raw;
    void *partial;
    const float *bias, *center; /* (c) */
    float below;
    bool apply;
    bf16 *value; /* where the value of raw goes, too; NULL: nowhere */
    typedef train_norm norm;
    static constexpr bool BACKWARD = false;

    template <int V> struct ahead_of {
        typename packed<V>::type skip;
    };
    typedef ahead_of<8> ahead;

    enum { ROWS = SINK_ROWS };
    __device__ void read(float *row, int group, int channel) const
    {
        bool inside = channel < y.c, scales = (apply || value) && y.scale;
        row[ROW_BIAS] = bias && inside ? bias[channel] : 0;
        row[ROW_CENTER] = center && inside ? center[channel] : 0;
        row[ROW_SCALE] = scales ? y.scale[group * y.cp + channel] : 1;
        row[ROW_SHIFT] = scales ? y.shift[group * y.cp + channel] : 0;
    }

    template <int V, int COUNT>
    __device__ void fetch(ahead_of<V> (&a)[COUNT], const int (&pixel)[COUNT], int channel) const
    {
        int from = channel - y.skip_offset;
        bool skips = apply && y.skip && from >= 0 && from < y.skip_cp;
#pragma unroll
        for (int n = 0; n < COUNT; n++) {
            int at = pixel[n] > 0 ? pixel[n] : 0;
            a[n] = {};
            if (skips && y.skip_stride != 1) {
                int row = at / y.w, image = row / y.h;
                at = (image * y.skip_h + (row - image * y.h) * y.skip_stride) * y.skip_w +
                     (at - row * y.w) * y.skip_stride;
            }
            if (skips)
                a[n].skip = load_packed<V>(y.skip + (unsigned)(at * y.skip_cp + from));
        }
    }

    template <int V, int COUNT>
    __device__ void take(floats<V> (&v)[COUNT], const ahead_of<V> (&a)[COUNT], const lane_rows<V> &rows,
                         const int (&pixel)[COUNT], int channel, lane_sums<V> &sums) const
    {
        typedef typename packed<V>::type vector;
        if (apply)
            finish(v, a, rows);
#pragma unroll
        for (int n = 0; n < COUNT; n++) {
            vector bits = pack<V>(v[n]);
            if (pixel[n] >= 0)
                *(vector *)(raw + (unsigned)(pixel[n] * y.cp + channel)) = bits;
            v[n] = unpack<V>(bits); /* sums are of what readers will see */
        }
        if (apply || !partial)
            return;
#pragma unroll
        for (int n = 0; n < COUNT; n++) {
            if (pixel[n] < 0)
                continue;
#pragma unroll
            for (int i = 0; i < V; i++) {
                float s = v[n].v[i] - rows.center.v[i];
                sums.first.v[i] += s;
                sums.second.v[i] += s * s;
            }
        }
    }

    template <int V, int COUNT>
    __device__ void finish(floats<V> (&v)[COUNT], const ahead_of<V> (&a)[COUNT], const lane_rows<V> &rows) const
    {
#pragma unroll
        for (int n = 0; n < COUNT; n++) {
            floats<V> skip = unpack<V>(a[n].skip);
#pragma unroll
            for (int i = 0; i < V; i++) {
                float z = v[n].v[i] * rows.scale.v[i] + (rows.shift.v[i] + skip.v[i]);
                v[n].v[i] = fmaxf(z, below * z);
            }
        }
        if (!is_curved(y.act))
            return;
#pragma unroll
        for (int n = 0; n < COUNT; n++)
#pragma unroll
            for (int i = 0; i < V; i++)
                v[n].v[i] = activate_curved(y.act, v[n].v[i]);
    }
};

/* dL/dvalue of layer x, with the sums of its normalisation. */
struct gradient_sink {
    tensor_view<bf16> y; /* x: the forward tensor */
    bf16 *dx;
    const bf16 *addend; /* what the gradient is added to: dx, or another; NULL: overwrite */
    void *partial;
    const float *mean; /* (groups, cp) */
    float below;
    bool slopes;        /* x has an activation, whose slope the sums need */
    bf16 *draw;         /* conv_strip.cuh: where dL/draw of x goes, instead of dL/dvalue if that is dx; NULL: nowhere */
    const float *by[3]; /* its coefficients a, b and c, of one group */
    typedef backward_norm norm;
    static constexpr bool BACKWARD = true;

    template <int V> struct ahead_of {
        typename packed<V>::type old, raw, stored;
    };
    typedef ahead_of<8> ahead;

    enum { ROWS = SINK_ROWS };
    __device__ void read(float *row, int group, int channel) const
    {
        int at = group * y.cp + channel;
        row[ROW_BIAS] = 0;
        row[ROW_CENTER] = mean ? mean[at] : 0;
        row[ROW_SCALE] = y.scale ? y.scale[at] : 1;
        row[ROW_SHIFT] = y.scale ? y.shift[at] : 0;
    }

    template <int V, int COUNT>
    __device__ void fetch(ahead_of<V> (&a)[COUNT], const int (&pixel)[COUNT], int channel) const
    {
        typedef typename packed<V>::type vector;
        unsigned at[COUNT];
#pragma unroll
        for (int n = 0; n < COUNT; n++) {
            at[n] = (unsigned)((pixel[n] > 0 ? pixel[n] : 0) * y.cp + channel);
            a[n] = {};
        }
        if (addend) {
#pragma unroll
            for (int n = 0; n < COUNT; n++)
                a[n].old = *(const vector *)(addend + at[n]);
        }
        if (!partial)
            return;
#pragma unroll
        for (int n = 0; n < COUNT; n++)
            a[n].raw = load_packed<V>(y.raw + at[n]);
        if (slopes && y.stored && !is_curved(y.act)) {
#pragma unroll
            for (int n = 0; n < COUNT; n++)
                a[n].stored = load_packed<V>(y.stored + at[n]);
        }
    }

    template <int V, int COUNT>
    __device__ void take(floats<V> (&v)[COUNT], const ahead_of<V> (&a)[COUNT], const lane_rows<V> &rows,
                         const int (&pixel)[COUNT], int channel, lane_sums<V> &sums) const
    {
        typedef typename packed<V>::type vector;
        if (addend) {
#pragma unroll
            for (int n = 0; n < COUNT; n++) {
                floats<V> old = unpack<V>(a[n].old);
#pragma unroll
                for (int i = 0; i < V; i++)
                    v[n].v[i] += old.v[i];
            }
        }
#pragma unroll
        for (int n = 0; n < COUNT; n++) {
            vector bits = pack<V>(v[n]);
            if (pixel[n] >= 0)
                *(vector *)(dx + (unsigned)(pixel[n] * y.cp + channel)) = bits;
            v[n] = unpack<V>(bits);
        }
        if (!partial)
            return;
        if (slopes)
            multiply_slopes(v, a, rows);
#pragma unroll
        for (int n = 0; n < COUNT; n++) {
            floats<V> raw = unpack<V>(a[n].raw);
            if (pixel[n] < 0)
                continue;
#pragma unroll
            for (int i = 0; i < V; i++) {
                sums.first.v[i] += v[n].v[i];
                sums.second.v[i] += v[n].v[i] * (raw.v[i] - rows.center.v[i]);
            }
        }
    }

    template <int V, int COUNT>
    __device__ void multiply_slopes(floats<V> (&dz)[COUNT], const ahead_of<V> (&a)[COUNT],
                                    const lane_rows<V> &rows) const
    {
        if (is_curved(y.act)) {
#pragma unroll
            for (int n = 0; n < COUNT; n++) {
                floats<V> raw = unpack<V>(a[n].raw);
#pragma unroll
                for (int i = 0; i < V; i++)
                    dz[n].v[i] *= slope_of_curved(y.act, raw.v[i] * rows.scale.v[i] + rows.shift.v[i]);
            }
            return;
        }
        if (y.stored) {
#pragma unroll
            for (int n = 0; n < COUNT; n++) {
                floats<V> z = unpack<V>(a[n].stored);
#pragma unroll
                for (int i = 0; i < V; i++)
                    dz[n].v[i] = z.v[i] > 0 ? dz[n].v[i] : below * dz[n].v[i];
            }
            return;
        }
#pragma unroll
        for (int n = 0; n < COUNT; n++) {
            floats<V> raw = unpack<V>(a[n].raw);
#pragma unroll
            for (int i = 0; i < V; i++) {
                float z = raw.v[i] * rows.scale.v[i] + rows.shift.v[i];
                dz[n].v[i] = z > 0 ? dz[n].v[i] : below * dz[n].v[i];
            }
        }
    }
};

#endif
