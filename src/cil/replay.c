#include "cil/replay.h"

void rc_replay_destroy(rc_replay *replay)
{
    if (replay != NULL)
        replay->table->destroy(replay);
}
