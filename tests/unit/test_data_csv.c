/* Tables of pictures: how their text is read, which columns count, what the classes are called. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/memory.h"
#include "data/csv_list.h"
#include "support/data_files.h"

/* ---- the text --------------------------------------------------------------------------------------------------- */

static rc_csv_list list;
static char *text;

/* In a block that has no byte behind the zero, so that tools see who reads on. */
static rc_status parse_bytes(const char *given, size_t size)
{
    rc_csv_list_free(&list);
    free(text);
    text = malloc(size + 1);
    assert_non_null(text);
    memcpy(text, given, size);
    text[size] = '\0';
    return rc_csv_list_parse("t.csv", text, size, &list);
}

static rc_status parse(const char *given)
{
    return parse_bytes(given, strlen(given));
}

/* rows: "path|class" each, NULL at the end. */
static void assert_rows(const char *given, const char *const *rows)
{
    char row[256];
    if (parse(given) != RC_OK)
        fail_msg("'%s': %s", given, rc_message());
    int count = 0;
    for (; rows[count] != NULL; count++) {
        assert_true(count < list.count);
        snprintf(row, sizeof row, "%s|%s", list.row[count].path, list.row[count].class_name);
        assert_string_equal(row, rows[count]);
    }
    assert_int_equal(list.count, count);
    assert_false(list.no_classes);
    rc_csv_list_free(&list);
}

#define ROWS(...) ((const char *const[]){__VA_ARGS__, NULL})

static void assert_refused(const char *given, const char *message)
{
    size_t before = rc_bytes_allocated();
    assert_int_equal(parse(given), RC_FORMAT);
    assert_true(list.row == NULL && list.count == 0);
    data_assert_words(message);
    assert_int_equal(rc_bytes_allocated(), before);
}

static void columns_are_found(void **state)
{
    (void)state;
    const char *const *expected = ROWS("a.jpg|cat", "b.jpg|dog");
    assert_rows("path,class\na.jpg,cat\nb.jpg,dog\n", expected);
    assert_rows("Label,Image\ncat,a.jpg\ndog,b.jpg", expected);
    assert_rows("id,breed,FILENAME,category,x\n1,p,a.jpg,cat,\n2,q,b.jpg,dog,0\n", expected);
    assert_rows("a.jpg,cat\nb.jpg,dog\n", expected); /* without names */
    assert_rows("cat,a.jpg\ndog,b.jpg\n", expected);
    assert_rows("path,breed\na.jpg,cat\nb.jpg,dog\n", expected); /* of two columns one name is enough */
    assert_rows("id,class\na.jpg,cat\nb.jpg,dog\n", expected);
    assert_rows("class,id\ncat,a.jpg\ndog,b.jpg\n", expected);
    /* A first picture of a class that is called like a column stays a picture. */
    assert_rows("a.jpg,image\nb.jpg,class\n", ROWS("a.jpg|image", "b.jpg|class"));
    assert_rows("x/1,image\nx/2,class\n", ROWS("x/1|image", "x/2|class"));
    assert_rows("a.jpg,b.jpg\n", ROWS("a.jpg|b.jpg"));
    assert_rows("pith,path,class\n1,a.jpg,cat\n2,b.jpg,dog\n", expected); /* as long as a name, and no name */
}

/* Rows that take the least that a row can. */
static void the_shortest_rows_have_room(void **state)
{
    (void)state;
    enum { ROWS = 100 };
    for (int end = 0; end < 2; end++) { /* without the last end of line, and with it */
        char rows[ROWS * 4 + 1] = "";
        for (int i = 0; i < ROWS; i++)
            strcat(rows, i + end < ROWS ? "/,b\n" : "/,b");
        assert_int_equal(parse(rows), RC_OK);
        assert_int_equal(list.count, ROWS);
        assert_string_equal(list.row[ROWS - 1].class_name, "b");
        rc_csv_list_free(&list);
    }
}

