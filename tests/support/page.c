#include "support/page.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

void page_add_line(void *user, const char *line)
{
    page *p = user;
    p->used += (size_t)snprintf(p->text + p->used, sizeof p->text - p->used, "%s\n", line);
    assert_true(p->used < sizeof p->text);
}
