#include "support/oracle.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/rng.h"

enum { DOTS = 8, SAMPLES = 64, NAME_SIZE = 256 };

typedef struct result {
    const char *name;
    size_t count;
    const char *numbers; /* norm, dot products, entries, as text */
} result;

/* An element of an input that is moved away from a kink. */
typedef struct nudge {
    const char *name;
    size_t index;
    double delta;
} nudge;

struct oracle {
    char *text; /* the file; lines and names end in zeros */
    oracle_case *cases;
    result *results; /* sorted by name */
    nudge *nudges;
    size_t case_count, result_count, nudge_count;
    double worst_share, worst_error; /* of the results since the last report */
    char worst_name[NAME_SIZE];
    int checks;
};

/* ---- reading ------------------------------------------------------------------------------------------------ */

static char *read_text(const char *path)
{
    FILE *file = fopen(path, "rb");
    if (!file)
        fail_msg("cannot open %s", path);
    assert_int_equal(fseek(file, 0, SEEK_END), 0);
    long size = ftell(file);
    assert_true(size > 0);
    rewind(file);
    char *text = malloc((size_t)size + 1);
    assert_non_null(text);
    assert_int_equal(fread(text, 1, (size_t)size, file), (size_t)size);
    text[size] = 0;
    fclose(file);
    return text;
}

/* Cuts the first word off; returns what follows. */
static char *next_word(char *text)
{
    char *space = strchr(text, ' ');
    if (!space)
        return text + strlen(text);
    *space = 0;
    return space + 1;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const result *)a)->name, ((const result *)b)->name);
}

static void read_line(oracle *o, char *line)
{
    char *rest = next_word(line);
    if (strcmp(line, "case") == 0) {
        oracle_case *c = &o->cases[o->case_count++];
        *c = (oracle_case){.name = rest, .file = o};
        c->settings = next_word(rest);
        c->seed = (uint64_t)oracle_number(c, "seed");
    } else if (strcmp(line, "tensor") == 0) {
        char *count = next_word(rest), *numbers = next_word(count);
        o->results[o->result_count++] = (result){rest, strtoul(count, NULL, 10), numbers};
    } else if (strcmp(line, "nudge") == 0) {
        char *index = next_word(rest), *delta = next_word(index);
        o->nudges[o->nudge_count++] = (nudge){rest, strtoul(index, NULL, 10), strtod(delta, NULL)};
    }
}

oracle *oracle_open(const char *file)
{
    char path[1024];
    snprintf(path, sizeof path, "%s/tests/fixtures/%s", RC_SOURCE_DIR, file);
    oracle *o = calloc(1, sizeof *o);
    assert_non_null(o);
    o->text = read_text(path);
    size_t lines = 1;
    for (const char *at = o->text; (at = strchr(at, '\n')); at++)
        lines++;
    o->cases = calloc(lines, sizeof *o->cases);
    o->results = calloc(lines, sizeof *o->results);
    o->nudges = calloc(lines, sizeof *o->nudges);
    assert_non_null(o->nudges);
    assert_non_null(o->cases);
    assert_non_null(o->results);
    char *next;
    for (char *line = o->text; (next = strchr(line, '\n')); line = next + 1) {
        *next = 0;
        read_line(o, line);
    }
    qsort(o->results, o->result_count, sizeof *o->results, by_name);
    return o;
}

void oracle_close(oracle *o)
{
    if (!o)
        return;
    free(o->text);
    free(o->cases);
    free(o->results);
    free(o->nudges);
    free(o);
}

const oracle_case *oracle_next(oracle *o, const oracle_case *previous, const char *prefix)
{
    for (size_t i = previous ? (size_t)(previous - o->cases) + 1 : 0; i < o->case_count; i++)
        if (strncmp(o->cases[i].name, prefix, strlen(prefix)) == 0)
            return &o->cases[i];
    if (!previous)
        fail_msg("the fixture has no case %s*", prefix);
    return NULL;
}

/* The text after "key="; NULL: there is none. */
static const char *find_setting(const oracle_case *c, const char *key)
{
    size_t length = strlen(key);
    for (const char *at = c->settings; *at; at += strcspn(at, " "), at += *at == ' ')
        if (strncmp(at, key, length) == 0 && at[length] == '=')
            return at + length + 1;
    return NULL;
}

