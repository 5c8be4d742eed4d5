/* The files of presets/, built into the program; the array is made by CMake and ends with a NULL name. */
#ifndef RC_CONFIG_PRESETS_H
#define RC_CONFIG_PRESETS_H

typedef struct rc_preset {
    const char *name, *summary, *yaml; /* summary: the file's first line, a comment */
} rc_preset;

extern const rc_preset rc_presets[];

#endif
