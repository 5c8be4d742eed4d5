/* Files of PyTorch and archives: what torch.save wrote is read to the last bit, anything broken or clever is refused,
 * and nothing is held then. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/file.h"
#include "base/memory.h"
#include "data/zip.h"
#include "model/torch_file.h"
#include "model/weights.h"
#include "support/torch_write.h"

static const float first_values[6] = {1, -2, 3.5f, 0.25f, 5, 6};
static const double second_values[2] = {0.1, -1e-3};
static const int64_t counter[1] = {42};

static const rc_named_tensor few[] = {
    {.name = "conv.weight", .dtype = RC_DTYPE_F32, .dims = 2, .shape = {2, 3}, .data = first_values},
    {.name = "conv.bias", .dtype = RC_DTYPE_F64, .dims = 1, .shape = {2}, .data = second_values},
    {.name = "bn.num_batches_tracked", .dtype = RC_DTYPE_I64, .dims = 0, .data = counter},
};
enum { FEW = sizeof few / sizeof *few };

static void refused(const uint8_t *bytes, size_t size, const char *words)
{
    rc_torch_file *file;
    size_t before = rc_bytes_allocated();
    assert_int_not_equal(rc_torch_file_parse("x.pth", bytes, size, &file), RC_OK);
    assert_null(file);
    assert_int_equal(rc_bytes_allocated(), before);
    if (strstr(rc_message(), words) == NULL || strstr(rc_message(), "x.pth") == NULL)
        fail_msg("'%s' does not say '%s'", rc_message(), words);
}

static const rc_named_tensor *named(const rc_weights *weights, const char *name)
{
    for (int i = 0; i < rc_weights_count(weights); i++)
        if (strcmp(rc_weights_at(weights, i)->name, name) == 0)
            return rc_weights_at(weights, i);
    fail_msg("there is no tensor %s", name);
    return NULL;
}

static void expect(const rc_weights *weights, const char *name, int dims, const int64_t *shape, const float *values)
{
    const rc_named_tensor *tensor = named(weights, name);
    float found[64];
    assert_int_equal(tensor->dims, dims);
    for (int i = 0; i < dims; i++)
        assert_int_equal(tensor->shape[i], shape[i]);
    assert_int_equal(rc_weights_read(tensor, found), RC_OK);
    assert_memory_equal(found, values, rc_named_tensor_count(tensor) * sizeof *found);
}

/* ---- what torch wrote (tests/oracle/torch_files.py) ------------------------------------------------------------- */

static rc_weights *open_fixture(const char *name)
{
    char path[256];
    rc_weights *weights;
    snprintf(path, sizeof path, RC_SOURCE_DIR "/tests/fixtures/torch/%s", name);
    if (rc_weights_open(path, &weights) != RC_OK)
        fail_msg("%s", rc_message());
    return weights;
}

static void ramp(float *values, int count, float first, float step)
{
    for (int i = 0; i < count; i++)
        values[i] = first + (float)i * step;
}

static void reads_what_torch_writes(void **state)
{
    (void)state;
    static const char *const files[] = {"archive.pth", "old.pth", "protocol4.pth", "old5.pth", "same.safetensors"};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        rc_weights *weights = open_fixture(files[i]);
        float values[64];
        assert_int_equal(rc_weights_count(weights), 5);
        ramp(values, 24, -3, 0.25f);
        expect(weights, "module.conv.weight", 4, (int64_t[]){2, 3, 2, 2}, values);
        ramp(values, 2, 0.5f, 1);
        expect(weights, "module.bn.running_mean", 1, (int64_t[]){2}, values);
        assert_int_equal(named(weights, "module.bn.num_batches_tracked")->dtype, RC_DTYPE_I64);
        assert_int_equal(named(weights, "module.bn.num_batches_tracked")->dims, 0);
        rc_weights_close(weights);
    }
}

