#include "byte_size.h"

#include <string.h>

/* Parses digits by hand: strtod uses the locale's decimal point, and accepts "inf". */
bool byte_size_read(const char *text, uint64_t *bytes) {
    static const char units[] = "KMG";
    static const double most = (double)(1ull << 50);
    double value = 0, place = 1, unit = 1;
    const char *at = text;
    for (; *at >= '0' && *at <= '9'; at++)
        value = 10 * value + (*at - '0');
    bool good = at > text;
    if (good && *at == '.')
        for (at++; *at >= '0' && *at <= '9'; at++)
            value += (place /= 10) * (*at - '0');
    if (good && *at && strchr(units, *at))
        for (const char *step = units; step <= strchr(units, *at); step++)
            unit *= 1024;
    at += unit > 1;
    value *= unit;
    if (!good || *at || value < 1 || value > most)
        return false;
    *bytes = (uint64_t)value;
    return true;
}