static const char *setting(const oracle_case *c, const char *key)
{
    const char *text = find_setting(c, key);
    if (text == NULL)
        fail_msg("case %s has no setting '%s'", c->name, key);
    return text;
}

double oracle_number(const oracle_case *c, const char *key)
{
    return strtod(setting(c, key), NULL);
}

int oracle_int(const oracle_case *c, const char *key)
{
    return (int)oracle_number(c, key);
}

bool oracle_is(const oracle_case *c, const char *key, const char *value)
{
    const char *text = setting(c, key);
    return strcspn(text, " ") == strlen(value) && strncmp(text, value, strlen(value)) == 0;
}

bool oracle_brief(const oracle_case *c)
{
    return find_setting(c, "brief") != NULL;
}

bool oracle_light(void)
{
    return getenv("RECOLLECT_TEST_LIGHT") != NULL;
}

/* ---- inputs ------------------------------------------------------------------------------------------------- */

/* The stream of "case/name" + suffix: FNV-1a of that text. */
static rc_rng stream_of(const oracle_case *c, const char *name, const char *suffix)
{
    const char *part[] = {c->name, "/", name, suffix};
    uint64_t hash = 0xCBF29CE484222325u;
    for (int i = 0; i < 4; i++)
        for (const char *at = part[i]; *at; at++)
            hash = (hash ^ (unsigned char)*at) * 0x100000001B3u;
    return (rc_rng){c->seed, hash};
}

static void *new_array(size_t count, size_t size)
{
    void *memory = calloc(count ? count : 1, size);
    assert_non_null(memory);
    return memory;
}

uint32_t *oracle_bits(const oracle_case *c, const char *name, size_t count)
{
    rc_rng rng = stream_of(c, name, "");
    uint32_t *bits = new_array(count, sizeof *bits);
    for (size_t i = 0; i < count; i += 4) {
        rc_philox block = rc_rng_block(rng, i / 4);
        memcpy(bits + i, block.lane, (count - i < 4 ? count - i : 4) * sizeof *bits);
    }
    return bits;
}

static void apply_nudges(const oracle_case *c, const char *name, double *values)
{
    size_t length = strlen(c->name);
    for (size_t i = 0; i < c->file->nudge_count; i++) {
        const nudge *n = &c->file->nudges[i];
        if (strncmp(n->name, c->name, length) == 0 && n->name[length] == '/' && strcmp(n->name + length + 1, name) == 0)
            values[n->index] = (double)(float)(values[n->index] + n->delta);
    }
}

double *oracle_fill(const oracle_case *c, const char *name, size_t count, double scale, double offset)
{
    uint32_t *bits = oracle_bits(c, name, count);
    double *values = new_array(count, sizeof *values);
    for (size_t i = 0; i < count; i++)
        values[i] = (double)(float)(offset + scale * (2 * (double)rc_uniform_from_bits(bits[i]) - 1));
    free(bits);
    apply_nudges(c, name, values);
    return values;
}

int32_t *oracle_integers(const oracle_case *c, const char *name, size_t count, uint32_t bound)
{
    uint32_t *bits = oracle_bits(c, name, count);
    int32_t *values = new_array(count, sizeof *values);
    for (size_t i = 0; i < count; i++)
        values[i] = (int32_t)rc_below_from_bits(bits[i], bound);
    free(bits);
    return values;
}

static bool ends_in(const char *name, const char *end)
{
    size_t length = strlen(name), wanted = strlen(end);
    return length >= wanted && strcmp(name + length - wanted, end) == 0;
}

double *oracle_parameter(const oracle_case *c, const char *name, const int *shape, int dims)
{
    size_t count = 1, fan_in = 1;
    for (int i = 0; i < dims; i++)
        count *= (size_t)shape[i];
    for (int i = 1; i < dims; i++)
        fan_in *= (size_t)shape[i];
    if (dims >= 2)
        return oracle_fill(c, name, count, sqrt(6.0 / (double)fan_in), 0);
    if (ends_in(name, ".running_var") || ends_in(name, ".weight"))
        return oracle_fill(c, name, count, 0.5, 1);
    return oracle_fill(c, name, count, 0.25, 0);
}

