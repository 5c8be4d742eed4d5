/* Texts and tables of reports: what comes from outside stays text in every format. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "base/memory.h"
#include "report/table.h"

static rc_text text;

static int free_text(void **state)
{
    (void)state;
    rc_text_free(&text);
    return 0;
}

/* What was written since the last call. */
static const char *written(void)
{
    static char copy[4096];
    assert_int_equal(text.status, RC_OK);
    assert_true(text.used < sizeof copy);
    memcpy(copy, text.bytes != NULL ? text.bytes : "", text.used + 1);
    rc_text_free(&text);
    return copy;
}

static const char *html(const char *foreign, int most)
{
    rc_text_html(&text, foreign, most);
    return written();
}

static const char *spelled(void (*write)(rc_text *text, const char *foreign), const char *foreign)
{
    write(&text, foreign);
    return written();
}

static void pages_show_and_run_nothing(void **state)
{
    (void)state;
    assert_string_equal(html("<script>alert(1)</script>", RC_TEXT_WHOLE), "&lt;script&gt;alert(1)&lt;/script&gt;");
    assert_string_equal(html("\" onload='x' & <", RC_TEXT_WHOLE), "&quot; onload=&#39;x&#39; &amp; &lt;");
    assert_string_equal(html("\xE2\x80\xAE"
                             "cba",
                             RC_TEXT_WHOLE),
                        "\\u202ecba");
    assert_string_equal(html("a\nb\x1b\xFF", RC_TEXT_WHOLE), "a\\nb\\u001b\\xff");
    assert_string_equal(html("\xD7\xA9\xD7\x9C\xD7\x95\xD7\x9D", RC_TEXT_WHOLE), "\xD7\xA9\xD7\x9C\xD7\x95\xD7\x9D");
}

static void long_names_are_cut_between_characters(void **state)
{
    (void)state;
    assert_string_equal(html("abcd", 4), "abcd");
    assert_string_equal(html("abcde", 4), "abc\xE2\x80\xA6");
    assert_string_equal(html("\xC3\xA4\xC3\xB6\xC3\xBC", 2), "\xC3\xA4\xE2\x80\xA6");
    assert_string_equal(html("<<<<", 2), "&lt;\xE2\x80\xA6");
    assert_string_equal(html("", 4), "");
}

static void other_formats_show_and_obey_nothing(void **state)
{
    (void)state;
    assert_string_equal(spelled(rc_text_markdown, "a|b `c` *d* _e_ <i> [f](g) \\ # ~"),
                        "a\\|b \\`c\\` \\*d\\* \\_e\\_ &lt;i&gt; \\[f\\](g) \\\\ \\# \\~");
    assert_string_equal(spelled(rc_text_latex, "\\input{x} 50% & $1_2^3 #~ <\">"),
                        "\\textbackslash{}input\\{x\\} 50\\% \\& \\$1\\_2\\textasciicircum{}3 \\#\\textasciitilde{} "
                        "\\textless{}\\char34{}\\textgreater{}");
    assert_string_equal(spelled(rc_text_latex, "[a] *b|c"), "{[}a] {*}b\\textbar{}c");
    assert_string_equal(spelled(rc_text_csv, "say \"no\", twice\n"), "\"say \"\"no\"\", twice\\n\"");
}

static const char *duration(double seconds)
{
    rc_text_duration(&text, seconds);
    return written();
}

static const char *size(double bytes)
{
    rc_text_size(&text, bytes);
    return written();
}

static void numbers_are_for_people(void **state)
{
    (void)state;
    assert_string_equal(duration(0), "0.0 s");
    assert_string_equal(duration(9.94), "9.9 s");
    assert_string_equal(duration(9.96), "0:10");
    assert_string_equal(duration(59.6), "1:00");
    assert_string_equal(duration(125), "2:05");
    assert_string_equal(duration(3599.4), "59:59");
    assert_string_equal(duration(3600), "1:00:00");
    assert_string_equal(duration(3661), "1:01:01");
    assert_string_equal(duration(2 * 3600 + 62 * 60 + 3), "3:02:03");
    assert_string_equal(duration(NAN), "\xE2\x80\x93");
    assert_string_equal(duration(-1), "\xE2\x80\x93");
    assert_string_equal(size(0), "0 bytes");
    assert_string_equal(size(999), "999 bytes");
    assert_string_equal(size(18944), "18.9 kB");
    assert_string_equal(size(1999000), "2 MB");
    assert_string_equal(size(999600), "1 MB");
    assert_string_equal(size(5e15), "5e+03 TB");
}

static const char *base64(const char *bytes, size_t count)
{
    rc_text_base64(&text, bytes, count);
    return written();
}

static void bytes_become_letters(void **state)
{
    (void)state;
    assert_string_equal(base64("Man", 3), "TWFu");
    assert_string_equal(base64("Ma", 2), "TWE=");
    assert_string_equal(base64("M", 1), "TQ==");
    assert_string_equal(base64("", 0), "");
    assert_string_equal(base64("\xFB\xFF\xFE", 3), "+//+");
}

