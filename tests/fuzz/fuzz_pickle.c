/* Pickles: what a dictionary is asked for lies inside the input. */
#include "fuzz/mutate.h"

#include "data/pickle.h"

static void read_lists(const rc_pickle *pickle, const char *key)
{
    rc_pickle_list list;
    int64_t number;
    const char *text;
    size_t length;
    volatile unsigned sum = 0; /* so that the bytes are read */
    if (rc_pickle_get_list(pickle, key, &list) == RC_OK)
        for (int i = 0; i < list.count && rc_pickle_next_integer(&list, &number) == RC_OK; i++)
            sum = sum + (unsigned)number;
    if (rc_pickle_get_list(pickle, key, &list) == RC_OK)
        for (int i = 0; i <= list.count && rc_pickle_next_string(&list, &text, &length) == RC_OK; i++)
            for (size_t k = 0; k < length; k++)
                sum = sum + (unsigned char)text[k];
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    rc_pickle *pickle;
    rc_pickle_array array;
    rc_status status = rc_pickle_parse("input", data, size, &pickle);
    FUZZ_EXPECT((status == RC_OK) == (pickle != NULL));
    if (status != RC_OK)
        return 0;
    volatile unsigned sum = 0;
    if (rc_pickle_get_array(pickle, "data", &array) == RC_OK)
        for (int r = 0; r < array.rows; r++)
            for (int c = 0; c < array.columns; c++)
                sum = sum + array.bytes[(size_t)r * array.row_step + (size_t)c * array.column_step];
    read_lists(pickle, "labels");
    read_lists(pickle, "label_names");
    rc_pickle_free(pickle);
    return 0;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t limit, unsigned seed)
{
    fuzz_input in = fuzz_input_of(data, size, limit, seed);
    fuzz_mutate_pickle(&in, 0, in.size);
    return in.size;
}
