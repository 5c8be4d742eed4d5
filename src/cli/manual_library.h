/* The manual page of the library: its public header, which says all there is to say. */
#ifndef RC_CLI_MANUAL_LIBRARY_H
#define RC_CLI_MANUAL_LIBRARY_H

/* The lines of include/recollect/recollect.h; NULL: there are no more. The build writes them (cmake/header.cmake). */
extern const char *const rc_header_lines[];

void rc_print_library_manual(void);

#endif