/* ---- results ------------------------------------------------------------------------------------------------ */

static const result *find(const oracle_case *c, const char *name)
{
    char full[NAME_SIZE];
    snprintf(full, sizeof full, "%s/%s", c->name, name);
    result wanted = {.name = full};
    return bsearch(&wanted, c->file->results, c->file->result_count, sizeof wanted, by_name);
}

bool oracle_has(const oracle_case *c, const char *name)
{
    return find(c, name) != NULL;
}

static double entry_error(double found, double expected, double rms)
{
    if (isnan(found) || isnan(expected))
        return isnan(found) && isnan(expected) ? 0 : HUGE_VAL;
    if (found == expected)
        return 0;
    double scale = rms + fabs(expected);
    return scale > 0 ? fabs(found - expected) / scale : HUGE_VAL;
}

/* Norm and signed sums of what was found. */
static void condense(const oracle_case *c, const char *name, const double *found, size_t count, double *norm,
                     double dots[DOTS])
{
    static const double sign[] = {1, -1}; /* nobody can guess which: a branch takes several times as long */
    rc_rng signs = stream_of(c, name, "#signs");
    double squares = 0;
    for (int j = 0; j < DOTS; j++)
        dots[j] = 0;
    for (size_t i = 0; i < count; i += 4) {
        rc_philox block = rc_rng_block(signs, i / 4);
        for (size_t lane = 0; lane < 4 && i + lane < count; lane++) {
            double value = found[i + lane];
            squares += value * value;
            for (int j = 0; j < DOTS; j++)
                dots[j] += sign[block.lane[lane] >> j & 1] * value;
        }
    }
    *norm = sqrt(squares);
}

double oracle_distance(const oracle_case *c, const char *name, const double *found, size_t count)
{
    const result *expected = find(c, name);
    if (!expected)
        fail_msg("the fixture has no result %s/%s", c->name, name);
    if (expected->count != count)
        fail_msg("%s/%s has %zu elements, the fixture's %zu", c->name, name, count, expected->count);
    char *at;
    double norm = strtod(expected->numbers, &at), worst = 0;
    uint64_t entries = oracle_brief(c) ? 0 : SAMPLES;
    if (count <= entries) {
        double rms = isnan(norm) ? 0 : norm / sqrt((double)count);
        for (size_t i = 0; i < count; i++)
            worst = fmax(worst, entry_error(found[i], strtod(at, &at), rms));
        return worst;
    }
    double found_norm, dots[DOTS];
    condense(c, name, found, count, &found_norm, dots);
    if (oracle_brief(c) && norm == 0) /* nothing but rounding, which has no size of its own */
        return found_norm;
    worst = entry_error(found_norm, norm, 0);
    for (int j = 0; j < DOTS; j++) {
        double difference = fabs(dots[j] - strtod(at, &at));
        worst = fmax(worst, isnan(difference) ? HUGE_VAL : difference > 0 ? difference / norm : 0);
    }
    rc_rng samples = stream_of(c, name, "#samples");
    for (uint64_t i = 0; i < entries; i++)
        worst = fmax(worst, entry_error(found[rc_rng_below(samples, i, (uint32_t)count)], strtod(at, &at),
                                        norm / sqrt((double)count)));
    return worst;
}

void oracle_expect(const oracle_case *c, const char *who, const char *name, const double *found, size_t count,
                   double tolerance)
{
    oracle *o = c->file;
    double error = oracle_distance(c, name, found, count);
    o->checks++;
    if (error / tolerance > o->worst_share) {
        o->worst_share = error / tolerance;
        o->worst_error = error;
        snprintf(o->worst_name, sizeof o->worst_name, "%s/%s", c->name, name);
    }
    if (!(error <= tolerance))
        fail_msg("%s: %s/%s is off by %.3g of its norm, tolerance %.3g", who, c->name, name, error, tolerance);
}

void oracle_report(oracle *o, const char *who, const char *what)
{
    print_message("%-12s %-12s %5d results, worst error %.2e (%.0f %% of the tolerance): %s\n", who, what, o->checks,
                  o->worst_error, 100 * o->worst_share, o->worst_name);
    o->worst_share = o->worst_error = 0;
    o->worst_name[0] = 0;
    o->checks = 0;
}
