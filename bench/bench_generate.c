/* bench_generate: how fast a spec is enumerated into variants, and variants are expanded into sources, with the
   templates built in.

       bench_generate [SECONDS] [COMMIT]      JSON lines on stdout; exit 1 when a promise is missed

   Promised: 10,000 variants enumerated and 500 sources expanded per second, on one core. */
#include "gen.h"
#include "clock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>

static const char big_spec[] = "family: attention_forward\n"
                               "problem:\n"
                               "  dtype: [fp32, fp16, bf16]\n"
                               "  head_dim: [16, 24, 32, 40, 48, 64, 80, 96, 112, 128, 160, 192, 256]\n"
                               "  mask: [none, causal]\n"
                               "schedule:\n"
                               "  algorithm: [materialized, multi_pass, flash, flash_tiled]\n"
                               "  loop_order: [q_outer, kv_outer]\n"
                               "  block_m: [16, 32, 64, 128]\n"
                               "  block_n: [16, 32, 64, 128]\n"
                               "require:\n"
                               "  - block_m <= 64 or head_dim <= 128\n"
                               "  - block_n % 16 == 0\n";

struct measured {
    long count, feasible;
    double seconds;
};

/* Enumerates the whole spec repeatedly, for at least `seconds`. */
static struct measured enumerate(const struct template_set *set, const struct spec *spec, double seconds) {
    struct measured result = {0};
    double start = clock_seconds();
    do {
        struct variants variants;
        struct variant variant;
        for (variants_open(&variants, spec, set); variants_next(&variants, &variant); result.count++)
            result.feasible += variant.feasible;
        result.seconds = clock_seconds() - start;
    } while (result.seconds < seconds);
    return result;
}

/* Expands the feasible variants in turn, repeatedly, for at least `seconds`. */
static struct measured expand(const struct template_set *set, const struct spec *spec, double seconds) {
    struct measured result = {0};
    while (result.seconds < seconds) {
        struct variants variants;
        struct variant variant;
        variants_open(&variants, spec, set);
        while (result.seconds < seconds && variants_next(&variants, &variant)) {
            struct source source;
            struct diag diag = {0};
            if (!variant.feasible)
                continue;
            double start = clock_seconds();
            bool expanded = source_expand(set, &variant, "bench", &source, &diag);
            source_free(&source);
            result.seconds += clock_seconds() - start;
            if (!expanded) {
                fprintf(stderr, "%s", text_string(&diag.text));
                exit(2);
            }
            result.count++;
        }
        if (result.count == 0) {
            fprintf(stderr, "no variant is feasible\n");
            exit(2);
        }
    }
    result.feasible = result.count;
    return result;
}

/* Writes the processor's name from /proc/cpuinfo, up to the first quote or backslash; "unknown" without one. */
static void find_processor(char *out, size_t size) {
    char line[256];
    FILE *file = fopen("/proc/cpuinfo", "r");
    snprintf(out, size, "unknown");
    while (file && fgets(line, sizeof line, file)) {
        const char *value = strstr(line, ": ");
        if (strncmp(line, "model name", 10) != 0 || !value)
            continue;
        snprintf(out, size, "%.*s", (int)strcspn(value + 2, "\"\\\n"), value + 2);
        break;
    }
    if (file)
        fclose(file);
}

static bool report(const char *what, struct measured measured, double promised, const char *commit) {
    struct utsname system;
    char processor[128];
    double rate = (double)measured.count / measured.seconds;
    uname(&system);
    find_processor(processor, sizeof processor);
    printf("{\"bench\": \"generate\", \"what\": \"%s\", \"per_second\": %.0f, \"promised\": %.0f, \"count\": %ld, "
           "\"feasible\": %ld, \"seconds\": %.3f, \"version\": \"%s\", \"commit\": \"%.40s\", \"processor\": \"%s\", "
           "\"system\": \"%s %s\", \"compiler\": \"%s\"}\n",
           what, rate, promised, measured.count, measured.feasible, measured.seconds, GEN_VERSION, commit, processor,
           system.sysname, system.machine, __VERSION__);
    return rate >= promised;
}

int main(int argc, char **argv) {
    double seconds = argc > 1 ? atof(argv[1]) : 1;
    const char *commit = argc > 2 && !strpbrk(argv[2], "\"\\") ? argv[2] : "";
    struct diag diag = {0};
    struct template_set *set = template_set_open(NULL, NULL, &diag);
    struct spec *spec = set ? spec_read("bench", big_spec, strlen(big_spec), &diag) : NULL;
    if (!spec) {
        fprintf(stderr, "%s", text_string(&diag.text));
        return 2;
    }
    bool kept = report("variants enumerated", enumerate(set, spec, seconds), 10000, commit);
    kept = report("sources expanded", expand(set, spec, seconds), 500, commit) && kept;
    spec_free(spec);
    template_set_close(set);
    diag_free(&diag);
    return kept ? 0 : 1;
}
