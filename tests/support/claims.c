#include "support/claims.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "config/config.h"

enum { MOST_CLAIMS = 4000 };
claim claims[MOST_CLAIMS];
int claims_count;

static void add(claim_place place, const char *key, const char *field, const char *value)
{
    assert_true(claims_count < MOST_CLAIMS);
    claims[claims_count++] = (claim){place, key, field, value};
}

static void add_all(claim_place place, const char *key, const char *field, const char *const *values)
{
    add(place, key, field, NULL);
    for (int i = 0; values[i] != NULL; i++)
        add(place, key, field, values[i]);
}

static const char *const any_text[] = {"",   " ",    "null", "0",       "-1",          "[]",
                                       "{}", "[[]]", "[1",   "[\"a\"]", "x\\u001b[2J", NULL};
static const char *const images[] = {"[16, 16]",
                                     "[16, 16, 1, 1]",
                                     "[16, 16, 2]",
                                     "[16, 16, 3]",
                                     "[16, 16, 4]",
                                     "[16, 16, 0]",
                                     "[16, 16, -1]",
                                     "[16, 16, 1.5]",
                                     "[16, 16, 256]",
                                     "[16, 8, 1]",
                                     "[8, 16, 1]",
                                     "[32, 16, 1]",
                                     "[16, 32, 1]",
                                     "[16.5, 16.5, 1]",
                                     "[16.0, 16, 1]",
                                     "[1, 1, 1]",
                                     "[0, 0, 1]",
                                     "[-16, -16, 1]",
                                     "[8, 8, 1]",
                                     "[17, 17, 1]",
                                     "[64, 64, 1]",
                                     "[1024, 1024, 1]",
                                     "[1025, 1025, 1]",
                                     "[2048, 2048, 1]",
                                     "[4096, 4096, 1]",
                                     "[4097, 4097, 1]",
                                     "[65536, 65536, 1]",
                                     "[2147483647, 2147483647, 1]",
                                     "[2147483648, 2147483648, 1]",
                                     "[1e18, 1e18, 1]",
                                     "[1e400, 1, 1]",
                                     "[NaN, NaN, 1]",
                                     "[\"16\", \"16\", \"1\"]",
                                     "[null, 16, 1]",
                                     "[true, true, true]",
                                     "{\"h\": 16}",
                                     NULL};
static const char *const numbers[] = {"[]",     "[0]",    "[0.5, 0.5]", "[-1]",    "[101]", "[1e-6]",
                                      "[1e-7]", "[1e38]", "[1e39]",     "[1e400]", "[NaN]", "[\"0\"]",
                                      "[[0]]",  "[null]", "0.5",        NULL};
static const char *const tasks[] = {"[3]",
                                    "[1, 2]",
                                    "[1, 1, 1]",
                                    "[2]",
                                    "[4]",
                                    "[1.5, 1.5]",
                                    "[3.0]",
                                    "[0, 3]",
                                    "[-1, 4]",
                                    "[2.9999999999999999999]",
                                    "[3, 0]",
                                    "[2147483647]",
                                    "[2147483648, 3]",
                                    "[-2147483645]",
                                    "[30000]",
                                    "[30001]",
                                    "[1000000]",
                                    "[1e9]",
                                    "[1e400]",
                                    "[\"3\"]",
                                    "[[3]]",
                                    "3",
                                    NULL};
static const char *const names[] = {"[\"a\", \"b\"]",
                                    "[\"a\", \"b\", \"c\", \"d\"]",
                                    "[\"a\", \"a\", \"b\"]",
                                    "[\"a\", \"b\", \"\"]",
                                    "[\"a\", \"b\", 3]",
                                    "[\"a\", \"b\", null]",
                                    "[\"a\", \"b\", [\"c\"]]",
                                    "{\"a\": 1, \"b\": 2, \"c\": 3}",
                                    "[\"a\", \"b\", \"c\\u0000\"]",
                                    "[\"a\", \"b\", \"c\\n\"]",
                                    "[\"a\", \"b\", \"c\\u202e\"]",
                                    "[\"a\", \"b\", \"c\\u2066\"]",
                                    "[\"a\", \"b\", \"c\\u200f\"]",
                                    "[\"a\", \"b\", \"\\ud800\"]",
                                    "[\"\\u00e4\", \"\\ud83d\\ude00\", \"b\"]",
                                    NULL};
static const char *const offered[] = {"[]",           "[0]",          "[-1]",   "[6.5]", "[1e18]",
                                      "[4294967295]", "[4294967296]", "[1, 2]", NULL};
static const char *const formats[] = {"recollect-model-0", "recollect-model-2", "recollect-model-1 ",
                                      "recollect-checkpoint-1", NULL};
static const char *const methods[] = {"finetune", "joint", "er",  "dgr",  "lwf", "deepinversion-pixels",
                                      "cwd",      "cwd ",  "CWD", "none", NULL};
