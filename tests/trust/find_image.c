/* Looks for a picture in files, however it may have got there: as bytes or as floats of any width, normalised by
 * whatever mean and deviation, interleaved, padded or in planes, cropped by a few pixels, mirrored; or as the file it
 * came in.
 *
 *   find_image make PICTURE.ppm               draws a picture that nothing else looks like
 *   find_image plant KIND PICTURE.ppm FILE    hides it in noise, in one of the kinds below: the search must find it
 *   find_image kinds                          lists them
 *   find_image search PICTURE.ppm FILE...     code 0: it is in none of them; 1: it is, and where
 *
 * What is searched for are a few runs of 24 pixels in one colour. Numbers a * pixel + b are found for any b and any a
 * but 0: first by the signs of their differences, then by their correlation. */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SIZE = 32, CHANNELS = 3, BYTES = SIZE * SIZE * CHANNELS, RUN = 24, LEFT = 4, RUNS = 5, HEADER = 13, SIGNS = 10 };

static const int run_row[RUNS] = {5, 10, 15, 20, 26};
static const char header[HEADER + 1] = "P6\n32 32\n255\n";

/* ---- the picture ------------------------------------------------------------------------------------------------- */

static uint32_t next_random(uint32_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 17;
    *state ^= *state << 5;
    return *state;
}

static void read_picture(const char *path, uint8_t pixels[BYTES])
{
    FILE *file = fopen(path, "rb");
    char start[HEADER];
    if (file == NULL || fread(start, 1, HEADER, file) != HEADER || memcmp(start, header, HEADER) != 0 ||
        fread(pixels, 1, BYTES, file) != BYTES) {
        fprintf(stderr, "find_image: %s is not a picture that 'make' has made\n", path);
        exit(2);
    }
    fclose(file);
}

static int write_file(const char *path, const void *start, size_t start_size, const void *bytes, size_t size)
{
    FILE *file = fopen(path, "wb");
    if (file == NULL || fwrite(start, 1, start_size, file) != start_size || fwrite(bytes, 1, size, file) != size ||
        fclose(file) != 0) {
        fprintf(stderr, "find_image: %s cannot be written\n", path);
        return 2;
    }
    return 0;
}

static int make(const char *path)
{
    uint8_t pixels[BYTES];
    uint32_t state = 20261115;
    for (int i = 0; i < BYTES; i++)
        pixels[i] = (uint8_t)(next_random(&state) >> 24);
    return write_file(path, header, HEADER, pixels, BYTES);
}

/* ---- planting ---------------------------------------------------------------------------------------------------- */

typedef enum number { U8, F16, BF16, F32, F64, NUMBERS } number;
static const size_t number_bytes[NUMBERS] = {1, 2, 2, 4, 8};

typedef struct kind {
    const char *name;
    number number;
    int stride; /* between pixels of one colour; 1: in planes */
    int flip, shift;
} kind;

static const kind kinds[] = {
    {"bytes", U8, 3, 0, 0},         {"byte-planes", U8, 1, 0, 0},      {"bytes-mirrored", U8, 3, 1, 0},
    {"bytes-cropped", U8, 3, 0, 3}, {"floats", F32, 3, 0, 0},          {"floats-padded", F32, 4, 0, 0},
    {"float-planes", F32, 1, 0, 0}, {"floats-mirrored", F32, 4, 1, 0}, {"doubles", F64, 3, 0, 0},
    {"halves", F16, 3, 0, 0},       {"brain-floats", BF16, 4, 0, 0},
};
enum { KINDS = sizeof kinds / sizeof *kinds };

/* Half of a float, rounded towards zero: normal numbers only. */
static uint16_t to_half(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    int exponent = (int)(bits >> 23 & 255) - 112;
    uint16_t sign = (uint16_t)(bits >> 16 & 0x8000);
    return exponent <= 0 ? sign : (uint16_t)(sign | exponent << 10 | (bits >> 13 & 0x3ff));
}