static void reads_every_floating_type(void **state)
{
    (void)state;
    rc_weights *weights = open_fixture("types.pth");
    static const float special[8] = {0, -0.0f, 1, -2.5f, 65504, 0x1p-24f, 0x1.8p-15f, 1.0f / 1024};
    float values[8];
    expect(weights, "half", 1, (int64_t[]){8}, special);
    expect(weights, "double", 1, (int64_t[]){8}, special);
    memcpy(values, special, sizeof values);
    values[4] = 65536; /* 8 bits of mantissa */
    expect(weights, "bfloat16", 1, (int64_t[]){8}, values);
    ramp(values, 6, 4, 1); /* a part of a storage, and a parameter that shares it */
    expect(weights, "part", 2, (int64_t[]){2, 3}, values);
    ramp(values, 4, 0, 1);
    expect(weights, "parameter", 1, (int64_t[]){4}, values);
    float out[2];
    assert_int_equal(rc_weights_read(named(weights, "whole"), out), RC_UNSUPPORTED);
    assert_non_null(strstr(rc_message(), "'whole' holds I64, expected F32, F64, F16 or BF16"));
    assert_int_equal(named(weights, "flags")->dtype, RC_DTYPE_BOOL);
    assert_int_equal(rc_weights_read(named(weights, "infinite"), out), RC_FORMAT);
    assert_non_null(strstr(rc_message(), "element 1 of tensor 'infinite' is inf"));
    rc_weights_close(weights);
}

static void reads_other_orders(void **state)
{
    (void)state;
    rc_weights *weights = open_fixture("columns.pth");
    expect(weights, "weight", 2, (int64_t[]){3, 2}, (float[]){0, 3, 1, 4, 2, 5});
    expect(weights, "permuted", 3, (int64_t[]){2, 2, 3},
           (float[]){0, 4, 8, 2, 6, 10, 1, 5, 9, 3, 7, 11}); /* of (3, 2, 2): the last side first */
    expect(weights, "every second", 1, (int64_t[]){3}, (float[]){1, 3, 5});
    rc_weights_close(weights);
}

static void passes_over_sets(void **state)
{
    (void)state;
    rc_weights *weights = open_fixture("set.pth");
    assert_int_equal(rc_weights_count(weights), 1);
    expect(weights, "weight", 1, (int64_t[]){1}, (float[]){1});
    rc_weights_close(weights);
}

