/* One random operation of random strength on an image (TrivialAugment), and quarter turns: what the processor and a
 * card share. All of it is in whole numbers, so that every backend makes the same bytes.
 *
 * An operation looks a byte up in a table, blends it with another byte, or reads it from elsewhere. Strength i is one
 * of 0 .. 30, half of the signed operations have the other sign:
 *
 *   identity
 *   shear in x, in y       by 0.99 i / 30 around the upper left corner; what comes from outside is 0
 *   translation in x, y    by i / 30 of 32 pixels, or of the side where that is less
 *   rotation               by 4.5 i degrees around the centre, to the nearest pixel
 *   brightness, colour, contrast, sharpness    f = 1 +- 0.99 i / 30 of the byte and 1 - f of 0, its grey, the mean
 *                          grey, a blur of its surroundings
 *   posterize              keeps 8 - round(i / 5) bits
 *   solarize               inverts bytes of 255 (30 - i) / 30 or more
 *   autocontrast           stretches every channel to 0 .. 255
 *   equalize               makes the histogram of every channel flat */
#ifndef RC_BACKEND_VARY_H
#define RC_BACKEND_VARY_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>

#ifndef RC_VARY_FUNCTION /* CUDA says __device__ */
#define RC_VARY_FUNCTION static inline
#endif

enum { RC_VARY_STRENGTHS = 31, RC_VARY_PARTS = 3000 };
typedef enum rc_vary_kind {
    RC_VARY_IDENTITY,
    RC_VARY_SHEAR_X,
    RC_VARY_SHEAR_Y,
    RC_VARY_TRANSLATE_X,
    RC_VARY_TRANSLATE_Y,
    RC_VARY_ROTATE,
    RC_VARY_BRIGHTNESS,
    RC_VARY_COLOUR,
    RC_VARY_CONTRAST,
    RC_VARY_SHARPNESS,
    RC_VARY_POSTERIZE,
    RC_VARY_SOLARIZE,
    RC_VARY_AUTOCONTRAST,
    RC_VARY_EQUALIZE,
    RC_VARY_KINDS
} rc_vary_kind;

/* What is drawn for an image. */
typedef struct rc_look {
    int kind, strength;
    int turns;               /* to the left, of a quarter each */
    int factor;              /* of blends, in 1 / RC_VARY_PARTS */
    int64_t row[3], side[3]; /* where a pixel comes from: of (2y + 1, 2x + 1, 1), in 2^-17 of a pixel */
} rc_look;

/* A look out of four draws: operation, strength, sign, turns. trivial: false leaves the identity; turns: half of the
 * images stay upright, the others take one of three turns. */
RC_VARY_FUNCTION rc_look rc_vary_look(int h, int w, bool trivial, bool turns, const uint32_t draw[4])
{
    const int64_t one = 1 << 16;
    rc_look look;
    look.kind = trivial ? (int)(((uint64_t)draw[0] * RC_VARY_KINDS) >> 32) : RC_VARY_IDENTITY;
    look.strength = (int)(((uint64_t)draw[1] * RC_VARY_STRENGTHS) >> 32);
    look.turns = turns && draw[3] >> 31 ? 1 + (int)(((uint64_t)(draw[3] << 1) * 3) >> 32) : 0;
    int sign = draw[2] >> 31 ? -1 : 1, i = look.strength;
    look.factor = RC_VARY_PARTS + sign * 99 * i;
    int64_t row[3] = {one, 0, 0}, side[3] = {0, one, 0};
    if (look.kind == RC_VARY_SHEAR_X)
        side[0] = sign * 33 * i * one / 1000;
    else if (look.kind == RC_VARY_SHEAR_Y)
        row[1] = sign * 33 * i * one / 1000;
    else if (look.kind == RC_VARY_TRANSLATE_X)
        side[2] = -sign * 2 * one * ((w < 32 ? w : 32) * i / 30);
    else if (look.kind == RC_VARY_TRANSLATE_Y)
        row[2] = -sign * 2 * one * ((h < 32 ? h : 32) * i / 30);
    else if (look.kind == RC_VARY_ROTATE) {
        const double degree = 0.017453292519943295;
        int64_t cosine = (int64_t)floor(cos(4.5 * i * degree) * (double)one + 0.5);
        int64_t sine = sign * (int64_t)floor(sin(4.5 * i * degree) * (double)one + 0.5);
        row[0] = cosine;
        row[1] = sine;
        side[0] = -sine;
        side[1] = cosine;
        row[2] = h * one - h * row[0] - w * row[1];
        side[2] = w * one - h * side[0] - w * side[1];
    }
    for (int k = 0; k < 3; k++) {
        look.row[k] = row[k];
        look.side[k] = side[k];
    }
    return look;
}

