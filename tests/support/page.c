#include "support/page.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "base/memory.h"

void page_add_line(void *user, const char *line)
{
    page *p = user;
    p->used += (size_t)snprintf(p->text + p->used, sizeof p->text - p->used, "%s\n", line);
    assert_true(p->used < sizeof p->text);
}

char *page_read(const char *name)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s", RC_SOURCE_DIR, name);
    FILE *file = fopen(path, "r");
    char *text = rc_alloc_zeroed(NULL, 1 << 16, 1);
    assert_non_null(file);
    assert_non_null(text);
    assert_in_range(fread(text, 1, (1 << 16) - 1, file), 1, (1 << 16) - 2);
    fclose(file);
    return text;
}
