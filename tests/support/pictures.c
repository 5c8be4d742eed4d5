#include "support/pictures.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/file.h"

int pictures_list(picture *out, int most)
{
    FILE *file = fopen(PICTURES ".txt", "r");
    assert_non_null(file);
    char line[256];
    int count = 0;
    while (fgets(line, sizeof line, file) != NULL)
        if (line[0] != '#') {
            assert_true(count < most);
            assert_int_equal(sscanf(line, "%63s %d", out[count].name, &out[count].tolerance), 2);
            snprintf(out[count].path, sizeof out[count].path, PICTURES "/%s", out[count].name);
            count++;
        }
    fclose(file);
    return count;
}

void pictures_bytes(const char *path, uint8_t **data, size_t *size)
{
    char *text;
    assert_int_equal(rc_file_read(path, 1 << 20, &text, size), RC_OK);
    *data = (uint8_t *)text;
}
