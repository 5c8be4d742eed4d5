/* The commit that this was built from. cmake/commit.cmake writes the file that defines it. */
#ifndef RC_EXPERIMENT_COMMIT_H
#define RC_EXPERIMENT_COMMIT_H

/* A commit of git, with a "+" where files differed from it; "": not known. */
extern const char rc_commit[];

#endif
