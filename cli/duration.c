#include "duration.h"

#include <string.h>

/* Parses digits by hand: strtod uses the locale's decimal point, and accepts "inf". */
bool duration_read(const char *text, double *seconds) {
    static const char units[] = "smh";
    static const double in_seconds[] = {1, 60, 3600};
    double value = 0, place = 1;
    const char *at = text;
    for (; *at >= '0' && *at <= '9'; at++)
        value = 10 * value + (*at - '0');
    if (at > text && *at == '.')
        for (at++; *at >= '0' && *at <= '9'; at++)
            value += (place /= 10) * (*at - '0');
    const char *unit = *at ? strchr(units, *at) : units;
    if (at == text || !unit || (*at && at[1]))
        return false;
    *seconds = value * in_seconds[unit - units];
    return *seconds > 0 && *seconds < 366.0 * 86400;
}
