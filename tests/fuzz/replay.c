/* Runs a fuzz target over files: each as it is, cut short at many places, with bits flipped, and as the
 * target's mutator changes it. The damage depends on nothing but the file, so what fails
 * here fails again.
 *
 * usage: fuzz_NAME FILE-OR-FOLDER...
 *        fuzz_NAME --write COUNT SEED FOLDER FILE-OR-FOLDER...    writes COUNT changes of each file to FOLDER, for
 *                                                                 differ.py */
#include <dirent.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "fuzz/mutate.h"

enum { CUTS = 32, FLIPS = 96, CHANGES = 32, MOST_CHANGED = 65536 };
/* Of the targets that have one. */
extern size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t limit, unsigned seed) __attribute__((weak));

static long files, inputs;
static long to_write; /* changes of each file that --write asks for */
static unsigned first_seed;
static const char *write_to;
static uint32_t changes; /* the state of LLVMFuzzerMutate */

/* In a block of exactly that size, so that a sanitizer sees a read past its end. */
static void run(const uint8_t *data, size_t size)
{
    uint8_t *copy = malloc(size > 0 ? size : 1);
    if (copy == NULL)
        exit(3);
    if (size > 0)
        memcpy(copy, data, size);
    LLVMFuzzerTestOneInput(copy, size);
    free(copy);
    inputs++;
}

static void run_damaged(uint8_t *data, size_t size)
{
    for (size_t i = 0; i < CUTS && i < size; i++)
        run(data, size <= CUTS ? i : size * i / CUTS);
    uint32_t state = 1;
    for (int i = 0; i < FLIPS && size > 0; i++) {
        state = state * 1664525u + 1013904223u;
        size_t at = (size_t)(state >> 8) % size;
        /* The first bytes decide what is read at all: every other flip goes there. */
        if (i % 2 == 0 && size > 256)
            at %= 256;
        uint8_t before = data[at];
        data[at] ^= (uint8_t)(1u << (state >> 5 & 7));
        run(data, size);
        data[at] = before;
    }
}

/* In place of libFuzzer's: a bit, a byte more or one less. */
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t limit)
{
    uint32_t state = changes = changes * 1664525u + 1013904223u;
    size_t at = size > 0 ? (size_t)(state >> 8) % size : 0;
    if (state >> 30 == 0 && size < limit) {
        memmove(data + at + 1, data + at, size - at);
        return size + 1;
    }
    if (state >> 30 == 1 && size > 1) {
        memmove(data + at, data + at + 1, size - at - 1);
        return size - 1;
    }
    if (size > 0)
        data[at] ^= (uint8_t)(1u << (state >> 5 & 7));
    return size;
}

static void write_changed(const uint8_t *data, size_t size)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%06ld", write_to, inputs++);
    FILE *file = fopen(path, "wb");
    if (file == NULL || fwrite(data, 1, size, file) != size || fclose(file) != 0)
        exit(3);
}

static size_t change(uint8_t *data, size_t size, size_t limit, unsigned seed)
{
    return LLVMFuzzerCustomMutator != NULL ? LLVMFuzzerCustomMutator(data, size, limit, seed)
                                           : LLVMFuzzerMutate(data, size, limit);
}

/* Each change goes on from the one before, a few times. */
static void run_changed(const uint8_t *data, size_t size, unsigned count, unsigned seed)
{
    enum { IN_A_ROW = 4 };
    uint8_t *changed = malloc(MOST_CHANGED);
    if (changed == NULL)
        exit(3);
    size_t now = 0;
    changes = seed + 1;
    for (unsigned i = 0; i < count && size <= MOST_CHANGED; i++) {
        if (i % IN_A_ROW == 0) {
            now = size;
            if (size > 0)
                memcpy(changed, data, size);
        }
        now = change(changed, now, MOST_CHANGED, seed + i);
        FUZZ_EXPECT(now <= MOST_CHANGED);
        if (write_to != NULL)
            write_changed(changed, now);
        else
            run(changed, now);
    }
    free(changed);
}

static bool run_file(const char *path)
{
    FILE *file = fopen(path, "rb");
    struct stat info;
    if (file == NULL || fstat(fileno(file), &info) != 0 || info.st_size < 0) {
        fprintf(stderr, "%s cannot be read\n", path);
        if (file != NULL)
            fclose(file);
        return false;
    }
    size_t size = (size_t)info.st_size;
    uint8_t *data = malloc(size + 1);
    bool read = data != NULL && fread(data, 1, size, file) == size;
    fclose(file);
    if (read && write_to != NULL) {
        run_changed(data, size, (unsigned)to_write, first_seed);
        files++;
    } else if (read) {
        run(data, size);
        run_damaged(data, size);
        if (LLVMFuzzerCustomMutator != NULL)
            run_changed(data, size, CHANGES, 0);
        files++;
    } else {
        fprintf(stderr, "%s cannot be read\n", path);
    }
    free(data);
    return read;
}

static bool run_path(const char *path)
{
    DIR *folder = opendir(path);
    if (folder == NULL)
        return run_file(path);
    bool good = true;
    for (struct dirent *entry; (entry = readdir(folder)) != NULL;) {
        char inside[4096];
        if (entry->d_name[0] == '.')
            continue;
        snprintf(inside, sizeof inside, "%s/%s", path, entry->d_name);
        good = run_file(inside) && good;
    }
    closedir(folder);
    return good;
}

int main(int count, char **arguments)
{
    bool good = count > 1;
    int first = 1;
    if (count > 5 && strcmp(arguments[1], "--write") == 0) {
        to_write = atol(arguments[2]);
        first_seed = (unsigned)atol(arguments[3]);
        write_to = arguments[4];
        first = 5;
    }
    for (int i = first; i < count; i++)
        good = run_path(arguments[i]) && good;
    printf("%ld files, %ld inputs\n", files, inputs);
    return good && files > 0 ? 0 : 1;
}
