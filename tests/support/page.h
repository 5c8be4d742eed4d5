/* A page that printers of lines write to. */
#ifndef RC_TESTS_SUPPORT_PAGE_H
#define RC_TESTS_SUPPORT_PAGE_H

#include <stddef.h>

typedef struct page {
    char text[16384];
    size_t used;
} page;

/* Callback for whoever prints lines; user: the page. Text that it cannot hold ends the test. */
void page_add_line(void *user, const char *line);

#endif