static void a_piece_that_is_too_long_is_told(void **state)
{
    (void)state;
    rc_text_format(&text, "%2000d", 1);
    assert_int_equal(text.status, RC_INTERNAL);
    rc_text_add(&text, "more");
    assert_int_equal(text.used, 0);
    rc_text_free(&text);
}

/* ---- tables ------------------------------------------------------------------------------------------------------ */

static rc_table example(void)
{
    rc_table table;
    rc_table_begin(&table, "example", "numbers & names");
    rc_table_column_add(&table, "name <b>", "name", RC_COLUMN_TEXT);
    rc_table_column_add(&table, "last", "last", RC_COLUMN_PERCENT);
    rc_table_column_add(&table, "difference", "difference", RC_COLUMN_DIFFERENCE);
    rc_table_column_add(&table, "time", "seconds", RC_COLUMN_SECONDS);
    rc_table_column_add(&table, "kept", "bytes", RC_COLUMN_BYTES);
    rc_table_column_add(&table, "runs", "runs", RC_COLUMN_COUNT);
    rc_table_mark(&table, 3);
    rc_table_text(&table, "a_b");
    rc_table_spread(&table, 52.456, 0.349);
    rc_table_number(&table, -2.5);
    rc_table_number(&table, 65);
    rc_table_number(&table, 18944);
    rc_table_number(&table, 3);
    rc_table_text(&table, "c|d");
    rc_table_spread(&table, 7, NAN);
    rc_table_number(&table, 0.58);
    rc_table_number(&table, NAN);
    rc_table_number(&table, NAN);
    rc_table_number(&table, NAN);
    return table;
}

static const char *example_as(rc_report_format format)
{
    rc_table table = example();
    assert_int_equal(rc_table_rows(&table), 2);
    rc_table_write(&table, format, &text);
    rc_table_free(&table);
    return written();
}

static void tables_as_html(void **state)
{
    (void)state;
    assert_string_equal(
        example_as(RC_REPORT_HTML),
        "<div class=\"sheet\"><h4>numbers &amp; names</h4><div class=\"scroll\"><table class=\"example\"><thead><tr>"
        "<th scope=\"col\" class=\"words\"><bdi>name &lt;b&gt;</bdi></th><th scope=\"col\"><bdi>last</bdi></th>"
        "<th scope=\"col\"><bdi>difference</bdi></th><th scope=\"col\"><bdi>time</bdi></th>"
        "<th scope=\"col\"><bdi>kept</bdi></th><th scope=\"col\"><bdi>runs</bdi></th></tr></thead><tbody>\n"
        "<tr><th scope=\"row\" class=\"words\"><i class=\"dot c3\"></i><bdi>a_b</bdi></th>"
        "<td data-v=\"52.456\" class=\"bar\" style=\"--P:52.5%\">52.46<small> \xC2\xB1 0.35</small></td>"
        "<td data-v=\"-2.5\" class=\"below\">\xE2\x88\x92"
        "2.50</td><td data-v=\"65\">1:05</td>"
        "<td data-v=\"18944\">18.9 kB</td><td data-v=\"3\">3</td></tr>\n"
        "<tr><th scope=\"row\" class=\"words\"><bdi>c|d</bdi></th>"
        "<td data-v=\"7\" class=\"bar\" style=\"--P:7.0%\">7.00</td><td data-v=\"0.58\" class=\"near\">+0.58</td>"
        "<td>\xE2\x80\x93</td><td>\xE2\x80\x93</td><td>\xE2\x80\x93</td></tr>\n"
        "</tbody></table></div></div>\n");
}

static void tables_as_markdown(void **state)
{
    (void)state;
    assert_string_equal(example_as(RC_REPORT_MARKDOWN),
                        "### numbers &amp; names\n\n"
                        "| name &lt;b&gt; | last | difference | time | kept | runs |\n"
                        "| --- | ---: | ---: | ---: | ---: | ---: |\n"
                        "| a\\_b | 52.46 \xC2\xB1 0.35 | \xE2\x88\x92"
                        "2.50 | 1:05 | 18.9 kB | 3 |\n"
                        "| c\\|d | 7.00 | +0.58 | \xE2\x80\x93 | \xE2\x80\x93 | \xE2\x80\x93 |\n");
}

static void tables_as_latex(void **state)
{
    (void)state;
    assert_string_equal(
        example_as(RC_REPORT_LATEX),
        "\\begin{table}\n\\centering\n\\caption{numbers \\& names}\n\\begin{tabular}{lrrrrr}\n\\toprule\n"
        "name \\textless{}b\\textgreater{} & last & difference & time & kept & runs \\\\\n\\midrule\n"
        "a\\_b & 52.46 \xC2\xB1 0.35 & \xE2\x88\x92"
        "2.50 & 1:05 & 18.9 kB & 3 \\\\\n"
        "c\\textbar{}d & 7.00 & +0.58 & \xE2\x80\x93 & \xE2\x80\x93 & \xE2\x80\x93 \\\\\n"
        "\\bottomrule\n\\end{tabular}\n\\end{table}\n");
}

