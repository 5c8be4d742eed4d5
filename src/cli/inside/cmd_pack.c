/* recollect pack: a data set as one file, for sets that do not fit into memory. */
#include <stdio.h>

#include "cli/cli.h"
#include "experiment/run_data.h"
#include "forecast/allowance.h"

enum {
    OUT,
    SIZE,
    RESIZE,
    INTERPOLATION,
    CHANNELS,
    FORMAT,
    EXIF,
    TEST_PART,
    SEED,
    SKIP_BROKEN,
    STRICT,
    MAX_MEMORY,
    THREADS,
    OPTIONS
};

static const rc_option options[OPTIONS] = {
    [OUT] = {"out", RC_OPTION_OUTPUT, "FILE", NULL, "where the pack goes (required); no file is replaced", 0, 0},
    [SIZE] = {"size", RC_OPTION_TEXT, "N", NULL, "pixels of the images on each side; else as 'run' has it", 0, 0},
    [RESIZE] = {"resize", RC_OPTION_TEXT, "N", NULL, "shorter side before the middle is cut out; else the size", 0, 0},
    [INTERPOLATION] = {"interpolation", RC_OPTION_TEXT, "bilinear|bicubic", NULL, "how images are scaled", 0, 0},
    [CHANNELS] = {"channels", RC_OPTION_TEXT, "1|3", NULL, "grey or colour; else the set's own", 0, 0},
    [FORMAT] = {"format", RC_OPTION_TEXT, "NAME", NULL, "format of the data, if it is not recognised", 0, 0},
    [EXIF] = {"exif", RC_OPTION_TEXT, "true|false", NULL, "turn photographs as they say", 0, 0},
    [TEST_PART] = {"test-part", RC_OPTION_TEXT, "X", "0.2", "part of each class to test with, if the set has none", 0,
                   0},
    [SEED] = {"seed", RC_OPTION_TEXT, "N", NULL, "chooses that part", 0, 0},
    [SKIP_BROKEN] = {"skip-broken", RC_OPTION_FLAG, NULL, NULL, "leave out images that cannot be read", 0, 0},
    [STRICT] = {"strict", RC_OPTION_FLAG, NULL, NULL, "exit with 3 if something was left out", 0, 0},
    [MAX_MEMORY] = RC_OPTION_MAX_MEMORY,
    [THREADS] = RC_OPTION_THREADS,
};

static rc_status read_config(const rc_option_value *value, const char *data, rc_config *config)
{
    static const struct {
        int option;
        const char *key;
    } direct[] = {{SIZE, "size"},         {RESIZE, "resize"}, {INTERPOLATION, "interpolation"},
                  {CHANNELS, "channels"}, {FORMAT, "format"}, {EXIF, "exif"},
                  {SEED, "seed"}};
    *config = rc_config_default();
    RC_TRY(rc_config_set(config, "data", data));
    for (size_t i = 0; i < sizeof direct / sizeof *direct; i++)
        if (value[direct[i].option].given)
            RC_TRY(rc_config_set(config, direct[i].key, value[direct[i].option].text));
    return rc_config_check(config);
}

static int run(const rc_option_value *value, int count, char **arguments)
{
    const rc_command *self = &rc_command_pack;
    rc_config config;
    rc_pack_result r;
    double test_part;
    if (count != 1)
        return rc_wrong_usage(self, count == 0 ? "which data set?" : "more than one data set");
    if (!value[OUT].given || value[OUT].text[0] == '\0')
        return rc_wrong_usage(self, "where shall the pack go? --out FILE says it");
    if (!rc_read_number(value[TEST_PART].text, 0, 1, &test_part))
        return rc_wrong_usage(self, "option '--test-part' is '%s', expected 0 to 1", value[TEST_PART].text);
    rc_status status = read_config(value, arguments[0], &config);
    if (status != RC_OK)
        return rc_wrong_settings(self, status);
    rc_memory_allow((size_t)value[MAX_MEMORY].integer, 0);
    rc_catch_interrupts();
    rc_watch watch = {
        .log = {.write = rc_note_log, .level = RC_LOG_INFO}, .progress = rc_tell_progress, .cancelled = rc_interrupted};
    status = rc_run_data_pack(&config, (int)value[THREADS].integer, value[SKIP_BROKEN].given, test_part, &watch,
                              value[OUT].text, &r);
    if (status == RC_CANCELLED)
        return rc_failed(NULL, rc_fail(status, "%s; the same command goes on from there", rc_message()));
    if (status != RC_OK)
        return rc_failed("pack", status);
    const rc_pack_facts *f = &r.facts;
    rc_print("%s: %d images to train on and %d to test with, of %d classes, %d x %d pixels in %s, %.1f MB",
             value[OUT].text, f->train, f->test, f->classes, f->side, f->side, f->channels == 1 ? "grey" : "colour",
             1e-6 * (double)f->file_bytes);
    if (r.resumed > 0)
        rc_print("%d of them were packed before", r.resumed);
    if (r.broken > 0)
        rc_print("left out: %d that cannot be read", r.broken);
    return value[STRICT].given && r.broken + r.left_out > 0 ? RC_EXIT_DOUBTFUL : RC_EXIT_DONE;
}

const rc_command rc_command_pack = {
    .name = "pack",
    .summary = "Decodes a data set once, into one file that runs read piece by piece, however large it is.",
    .arguments = "DATA",
    .details = "DATA is anything that --data takes. 'run', 'learn' and 'eval' take the file in its place. They map it\n"
               "into memory and never load it whole, so a set may be larger than memory. A pack that is stopped or\n"
               "killed goes on when the same command is given again. No image is ever read half: every record has a\n"
               "checksum, and a damaged one is refused by its number.",
    .examples = "  recollect pack photos --out photos.pack --size 64\n"
                "  recollect pack imagenet100 --out imagenet100.pack --size 224 --resize 256 --exif false\n"
                "  recollect run imagenet100-10 --data imagenet100.pack --out run",
    .option = options,
    .options = OPTIONS,
    .run = run,
};