/* Does the look need the histogram of an image? */
RC_VARY_FUNCTION bool rc_vary_counts(const rc_look *look)
{
    return look->kind == RC_VARY_CONTRAST || look->kind == RC_VARY_AUTOCONTRAST || look->kind == RC_VARY_EQUALIZE;
}

RC_VARY_FUNCTION int rc_vary_grey(const uint8_t *pixel, int c)
{
    return c == 3 ? (299 * pixel[0] + 587 * pixel[1] + 114 * pixel[2]) / 1000 : pixel[0];
}

RC_VARY_FUNCTION uint8_t rc_vary_blend(const rc_look *look, int byte, int other)
{
    int value = look->factor * byte + (RC_VARY_PARTS - look->factor) * other;
    value = value < 0 ? 0 : value / RC_VARY_PARTS;
    return (uint8_t)(value < 255 ? value : 255);
}

/* What a byte of a channel becomes, where that depends on nothing else. count (256): of the channel's bytes; of
 * contrast, of greys. Others are not asked for. */
RC_VARY_FUNCTION uint8_t rc_vary_byte(const rc_look *look, const int32_t *count, int byte)
{
    int64_t sum = 0, all = 0, below = 0;
    int low = 256, high = -1;
    if (look->kind == RC_VARY_BRIGHTNESS)
        return rc_vary_blend(look, byte, 0);
    if (look->kind == RC_VARY_POSTERIZE)
        return (uint8_t)(byte & ~((1 << (2 * look->strength + 5) / 10) - 1));
    if (look->kind == RC_VARY_SOLARIZE)
        return (uint8_t)(2 * byte >= 17 * (30 - look->strength) ? 255 - byte : byte);
    if (!rc_vary_counts(look))
        return (uint8_t)byte;
    for (int k = 0; k < 256; k++) {
        sum += (int64_t)count[k] * k;
        all += count[k];
        below += k < byte ? count[k] : 0;
        low = low == 256 && count[k] > 0 ? k : low;
        high = count[k] > 0 ? k : high;
    }
    if (look->kind == RC_VARY_CONTRAST)
        return rc_vary_blend(look, byte, (int)((2 * sum + all) / (2 * all)));
    if (low >= high)
        return (uint8_t)byte;
    if (look->kind == RC_VARY_AUTOCONTRAST) {
        int value = 255 * (byte - low) / (high - low);
        return (uint8_t)(value < 0 ? 0 : value < 255 ? value : 255);
    }
    int64_t step = (all - count[high]) / 255;
    int64_t value = step > 0 ? (below + step / 2) / step : byte;
    return (uint8_t)(value < 255 ? value : 255);
}

/* The byte that a look makes of pixel (y, x) of an image (h, w, c). table (256): rc_vary_byte of that channel. */
RC_VARY_FUNCTION uint8_t rc_vary_pixel(const rc_look *look, const uint8_t *image, int h, int w, int c,
                                       const uint8_t *table, int y, int x, int channel)
{
    int turned[4][2] = {{y, x}, {x, w - 1 - y}, {h - 1 - y, w - 1 - x}, {h - 1 - x, y}};
    y = turned[look->turns][0];
    x = turned[look->turns][1];
    if (look->kind >= RC_VARY_SHEAR_X && look->kind <= RC_VARY_ROTATE) {
        int64_t down = look->row[0] * (2 * y + 1) + look->row[1] * (2 * x + 1) + look->row[2];
        int64_t across = look->side[0] * (2 * y + 1) + look->side[1] * (2 * x + 1) + look->side[2];
        if (down < 0 || across < 0 || down >> 17 >= h || across >> 17 >= w)
            return 0;
        y = (int)(down >> 17);
        x = (int)(across >> 17);
    }
    const uint8_t *pixel = image + ((int64_t)y * w + x) * c;
    if (look->kind == RC_VARY_COLOUR)
        return rc_vary_blend(look, pixel[channel], c == 3 ? rc_vary_grey(pixel, c) : pixel[channel]);
    if (look->kind != RC_VARY_SHARPNESS)
        return table[pixel[channel]];
    if (y == 0 || x == 0 || y == h - 1 || x == w - 1)
        return pixel[channel];
    int sum = 4 * pixel[channel];
    for (int i = -1; i <= 1; i++)
        for (int j = -1; j <= 1; j++)
            sum += pixel[(i * w + j) * c + channel];
    return rc_vary_blend(look, pixel[channel], (2 * sum + 13) / 26);
}

/* The class of an image as it stands: the new classes, n_old to classes - 1, come three times more behind all
 * others. */
RC_VARY_FUNCTION int32_t rc_vary_label(const rc_look *look, int n_old, int classes, int32_t label)
{
    return look->turns == 0 ? label : classes + (look->turns - 1) * (classes - n_old) + label - n_old;
}

#endif
