#include "data/class_order.h"

#include "data/reader.h"

/* The Mersenne twister MT19937 (Matsumoto and Nishimura 1998). The published class orders were made with it; this
 * project uses it for nothing else. */
enum { STATE = 624, MIDDLE = 397 };

typedef struct twister {
    uint32_t state[STATE];
    int used;
} twister;

static void seed_with_number(twister *t, uint32_t seed)
{
    t->state[0] = seed;
    for (uint32_t i = 1; i < STATE; i++)
        t->state[i] = 1812433253u * (t->state[i - 1] ^ t->state[i - 1] >> 30) + i;
    t->used = STATE;
}

/* init_by_array with a key of one word, as CPython seeds itself. */
static void seed_with_key(twister *t, uint32_t key)
{
    seed_with_number(t, 19650218u);
    uint32_t *s = t->state;
    int i = 1;
    for (int k = 0; k < STATE; k++) {
        s[i] = (s[i] ^ (s[i - 1] ^ s[i - 1] >> 30) * 1664525u) + key;
        if (++i == STATE) {
            s[0] = s[STATE - 1];
            i = 1;
        }
    }
    for (int k = 0; k < STATE - 1; k++) {
        s[i] = (s[i] ^ (s[i - 1] ^ s[i - 1] >> 30) * 1566083941u) - (uint32_t)i;
        if (++i == STATE) {
            s[0] = s[STATE - 1];
            i = 1;
        }
    }
    s[0] = 0x80000000u;
    t->used = STATE;
}

static void renew(twister *t)
{
    for (int i = 0; i < STATE; i++) {
        uint32_t y = (t->state[i] & 0x80000000u) | (t->state[(i + 1) % STATE] & 0x7fffffffu);
        t->state[i] = t->state[(i + MIDDLE) % STATE] ^ y >> 1 ^ (y & 1 ? 0x9908b0dfu : 0);
    }
    t->used = 0;
}

static uint32_t next(twister *t)
{
    if (t->used == STATE)
        renew(t);
    uint32_t y = t->state[t->used++];
    y ^= y >> 11;
    y ^= y << 7 & 0x9d2c5680u;
    y ^= y << 15 & 0xefc60000u;
    return y ^ y >> 18;
}

static void swap(int *order, int i, int j)
{
    int kept = order[i];
    order[i] = order[j];
    order[j] = kept;
}

static int bits_of(uint32_t n)
{
    int bits = 0;
    for (; n > 0; n >>= 1)
        bits++;
    return bits;
}

void rc_class_order_python(uint32_t seed, int classes, int *order)
{
    twister t;
    seed_with_key(&t, seed);
    for (int i = 0; i < classes; i++)
        order[i] = i;
    for (int i = classes - 1; i > 0; i--) {
        uint32_t n = (uint32_t)i + 1, j; /* below n, from the top bits of a word */
        do
            j = next(&t) >> (32 - bits_of(n));
        while (j >= n);
        swap(order, i, (int)j);
    }
}

void rc_class_order_numpy(uint32_t seed, int classes, int *order)
{
    twister t;
    seed_with_number(&t, seed);
    for (int i = 0; i < classes; i++)
        order[i] = i;
    for (int i = classes - 1; i > 0; i--) {
        uint32_t mask = (uint32_t)((UINT64_C(1) << bits_of((uint32_t)i)) - 1), j; /* at most i, from the low bits */
        do
            j = next(&t) & mask;
        while (j > (uint32_t)i);
        swap(order, i, (int)j);
    }
}

void rc_class_order_seeded(uint64_t seed, int classes, int *order, uint32_t *scratch)
{
    rc_rng_permutation((rc_rng){seed, RC_DATA_STREAM_ORDER}, (uint32_t)classes, scratch);
    for (int i = 0; i < classes; i++)
        order[i] = (int)scratch[i];
}