static double from_half(uint16_t half)
{
    int exponent = half >> 10 & 31;
    double value = exponent == 0 ? ldexp(half & 1023, -24) : ldexp(1024 + (half & 1023), exponent - 25);
    return exponent == 31 ? NAN : half & 0x8000 ? -value : value;
}

static void put_number(number type, double pixel, uint8_t *out)
{
    float normalised = (float)((pixel / 255 - 0.4914) / 0.2470);
    double wide = (double)normalised;
    uint16_t half = to_half(normalised);
    uint32_t bits;
    memcpy(&bits, &normalised, sizeof bits);
    uint16_t brain = (uint16_t)(bits >> 16);
    switch (type) {
    case U8: *out = (uint8_t)pixel; break;
    case F16: memcpy(out, &half, sizeof half); break;
    case BF16: memcpy(out, &brain, sizeof brain); break;
    case F32: memcpy(out, &normalised, sizeof normalised); break;
    default: memcpy(out, &wide, sizeof wide); break;
    }
}

static int plant(const char *name, const char *picture, const char *path)
{
    enum { BEFORE = 1001, ROOM = BEFORE + SIZE * SIZE * 4 * 8 + 1000 };
    static uint8_t file[ROOM];
    uint8_t pixels[BYTES];
    uint32_t state = 7;
    read_picture(picture, pixels);
    for (int i = 0; i < ROOM; i++)
        file[i] = (uint8_t)(next_random(&state) >> 16);
    const kind *k = NULL;
    for (int i = 0; i < KINDS; i++)
        if (strcmp(kinds[i].name, name) == 0)
            k = &kinds[i];
    if (strcmp(name, "file") == 0)
        memcpy(file + BEFORE, header, HEADER), memcpy(file + BEFORE + HEADER, pixels, BYTES);
    else if (k == NULL)
        return 2;
    for (int i = 0; k != NULL && i < BYTES; i++) {
        int c = i % CHANNELS, x = i / CHANNELS % SIZE, y = i / CHANNELS / SIZE;
        int to_x = (k->flip ? SIZE - 1 - x : x) - k->shift;
        int at = k->stride == 1 ? (c * SIZE + y) * SIZE + to_x : (y * SIZE + to_x) * k->stride + c;
        if (to_x >= 0 && to_x < SIZE)
            put_number(k->number, pixels[i], file + BEFORE + (size_t)at * number_bytes[k->number]);
    }
    return write_file(path, "", 0, file, ROOM);
}

/* ---- searching --------------------------------------------------------------------------------------------------- */

typedef struct target {
    double pixel[RUN]; /* less their mean */
    double norm;
    unsigned rises, falls; /* bit i: from number i to the next */
} target;

static void make_targets(const uint8_t pixels[BYTES], target targets[2 * RUNS])
{
    for (int t = 0; t < 2 * RUNS; t++) {
        double mean = 0, squares = 0;
        for (int i = 0; i < RUN; i++) {
            int x = LEFT + (t % 2 ? RUN - 1 - i : i);
            targets[t].pixel[i] = pixels[(run_row[t / 2] * SIZE + x) * CHANNELS];
            mean += targets[t].pixel[i] / RUN;
        }
        for (int i = 0; i < RUN; i++) {
            targets[t].pixel[i] -= mean;
            squares += targets[t].pixel[i] * targets[t].pixel[i];
        }
        targets[t].rises = targets[t].falls = 0;
        for (int i = 0; i < SIGNS; i++) {
            targets[t].rises |= (unsigned)(targets[t].pixel[i + 1] > targets[t].pixel[i]) << i;
            targets[t].falls |= (unsigned)(targets[t].pixel[i + 1] < targets[t].pixel[i]) << i;
        }
        targets[t].norm = sqrt(squares);
    }
}

