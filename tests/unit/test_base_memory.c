/* Blocks, their accounting, overflow checks, and the arena. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/machine.h"
#include "base/memory.h"

static bool is_aligned(const void *block)
{
    return (uintptr_t)block % RC_ALIGNMENT == 0;
}

static void blocks_are_aligned_and_accounted(void **state)
{
    (void)state;
    uint64_t count = rc_allocation_count();
    size_t bytes = rc_bytes_allocated();
    char *a = rc_alloc(NULL, 1000), *b = rc_alloc(NULL, 1);
    assert_true(is_aligned(a) && is_aligned(b));
    memset(a, 1, 1000);
    *b = 2;
    assert_int_equal(rc_allocation_count() - count, 2);
    assert_int_equal(rc_bytes_allocated() - bytes, 1001);
    rc_free(NULL, a);
    assert_int_equal(rc_bytes_allocated() - bytes, 1);
    rc_free(NULL, b);
    rc_free(NULL, NULL);
    assert_int_equal(rc_bytes_allocated(), bytes);
    assert_int_equal(rc_allocation_count() - count, 2);
}

static void zero_bytes_give_a_block(void **state)
{
    (void)state;
    char *block = rc_alloc(NULL, 0);
    assert_non_null(block);
    *block = 1;
    rc_free(NULL, block);
}

static void impossible_sizes_are_refused(void **state)
{
    (void)state;
    uint64_t count = rc_allocation_count();
    /* Volatile, because a compiler that sees the size warns about it. */
    volatile size_t huge = SIZE_MAX;
    assert_null(rc_alloc(NULL, huge));
    assert_string_equal(rc_message(), "cannot allocate 18446744073709551615 bytes");
    assert_null(rc_alloc(NULL, huge / 2));
    assert_null(rc_alloc_zeroed(NULL, huge / 2, 3));
    assert_string_equal(rc_message(), "cannot allocate 9223372036854775807 times 3 bytes");
    assert_int_equal(rc_allocation_count(), count);
}

static void limits_of_containers_are_read(void **state)
{
    (void)state;
    static const char path[] = "memory_limit.txt";
    static const struct {
        const char *text;
        size_t limit;
    } cases[] = {{"1073741824\n", 1073741824},
                 {"max\n", SIZE_MAX},
                 {"", SIZE_MAX},
                 {"0\n", SIZE_MAX},
                 {"99999999999999999999999\n", SIZE_MAX}};
    assert_true(rc_memory_limit(path) == SIZE_MAX);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        FILE *file = fopen(path, "w");
        assert_non_null(file);
        assert_true(fputs(cases[i].text, file) >= 0 && fclose(file) == 0);
        assert_true(rc_memory_limit(path) == cases[i].limit);
        assert_int_equal(remove(path), 0);
    }
}

/* Each of the blocks would be promised, and never be there. */
static void more_than_the_machine_has_is_refused(void **state)
{
    (void)state;
    const char *light = getenv("RECOLLECT_TEST_LIGHT");
    if (light && light[0])
        skip(); /* memory checkers have tables for every byte */
    size_t all = rc_machine_memory(), unused = rc_machine_free_memory(), part = all / 5 * 3;
    if (unused < all / 10 * 7)
        skip(); /* others use too much of it */
    void *first = rc_alloc(NULL, part), *second = rc_alloc(NULL, part);
    assert_non_null(first);
    assert_null(second);
    assert_non_null(strstr(rc_message(), "in all"));
    rc_free(NULL, first);
    second = rc_alloc(NULL, part);
    assert_non_null(second);
    rc_free(NULL, second);
    if (unused < all) { /* nor what others use */
        assert_null(rc_alloc(NULL, unused + (all - unused) / 2));
        assert_non_null(strstr(rc_message(), "are free"));
    }
}

static void sizes_are_checked_for_overflow(void **state)
{
    (void)state;
    size_t out = 5;
    assert_true(rc_size_mul(6, 7, &out));
    assert_int_equal(out, 42);
    assert_true(rc_size_mul(SIZE_MAX, 0, &out) && out == 0);
    assert_true(rc_size_mul(0, SIZE_MAX, &out) && out == 0);
    assert_true(rc_size_mul(SIZE_MAX, 1, &out) && out == SIZE_MAX);
    assert_false(rc_size_mul(SIZE_MAX / 2 + 1, 2, &out));
    assert_false(rc_size_mul(SIZE_MAX, SIZE_MAX, &out));
    assert_int_equal(out, SIZE_MAX);
    assert_true(rc_size_add(SIZE_MAX - 1, 1, &out) && out == SIZE_MAX);
    assert_false(rc_size_add(SIZE_MAX, 1, &out));
}