static void names_what_it_does_not_call(void **state)
{
    (void)state;
    static const struct {
        const char *file, *words;
    } cases[] = {{"module.pth", "asks for torch.nn.modules.linear.Linear, which recollect does not call"},
                 {"module4.pth", "asks for torch.nn.modules.linear.Linear, which recollect does not call"},
                 {"namespace.pth", "asks for argparse.Namespace"},
                 {"namespace.pth", "executes nothing; save the net's state_dict() alone"},
                 {"empty.pth", "holds no tensors; expected the state_dict() of a net"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char path[256];
        rc_weights *weights;
        size_t before = rc_bytes_allocated();
        snprintf(path, sizeof path, RC_SOURCE_DIR "/tests/fixtures/torch/%s", cases[i].file);
        assert_int_not_equal(rc_weights_open(path, &weights), RC_OK);
        assert_null(weights);
        assert_int_equal(rc_bytes_allocated(), before);
        if (strstr(rc_message(), cases[i].words) == NULL)
            fail_msg("'%s' does not say '%s'", rc_message(), cases[i].words);
    }
    rc_weights *weights;
    assert_int_equal(rc_weights_open(RC_SOURCE_DIR "/tests/fixtures/resize.txt", &weights), RC_FORMAT);
    assert_non_null(strstr(rc_message(), "nor does it begin as a file of torch.save"));
    assert_int_equal(rc_weights_open("/nonexistent.pth", &weights), RC_IO);
}

/* ---- our own files, whole and broken ---------------------------------------------------------------------------- */

static const torch_style styles[] = {{0},
                                     {.deflated = true},
                                     {.old = true},
                                     {.large = true},
                                     {.old = true, .framed = true},
                                     {.large = true, .deflated = true, .framed = true},
                                     {.inside = "state_dict", .prefix = "module."},
                                     {.old = true, .inside = "model_state_dict"},
                                     {.old = true, .python2 = true},
                                     {.python2 = true, .inside = "state_dict"},
                                     {.inside = "model"}};
enum { STYLES = sizeof styles / sizeof *styles };

static void every_style_is_read(void **state)
{
    (void)state;
    for (int s = 0; s < STYLES; s++) {
        size_t size;
        uint8_t *bytes = torch_write(few, FEW, styles[s], &size);
        rc_weights *weights;
        char name[64];
        assert_true(rc_torch_file_is(bytes, size));
        if (rc_weights_parse("x.pth", bytes, size, &weights) != RC_OK)
            fail_msg("style %d: %s", s, rc_message());
        assert_int_equal(rc_weights_count(weights), FEW);
        snprintf(name, sizeof name, "%sconv.weight", styles[s].prefix != NULL ? styles[s].prefix : "");
        expect(weights, name, 2, (int64_t[]){2, 3}, first_values);
        snprintf(name, sizeof name, "%sconv.bias", styles[s].prefix != NULL ? styles[s].prefix : "");
        expect(weights, name, 1, (int64_t[]){2}, (float[]){0.1f, -1e-3f});
        rc_weights_close(weights);
        free(bytes);
    }
}

/* Cut anywhere, and with any byte changed, a file is read or refused; never does anything else happen. The first cut
 * that is read is the whole file. */
static void every_cut_and_every_byte(void **state)
{
    (void)state;
    volatile unsigned sum = 0; /* so that the bytes are read */
    for (int s = 0; s < 5; s++) {
        size_t size, before = rc_bytes_allocated();
        uint8_t *bytes = torch_write(few, FEW, styles[s], &size);
        rc_torch_file *file;
        for (size_t cut = 0; cut < size; cut++) {
            uint8_t *part = malloc(cut + 1); /* so that a sanitizer sees its end */
            assert_non_null(part);
            memcpy(part, bytes, cut);
            assert_int_not_equal(rc_torch_file_parse("x.pth", part, cut, &file), RC_OK);
            free(part);
        }
        for (size_t at = 0; at < size; at++)
            for (int bit = 0; bit < 8; bit++) {
                bytes[at] ^= (uint8_t)(1 << bit);
                if (rc_torch_file_parse("x.pth", bytes, size, &file) == RC_OK)
                    for (int i = 0; i < rc_torch_file_count(file); i++) {
                        const rc_named_tensor *tensor = rc_torch_file_at(file, i);
                        const uint8_t *data = tensor->data;
                        for (size_t k = 0; k < rc_named_tensor_bytes(tensor); k++)
                            sum = sum + data[k];
                    }
                rc_torch_file_close(file);
                bytes[at] ^= (uint8_t)(1 << bit);
            }
        free(bytes);
        assert_int_equal(rc_bytes_allocated(), before);
    }
}

/* The `size` bytes `with` in place of the first bytes `old` of the file. */
static void patch(uint8_t *bytes, size_t length, const char *old, const char *with, size_t size)
{
    for (size_t i = 0; i + size <= length; i++)
        if (memcmp(bytes + i, old, size) == 0) {
            memcpy(bytes + i, with, size);
            return;
        }
    fail_msg("nothing to patch");
}

static void refused_old(const char *old, const char *with, size_t length, const char *words)
{
    size_t size;
    uint8_t *bytes = torch_write(few, FEW, (torch_style){.old = true}, &size);
    patch(bytes, size, old, with, length);
    refused(bytes, size, words);
    free(bytes);
}

static void refused_archive(size_t back, int bytes_there, uint64_t value, const char *words)
{
    size_t size;
    uint8_t *bytes = torch_write(few, FEW, (torch_style){0}, &size);
    for (int i = 0; i < bytes_there; i++)
        bytes[size - back + (size_t)i] = (uint8_t)(value >> (8 * i));
    refused(bytes, size, words);
    free(bytes);
}

static void broken_pickles_are_named(void **state)
{
    (void)state;
    refused_old("M\xE9\x03", "M\xE8\x03", 3, "is of protocol 1000, expected 1001");
    refused_old("endian\x88u", "endian\x89u", 8, "other than little-endian");
    refused_old("ctorch\nFloat", "ctorch\nFloaT", 12, "asks for torch.FloaTStorage");
    refused_old("_rebuild_tensor_v2", "_rebuild_tensor_v3", 18, "asks for torch._utils._rebuild_tensor_v3");
    refused_old("storage", "starage", 7, "a name of something that is no storage");
    refused_old("NtQ", "JtQ", 3, "is not a pickle that recollect reads");
    refused_old("](X\1\0\0\0"
                "2",
                "](J\1\0\0\0N", 8, "has an element that is a number, expected a string");
    refused_old("conv.weight", "conv\0weight", 11, "a tensor has an impossible name");
    const rc_named_tensor twice[] = {few[0], few[0]};
    size_t size;
    uint8_t *bytes = torch_write(twice, 2, (torch_style){0}, &size);
    refused(bytes, size, "has two tensors 'conv.weight'");
    free(bytes);
    char name[258] = "";
    memset(name, 'n', 256);
    rc_named_tensor one = few[0];
    one.name = name;
    rc_torch_file *file;
    bytes = torch_write(&one, 1, (torch_style){0}, &size);
    assert_int_equal(rc_torch_file_parse("x.pth", bytes, size, &file), RC_OK);
    rc_torch_file_close(file);
    free(bytes);
    name[256] = 'n';
    bytes = torch_write(&one, 1, (torch_style){0}, &size);
    refused(bytes, size, "a tensor has an impossible name");
    free(bytes);
}

static void broken_archives_are_named(void **state)
{
    (void)state;
    enum { END = 22 };
    refused_archive(END, 1, 'Q', "the directory of the archive is missing");
    refused_archive(END - 4, 2, 1, "is a part of an archive");
    refused_archive(END - 10, 2, UINT16_MAX, "the record of large archives is missing");
    refused_archive(END - 12, 4, UINT32_MAX, "the record of large archives is missing");
    refused_archive(END - 16, 4, UINT32_MAX, "the record of large archives is missing");
    refused_archive(END - 16, 4, 1 << 20, "its directory does not fit into it");
    refused_archive(END - 12, 4, 1 << 20, "its directory does not fit into it");
    refused_archive(END - 20, 2, 1, "the directory of the archive is missing");
    size_t size;
    uint8_t *bytes = torch_write(few, FEW, (torch_style){0}, &size);
    patch(bytes, size, "net/data.pkl", "net/date.pkl", 12); /* its local name: nobody reads it */
    rc_torch_file *file;
    assert_int_equal(rc_torch_file_parse("x.pth", bytes, size, &file), RC_OK);
    rc_torch_file_close(file);
    patch(bytes, size, "net/data.pkl", "net/date.pkl", 12);
    refused(bytes, size, "is an archive without data.pkl");
    free(bytes);
    bytes = torch_write(few, FEW, (torch_style){0}, &size);
    for (size_t at = 0, entries = 0; entries < 2; at++) /* either fits, both do not */
        if (memcmp(bytes + at, "PK\1\2", 4) == 0) {
            bytes[at + 20] = (uint8_t)(size / 2 + 1);
            bytes[at + 21] = (uint8_t)((size / 2 + 1) >> 8);
            entries++;
        }
    refused(bytes, size, "its entries overlap");
    free(bytes);
    bytes = torch_write(few, FEW, (torch_style){0}, &size);
    patch(bytes, size, "little", "big   ", 6);
    refused(bytes, size, "entry 'net/byteorder' has a wrong checksum");
    free(bytes);
    bytes = torch_write(few, FEW, (torch_style){0}, &size);
    patch(bytes, size, (const char *)first_values, (const char *)second_values, 4);
    refused(bytes, size, "entry 'net/data/0' has a wrong checksum");
    free(bytes);
}

/* `value` in the `size` bytes that lie `at` bytes behind the last `mark` of an archive in zip64. */
static void refused_large(const char *mark, size_t at, int size, uint64_t value, const char *words)
{
    size_t length, found = 0;
    uint8_t *bytes = torch_write(few, FEW, (torch_style){.large = true}, &length);
    for (size_t i = 0; i + 4 <= length; i++)
        found = memcmp(bytes + i, mark, 4) == 0 ? i : found;
    assert_true(found > 0);
    for (int i = 0; i < size; i++)
        bytes[found + at + (size_t)i] = (uint8_t)(value >> (8 * i));
    refused(bytes, length, words);
    free(bytes);
}

/* One full field of the record at the end asks for the wide one; the others are not read then. */
static void one_full_field_makes_an_archive_large(void **state)
{
    (void)state;
    static const struct {
        size_t at, size;
    } fields[] = {{10, 2}, {12, 4}, {16, 4}};
    for (int i = 0; i < 3; i++) {
        size_t size;
        uint8_t *bytes = torch_write(few, FEW, (torch_style){.large = true}, &size);
        rc_torch_file *file;
        memset(bytes + size - 22 + 8, 0, 12);
        refused(bytes, size, "is an archive without data.pkl");
        memset(bytes + size - 22 + fields[i].at, 0xFF, fields[i].size);
        assert_int_equal(rc_torch_file_parse("x.pth", bytes, size, &file), RC_OK);
        rc_torch_file_close(file);
        free(bytes);
    }
}

static void broken_large_archives_are_named(void **state)
{
    (void)state;
    static const char locator[] = "PK\6\7", record[] = "PK\6\6", entry[] = "PK\1\2";
    enum { FIELDS = 46 + 10 + 6 };     /* of the last entry, net/data/2, behind one that nobody asks for */
    uint8_t empty[56 + 20 + 22] = {0}; /* no entries */
    memcpy(empty, record, 4);
    memcpy(empty + 56, locator, 4);
    memcpy(empty + 76, "PK\5\6", 4);
    memset(empty + 84, 0xFF, 12);
    refused(empty, sizeof empty, "is an archive without data.pkl");
    refused(empty + 1, sizeof empty - 1, "its directory does not fit into it");
    refused_large(locator, 0, 1, 'Q', "the record of large archives is missing");
    refused_large(record, 0, 1, 'Q', "the record of large archives is missing");
    refused_large(locator, 8, 8, UINT64_MAX, "the record of large archives is missing");
    refused_large(locator, 8, 8, (uint64_t)1 << 32, "the record of large archives is missing");
    refused_large(locator, 8, 8, 0, "the record of large archives is missing");
    refused_large(record, 16, 4, 1, "is a part of an archive");
    refused_large(record, 20, 4, 1, "is a part of an archive");
    refused_large(record, 24, 8, 4, "is a part of an archive");
    refused_large(record, 40, 8, UINT64_MAX, "its directory does not fit into it");
    refused_large(record, 48, 8, UINT64_MAX, "its directory does not fit into it");
    refused_large(record, 40, 8, 5 * 46 - 1, "its directory does not fit into it");
    refused_large(entry, FIELDS + 0, 2, 2, "entry 'net/data/2' is larger than 4 GB and does not say how large");
    refused_large(entry, FIELDS + 2, 2, 23, "entry 'net/data/2' is larger than 4 GB and does not say how large");
    refused_large(entry, FIELDS + 2, 2, 25, "entry 'net/data/2' is larger than 4 GB and does not say how large");
    refused_large(entry, FIELDS + 4, 8, 9, "entry 'net/data/2' is packed in a way that recollect does not know");
    refused_large(entry, FIELDS + 12, 8, UINT64_MAX, "its entries overlap");
    refused_large(entry, FIELDS + 12, 8, 9, "entry 'net/data/2' reaches behind the end of the archive");
    refused_large(entry, FIELDS + 12, 8, 7, "entry 'net/data/2' is packed in a way that recollect does not know");
    refused_large(entry, FIELDS + 20, 8, UINT64_MAX, "entry 'net/data/2' is not where the directory says");
    refused_large(entry, FIELDS + 20, 8, 1, "entry 'net/data/2' is not where the directory says");
}

/* Puts the bytes of a literal behind those of the file. */
static void put(uint8_t *file, size_t *size, const void *bytes, size_t count)
{
    assert_true(*size + count <= 512);
    memcpy(file + *size, bytes, count);
    *size += count;
}

/* An old file of one tensor in a storage of two numbers. What it claims must be refused in these words; NULL: read. */
static void claim(uint64_t elements, uint64_t offset, int64_t rows, int64_t stride, const char *words)
{
    static const char begin[] = "\x80\x02\x8A\x0A\x6C\xFC\x9C\x46\xF9\x20\x6A\xA8\x50\x19."
                                "\x80\x02M\xE9\x03.\x80\x02}U\x0Dlittle_endian\x88s."
                                "\x80\x02}U\x06tensorctorch._utils\n_rebuild_tensor_v2\n"
                                "((U\x07storagectorch\nFloatStorage\nU\x01"
                                "0U\x03"
                                "cpu";
    static const char end[] = "t\x89}tRs.\x80\x02]U\x01"
                              "0a.\2\0\0\0\0\0\0\0\0\0\x80\x3F\0\0\0\x40";
    static const char *const before[] = {"\x8A\x08", "tQ\x8A\x08", "(\x8A\x08", "t(\x8A\x08"};
    const uint64_t numbers[] = {elements, offset, (uint64_t)rows, (uint64_t)stride};
    uint8_t file[512];
    size_t size = 0;
    put(file, &size, begin, sizeof begin - 1);
    for (int i = 0; i < 4; i++) {
        put(file, &size, before[i], strlen(before[i]));
        for (int k = 0; k < 8; k++)
            put(file, &size, &(uint8_t){(uint8_t)(numbers[i] >> (8 * k))}, 1);
    }
    put(file, &size, end, sizeof end - 1);
    rc_torch_file *read;
    if (words != NULL) {
        refused(file, size, words);
        return;
    }
    if (rc_torch_file_parse("x.pth", file, size, &read) != RC_OK)
        fail_msg("%s", rc_message());
    assert_int_equal(rc_torch_file_count(read), 1);
    rc_torch_file_close(read);
}

static void claims_are_not_believed(void **state)
{
    (void)state;
    claim(2, 0, 2, 1, NULL);
    claim(2, 1, 1, 77, NULL); /* one element has any stride */
    claim(2, 2, 0, 1, NULL);
    claim(2, 1, 0, 5, NULL);
    claim(2, 1, 2, 0, NULL);
    claim(2, 0, 3, 0, "tensor 'tensor' does not fit into its 2 numbers");
    claim(2, 0, 3, 1, "tensor 'tensor' does not fit into its 2 numbers");
    claim(2, 1, 2, 1, "does not fit into its 2 numbers");
    claim(2, 2, 1, 1, "does not fit into its 2 numbers");
    claim(2, 0, 2, 2, "does not fit into its 2 numbers");
    claim(2, INT64_MAX, 1, 1, "does not fit into its 2 numbers");
    claim(2, 0, INT64_MAX, 1, "does not fit into its 2 numbers");
    claim(2, 0, 3, INT64_MAX, "does not fit into its 2 numbers");
    claim(2, INT64_MAX, 2, INT64_MAX, "does not fit into its 2 numbers");
    claim(2, 0, -1, 1, "the shape of tensor 'tensor' is damaged");
    claim(2, UINT64_MAX, 1, 1, "the shape of tensor 'tensor' is damaged");
    claim(3, 0, 3, 1, "has 8 bytes under '0', expected 3 numbers of 4 bytes");
    claim((uint64_t)1 << 62, 0, 1, 1, "has 8 bytes under '0'");
    claim(UINT64_MAX, 0, 1, 1, "no storage of numbers");
}

/* An old file of one tensor of every number that 8 bytes hold of a type. */
static void every_type_is_known(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        rc_dtype dtype;
    } types[] = {{"Float", RC_DTYPE_F32},     {"Double", RC_DTYPE_F64}, {"Half", RC_DTYPE_F16},
                 {"BFloat16", RC_DTYPE_BF16}, {"Long", RC_DTYPE_I64},   {"Int", RC_DTYPE_I32},
                 {"Short", RC_DTYPE_I16},     {"Char", RC_DTYPE_I8},    {"Byte", RC_DTYPE_U8},
                 {"Bool", RC_DTYPE_BOOL}};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        static const char begin[] = "\x80\x02\x8A\x0A\x6C\xFC\x9C\x46\xF9\x20\x6A\xA8\x50\x19."
                                    "\x80\x02M\xE9\x03.\x80\x02}U\x0Dlittle_endian\x88s.";
        static const char end[] = "t\x89}tRs.\x80\x02]U\x01"
                                  "0a.";
        uint8_t file[512], count = (uint8_t)(8 / rc_dtype_bytes(types[i].dtype));
        char text[256];
        size_t size = 0;
        put(file, &size, begin, sizeof begin - 1);
        int length = snprintf(text, sizeof text,
                              "\x80\x02}U\x06tensorctorch._utils\n_rebuild_tensor_v2\n((U\x07storagectorch\n%sStorage\n"
                              "U\x01"
                              "0U\x03"
                              "cpuK%ctQK",
                              types[i].name, count);
        put(file, &size, text, (size_t)length);
        put(file, &size, (const uint8_t[]){0, '(', 'K', count, 't', '(', 'K', 1}, 8);
        put(file, &size, end, sizeof end - 1);
        put(file, &size, (const uint8_t[16]){count}, 16);
        rc_torch_file *read;
        if (rc_torch_file_parse("x.pth", file, size, &read) != RC_OK)
            fail_msg("%s: %s", types[i].name, rc_message());
        assert_int_equal(rc_torch_file_at(read, 0)->dtype, types[i].dtype);
        assert_int_equal(rc_torch_file_at(read, 0)->shape[0], count);
        rc_torch_file_close(read);
    }
}

