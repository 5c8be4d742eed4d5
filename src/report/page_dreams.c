/* Pictures of dreams: those that the run drew as the inversion of a task ended (task-N-dreams.png), and the sheets that
 * 'recollect dream' drew into the folder "dreams" beside them. */
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "report/page.h"

enum { LARGEST_PICTURE = 600000 };

static bool is_png(const char *bytes, size_t size)
{
    return size > 24 && memcmp(bytes, "\x89PNG\r\n\x1A\n", 8) == 0;
}

/* words: of the program's own. */
static rc_status put_picture(const char *path, const char *words, size_t *room, rc_text *out)
{
    char *bytes;
    size_t size;
    bool there;
    RC_TRY(rc_file_find(path, &there));
    if (!there)
        return RC_OK;
    rc_status status = rc_file_read(path, LARGEST_PICTURE, &bytes, &size);
    if (status == RC_OUT_OF_MEMORY)
        return status;
    if (status == RC_OK && is_png(bytes, size) && size <= *room) {
        *room -= size;
        rc_text_format(
            out, "<figure><figcaption><b>Dreams</b> %s</figcaption><img alt=\"dreams\" src=\"data:image/png;base64,",
            words);
        rc_text_base64(out, bytes, size);
        rc_text_add(out, "\"></figure>\n");
    } else {
        rc_text_add(out, "<p class=\"note\">Not shown: ");
        rc_text_html(out, path, RC_TEXT_WHOLE);
        rc_text_add(out, status == RC_IO                           ? ", which cannot be read.</p>\n"
                         : status == RC_OK && !is_png(bytes, size) ? ", which is no PNG.</p>\n"
                                                                   : ", which is too large for this page.</p>\n");
    }
    if (status == RC_OK)
        rc_free(NULL, bytes);
    rc_clear_message();
    return RC_OK;
}

rc_status rc_page_dreams(const rc_report_run *run, size_t *room, rc_text *out)
{
    char path[RC_PATH_SIZE], name[64], words[128];
    bool there;
    if (run->folder[0] == '\0')
        return RC_OK;
    RC_TRY(rc_path_in(run->folder, "dreams/all.png", path));
    RC_TRY(put_picture(path, "of each class, as the model remembers them", room, out));
    /* The last picture has the most classes. While a task runs, its inversion may be over already. */
    for (int task = run->results.done + 1; task >= 2; task--) {
        snprintf(name, sizeof name, "task-%d-dreams.png", task);
        RC_TRY(rc_path_in(run->folder, name, path));
        RC_TRY(rc_file_find(path, &there));
        if (!there)
            continue;
        snprintf(words, sizeof words, "of the old classes, which task %d learnt from in place of their images", task);
        return put_picture(path, words, room, out);
    }
    return RC_OK;
}
