/* What the mutators share. A mutator knows the form of its input: it changes a field, a marker or an instruction and
 * puts lengths and checksums right again, so that the change gets past the first check. libFuzzer calls it in place of
 * its own changes (LLVMFuzzerCustomMutator), and it calls those back for parts that have no form. */
#ifndef RC_TESTS_FUZZ_MUTATE_H
#define RC_TESTS_FUZZ_MUTATE_H

#include <stdbool.h>

#include "fuzz/fuzz.h"

size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t limit); /* libFuzzer's; replay.c has a poor one */
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t limit, unsigned seed);

/* An input in a block of `limit` bytes, and the chances of this change. */
typedef struct fuzz_input {
    uint8_t *bytes;
    size_t size, limit;
    uint64_t dice;
} fuzz_input;

fuzz_input fuzz_input_of(uint8_t *data, size_t size, size_t limit, unsigned seed);
/* A number from 0 to below - 1; 0 of nothing. */
size_t fuzz_roll(fuzz_input *in, size_t below);
bool fuzz_one_in(fuzz_input *in, size_t chances);
/* A number at which sizes and counts go wrong. */
uint64_t fuzz_odd_number(fuzz_input *in);

/* `old` bytes at `at` give way to these, which lie outside of the input. false: there is no room, and nothing has
 * changed. */
bool fuzz_replace(fuzz_input *in, size_t at, size_t old, const void *bytes, size_t size);
bool fuzz_replace_text(fuzz_input *in, size_t at, size_t old, const char *text);
/* A copy of a part, at another place. */
bool fuzz_copy(fuzz_input *in, size_t from, size_t size, size_t to);
/* libFuzzer's changes to a part, which may grow or shrink; returns its size. */
size_t fuzz_mutate_part(fuzz_input *in, size_t at, size_t size);
/* One change to a JSON text, or to a part of the input that is one; returns the size of that part. */
size_t fuzz_mutate_json(fuzz_input *in, size_t at, size_t size);
/* A mutator of what fuzz_file_from_header() reads: one change to the JSON in front of the first 0. */
size_t fuzz_mutate_header(uint8_t *data, size_t size, size_t limit, unsigned seed);
/* One change to a pickle. */
size_t fuzz_mutate_pickle(fuzz_input *in, size_t at, size_t size);
/* One change to a YAML text. */
void fuzz_mutate_yaml(fuzz_input *in);

#endif
