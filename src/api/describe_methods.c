#include "api/describe_methods.h"

#include <stdio.h>
#include <string.h>

#include "api/api.h"
#include "base/json.h"
#include "base/nearest.h"

static recollect_method describe(const rc_method *method)
{
    return (recollect_method){.name = method->name,
                              .title = method->title,
                              .summary = method->summary,
                              .stores = method->dce ? "means and covariance of features" : method->replay->keeps,
                              .data_free = method->replay->data_free,
                              .learn = !rc_method_takes_old_images(method)};
}

int recollect_method_at(int index, recollect_method *method)
{
    const rc_method *row = rc_method_at(index);
    const size_t first = RC_API_FIRST(recollect_method, learn);
    const recollect_method described = row != NULL ? describe(row) : (recollect_method){0};
    return row != NULL && rc_api_give_item(method, first, &described, sizeof described);
}

static rc_status print_json(rc_describe_line *line, void *user)
{
    rc_json_writer w = {.indent = 2};
    const rc_method *method;
    rc_json_begin_array(&w, NULL);
    for (int i = 0; (method = rc_method_at(i)) != NULL; i++) {
        const recollect_method described = describe(method);
        rc_json_begin_object(&w, NULL);
        rc_json_put_text(&w, "name", method->name);
        rc_json_put_text(&w, "title", method->title);
        rc_json_put_text(&w, "summary", method->summary);
        rc_json_put_bool(&w, "data_free", described.data_free != 0);
        rc_json_put_bool(&w, "learn", described.learn != 0);
        rc_json_put_text(&w, "stores", described.stores);
        rc_json_end(&w);
    }
    rc_json_end(&w);
    return rc_json_line(&w, line, user);
}

rc_status rc_describe_methods(bool json, rc_describe_line *line, void *user)
{
    char text[256];
    const rc_method *method;
    int name = (int)strlen("name"), title = (int)strlen("title");
    if (json)
        return print_json(line, user);
    for (int i = 0; (method = rc_method_at(i)) != NULL; i++) {
        int length = (int)strlen(method->name);
        name = length > name ? length : name;
        length = (int)strlen(method->title);
        title = length > title ? length : title;
    }
    snprintf(text, sizeof text, "%-*s  %-*s  data-free  learn  what it does", name, "name", title, "title");
    line(user, text);
    for (int i = 0; (method = rc_method_at(i)) != NULL; i++) {
        snprintf(text, sizeof text, "%-*s  %-*s  %-9s  %-5s  %s", name, method->name, title, method->title,
                 method->replay->data_free ? "yes" : "no", describe(method).learn ? "yes" : "no", method->summary);
        line(user, text);
    }
    return RC_OK;
}

static const char *name_of(const void *unused, int index)
{
    (void)unused;
    const rc_method *method = rc_method_at(index);
    return method != NULL ? method->name : NULL;
}

rc_status rc_method_choose(const char *name, const rc_method **method)
{
    rc_status status = rc_method_find(name, method);
    const char *nearest = status != RC_OK ? rc_nearest(name, name_of, NULL) : NULL;
    return nearest != NULL ? rc_fail(status, "there is no method '%s'; did you mean '%s'?", name, nearest) : status;
}
