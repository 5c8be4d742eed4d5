/* What people call the parts of a data set: as folders, and in a column of a table. */
#ifndef RC_DATA_SET_PART_H
#define RC_DATA_SET_PART_H

typedef enum rc_set_part {
    RC_SET_TRAIN,
    RC_SET_TEST,
    RC_SET_VAL,
    RC_SET_PARTS /* none of them */
} rc_set_part;

/* The part that has this name, in any capitals. */
rc_set_part rc_set_part_of(const char *name);

#endif