/* An allocator with a budget of blocks, full of rubbish, which keeps count of what is out. */
typedef struct budget {
    int left, held;
} budget;

static void *budget_alloc(void *user, size_t size, size_t align)
{
    budget *from = user;
    void *block = NULL;
    if (from->left == 0 || posix_memalign(&block, align, size) != 0)
        return NULL;
    from->left--;
    from->held++;
    return memset(block, 0xEE, size);
}

static void budget_free(void *user, void *block)
{
    ((budget *)user)->held--;
    free(block);
}

static void blocks_come_from_the_given_allocator(void **state)
{
    (void)state;
    budget from = {1, 0};
    rc_allocator allocator = {budget_alloc, budget_free, &from};
    void *block = rc_alloc(&allocator, 100);
    assert_true(block != NULL && is_aligned(block));
    assert_int_equal(from.held, 1);
    assert_null(rc_alloc(&allocator, 100));
    rc_free(&allocator, block);
    assert_int_equal(from.held, 0);
}

static void zeroed_blocks_are_zero(void **state)
{
    (void)state;
    budget from = {1, 0};
    rc_allocator allocator = {budget_alloc, budget_free, &from};
    unsigned char *block = rc_alloc_zeroed(&allocator, 300, 7);
    for (int i = 0; i < 300 * 7; i++)
        assert_int_equal(block[i], 0);
    rc_free(&allocator, block);
}

typedef struct carved {
    char *letters;
    double *numbers;
    char *last;
} carved;

static void carve(rc_arena *arena, carved *out)
{
    out->letters = rc_arena_take(arena, 3);
    out->numbers = rc_arena_take_array(arena, 100, sizeof(double));
    out->last = rc_arena_take(arena, 64);
}

static void arena_measures_then_carves(void **state)
{
    (void)state;
    carved parts;
    rc_arena arena = rc_arena_measure("test");
    carve(&arena, &parts);
    assert_null(parts.letters);
    assert_null(parts.numbers);
    assert_int_equal(rc_arena_status(&arena), RC_OK);
    size_t bytes = arena.used;
    assert_int_equal(bytes, 64 + 832 + 64);

    char *block = rc_alloc(NULL, bytes);
    arena = rc_arena_over("test", block, bytes);
    carve(&arena, &parts);
    assert_int_equal(rc_arena_status(&arena), RC_OK);
    assert_ptr_equal(parts.letters, block);
    assert_ptr_equal(parts.numbers, block + 64);
    assert_ptr_equal(parts.last, block + 64 + 832);
    assert_true(is_aligned(parts.letters) && is_aligned(parts.numbers) && is_aligned(parts.last));
    rc_free(NULL, block);
}

static void arena_overflow_sticks(void **state)
{
    (void)state;
    char *memory = rc_alloc(NULL, 256);
    rc_arena arena = rc_arena_over("scratch", memory, 256);
    assert_ptr_equal(rc_arena_take(&arena, 100), memory);
    assert_ptr_equal(rc_arena_take(&arena, 128), memory + 128);
    assert_int_equal(rc_arena_status(&arena), RC_OK);
    assert_null(rc_arena_take(&arena, 1));
    assert_null(rc_arena_take(&arena, 0));
    assert_int_equal(rc_arena_status(&arena), RC_OUT_OF_MEMORY);
    assert_non_null(strstr(rc_message(), "arena 'scratch' of 256 bytes is too small"));
    rc_free(NULL, memory);
}

static void arena_refuses_impossible_sizes(void **state)
{
    (void)state;
    static const size_t bad[][2] = {{SIZE_MAX, 1}, {SIZE_MAX - 62, 1}, {SIZE_MAX / 2, 3}, {SIZE_MAX - 127, 1}};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        rc_arena arena = rc_arena_measure("huge");
        rc_arena_take(&arena, 100);
        assert_null(rc_arena_take_array(&arena, bad[i][0], bad[i][1]));
        assert_int_equal(rc_arena_status(&arena), RC_OUT_OF_MEMORY);
        assert_non_null(strstr(rc_message(), "'huge'"));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_are_aligned_and_accounted),     cmocka_unit_test(zero_bytes_give_a_block),
        cmocka_unit_test(impossible_sizes_are_refused),         cmocka_unit_test(limits_of_containers_are_read),
        cmocka_unit_test(more_than_the_machine_has_is_refused), cmocka_unit_test(sizes_are_checked_for_overflow),
        cmocka_unit_test(blocks_come_from_the_given_allocator), cmocka_unit_test(zeroed_blocks_are_zero),
        cmocka_unit_test(arena_measures_then_carves),           cmocka_unit_test(arena_overflow_sticks),
        cmocka_unit_test(arena_refuses_impossible_sizes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