static void fields_are_read_as_they_are_written(void **state)
{
    (void)state;
    assert_rows("\xEF\xBB\xBFpath,class\r\n a.jpg , cat \r\n\r\n\t\n\"b,1.jpg\" ,\"a \"\"b\"\"\"\r\n",
                ROWS("a.jpg|cat", "b,1.jpg|a \"b\""));
    assert_rows("\xEF\xBB\xBFpath,x,class\na.jpg,y,cat\n", ROWS("a.jpg|cat")); /* the mark is no part of a name */
    assert_rows("path;class\na,1.jpg;x,y\n", ROWS("a,1.jpg|x,y"));
    assert_rows("\n \r\npath;class\na,1.jpg;x,y\n", ROWS("a,1.jpg|x,y")); /* behind empty lines, too */
    assert_rows("path\tclass\na 1.jpg\tbig cat\n", ROWS("a 1.jpg|big cat"));
    assert_rows("path\tid\tclass\na.jpg\t\tcat\n", ROWS("a.jpg|cat")); /* a tab that separates is no blank */
    assert_rows("\"path;1\",class\na.jpg,b\n", ROWS("a.jpg|b"));       /* the separator stands outside of quotes */
    assert_rows("path,class\n\"a\nb.jpg\",c\nd.jpg,5\"\n", ROWS("a\nb.jpg|c", "d.jpg|5\""));
    assert_rows("path,class\na,\" c\"\nb,\"d \"\n\" c \",\"\t d  e\r\n\"\n", ROWS("a|c", "b|d", " c |d  e"));
    assert_rows("path,class,\na.jpg,c,\nb.jpg,d,", ROWS("a.jpg|c", "b.jpg|d"));
    /* Lines that spreadsheets leave behind a table; what stands in quotes is empty, too. */
    assert_rows("path,class\na.jpg,c\n,\n,,,\n\"\" ,\nb.jpg,d\n,", ROWS("a.jpg|c", "b.jpg|d"));
    assert_int_equal(parse(""), RC_OK);
    assert_int_equal(list.count, 0);
    rc_csv_list_free(&list);
    assert_int_equal(parse("\n \r\n"), RC_OK);
    assert_int_equal(list.count, 0);
    rc_csv_list_free(&list);
}

static void tables_without_classes_have_no_rows(void **state)
{
    (void)state;
    static const char *const tables[] = {"path\na.jpg\n", "id,path,width\n1,a.jpg,7\n"};
    for (int i = 0; i < 2; i++) {
        assert_int_equal(parse(tables[i]), RC_OK);
        assert_true(list.no_classes && list.count == 0);
        rc_csv_list_free(&list);
    }
}

static void a_column_may_name_the_parts(void **state)
{
    (void)state;
    static const rc_set_part parts[] = {RC_SET_VAL, RC_SET_TRAIN, RC_SET_TEST, RC_SET_VAL, RC_SET_TRAIN, RC_SET_TEST};
    assert_rows("split,path,class\nvalid,a,x\nTrain,b,x\nTEST,c,x\nvalidation,d,x\ntraining,e,x\ntesting,f,x\n",
                ROWS("a|x", "b|x", "c|x", "d|x", "e|x", "f|x"));
    assert_int_equal(
        parse("x,path,class,Subset\n1,a,x,val\n1,b,x,train\n1,c,x,\" test \"\n1,d,x,VALID\n1,e,x,Training\n"
              "1,f,x,Testing\n"),
        RC_OK);
    for (int i = 0; i < 6; i++)
        assert_int_equal(list.row[i].part, parts[i]);
    rc_csv_list_free(&list);
    /* A column whose values are no parts is of something else. */
    assert_int_equal(parse("path,class,set\na,x,garden\nb,x,forest\n"), RC_OK);
    assert_true(list.count == 2 && list.row[0].part == RC_SET_PARTS && list.row[1].part == RC_SET_PARTS);
    rc_csv_list_free(&list);
    assert_refused("path,class,split\na,x,train\nb,x,tests\n",
                   "'t.csv', line 3: of no part, while other lines are; expected train, val or test in the column of "
                   "parts");
    assert_refused("path,class,split\na,x,\nb,x,train\n",
                   "'t.csv', line 2: of no part, while other lines are; expected train, val or test in the column of "
                   "parts");
}

