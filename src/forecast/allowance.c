#include "forecast/allowance.h"

#include <stdio.h>
#include <string.h>

#include "base/machine.h"
#include "base/memory.h"
#include "cil/scorer.h"
#include "forecast/progress.h"

/* a + b; SIZE_MAX if that is too large to count. */
static size_t sum(size_t a, size_t b)
{
    size_t both;
    return rc_size_add(a, b, &both) ? both : SIZE_MAX;
}

size_t rc_memory_allowed(size_t given)
{
    size_t unused = rc_machine_free_memory();
    if (given > 0 || unused == SIZE_MAX)
        return given > 0 ? given : SIZE_MAX;
    return sum(rc_bytes_allocated(), unused / 100 * RC_ALLOWED_SHARE);
}

size_t rc_memory_allowed_for(size_t allowed, size_t given, size_t file_bytes)
{
    size_t most;
    if (given > 0 || file_bytes == 0 || !rc_size_mul(file_bytes, RC_ALLOWED_PER_BYTE, &most))
        return allowed;
    most = sum(most, RC_ALLOWED_ANYWAY);
    return most < allowed ? most : allowed;
}

void rc_memory_allow(size_t given, size_t file_bytes)
{
    rc_memory_set_budget(rc_memory_allowed_for(rc_memory_allowed(given), given, file_bytes));
}

/* "19G": a size as options take it, at least `bytes`. */
static void option_text(size_t bytes, char *text, size_t size)
{
    bool small = bytes < (size_t)10 << 30;
    size_t unit = (size_t)1 << (small ? 20 : 30);
    snprintf(text, size, "%zu%c", bytes / unit + 1, small ? 'M' : 'G');
}

rc_status rc_memory_check(const rc_memory_claim *claim, size_t forecast)
{
    size_t budget = rc_memory_budget(), all = sum(rc_bytes_allocated(), forecast);
    char would[32], allowed[32], option[32], held[48] = "", width[48] = "", dreams[96] = "";
    const rc_settings *s = claim->settings;
    if (all <= budget)
        return RC_OK;
    rc_bytes_text(all, would, sizeof would);
    rc_bytes_text(budget, allowed, sizeof allowed);
    option_text(all, option, sizeof option);
    if (claim->held > 0)
        snprintf(held, sizeof held, ", %d held for replay", claim->held);
    if (strcmp(s->net, "resnet-small") == 0)
        snprintf(width, sizeof width, " of width %d and %d blocks", s->net_width, s->net_blocks);
    if (claim->dreams && strcmp(s->generator, "generator-small") == 0)
        snprintf(dreams, sizeof dreams, ", generator-small of width %d and noise %d", s->generator_width, s->noise);
    else if (claim->dreams)
        snprintf(dreams, sizeof dreams, ", generator '%.31s'", s->generator);
    return rc_fail(RC_OUT_OF_MEMORY,
                   "%s would take %s of memory (images of %d x %d pixels with %d channel%s, %d at a time%s, net "
                   "'%.31s'%s%s), but %s are allowed. If that is meant, the setting 'max_memory' (%s) allows it; "
                   "smaller values of these settings take less",
                   claim->what, would, claim->image->w, claim->image->h, claim->image->c,
                   claim->image->c > 1 ? "s" : "", claim->batch, held, s->net, width, dreams, allowed, option);
}

/* Bytes of a scorer, its staging and the images of which that shows views included. */
static rc_status size_scorer(rc_backend *sizing, const rc_classifier *classifier, const rc_augment *image, int batch,
                             size_t *bytes)
{
    rc_scorer *scorer;
    RC_TRY(rc_scorer_create(sizing, classifier, batch, image, &scorer));
    rc_scorer_destroy(scorer);
    *bytes = sum(rc_backend_most_bytes(sizing),
                 2 * (size_t)batch * (size_t)image->h * (size_t)image->w * (size_t)image->c);
    return RC_OK;
}

rc_status rc_scoring_batch(rc_backend *backend, const rc_classifier *classifier, const rc_settings *settings,
                           const rc_augment *image, int wanted, int *batch)
{
    rc_memory_claim claim = {.what = "scoring images", .settings = settings, .image = image, .batch = 1};
    *batch = wanted;
    for (;;) {
        rc_backend *sizing;
        size_t bytes = 0;
        RC_TRY(rc_backend_open_sizing(backend, &sizing));
        rc_status status = sizing != NULL ? size_scorer(sizing, classifier, image, *batch, &bytes) : RC_OK;
        rc_backend_close(sizing);
        if (status == RC_OK)
            status = rc_memory_check(&claim, bytes);
        else if (status != RC_INVALID_ARGUMENT) /* which is more elements than can be numbered */
            return status;
        if (status == RC_OK || *batch == 1)
            return status;
        *batch = (*batch + 1) / 2;
    }
}
