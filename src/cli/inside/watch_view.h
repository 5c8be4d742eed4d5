/* What is shown of a run: its cells, the curves of their accuracies, and the losses of one of them. */
#ifndef RC_CLI_INSIDE_WATCH_VIEW_H
#define RC_CLI_INSIDE_WATCH_VIEW_H

#include "experiment/overview.h"

typedef struct rc_view {
    const rc_overview *run;
    int columns; /* that a line may take */
    int rows;    /* that there may be; 0: any number */
    bool braille;
    double now;   /* seconds since 1970 */
    int selected; /* cell whose losses are shown */
    /* Gets every line, escaped and cut. */
    void (*line)(void *user, const char *text);
    void *user;
} rc_view;

void rc_view_show(const rc_view *view);
/* The cell that a person wants to see first: one that works, or else the last method. -1: there is none. */
int rc_view_choose(const rc_overview *run, double now);

#endif