static void tables_as_csv(void **state)
{
    (void)state;
    assert_string_equal(example_as(RC_REPORT_CSV), "name,last,last_deviation,difference,seconds,bytes,runs\n"
                                                   "\"a_b\",52.456,0.349,-2.5,65,18944,3\n"
                                                   "\"c|d\",7,,0.58,,,\n");
}

/* A seed may be a date, or the time in milliseconds. */
static void counts_keep_their_digits(void **state)
{
    (void)state;
    rc_table table;
    rc_table_begin(&table, "runs", "runs");
    rc_table_column_add(&table, "seed", "seed", RC_COLUMN_COUNT);
    rc_table_number(&table, 1795118675001);
    rc_table_write(&table, RC_REPORT_CSV, &text);
    rc_table_write(&table, RC_REPORT_HTML, &text);
    rc_table_free(&table);
    const char *both = written();
    assert_non_null(strstr(both, "seed\n1795118675001\n"));
    assert_non_null(strstr(both, "<td data-v=\"1795118675001\">1795118675001</td>"));
}

static void differences_say_how_large_they_are(void **state)
{
    static const struct {
        double value;
        const char *cell;
    } cases[] = {{2, "<td data-v=\"2\" class=\"near\">+2.00</td>"},
                 {2.01, "<td data-v=\"2.01\" class=\"above\">+2.01</td>"},
                 {-2.01, "<td data-v=\"-2.01\" class=\"below\">\xE2\x88\x92"
                         "2.01</td>"},
                 {0.004, "<td data-v=\"0.004\" class=\"near\">0.00</td>"},
                 {-0.004, "<td data-v=\"-0.004\" class=\"near\">0.00</td>"}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        rc_table table;
        rc_table_begin(&table, "t", "");
        rc_table_column_add(&table, "d", "d", RC_COLUMN_DIFFERENCE);
        rc_table_number(&table, cases[i].value);
        rc_table_write(&table, RC_REPORT_HTML, &text);
        rc_table_free(&table);
        assert_non_null(strstr(written(), cases[i].cell));
    }
}

static void long_heads_are_cut_on_pages(void **state)
{
    (void)state;
    rc_table table;
    rc_table_begin(&table, "t", "");
    rc_table_column_add(&table, "1234567890123456789012345678901234567890", "a", RC_COLUMN_TEXT);
    rc_table_column_add(&table, "12345678901234567890123456789012345678901", "b", RC_COLUMN_TEXT);
    rc_table_text(&table, "12345678901234567890123456789012");
    rc_table_text(&table, "123456789012345678901234567890123");
    rc_table_write(&table, RC_REPORT_HTML, &text);
    rc_table_free(&table);
    const char *html = written();
    assert_non_null(strstr(html, "<bdi>1234567890123456789012345678901234567890</bdi>"));
    assert_non_null(strstr(html, "<bdi>123456789012345678901234567890123456789\xE2\x80\xA6</bdi>"));
    assert_non_null(strstr(html, "class=\"words\"><bdi>12345678901234567890123456789012</bdi>"));
    assert_non_null(strstr(html, "class=\"words long\"><bdi>123456789012345678901234567890123</bdi>"));
}

static void large_tables_keep_every_cell(void **state)
{
    (void)state;
    rc_table table;
    rc_table_begin(&table, "t", "");
    for (int i = 0; i < 100; i++)
        rc_table_column_add(&table, "x", "x", RC_COLUMN_COUNT);
    for (int i = 0; i < 300; i++)
        rc_table_number(&table, i % 10);
    assert_int_equal(rc_table_rows(&table), 3);
    rc_table_write(&table, RC_REPORT_CSV, &text);
    rc_table_free(&table);
    assert_int_equal(strlen(written()), 4 * 200);
}

static void foreign_heads_are_quoted_in_csv(void **state)
{
    (void)state;
    rc_table table;
    rc_table_begin(&table, "t", "");
    rc_table_column_add(&table, "CwD, \"x\"", "CwD, \"x\"", RC_COLUMN_PERCENT);
    rc_table_spread(&table, 1, 2);
    rc_table_write(&table, RC_REPORT_CSV, &text);
    rc_table_free(&table);
    assert_string_equal(written(), "\"CwD, \"\"x\"\"\",\"CwD, \"\"x\"\" deviation\"\n1,2\n");
}

#define TEST(test) cmocka_unit_test_teardown(test, free_text)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(pages_show_and_run_nothing),
        TEST(long_names_are_cut_between_characters),
        TEST(other_formats_show_and_obey_nothing),
        TEST(numbers_are_for_people),
        TEST(bytes_become_letters),
        TEST(a_piece_that_is_too_long_is_told),
        TEST(tables_as_html),
        TEST(tables_as_markdown),
        TEST(tables_as_latex),
        TEST(tables_as_csv),
        TEST(counts_keep_their_digits),
        TEST(differences_say_how_large_they_are),
        TEST(long_heads_are_cut_on_pages),
        TEST(large_tables_keep_every_cell),
        TEST(foreign_heads_are_quoted_in_csv),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
