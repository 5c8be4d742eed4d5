/* The page: one HTML file that needs nothing else, no network and no other file. */
#ifndef RC_REPORT_PAGE_H
#define RC_REPORT_PAGE_H

#include "report/set.h"
#include "report/text.h"

/* Its style and its script, line by line, NULL behind the last. cmake/page.cmake makes the file that defines them from
 * page.css and page.js. */
extern const char *const rc_page_css[], *const rc_page_js[];
extern const char rc_page_js_hash[]; /* SHA-256 of the script with the line breaks around it, as 64 digits */

rc_status rc_page_write(const rc_report_sets *sets, rc_text *out);

/* The pictures of dreams of a run, as figures. *room: bytes of pictures that the page may still take; what does not fit
 * is named instead. */
rc_status rc_page_dreams(const rc_report_run *run, size_t *room, rc_text *out);

#endif
