#include "cli/predict_csv.h"

#include <math.h>
#include <stdio.h>

#include "cli/cli.h"

/* What a cell is made of. */
typedef struct answer {
    const recollect_model *model;
    const recollect_prediction *prediction;
    int rank; /* of the class, from 0 */
} answer;

static void put_file(rc_csv *line, const answer *a)
{
    rc_csv_text(line, a->prediction->path);
}

static void put_class(rc_csv *line, const answer *a)
{
    if (a->rank < a->prediction->top)
        rc_csv_text(line, recollect_model_class_name(a->model, a->prediction->labels[a->rank]));
    else
        rc_csv_empty(line);
}

static void put_probability(rc_csv *line, const answer *a)
{
    rc_csv_real(line, a->rank < a->prediction->top ? a->prediction->probabilities[a->rank] : (double)NAN);
}

static void put_unfamiliarity(rc_csv *line, const answer *a)
{
    rc_csv_real(line, a->prediction->unfamiliarity);
}

static void put_stranger(rc_csv *line, const answer *a)
{
    rc_csv_real(line, a->prediction->status == RECOLLECT_OK ? a->prediction->stranger : (double)NAN);
}

static void put_none(rc_csv *line, const answer *a)
{
    if (a->prediction->status == RECOLLECT_OK)
        rc_csv_word(line, a->prediction->none_of_these ? "true" : "false");
    else
        rc_csv_empty(line);
}

static void put_error(rc_csv *line, const answer *a)
{
    char words[RC_WORDS_SIZE];
    if (a->prediction->status != RECOLLECT_OK)
        rc_csv_text(line, rc_own_words(a->prediction->message, words, sizeof words));
    else
        rc_csv_empty(line);
}

/* The columns in order. Neighbours that are ranked stand together once for each class that is shown: class_1,
 * probability_1, class_2, ... */
static const struct {
    const char *name;
    bool ranked;
    void (*put)(rc_csv *line, const answer *a);
} columns[] = {{"file", false, put_file},
               {"class", true, put_class},
               {"probability", true, put_probability},
               {"unfamiliarity", false, put_unfamiliarity},
               {"stranger", false, put_stranger},
               {"none_of_these", false, put_none},
               {"error", false, put_error}};

enum { COLUMNS = sizeof columns / sizeof *columns };

static void put_name(rc_csv *line, int column, int rank)
{
    char name[64], number[16] = "";
    if (columns[column].ranked)
        snprintf(number, sizeof number, "_%d", rank + 1);
    snprintf(name, sizeof name, "%s%s", columns[column].name, number);
    rc_csv_word(line, name);
}

bool rc_predict_csv(rc_csv *line, const recollect_model *model, const recollect_prediction *prediction, int top)
{
    for (int first = 0, end; first < COLUMNS; first = end) {
        for (end = first + 1; end < COLUMNS && columns[first].ranked && columns[end].ranked;)
            end++;
        for (int rank = 0; rank < (columns[first].ranked ? top : 1); rank++)
            for (int column = first; column < end; column++) {
                if (prediction != NULL)
                    columns[column].put(line, &(answer){model, prediction, rank});
                else
                    put_name(line, column, rank);
            }
    }
    return rc_csv_end(line);
}