static double get_number(number type, const uint8_t *at)
{
    uint16_t half;
    uint32_t bits;
    float single;
    double wide;
    switch (type) {
    case U8: return *at;
    case F16: memcpy(&half, at, sizeof half); return from_half(half);
    case BF16:
        memcpy(&half, at, sizeof half);
        bits = (uint32_t)half << 16;
        memcpy(&single, &bits, sizeof single);
        return (double)single;
    case F32: memcpy(&single, at, sizeof single); return (double)single;
    default: memcpy(&wide, at, sizeof wide); return wide;
    }
}

/* Do RUN numbers, `step` bytes apart, follow a target? */
static int follows(const uint8_t *at, number type, size_t step, const target *t)
{
    double value[RUN], mean = 0, squares = 0, product = 0;
    for (int i = 0; i < RUN; i++) {
        value[i] = get_number(type, at + (size_t)i * step);
        if (!(fabs(value[i]) < 1e6))
            return 0;
        mean += value[i] / RUN;
    }
    for (int i = 0; i < RUN; i++) {
        squares += (value[i] - mean) * (value[i] - mean);
        product += (value[i] - mean) * t->pixel[i];
    }
    return squares > 0 && fabs(product) > 0.99 * sqrt(squares) * t->norm;
}

/* The target that the numbers from here on follow, or -1: mostly told by where the first of them rise and fall. */
static int match(const uint8_t *at, number type, size_t step, const target targets[2 * RUNS])
{
    unsigned rises = 0, falls = 0;
    double last = get_number(type, at);
    for (int i = 0; i < SIGNS; i++) {
        double now = get_number(type, at + (size_t)(i + 1) * step);
        rises |= (unsigned)(now > last) << i;
        falls |= (unsigned)(now < last) << i;
        last = now;
    }
    for (int t = 0; t < 2 * RUNS; t++) {
        int same = !(rises & targets[t].falls) && !(falls & targets[t].rises);
        int opposite = !(rises & targets[t].rises) && !(falls & targets[t].falls);
        if ((same || opposite) && follows(at, type, step, &targets[t]))
            return t;
    }
    return -1;
}

static int search_file(const char *path, const target targets[2 * RUNS])
{
    static const int strides[] = {1, 3, 4, 8};
    FILE *file = fopen(path, "rb");
    if (file == NULL || fseek(file, 0, SEEK_END) != 0) {
        fprintf(stderr, "find_image: %s cannot be read\n", path);
        exit(2);
    }
    size_t size = (size_t)ftell(file);
    uint8_t *bytes = malloc(size + 1);
    rewind(file);
    if (bytes == NULL || fread(bytes, 1, size, file) != size)
        exit(2);
    fclose(file);
    int found = 0;
    for (int type = 0; type < NUMBERS && !found; type++)
        for (int s = 0; s < 4 && !found; s++) {
            size_t step = number_bytes[type] * (size_t)strides[s], reach = step * (RUN - 1) + number_bytes[type];
            for (size_t at = 0; at + reach <= size && !found; at++) {
                int t = match(bytes + at, (number)type, step, targets);
                found = t >= 0;
                if (found)
                    printf("%s: at byte %zu, numbers of %zu bytes, one in %d%s\n", path, at, number_bytes[type],
                           strides[s], t % 2 ? ", mirrored" : "");
            }
        }
    free(bytes);
    return found;
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    if (strcmp(what, "kinds") == 0) {
        for (int i = 0; i < KINDS; i++)
            printf("%s\n", kinds[i].name);
        printf("file\n");
        return 0;
    }
    if (strcmp(what, "make") == 0 && argc == 3)
        return make(argv[2]);
    if (strcmp(what, "plant") == 0 && argc == 5)
        return plant(argv[2], argv[3], argv[4]);
    if (strcmp(what, "search") != 0 || argc < 4) {
        fprintf(stderr, "usage: find_image make|plant|kinds|search ...\n");
        return 2;
    }
    uint8_t pixels[BYTES];
    target targets[2 * RUNS];
    int found = 0;
    read_picture(argv[2], pixels);
    make_targets(pixels, targets);
    for (int i = 3; i < argc; i++)
        found |= search_file(argv[i], targets);
    return found;
}
