/* Losses on logits, rows cut into slots. The formulas are those of reference/logit_losses.c and statistics.c; here
 * exponentials are taken a vector at a time, twice per element where that is cheaper than keeping them.
 *
 * A row is described by its largest entry m and S = sum_k exp((z_k - m) / T): softmax_k = exp((z_k - m) / T) / S. The
 * entries equal to m give 1 each; they are counted apart from the rest of S, so that a sure row keeps the digits of
 * log S and of 1 - softmax. */
#include <math.h>

#include "backend/cpu/fast/loss/losses.h"
#include "backend/cpu/fast/vector_math.h"

typedef struct soft_row {
    const float *z;
    int count;
    float largest, rate, inverse; /* m, 1 / T, 1 / S */
    double tops, rest;            /* S = tops + rest */
    double log_sum;               /* log S */
} soft_row;

/* Fewer entries than a vector has; what is missing is -infinity, whose exponential is 0. */
static vec load_last(const float *z, int left)
{
    float entries[RC_LANES];
    for (int i = 0; i < RC_LANES; i++)
        entries[i] = i < left ? z[i] : -HUGE_VALF;
    return vec_load(entries);
}

static void add_last(float *to, vec v, int left)
{
    for (int i = 0; i < left; i++)
        to[i] += v[i];
}

/* Rows go by value: a pointer to one might be to what is being stored. */
RC_INLINE vec exponentials(soft_row row, vec entries)
{
    return vec_exp((entries - vec_set(row.largest)) * vec_set(row.rate));
}

static float largest_entry(const float *z, int count)
{
    vec largest = vec_set(-HUGE_VALF);
    int k = 0;
    for (; k + RC_LANES <= count; k += RC_LANES) {
        vec entries = vec_load(z + k);
        largest = vec_select(entries > largest, entries, largest);
    }
    float result = -HUGE_VALF;
    for (int i = 0; i < RC_LANES; i++)
        result = largest[i] > result ? largest[i] : result;
    for (; k < count; k++)
        result = z[k] > result ? z[k] : result;
    return result;
}

static soft_row describe_row(const float *z, int count, float temperature)
{
    soft_row row = {
        .z = z, .count = count, .largest = largest_entry(z, count), .rate = 1 / temperature, .log_sum = -HUGE_VAL};
    if (count <= 0)
        return row;
    vec sum = vec_set(0);
    veci tops = {0};
    int k = 0;
    for (; k < count; k += RC_LANES) {
        vec entries = k + RC_LANES <= count ? vec_load(z + k) : load_last(z + k, count - k);
        veci below = entries < vec_set(row.largest);
        sum += (vec)((veci)exponentials(row, entries) & below);
        tops -= ~below; /* minus -1 */
    }
    for (int i = 0; i < RC_LANES; i++)
        row.tops += tops[i];
    row.rest = vec_sum(sum);
    row.inverse = (float)(1 / (row.tops + row.rest));
    row.log_sum = log(row.tops) + log1p(row.rest / row.tops);
    return row;
}

/* dz += factor * softmax */
static void add_softmax(soft_row row, float factor, float *dz)
{
    vec scale = vec_set(factor * row.inverse);
    int k = 0;
    for (; k + RC_LANES <= row.count; k += RC_LANES)
        vec_store(dz + k, vec_load(dz + k) + scale * exponentials(row, vec_load(row.z + k)));
    if (k < row.count)
        add_last(dz + k, scale * exponentials(row, load_last(row.z + k, row.count - k)), row.count - k);
}

/* dz += factor * (softmax - [k = label]) */
static void add_softmax_less_label(soft_row row, int label, float factor, float *dz)
{
    float before = dz[label];
    double above = (double)row.largest - row.z[label], sum = row.tops + row.rest;
    double others = above > 0 ? sum - exp(-above * row.rate) : row.rest + row.tops - 1; /* S without the label */
    add_softmax(row, factor, dz);
    dz[label] = before - (float)(factor * others / sum);
}

/* Multiply-adds that an entry costs, for the number of slots. */
static const double entry_work = 16;

/* ---- cross entropy ------------------------------------------------------------------------------------- */

/* The weight of row b, and which part of it belongs to its first label. */
static double weigh_row(const rc_cross_entropy *loss, const int32_t *labels, const float *class_weight, int b,
                        double *own)
{
    double first = class_weight ? class_weight[labels[b]] : 1;
    *own = 1;
    if (loss->partner == NULL)
        return first;
    double share = ((const float *)loss->share)[b];
    first *= share;
    double weight = first + (1 - share) * (class_weight ? class_weight[loss->partner[b]] : 1);
    *own = weight > 0 ? first / weight : 0;
    return weight;
}

