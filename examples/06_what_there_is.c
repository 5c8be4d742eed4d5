/* Example 6: what the library offers. A program that lets its users choose a method, a preset or a setting lists them
 * from here, and tells them at once when they chose wrongly. */
#include <stdio.h>
#include <stdlib.h>

#include <recollect/recollect.h>

static void check(recollect_status status)
{
    if (status == RECOLLECT_OK)
        return;
    fprintf(stderr, "%s: %s\n", recollect_status_text(status), recollect_last_message());
    exit(1);
}

static void print_line(void *user, const char *text)
{
    (void)user;
    puts(text);
}

static void list(void)
{
    recollect_method method = {.size = sizeof method};
    for (int i = 0; recollect_method_at(i, &method); i++)
        if (method.learn && method.data_free)
            printf("%-20s %s; keeps %s\n", method.name, method.summary, method.stores);
    recollect_setting setting = {.size = sizeof setting};
    for (int i = 0; recollect_setting_at(i, &setting) && i < 20; i++)
        printf("%-20s %s (%s, %s; \"%s\")\n", setting.name, setting.help, setting.type, setting.range, setting.initial);
    recollect_preset preset = {.size = sizeof preset};
    for (int i = 0; recollect_preset_at(i, &preset); i++)
        printf("%-20s %s\n", preset.name, preset.summary);
}

/* The names of the classes of some user, one of whom has a sense of humour. */
static const char *class_name(const void *user, int index)
{
    static const char *const names[] = {"cat", "dog", "red \033[31m panda"};
    (void)user;
    return index < 3 ? names[index] : NULL;
}

int main(void)
{
    printf("recollect %s, state %d of the header\n", recollect_version(), recollect_api_version());
    if (recollect_api_version() < 2)
        return 1; /* an older library was found, which has none of this */
    list();
    check(recollect_describe_machine(print_line, NULL));
    check(recollect_describe_methods(1, print_line, NULL));
    printf("the first net is %s:\n", recollect_net_at(0));
    check(recollect_describe_net("resnet-small", 3, 32, print_line, NULL));
    for (int i = 0; recollect_published_net_at(i) != NULL; i++)
        printf("published weights of %s can be imported\n", recollect_published_net_at(i));

    /* Wrong choices are found before anything is opened, and so is a place where nothing can be written. */
    int refused = recollect_check_option("epochs", "many") != RECOLLECT_OK;
    printf("%s\n", recollect_last_message());
    refused += recollect_check_save("no-such-folder/model.safetensors", 0, 0) != RECOLLECT_OK;
    printf("%s\n", recollect_last_message());

    /* What somebody probably meant; and a name that comes from outside, without what a terminal would obey. */
    char shown[64];
    recollect_escape(class_name(NULL, 2), shown, sizeof shown);
    printf("there is no class 'dogg'; did you mean '%s'? The last class is '%s'\n",
           recollect_nearest("dogg", class_name, NULL), shown);
    return refused == 2 ? 0 : 1;
}