static void damage_is_told_by_line(void **state)
{
    (void)state;
    char many[2048] = "path", behind_a_line[2048 + 1];
    static const char no_column[] = "no column of pictures, expected a first line such as 'path,class' that names the "
                                    "columns, or lines such as 'cats/1.jpg,cat'";
    char message[512];
    snprintf(message, sizeof message, "'t.csv', line 1: %s", no_column);
    assert_refused("a,b\nc.jpg,d\n", message);
    assert_refused("a.jpg,b,c\n", message);
    assert_refused("a.jpg\n", message);
    assert_refused("path,class,a.jpg\n", message);
    assert_refused("x,class,z\n", message);
    snprintf(message, sizeof message, "'t.csv', line 3: %s", no_column);
    assert_refused("\n\na.jpg\n", message);
    assert_refused("path,class\na.jpg,b\nc.jpg\n", "'t.csv', line 3: 1 column, expected 2 as in the first line");
    assert_refused("path,class\n\"x\n.jpg\",b\nc.jpg,d,e\n",
                   "'t.csv', line 4: 3 columns, expected 2 as in the first line");
    assert_refused("path,class\n,b\n", "'t.csv', line 2: no path");
    assert_refused("path,class\na.jpg,\n", "'t.csv', line 2: no class");
    assert_refused("path,class\na.jpg,\" \"\n", "'t.csv', line 2: no class");
    assert_refused("path,class\na.jpg,\"b\n\n", "'t.csv', line 2: a quote has no end");
    assert_refused("path,class\n\"a\n.jpg\"x,b\n",
                   "'t.csv', line 3: 'x,b\\n' behind a quote, expected ',' or the end of the line");
    for (int i = 1; i < 256; i++)
        strcat(many, ",x");
    assert_int_equal(parse(many), RC_OK);
    assert_true(list.no_classes);
    rc_csv_list_free(&list);
    strcat(many, ",x");
    assert_refused(many, "'t.csv', line 1: more than 256 columns");
    snprintf(behind_a_line, sizeof behind_a_line, "\n%s", many);
    assert_refused(behind_a_line, "'t.csv', line 2: more than 256 columns");
    assert_int_equal(parse_bytes("path,class\na\0b,c", 16), RC_FORMAT);
    data_assert_words("'t.csv' has a zero byte, which no text in UTF-8 has; save the table as CSV in UTF-8");
}

/* ---- data sets -------------------------------------------------------------------------------------------------- */

/* Pictures p/0.ppm, p/1.ppm, ... of one colour, whose red is 10, 11, ... */
static void write_pictures(int count)
{
    for (int i = 0; i < count; i++) {
        char path[64];
        snprintf(path, sizeof path, "p/%d.ppm", i);
        data_write_colour(path, 4, 4, 10 + i, 0, 0);
    }
}

static void assert_split(const rc_split *split, int count, const int *reds, const int *labels)
{
    assert_int_equal(split->count, count);
    for (int i = 0; i < count; i++) {
        assert_int_equal(split->images[i * 48], reds[i]);
        assert_int_equal(split->labels[i], labels[i]);
    }
}