/* An entry that claims to unpack to more than it does, or to more than is allowed. */
static void deflated_claims_are_not_believed(void **state)
{
    (void)state;
    size_t size;
    uint8_t *bytes = torch_write(few, FEW, (torch_style){.deflated = true}, &size);
    size_t at = 0;
    while (memcmp(bytes + at, "PK\1\2", 4) != 0)
        at++;
    bytes[at + 24]++; /* bytes of data.pkl */
    refused(bytes, size, "entry 'net/data.pkl' cannot be unpacked");
    bytes[at + 24]--;
    bytes[at + 27] = 0x7F;
    refused(bytes, size, "would unpack to more than recollect takes");
    bytes[at + 27] = 0;
    bytes[at + 10] = 12;
    refused(bytes, size, "is packed in a way that recollect does not know");
    bytes[at + 10] = 8;
    bytes[at + 8] |= 1;
    refused(bytes, size, "is encrypted");
    bytes[at + 8] = 0;
    bytes[at + 42]++;
    refused(bytes, size, "is not where the directory says");
    bytes[at + 42]--;
    bytes[at + 20] = bytes[at + 21] = 0xFF;
    refused(bytes, size, "its entries overlap");
    free(bytes);
}

/* zlib counts in 32 bits: an entry of 4 GB more than it unpacks to must not pass for that entry. Only an archive of
 * 64 MB may unpack to so much. */
