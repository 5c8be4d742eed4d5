/* Losses on logits: cross entropy, LODE's decoupled pair, the distillations, diversity of dreams. A warp per sample;
 * formulas as in cpu/reference/logit_losses.c. Each adds weight * gradient and overwrites its value slot. */
#include "backend/cuda/loss/losses.cuh"

/* ---- cross entropy ---------------------------------------------------------------------------------------------- */

struct cross_entropy {
    static const int values = 1;
    rc_cross_entropy loss;
    const float *logits;
    const int *labels;
    const float *class_weight, *weight;
    float *value, *dlogits;

    /* The weight of row b, and which part of it belongs to its first label. */
    __device__ double weigh(int b, double *own) const
    {
        double first = class_weight ? (double)class_weight[labels[b]] : 1;
        *own = 1;
        if (!loss.partner)
            return first;
        double share = (double)((const float *)loss.share)[b];
        first *= share;
        double sum = first + (1 - share) * (class_weight ? (double)class_weight[loss.partner[b]] : 1);
        *own = sum > 0 ? first / sum : 0;
        return sum;
    }

    /* n, or the sum of the weights of the batch. */
    __device__ double divisor(int lane) const
    {
        if (loss.reduction != RC_WEIGHTED_MEAN || !class_weight)
            return loss.n;
        double sum = 0, own;
        for (int b = lane; b < loss.n; b += 32)
            sum += weigh(b, &own);
        return warp_sum(sum);
    }

    __device__ void row(int b, int lane, double sum[1]) const
    {
        size_t row = (size_t)b * loss.stride + loss.first;
        const float *z = logits + row;
        int label = labels[b] - loss.first, partner = loss.partner ? loss.partner[b] - loss.first : -1;
        double temperature = loss.temperature, smoothing = (double)loss.smoothing, own, matched = 0;
        double share = weigh(b, &own) / divisor(lane);
        double normaliser = log_sum_exp(z, loss.count, temperature, lane);
        for (int k = lane; k < loss.count; k += 32) {
            double p = exp((double)z[k] / temperature - normaliser);
            double target = smoothing / loss.count +
                            (1 - smoothing) * (own * (k == label) + (1 - own) * (k == partner));
            matched += target * (double)z[k];
            dlogits[row + k] += (float)((double)*weight * share * (p - target) / temperature);
        }
        sum[0] = share * (normaliser - warp_sum(matched) / temperature);
    }

    __device__ void finish(const double total[1]) const
    {
        *value = (float)total[0];
    }
};

static void loss_cross_entropy(rc_backend *be, const rc_cross_entropy *loss, const void *logits, const int32_t *labels,
                               const void *class_weight, const float *weight, void *value, void *dlogits)
{
    cross_entropy rows = {*loss,  (const float *)logits, labels,          (const float *)class_weight,
                          weight, (float *)value,        (float *)dlogits};
    launch_rows(rc_cuda_of(be), "loss_cross_entropy", rows, loss->n);
}

/* ---- LODE ------------------------------------------------------------------------------------------------------- */

struct decoupled {
    static const int values = 2;
    int n, stride, n_old, count;
    const float *logits;
    const int *labels;
    const float *inter_weight, *intra_weight;
    float *inter_value, *intra_value, *dlogits;

    __device__ void row(int b, int lane, double sum[2]) const
    {
        const float *z = logits + (size_t)b * stride;
        double of_old = log_sum_exp(z, n_old, 1, lane), of_new = log_sum_exp(z + n_old, count - n_old, 1, lane);
        double of_all = of_old > of_new ? of_old + log1p(exp(of_new - of_old)) : of_new + log1p(exp(of_old - of_new));
        sum[0] = of_old > of_new ? of_all - of_new : log1p(exp(of_old - of_new));
        sum[1] = of_new - (double)z[labels[b]];
        for (int k = lane; k < count; k += 32) {
            double among_all = exp((double)z[k] - of_all), among_new = k >= n_old ? exp((double)z[k] - of_new) : 0;
            dlogits[(size_t)b * stride + k] += (float)(((double)*inter_weight * (among_all - among_new) +
                                                        (double)*intra_weight * (among_new - (k == labels[b]))) /
                                                       n);
        }
    }