static const char *const whole[] = {"0",
                                    "1",
                                    "-1",
                                    "2",
                                    "3",
                                    "7",
                                    "8",
                                    "31",
                                    "64",
                                    "255",
                                    "4095",
                                    "4096",
                                    "4097",
                                    "65535",
                                    "65536",
                                    "65537",
                                    "1000000",
                                    "100000000",
                                    "2147483646",
                                    "2147483647",
                                    "2147483648",
                                    "-2147483648",
                                    "9223372036854775807",
                                    "9223372036854775808",
                                    "99999999999999999999999",
                                    "1.5",
                                    "1e3",
                                    "0x10",
                                    " 1",
                                    "1 ",
                                    "",
                                    "NaN",
                                    "a",
                                    "!3",
                                    "![3]",
                                    "!null",
                                    NULL};
static const char *const reals[] = {"0",     "-0",    "1",     "-1",     "1e-320", "1e-30", "1e6",
                                    "1e30",  "1e300", "1e400", "-1e400", "nan",    "inf",   "-inf",
                                    "0x1p3", "1,5",   "",      "a",      "!0.5",   "!null", NULL};
static const char *const switches[] = {"true", "false", "maybe", "", "1", "!true", NULL};
static const char *const words[] = {"",
                                    "x",
                                    "resnet32",
                                    "resnet18",
                                    "resnet-small",
                                    "generator",
                                    "generator-small",
                                    "vae-decoder",
                                    "paper",
                                    "code",
                                    "published",
                                    "seed",
                                    "3,1,2",
                                    "0.5",
                                    "0.5, 0.5",
                                    "1e400",
                                    "2147483648",
                                    "!7",
                                    "0123456789012345678901234567890",
                                    "01234567890123456789012345678901",
                                    NULL};
static const char *const lists[] = {
    "", "[]", "[1]", "[3, 1]", "[-1]", "[2147483648]", "[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13]", "x", NULL};
static const char *const types[] = {"\"F64\"", "\"F16\"", "\"I32\"", "\"U8\"", "\"\"", "5", "null", NULL};
static const char *const shapes[] = {"[]",
                                     "[0]",
                                     "[1]",
                                     "[-1]",
                                     "[1.5]",
                                     "[9223372036854775807]",
                                     "[4294967296, 4294967296]",
                                     "[1, 1, 1, 1, 1]",
                                     "[2147483648, 2]",
                                     "null",
                                     NULL};
static const char *const offsets[] = {"[]",
                                      "[0]",
                                      "[0, 0]",
                                      "[0, 4]",
                                      "[-4, 0]",
                                      "[4, 0]",
                                      "[0, 9223372036854775807]",
                                      "[9223372036854775804, 9223372036854775807]",
                                      "[0.0, 4.0]",
                                      "[0, 4, 8]",
                                      "null",
                                      NULL};

void claims_list(void)
{
    static const char *const keys[] = {"format", "method",  "image",          "mean",   "std",
                                       "tasks",  "classes", "buffer_offered", "config", "version"};
    static const char *const tensors[] = {"backbone.conv_1_3x3.weight",
                                          "backbone.bn_1.running_var",
                                          "head.classifiers.0.weight",
                                          "statistics.class_mean",
                                          "statistics.covariance",
                                          "buffer.images",
                                          "buffer.labels",
                                          "encoder.conv_1.weight"};
    claims_count = 0;
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        add_all(CLAIM_METADATA, keys[i], NULL, any_text);
    add_all(CLAIM_METADATA, "format", NULL, formats);
    add_all(CLAIM_METADATA, "method", NULL, methods);
    add_all(CLAIM_METADATA, "image", NULL, images);
    add_all(CLAIM_METADATA, "mean", NULL, numbers);
    add_all(CLAIM_METADATA, "std", NULL, numbers);
    add_all(CLAIM_METADATA, "tasks", NULL, tasks);
    add_all(CLAIM_METADATA, "classes", NULL, names);
    add_all(CLAIM_METADATA, "buffer_offered", NULL, offered);
    rc_config_item item;
    for (int i = 0; rc_config_item_at(i, &item); i++)
        add_all(CLAIM_SETTING, item.name, NULL,
                strcmp(item.type, "whole number") == 0    ? whole
                : strcmp(item.type, "number") == 0        ? reals
                : strcmp(item.type, "true or false") == 0 ? switches
                : strcmp(item.type, "text") == 0          ? words
                                                          : lists);
    for (size_t i = 0; i < sizeof tensors / sizeof *tensors; i++) {
        add_all(CLAIM_TENSOR, tensors[i], "dtype", types);
        add_all(CLAIM_TENSOR, tensors[i], "shape", shapes);
        add_all(CLAIM_TENSOR, tensors[i], "data_offsets", offsets);
    }
}

bool claim_make(craft *file, const claim *c)
{
    return c->place == CLAIM_METADATA  ? craft_metadata(file, c->key, c->value)
           : c->place == CLAIM_SETTING ? craft_setting(file, c->key, c->value)
                                       : craft_tensor(file, c->key, c->field, c->value);
}

void claim_text(const claim *c, char *text, size_t size)
{
    snprintf(text, size, "%s%s%s = %.80s", c->key, c->field ? " " : "", c->field ? c->field : "",
             c->value ? c->value : "(missing)");
}