/* The targets of a row whose labels are smoothed or mixed: dz -= factor * q. Returns sum_k q_k (m - z_k). */
static double add_targets(soft_row row, const rc_cross_entropy *loss, int b, int label, double own, double factor,
                          float *dz)
{
    double smoothing = loss->smoothing, each = smoothing / row.count, below = 0;
    for (int k = 0; smoothing > 0 && k < row.count; k++) {
        below += each * ((double)row.largest - row.z[k]);
        dz[k] -= (float)(factor * each);
    }
    int at[2] = {label, loss->partner ? loss->partner[b] - loss->first : label};
    double part[2] = {(1 - smoothing) * own, (1 - smoothing) * (1 - own)};
    for (int i = 0; i < 2; i++)
        if (part[i] > 0) {
            below += part[i] * ((double)row.largest - row.z[at[i]]);
            dz[at[i]] -= (float)(factor * part[i]);
        }
    return below;
}

typedef struct cross_entropy {
    const rc_cross_entropy *loss;
    const float *logits, *class_weight;
    const int32_t *labels;
    float *dlogits, weight;
    double divisor;
    int slots;
    double value[RC_MAX_SLOTS];
} cross_entropy;

static void cross_entropy_slot(void *context, int slot, int worker)
{
    (void)worker;
    cross_entropy *c = context;
    const rc_cross_entropy *loss = c->loss;
    bool plain = loss->partner == NULL && loss->smoothing <= 0;
    double value = 0, own;
    for (int b = rc_slot_begin(loss->n, c->slots, slot); b < rc_slot_begin(loss->n, c->slots, slot + 1); b++) {
        size_t first = (size_t)b * (size_t)loss->stride + (size_t)loss->first;
        int label = c->labels[b] - loss->first;
        double share = weigh_row(loss, c->labels, c->class_weight, b, &own) / c->divisor, below;
        soft_row row = describe_row(c->logits + first, loss->count, loss->temperature);
        float factor = (float)(c->weight * share / loss->temperature);
        if (plain) {
            add_softmax_less_label(row, label, factor, c->dlogits + first);
            below = (double)row.largest - row.z[label];
        } else {
            add_softmax(row, factor, c->dlogits + first);
            below = add_targets(row, loss, b, label, own, factor, c->dlogits + first);
        }
        value += share * (row.log_sum + below / loss->temperature);
    }
    c->value[slot] = value;
}

static void loss_cross_entropy(rc_backend *backend, const rc_cross_entropy *loss, const void *logits,
                               const int32_t *labels, const void *class_weight, const float *weight, void *value,
                               void *dlogits)
{
    cross_entropy c = {.loss = loss,
                       .logits = logits,
                       .class_weight = class_weight,
                       .labels = labels,
                       .dlogits = dlogits,
                       .weight = *weight,
                       .divisor = loss->n,
                       .slots = rc_slots(loss->n, entry_work * loss->count)};
    if (loss->reduction == RC_WEIGHTED_MEAN && class_weight) {
        c.divisor = 0;
        double own;
        for (int b = 0; b < loss->n; b++)
            c.divisor += weigh_row(loss, labels, c.class_weight, b, &own);
    }
    rc_pool_run(rc_cpu_of(backend)->pool, c.slots, cross_entropy_slot, &c);
    *(float *)value = (float)rc_sum_slots(c.value, c.slots);
}

/* ---- LODE's decoupled pair ----------------------------------------------------------------------------- */

typedef struct decoupled {
    const float *logits;
    const int32_t *labels;
    float *dlogits, inter_weight, intra_weight;
    int n, stride, n_old, count, slots;
    double inter[RC_MAX_SLOTS], intra[RC_MAX_SLOTS];
} decoupled;

static void decoupled_slot(void *context, int slot, int worker)
{
    (void)worker;
    decoupled *d = context;
    double inter = 0, intra = 0;
    for (int b = rc_slot_begin(d->n, d->slots, slot); b < rc_slot_begin(d->n, d->slots, slot + 1); b++) {
        size_t first = (size_t)b * (size_t)d->stride;
        soft_row old_row = describe_row(d->logits + first, d->n_old, 1);
        soft_row new_row = describe_row(d->logits + first + d->n_old, d->count - d->n_old, 1);
        /* The share of the old classes in softmax over all: 1 / (1 + exp(LSE_new - LSE_old)). */
        double ahead = old_row.largest + old_row.log_sum - new_row.largest - new_row.log_sum;
        double of_old = ahead > 0 ? 1 / (1 + exp(-ahead)) : exp(ahead) / (1 + exp(ahead));
        inter += ahead > 0 ? ahead + log1p(exp(-ahead)) : log1p(exp(ahead));
        intra += (double)new_row.largest + new_row.log_sum - d->logits[first + (size_t)d->labels[b]];
        /* inter: softmax_all - softmax_new on the new classes is -of_old softmax_new. */
        float *dz = d->dlogits + first, pull = (float)(d->inter_weight * of_old / d->n);
        add_softmax(old_row, pull, dz);
        add_softmax(new_row, -pull, dz + d->n_old);
        add_softmax_less_label(new_row, d->labels[b] - d->n_old, d->intra_weight / (float)d->n, dz + d->n_old);
    }
    d->inter[slot] = inter;
    d->intra[slot] = intra;
}