    __device__ void finish(const double total[2]) const
    {
        *inter_value = (float)(total[0] / n);
        *intra_value = (float)(total[1] / n);
    }
};

static void loss_decoupled(rc_backend *be, int n, int stride, int n_old, int count, const void *logits,
                           const int32_t *labels, const float *inter_weight, const float *intra_weight,
                           void *inter_value, void *intra_value, void *dlogits)
{
    decoupled rows = {n,
                      stride,
                      n_old,
                      count,
                      (const float *)logits,
                      labels,
                      inter_weight,
                      intra_weight,
                      (float *)inter_value,
                      (float *)intra_value,
                      (float *)dlogits};
    launch_rows(rc_cuda_of(be), "loss_decoupled", rows, n);
}

/* ---- distillation ----------------------------------------------------------------------------------------------- */

struct hard_distillation {
    static const int values = 1;
    int n, n_old, stride, teacher_stride;
    const float *logits, *teacher, *weight;
    float *value, *dlogits;

    __device__ void row(int b, int lane, double sum[1]) const
    {
        double total = 0, count = (double)n * n_old;
        for (int k = lane; k < n_old; k += 32) {
            size_t at = (size_t)b * stride + k;
            double difference = (double)logits[at] - (double)teacher[(size_t)b * teacher_stride + k];
            total += fabs(difference);
            dlogits[at] += (float)((double)*weight * ((difference > 0) - (difference < 0)) / count);
        }
        sum[0] = warp_sum(total);
    }

    __device__ void finish(const double total[1]) const
    {
        *value = (float)(total[0] / ((double)n * n_old));
    }
};

static void loss_hkd(rc_backend *be, int n, int n_old, const void *logits, int stride, const void *teacher,
                     int teacher_stride, const float *weight, void *value, void *dlogits)
{
    hard_distillation rows = {
        n,      n_old,          stride,          teacher_stride, (const float *)logits, (const float *)teacher,
        weight, (float *)value, (float *)dlogits};
    launch_rows(rc_cuda_of(be), "loss_hkd", rows, n);
}

struct distillation {
    static const int values = 1;
    rc_distillation loss;
    const float *logits, *teacher, *weight;
    float *value, *dlogits;

    __device__ double factor() const
    {
        double temperature = loss.temperature;
        return (loss.t_squared ? temperature * temperature : 1) / loss.n;
    }

    __device__ void row(int b, int lane, double sum[1]) const
    {
        size_t row = (size_t)b * loss.student_stride + loss.first;
        const float *z = logits + row, *t = teacher + (size_t)b * loss.teacher_stride + loss.teacher_first;
        double temperature = loss.temperature, total = 0;
        double student_sum = log_sum_exp(z, loss.student_count, temperature, lane);
        double teacher_sum = log_sum_exp(t, loss.teacher_count, temperature, lane);
        for (int k = lane; k < loss.student_count; k += 32) {
            double log_q = (double)z[k] / temperature - student_sum, p = 0;
            if (k < loss.teacher_count) {
                double log_p = (double)t[k] / temperature - teacher_sum;
                p = exp(log_p);
                total -= p * (loss.kl ? log_q - log_p : log_q);
            }
            dlogits[row + k] += (float)((double)*weight * factor() * (exp(log_q) - p) / temperature);
        }
        sum[0] = warp_sum(total);
    }

    __device__ void finish(const double total[1]) const
    {
        *value = (float)(total[0] * factor());
    }
};

static void loss_kd(rc_backend *be, const rc_distillation *loss, const void *logits, const void *teacher,
                    const float *weight, void *value, void *dlogits)
{
    distillation rows = {*loss,  (const float *)logits, (const float *)teacher,
                         weight, (float *)value,        (float *)dlogits};
    launch_rows(rc_cuda_of(be), "loss_kd", rows, loss->n);
}

/* ---- diversity of dreams ---------------------------------------------------------------------------------------- */

/* First the probabilities, then, by blocks of classes, their means and the slopes g_k. */
struct diversity {
    int n, classes, stride;
    const float *logits, *weight;
    double epsilon;
    double *probability; /* (n, classes) */
    double *slope;       /* (classes) */
    float *value, *dlogits;
};

