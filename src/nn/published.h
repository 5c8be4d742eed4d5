/* What goes with a net whose trained weights are published, beside its layers: the name of its head in the published
 * files, and how its images were prepared. Import and export read it. */
#ifndef RC_NN_PUBLISHED_H
#define RC_NN_PUBLISHED_H

typedef struct rc_published {
    const char *net;  /* as rc_net_by_name takes it */
    const char *head; /* prefix of .weight (classes, features) and .bias (classes) */
    int size;         /* height and width of the images */
    int resize;       /* shorter side before the centre crop; 0: there is no crop */
    /* mean and std of the pixels, which go from 0 to 1, in red, green and blue: as settings have them. */
    const char *mean, *std;
    const char *interpolation; /* the filter that resizes */
} rc_published;

/* NULL: there are no more. */
const rc_published *rc_published_at(int index);
/* NULL: the net is none of these. */
const rc_published *rc_published_find(const char *net);

#endif