static void loss_decoupled(rc_backend *backend, int n, int stride, int n_old, int count, const void *logits,
                           const int32_t *labels, const float *inter_weight, const float *intra_weight,
                           void *inter_value, void *intra_value, void *dlogits)
{
    decoupled d = {.logits = logits,
                   .labels = labels,
                   .dlogits = dlogits,
                   .inter_weight = *inter_weight,
                   .intra_weight = *intra_weight,
                   .n = n,
                   .stride = stride,
                   .n_old = n_old,
                   .count = count,
                   .slots = rc_slots(n, entry_work * count)};
    rc_pool_run(rc_cpu_of(backend)->pool, d.slots, decoupled_slot, &d);
    *(float *)inter_value = (float)(rc_sum_slots(d.inter, d.slots) / n);
    *(float *)intra_value = (float)(rc_sum_slots(d.intra, d.slots) / n);
}

/* ---- distillation -------------------------------------------------------------------------------------- */

typedef struct distillation {
    const rc_distillation *loss;
    const float *logits, *teacher;
    float *dlogits, factor; /* of the gradient */
    int slots;
    double value[RC_MAX_SLOTS];
} distillation;

/* p_k ( [t_k - m_t: kl] - (z_k - m_z) ) for a vector of entries, p the teacher's exponentials. */
RC_INLINE vec margins(soft_row student, soft_row teacher, bool kl, vec z, vec t)
{
    vec p = exponentials(teacher, t), margin = vec_set(student.largest) - z;
    if (kl)
        margin += t - vec_set(teacher.largest);
    /* Missing entries are infinite: 0 * infinity must not count. */
    return p * (vec)((veci)margin & (p > vec_set(0)));
}

/* The teacher's mean of the margins: what is left of the value besides log S. */
static double mean_margin(soft_row student, soft_row teacher, bool kl)
{
    vec sum = vec_set(0);
    int k = 0, count = teacher.count;
    for (; k + RC_LANES <= count; k += RC_LANES)
        sum += margins(student, teacher, kl, vec_load(student.z + k), vec_load(teacher.z + k));
    if (k < count)
        sum += margins(student, teacher, kl, load_last(student.z + k, count - k), load_last(teacher.z + k, count - k));
    return (double)vec_sum(sum) * teacher.inverse;
}

static void distillation_slot(void *context, int slot, int worker)
{
    (void)worker;
    distillation *d = context;
    const rc_distillation *loss = d->loss;
    double value = 0;
    for (int b = rc_slot_begin(loss->n, d->slots, slot); b < rc_slot_begin(loss->n, d->slots, slot + 1); b++) {
        size_t first = (size_t)b * (size_t)loss->student_stride + (size_t)loss->first;
        const float *t = d->teacher + (size_t)b * (size_t)loss->teacher_stride + loss->teacher_first;
        soft_row student = describe_row(d->logits + first, loss->student_count, loss->temperature);
        soft_row teacher = describe_row(t, loss->teacher_count, loss->temperature);
        value += student.log_sum - (loss->kl ? teacher.log_sum : 0) +
                 mean_margin(student, teacher, loss->kl) / loss->temperature;
        add_softmax(student, d->factor, d->dlogits + first);
        add_softmax(teacher, -d->factor, d->dlogits + first);
    }
    d->value[slot] = value;
}

static void loss_kd(rc_backend *backend, const rc_distillation *loss, const void *logits, const void *teacher,
                    const float *weight, void *value, void *dlogits)
{
    double temperature = loss->temperature, factor = (loss->t_squared ? temperature * temperature : 1) / loss->n;
    distillation d = {.loss = loss,
                      .logits = logits,
                      .teacher = teacher,
                      .dlogits = dlogits,
                      .factor = (float)(*weight * factor / temperature),
                      .slots = rc_slots(loss->n, entry_work * (loss->student_count + loss->teacher_count))};
    rc_pool_run(rc_cpu_of(backend)->pool, d.slots, distillation_slot, &d);
    *(float *)value = (float)(rc_sum_slots(d.value, d.slots) * factor);
}

/* ---- diversity ----------------------------------------------------------------------------------------- */