__global__ static void probability_kernel(diversity d)
{
    begin_after_kernel_before();
    int lane = (int)threadIdx.x % 32, b = (int)blockIdx.x * LOSS_ROWS + (int)threadIdx.x / 32;
    if (b >= d.n)
        return;
    const float *z = d.logits + (size_t)b * d.stride;
    double normaliser = log_sum_exp(z, d.classes, 1, lane);
    for (int k = lane; k < d.classes; k += 32)
        d.probability[(size_t)b * d.classes + k] = exp((double)z[k] - normaliser);
}

/* A warp per class: the mean over the batch, its part of the value, the slope. */
struct diversity_classes {
    static const int values = 1;
    diversity d;

    __device__ void row(int k, int lane, double sum[1]) const
    {
        double total = 0;
        for (int b = lane; b < d.n; b += 32)
            total += d.probability[(size_t)b * d.classes + k];
        double m = warp_sum(total) / d.n, shifted = m + d.epsilon, scale = log((double)d.classes);
        sum[0] = m > 0 ? m * log(shifted) : 0;
        if (lane == 0)
            d.slope[k] = m > 0 ? (log(shifted) + m / shifted) / scale : 0;
    }

    __device__ void finish(const double total[1]) const
    {
        *d.value = (float)(1 + total[0] / log((double)d.classes));
    }
};

__global__ static void diversity_gradient_kernel(diversity d)
{
    begin_after_kernel_before();
    int lane = (int)threadIdx.x % 32, b = (int)blockIdx.x * LOSS_ROWS + (int)threadIdx.x / 32;
    if (b >= d.n)
        return;
    const double *p = d.probability + (size_t)b * d.classes;
    double along = 0;
    for (int k = lane; k < d.classes; k += 32)
        along += d.slope[k] * p[k];
    along = warp_sum(along);
    for (int k = lane; k < d.classes; k += 32)
        d.dlogits[(size_t)b * d.stride + k] += (float)((double)*d.weight * p[k] * (d.slope[k] - along) / d.n);
}

static size_t diversity_bytes(int n, int classes)
{
    return loss_parts_bytes(n > classes ? n : classes) + ((size_t)n + 1) * (size_t)classes * sizeof(double);
}

static void loss_diversity(rc_backend *be, int n, int classes, int stride, const void *logits, float epsilon,
                           const float *weight, void *value, void *dlogits)
{
    rc_cuda *cuda = rc_cuda_of(be);
    if (classes < 2) { /* a single class has nothing to vary */
        be->zero(be, value, sizeof(float));
        return;
    }
    char *space = (char *)rc_cuda_workspace(cuda, diversity_bytes(n, classes), "loss_diversity");
    if (!space)
        return;
    double *probability = (double *)(space + loss_parts_bytes(n > classes ? n : classes));
    diversity d = {n,
                   classes,
                   stride,
                   (const float *)logits,
                   weight,
                   (double)epsilon,
                   probability,
                   probability + (size_t)n * classes,
                   (float *)value,
                   (float *)dlogits};
    dim3 grid((unsigned)(n + LOSS_ROWS - 1) / LOSS_ROWS);
    rc_cuda_launch_early(cuda, "loss_diversity", probability_kernel, grid, LOSS_THREADS, 0, d);
    diversity_classes rows = {d};
    launch_rows(cuda, "loss_diversity", rows, classes);
    rc_cuda_launch_early(cuda, "loss_diversity", diversity_gradient_kernel, grid, LOSS_THREADS, 0, d);
}

/* ---- workspace -------------------------------------------------------------------------------------------------- */

/* The image losses keep one float per pixel and channel. */
static rc_status reserve_losses(rc_backend *be, int n, int classes, int h, int w, int c)
{
    size_t images = loss_parts_bytes(0) + (size_t)n * h * w * c * sizeof(float), logits = diversity_bytes(n, classes);
    return rc_cuda_reserve(rc_cuda_of(be), images > logits ? images : logits);
}

void rc_cuda_fill_logit_losses(rc_cuda *cuda)
{
    rc_backend *table = &cuda->table;
    table->reserve_losses = reserve_losses;
    table->loss_cross_entropy = loss_cross_entropy;
    table->loss_decoupled = loss_decoupled;
    table->loss_hkd = loss_hkd;
    table->loss_kd = loss_kd;
    table->loss_diversity = loss_diversity;
}