static void tables_come_with_a_partner(void **state)
{
    (void)state;
    rc_dataset d;
    write_pictures(5);
    data_write_text("train.CSV", "class,path\nowl,p/0.ppm\nbee,p/1.ppm\nowl,p/2.ppm\n");
    data_write_text("test.CSV", "path,class\np/3.ppm,bee\np/4.ppm,Ant\n");
    data_open("train.CSV", NULL, &d);
    assert_string_equal(d.format, "csv");
    assert_string_equal(d.name, "csv");
    assert_int_equal(d.classes, 3); /* that of the partner alone, too */
    assert_string_equal(d.class_name[0], "Ant");
    assert_string_equal(d.class_name[1], "bee");
    assert_string_equal(d.class_name[2], "owl");
    assert_split(&d.train, 3, (int[]){10, 11, 12}, (int[]){2, 1, 2});
    assert_split(&d.test, 2, (int[]){13, 14}, (int[]){1, 0});
    assert_int_equal(d.left_out, 0);
    rc_dataset_close(&d);
}

/* Of two partners one is read, and the other named. */
static void a_second_partner_is_left_out(void **state)
{
    (void)state;
    data_log log;
    rc_dataset d;
    write_pictures(4);
    data_log_start(&log);
    data_write_text("train.csv", "path,class\np/0.ppm,a\np/1.ppm,b\n");
    data_write_text("val.csv", "path,class\np/2.ppm,a\n");
    data_write_text("test.csv", "path,class\np/3.ppm,a\n");
    data_open("train.csv", &(rc_data_settings){.log = &log.log}, &d);
    assert_split(&d.test, 1, (int[]){12}, (int[]){0});
    assert_int_equal(d.left_out, 1);
    assert_non_null(strstr(log.text, "left out: test.csv (beside val.csv, which is read)\n"));
    rc_dataset_close(&d);
}

/* As folders do it: test goes before val, and without either the table is split. A partner has the last word. */
static void a_table_may_name_its_parts(void **state)
{
    (void)state;
    data_log log;
    rc_dataset d;
    write_pictures(5);
    rc_data_settings settings = {.log = &log.log, .test_part = 0.5};
    data_log_start(&log);
    data_write_text("train.csv", "path,class,split\np/0.ppm,a,train\np/1.ppm,a,test\np/2.ppm,b,train\np/3.ppm,b,test\n"
                                 "p/4.ppm,b,test\n");
    data_open("train.csv", &settings, &d);
    assert_split(&d.train, 2, (int[]){10, 12}, (int[]){0, 1});
    assert_split(&d.test, 3, (int[]){11, 13, 14}, (int[]){0, 1, 1});
    assert_int_equal(d.left_out, 0);
    rc_dataset_close(&d);
    data_write_text("t.csv", "path,class,split\np/0.ppm,a,train\np/1.ppm,a,test\np/2.ppm,b,val\n");
    data_open("t.csv", &settings, &d);
    assert_split(&d.train, 1, (int[]){10}, (int[]){0});
    assert_split(&d.test, 1, (int[]){11}, (int[]){0});
    assert_int_equal(d.left_out, 1);
    assert_non_null(strstr(log.text, "left out: t.csv (its lines of val, beside those of test)\n"));
    rc_dataset_close(&d);
    data_write_text("t.csv", "path,class,split\np/0.ppm,a,train\np/2.ppm,b,val\n");
    data_open("t.csv", &settings, &d);
    assert_split(&d.test, 1, (int[]){12}, (int[]){1});
    assert_int_equal(d.left_out, 0);
    rc_dataset_close(&d);
    data_write_text("t.csv", "path,class,split\np/0.ppm,a,train\np/1.ppm,a,train\n");
    data_open("t.csv", &settings, &d);
    assert_true(d.train.count == 1 && d.test.count == 1);
    rc_dataset_close(&d);
    data_write_text("val.csv", "p/0.ppm,a\n");
    data_open("train.csv", &settings, &d);
    assert_true(d.train.count == 4 && d.test.count == 1);
    rc_dataset_close(&d);
}

