#include "reproduce/shrink.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static int part_of(int whole, double scale, int least)
{
    int part = (int)floor(whole * scale + 0.5); /* valgrind rounds lround's halves the other way on some machines */
    return part < least ? least : part;
}

void rc_shrink_config(rc_config *config, int train, int test, double scale)
{
    enum { LEAST_MAIN = 2, LEAST_STEPS = 20, LEAST_BATCH = 16, SIDE = 32 };
    rc_settings *s = &config->settings;
    if (scale >= 1)
        return;
    config->images_per_class = part_of(train, scale, RC_LEAST_TRAIN);
    config->test_per_class = part_of(test, scale, RC_LEAST_TEST);
    int main = part_of(s->epochs - s->refine_epochs, scale, LEAST_MAIN);
    s->refine_epochs = s->refine_epochs > 0 ? part_of(s->refine_epochs, scale, 1) : 0;
    s->epochs = main + s->refine_epochs;
    for (int i = 0; i < s->milestones; i++)
        s->milestone[i] = part_of(s->milestone[i], scale, 1);
    s->inversion_steps = part_of(s->inversion_steps, scale, LEAST_STEPS);
    s->pixel_steps = part_of(s->pixel_steps, scale, LEAST_STEPS);
    s->batch = part_of(s->batch, scale, LEAST_BATCH);
    if (scale >= RC_SCALE_OF_SMALL_NETS)
        return;
    snprintf(s->net, sizeof s->net, "resnet-small");
    snprintf(s->generator, sizeof s->generator, "generator-small");
    s->net_width = 8;
    s->generator_width = 16;
    s->noise = 64;
    s->vae_width = 32;
    config->size = config->size > SIDE ? SIDE : config->size;
    config->resize = config->resize > SIDE ? SIDE : config->resize;
}

int rc_shrink_orders(double scale)
{
    return scale < 1 ? (int)ceil(3 * scale) : 0;
}

void rc_shrink_text(const rc_config *whole, const rc_config *shrunken, char *text, size_t size)
{
    char before[RC_CONFIG_VALUE], now[RC_CONFIG_VALUE];
    rc_config_item item;
    size_t used = 0;
    text[0] = '\0';
    for (int i = 0; rc_config_item_at(i, &item) && used < size; i++)
        if (rc_config_get(whole, item.name, before, sizeof before) == RC_OK &&
            rc_config_get(shrunken, item.name, now, sizeof now) == RC_OK && strcmp(before, now) != 0)
            used += (size_t)snprintf(text + used, size - used, "%s%s %.60s for %.60s", used > 0 ? ", " : "", item.name,
                                     now, before);
}