typedef struct diversity {
    const float *logits;
    float *probability; /* (n, classes) */
    float *slope;       /* (classes): g less its mean under m, which changes nothing and keeps digits */
    float *dlogits, factor;
    int n, classes, stride, slots;
} diversity;

static void write_softmax(soft_row row, float *p)
{
    vec inverse = vec_set(row.inverse);
    int k = 0;
    for (; k + RC_LANES <= row.count; k += RC_LANES)
        vec_store(p + k, inverse * exponentials(row, vec_load(row.z + k)));
    if (k < row.count) {
        vec last = inverse * exponentials(row, load_last(row.z + k, row.count - k));
        for (int i = k; i < row.count; i++)
            p[i] = last[i - k];
    }
}

static void probability_slot(void *context, int slot, int worker)
{
    (void)worker;
    const diversity *d = context;
    for (int b = rc_slot_begin(d->n, d->slots, slot); b < rc_slot_begin(d->n, d->slots, slot + 1); b++) {
        soft_row row = describe_row(d->logits + (size_t)b * (size_t)d->stride, d->classes, 1);
        write_softmax(row, d->probability + (size_t)b * (size_t)d->classes);
    }
}

static void diversity_slot(void *context, int slot, int worker)
{
    (void)worker;
    const diversity *d = context;
    for (int b = rc_slot_begin(d->n, d->slots, slot); b < rc_slot_begin(d->n, d->slots, slot + 1); b++) {
        const float *restrict p = d->probability + (size_t)b * (size_t)d->classes;
        float *restrict dz = d->dlogits + (size_t)b * (size_t)d->stride;
        double along = 0;
        for (int k = 0; k < d->classes; k++)
            along += d->slope[k] * p[k];
        for (int k = 0; k < d->classes; k++)
            dz[k] += d->factor * p[k] * (d->slope[k] - (float)along);
    }
}

static size_t diversity_bytes(int n, int classes)
{
    return (size_t)classes * (sizeof(double) + ((size_t)n + 1) * sizeof(float));
}

static void loss_diversity(rc_backend *backend, int n, int classes, int stride, const void *logits, float epsilon,
                           const float *weight, void *value, void *dlogits)
{
    rc_cpu *cpu = rc_cpu_of(backend);
    *(float *)value = 0;
    if (classes < 2)
        return;
    if (cpu->shared_bytes < diversity_bytes(n, classes)) {
        rc_cpu_set_error(cpu, RC_INTERNAL, "loss_diversity: reserve_losses() was not called for this many logits");
        return;
    }
    double *derivative = cpu->shared; /* (classes): g */
    diversity d = {.logits = logits,
                   .slope = (float *)(derivative + classes),
                   .dlogits = dlogits,
                   .factor = *weight / (float)n,
                   .n = n,
                   .classes = classes,
                   .stride = stride,
                   .slots = rc_slots(n, entry_work * classes)};
    d.probability = d.slope + classes;
    rc_pool_run(cpu->pool, d.slots, probability_slot, &d);
    double total = 0, average = 0, scale = log(classes);
    for (int k = 0; k < classes; k++) {
        double mean = 0;
        for (int b = 0; b < n; b++)
            mean += d.probability[(size_t)b * (size_t)classes + (size_t)k];
        mean /= n;
        double shifted = mean + epsilon;
        total += mean > 0 ? mean * log(shifted) : 0;
        derivative[k] = mean > 0 ? (log(shifted) + mean / shifted) / scale : 0;
        average += mean * derivative[k];
    }
    for (int k = 0; k < classes; k++)
        d.slope[k] = (float)(derivative[k] - average);
    rc_pool_run(cpu->pool, d.slots, diversity_slot, &d);
    *(float *)value = (float)(1 + total / scale);
}

static void softmax(rc_backend *backend, int n, int classes, int stride, const void *logits, void *probabilities)
{
    diversity d = {.logits = logits,
                   .probability = probabilities,
                   .n = n,
                   .classes = classes,
                   .stride = stride,
                   .slots = rc_slots(n, entry_work * classes)};
    rc_pool_run(rc_cpu_of(backend)->pool, d.slots, probability_slot, &d);
}

/* The images' part is that of the smoothing prior. */
static rc_status reserve_losses(rc_backend *backend, int n, int classes, int h, int w, int c)
{
    size_t scratch = RC_FAST(smoothing_scratch)(h, w, rc_padded(backend, c));
    return rc_cpu_reserve(rc_cpu_of(backend), diversity_bytes(n, classes), scratch);
}

void RC_FAST(fill_logit_losses)(rc_backend *table)
{
    table->reserve_losses = reserve_losses;
    table->loss_cross_entropy = loss_cross_entropy;
    table->loss_decoupled = loss_decoupled;
    table->loss_kd = loss_kd;
    table->loss_diversity = loss_diversity;
    table->softmax = softmax;
}