static void a_partner_without_classes_is_left_out(void **state)
{
    (void)state;
    data_log log;
    rc_dataset d;
    write_pictures(5);
    data_write_text("train.tsv", "path\tclass\np/0.ppm\ta\np/1.ppm\ta\np/2.ppm\tb\np/3.ppm\tb\n");
    data_write_text("val.tsv", "path\np/4.ppm\n");
    data_log_start(&log);
    data_open("train.tsv", &(rc_data_settings){.test_part = 0.5, .log = &log.log}, &d);
    assert_true(d.train.count == 2 && d.test.count == 2 && d.left_out == 1);
    assert_non_null(strstr(log.text, "left out: val.tsv (a table without a column of classes, which cannot be "
                                     "scored)\n"));
    rc_dataset_close(&d);
    data_assert_refused("val.tsv", NULL, RC_FORMAT,
                        "'val.tsv' has no column of classes; expected a first line such as 'path,class'");
    data_write_text("val.tsv", "path\tclass\n");
    data_assert_refused("train.tsv", NULL, RC_FORMAT,
                        "'val.tsv' names no pictures; expected: csv: a table PATH.csv of pictures and classes");
}

static void classes_of_numbers_are_sorted_as_numbers(void **state)
{
    (void)state;
    rc_dataset d;
    write_pictures(6);
    data_write_text("n.csv", "p/0.ppm,10\np/1.ppm,9\np/2.ppm,0\np/3.ppm,100\np/4.ppm,9\np/5.ppm,2\n");
    data_open("n.csv", &(rc_data_settings){.test_part = 0}, &d);
    static const char *const numbers[] = {"0", "2", "9", "10", "100"};
    assert_int_equal(d.classes, 5);
    for (int i = 0; i < 5; i++)
        assert_string_equal(d.class_name[i], numbers[i]);
    assert_split(&d.train, 6, (int[]){10, 11, 12, 13, 14, 15}, (int[]){3, 2, 0, 4, 2, 1});
    rc_dataset_close(&d);
    static const char *const others[] = {"p/0.ppm,10\np/1.ppm,9\np/2.ppm,x\n", "p/0.ppm,10\np/1.ppm,9\np/2.ppm,07\n"};
    for (int i = 0; i < 2; i++) { /* not all are numbers: by their bytes */
        data_write_text("n.csv", others[i]);
        data_open("n.csv", &(rc_data_settings){.test_part = 0}, &d);
        assert_string_equal(d.class_name[i], "10");
        assert_string_equal(d.class_name[i + 1], "9");
        rc_dataset_close(&d);
    }
}

static void what_a_table_names_is_checked(void **state)
{
    (void)state;
    rc_dataset d;
    write_pictures(2);
    data_write_text("t.csv", "p/0.ppm,a\np/missing.ppm,b\n");
    data_assert_refused("t.csv", NULL, RC_IO,
                        "'t.csv', line 2: there is no file './p/missing.ppm'; expected paths relative to the folder of "
                        "the table, with '/' between folders (missing images can be skipped: the setting "
                        "'skip_broken')");
    data_open("t.csv", &(rc_data_settings){.skip_broken = true}, &d);
    assert_true(d.broken == 1 && d.train.count == 1);
    rc_dataset_close(&d);
    assert_int_equal(symlink("nowhere", "p/lost.ppm"), 0);
    data_write_text("t.csv", "path,class,split\np/lost.ppm,a,train\np/0.ppm,b,train\np/1.ppm,b,test\n");
    data_assert_refused("t.csv", NULL, RC_IO, "'t.csv', line 2: there is no file './p/lost.ppm'");
    data_write_text("t.csv", "path,class,split\np/0.ppm,b,train\np/lost.ppm,b,test\n");
    data_assert_refused("t.csv", NULL, RC_IO, "'t.csv', line 3: there is no file './p/lost.ppm'");
    data_write_text("t.csv", "p/0.ppm,a\np/0.ppm,b\n");
    data_assert_refused("t.csv", NULL, RC_FORMAT, "p/0.ppm");
    data_write_text("t.csv", "p/0.ppm,a\np/1.ppm,\"b\nc\"\n");
    data_assert_refused(
        "t.csv", NULL, RC_FORMAT,
        "'t.csv': name of class 1: byte 1 (0x0A) is not printable UTF-8; save the table as CSV in UTF-8");
    char *line = malloc(9000);
    snprintf(line, 9000, "path,class\n\n\"p/0.ppm\",\"a\"\n%05000d.ppm,b\n", 1);
    data_write_text("t.csv", line);
    free(line);
    data_assert_refused("t.csv", NULL, RC_FORMAT, "'t.csv', line 4: a path of 5004 bytes, expected at most 4095");
    data_write_text("t.dat", "p/0.ppm,a\np/1.ppm,b\n");
    data_assert_refused("t.dat", NULL, RC_FORMAT, "t.dat");
    data_write_colour("folder.csv/a/0.ppm", 4, 4, 1, 0, 0);
    data_write_colour("folder.csv/b/0.ppm", 4, 4, 2, 0, 0);
    data_open("folder.csv", NULL, &d);
    assert_string_equal(d.format, "folder");
    rc_dataset_close(&d);
    data_write_text("t.csv", "");
    data_assert_refused("t.csv", NULL, RC_FORMAT, "'t.csv' names no pictures; expected: csv: ");
}

