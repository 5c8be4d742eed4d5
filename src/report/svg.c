#include "report/svg.h"

#include <math.h>
#include <stdio.h>

void rc_svg_begin(rc_text *out, double height, const char *title, const char *words)
{
    rc_text_add(out, "<figure><figcaption><b>");
    rc_text_add(out, title);
    rc_text_add(out, "</b> ");
    rc_text_add(out, words);
    rc_text_format(out, "</figcaption><svg viewBox=\"0 0 %d %.0f\" role=\"img\" aria-label=\"%s\">\n", RC_SVG_WIDTH,
                   height, title);
}

void rc_svg_end(rc_text *out)
{
    rc_text_add(out, "</svg></figure>\n");
}

void rc_svg_text(rc_text *out, double x, double y, const char *class, const char *foreign, int most)
{
    rc_text_format(out, "<text x=\"%.1f\" y=\"%.1f\"", x, y);
    if (class != NULL)
        rc_text_format(out, " class=\"%s\"", class);
    rc_text_add(out, ">");
    rc_text_html(out, foreign, most);
    rc_text_add(out, "</text>\n");
}

void rc_svg_number(rc_text *out, double x, double y, const char *class, const char *format, double value)
{
    char text[64];
    snprintf(text, sizeof text, format, value);
    rc_svg_text(out, x, y, class, text, RC_TEXT_WHOLE);
}

void rc_svg_line(rc_text *out, double x1, double y1, double x2, double y2, const char *class)
{
    rc_text_format(out, "<path class=\"%s\" d=\"M%.1f %.1fL%.1f %.1f\"/>\n", class, x1, y1, x2, y2);
}

static double share(double value, double low, double high)
{
    return high > low ? (value - low) / (high - low) : 0.5;
}

double rc_plot_x(const rc_plot *plot, double x)
{
    return plot->left + plot->width * share(x, plot->x_low, plot->x_high);
}

double rc_plot_y(const rc_plot *plot, double y)
{
    return plot->top + plot->height * (1 - share(y, plot->y_low, plot->y_high));
}

double rc_nice_step(double range, int most)
{
    static const double steps[] = {1, 2, 5, 10};
    if (!(range > 0) || !isfinite(range))
        return 1;
    double power = pow(10, floor(log10(range / most)));
    for (int i = 0; i < 4; i++)
        if (range / (steps[i] * power) <= most * (1 + 1e-9))
            return steps[i] * power;
    return 20 * power;
}

void rc_plot_grid_y(rc_text *out, const rc_plot *plot, double step)
{
    for (double y = ceil(plot->y_low / step - 1e-9) * step; y <= plot->y_high + step * 1e-9; y += step) {
        double at = rc_plot_y(plot, y);
        rc_svg_line(out, plot->left, at, plot->left + plot->width, at, "grid");
        rc_svg_number(out, plot->left - 6, at + 4, "soft end", "%.4g", fabs(y) < step * 1e-9 ? 0 : y);
    }
}

void rc_plot_grid_x(rc_text *out, const rc_plot *plot, double step)
{
    for (double x = ceil(plot->x_low / step - 1e-9) * step; x <= plot->x_high + step * 1e-9; x += step) {
        double at = rc_plot_x(plot, x);
        rc_svg_line(out, at, plot->top, at, plot->top + plot->height, "grid");
        rc_svg_number(out, at, plot->top + plot->height + 16, "soft middle", "%.4g", fabs(x) < step * 1e-9 ? 0 : x);
    }
}
