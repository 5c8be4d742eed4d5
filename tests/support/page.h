/* A page that collects lines. */
#ifndef RC_TESTS_SUPPORT_PAGE_H
#define RC_TESTS_SUPPORT_PAGE_H

#include <stddef.h>

typedef struct page {
    char text[16384];
    size_t used;
} page;

/* Callback for functions that print lines; user: the page. The test ends if the page is full. */
void page_add_line(void *user, const char *line);

/* The text of a file of the source tree, such as "docs/gpu.md". Free it with rc_free(NULL, ...). */
char *page_read(const char *name);

#endif