static void classes_have_an_end(void **state)
{
    (void)state;
    static const char *const messages[] = {
        "p/0.ppm' is named in two lines, of class '0' and of class '1'; take one of them out",
        "'t.csv' has 30001 classes, expected at most 30000"};
    write_pictures(1);
    for (int more = 0; more < 2; more++) {
        char *lines = malloc(30001 * 20), *at = lines;
        for (int i = 0; i < 30000 + more; i++)
            at += snprintf(at, 20, "p/0.ppm,%d\n", i);
        data_write_text("t.csv", lines);
        free(lines);
        data_assert_refused("t.csv", NULL, RC_FORMAT, messages[more]);
    }
}

/* Whatever byte is damaged, the message names the table or a picture. */
static void damaged_tables(void **state)
{
    (void)state;
    static const char table[] = "path,class\np/0.ppm,a\n\"p/1.ppm\",\"b\"\n",
                      values[] = {0, '\n', ' ', '/', '0', '"', ',', ';', 'x', '\xFF'};
    char damaged[sizeof table];
    write_pictures(2);
    for (size_t at = 0; at < sizeof table - 1; at++)
        for (size_t i = 0; i < sizeof values; i++) {
            rc_dataset d;
            memcpy(damaged, table, sizeof table);
            damaged[at] = values[i];
            data_write("t.csv", damaged, sizeof table - 1);
            rc_clear_message();
            if (rc_dataset_open("t.csv", &(rc_data_settings){.test_part = 0}, &d) == RC_OK)
                rc_dataset_close(&d);
            else if (strstr(rc_message(), "t.csv") == NULL && strchr(rc_message(), '/') == NULL)
                fail_msg("byte %zu is %d: %s", at, values[i], rc_message());
        }
}

int main(void)
{
#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, data_enter_folder, data_leave_folder)
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(columns_are_found),
        cmocka_unit_test(the_shortest_rows_have_room),
        cmocka_unit_test(fields_are_read_as_they_are_written),
        cmocka_unit_test(tables_without_classes_have_no_rows),
        cmocka_unit_test(a_column_may_name_the_parts),
        cmocka_unit_test(damage_is_told_by_line),
        IN_FOLDER(tables_come_with_a_partner),
        IN_FOLDER(a_table_may_name_its_parts),
        IN_FOLDER(a_second_partner_is_left_out),
        IN_FOLDER(a_partner_without_classes_is_left_out),
        IN_FOLDER(classes_of_numbers_are_sorted_as_numbers),
        IN_FOLDER(what_a_table_names_is_checked),
        IN_FOLDER(classes_have_an_end),
        IN_FOLDER(damaged_tables),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    free(text);
    return failed;
}
