#include "cil/settings.h"

#include <string.h>

#define ROW(...) RC_SETTING_ROW(rc_settings, __VA_ARGS__)
static const rc_setting rows[] = {RC_SETTINGS(ROW)};

enum { ROWS = sizeof rows / sizeof *rows };

const rc_setting *rc_settings_row(int index)
{
    return index >= 0 && index < ROWS ? &rows[index] : NULL;
}

rc_settings rc_settings_default(void)
{
    return (rc_settings){RC_SETTINGS(RC_SETTING_DEFAULT)};
}

static void set_profile(rc_settings *settings, bool paper)
{
    for (int i = 0; i < ROWS; i++)
        if (strncmp(rows[i].name, "paper_", strlen("paper_")) == 0)
            *(bool *)((char *)settings + rows[i].offset) = paper;
}

void rc_settings_paper_profile(rc_settings *settings)
{
    set_profile(settings, true);
}

void rc_settings_code_profile(rc_settings *settings)
{
    set_profile(settings, false);
}

rc_status rc_settings_check(const rc_settings *s)
{
    for (int i = 0; i < ROWS; i++)
        RC_TRY(rc_setting_check(&rows[i], s));
    if (s->refine_epochs >= s->epochs)
        return rc_fail(
            RC_INVALID_ARGUMENT,
            "refine_epochs is %d, expected 0 to %d: refinement is the end of the %d epoch%s, and leaves one or "
            "more",
            s->refine_epochs, s->epochs - 1, s->epochs, s->epochs == 1 ? "" : "s");
    return RC_OK;
}