static void deflated_entries_of_4_gb_are_refused(void **state)
{
    (void)state;
    enum { MORE = 1 << 26 };
    size_t size, directory = 0, record;
    uint8_t *bytes = torch_write(few, FEW, (torch_style){.large = true, .deflated = true}, &size);
    while (memcmp(bytes + directory, "PK\1\2", 4) != 0)
        directory++;
    for (record = directory; memcmp(bytes + record, "PK\6\6", 4) != 0;)
        record++;
    uint8_t *longer = calloc(1, size + MORE); /* nothing between the entries and the directory */
    assert_non_null(longer);
    memcpy(longer, bytes, directory);
    memcpy(longer + directory + MORE, bytes + directory, size - directory);
    longer[record + MORE + 48 + 3] += MORE >> 24;
    longer[size + MORE - 22 - 20 + 8 + 3] += MORE >> 24;
    rc_torch_file *file;
    assert_int_equal(rc_torch_file_parse("x.pth", longer, size + MORE, &file), RC_OK);
    rc_torch_file_close(file);
    longer[directory + MORE + 46 + 12 + 6 + 4 + 4]++; /* of net/data.pkl: 2^32 bytes more */
    refused(longer, size + MORE, "entry 'net/data.pkl' is deflated and larger than 4 GB");
    free(longer);
    free(bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_what_torch_writes),
        cmocka_unit_test(reads_every_floating_type),
        cmocka_unit_test(reads_other_orders),
        cmocka_unit_test(names_what_it_does_not_call),
        cmocka_unit_test(passes_over_sets),
        cmocka_unit_test(broken_large_archives_are_named),
        cmocka_unit_test(deflated_entries_of_4_gb_are_refused),
        cmocka_unit_test(one_full_field_makes_an_archive_large),
        cmocka_unit_test(every_style_is_read),
        cmocka_unit_test(every_cut_and_every_byte),
        cmocka_unit_test(broken_pickles_are_named),
        cmocka_unit_test(broken_archives_are_named),
        cmocka_unit_test(claims_are_not_believed),
        cmocka_unit_test(every_type_is_known),
        cmocka_unit_test(deflated_claims_are_not_believed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
