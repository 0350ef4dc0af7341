#include "bundle.h"
#include "params_layout.h"
#include "plan_text.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { WORDS_A_LINE = 6 };

/* --- writing --------------------------------------------------------------------------------------------------- */

/* Words that cannot name a variable, in C or in a C++ program that declares it. */
static bool is_keyword(const char *name) {
    static const char *const keywords[] = {
        "auto",    "bool",      "break",  "case",     "catch",    "char",      "class",    "const",    "continue",
        "default", "delete",    "do",     "double",   "else",     "enum",      "explicit", "export",   "extern",
        "false",   "float",     "for",    "friend",   "goto",     "if",        "inline",   "int",      "long",
        "mutable", "namespace", "new",    "operator", "private",  "protected", "public",   "register", "restrict",
        "return",  "short",     "signed", "sizeof",   "static",   "struct",    "switch",   "template", "this",
        "throw",   "true",      "try",    "typedef",  "typename", "union",     "unsigned", "using",    "virtual",
        "void",    "volatile",  "while"};
    for (size_t i = 0; i < sizeof keywords / sizeof *keywords; i++)
        if (strcmp(name, keywords[i]) == 0)
            return true;
    return false;
}

static bool is_identifier(const char *name) {
    for (const char *at = name; *at; at++)
        if (!isalpha((unsigned char)*at) && *at != '_' && (at == name || !isdigit((unsigned char)*at)))
            return false;
    return *name != '\0';
}

/* Writes 64-bit words, little-endian: they are aligned, and compile faster than bytes. */
static void write_binary(const struct att_bundle_kernel *kernel, int number, struct text *text) {
    const unsigned char *bytes = kernel->binary;
    text_print(text, "static const uint64_t binary_%d[] = {", number);
    for (size_t i = 0; i < kernel->size; i += 8) {
        uint64_t word = 0;
        for (size_t j = 0; j < 8 && i + j < kernel->size; j++)
            word |= (uint64_t)bytes[i + j] << 8 * j;
        text_print(text, "%s0x%" PRIx64 ",", i / 8 % WORDS_A_LINE ? " " : "\n    ", word);
    }
    text_print(text, "\n};\n\n");
}

static void write_string(const char *string, struct text *text) {
    text_print(text, "\"");
    for (const char *at = string; *at; at++)
        if (*at == '\n')
            text_print(text, "\\n");
        else if (*at == '"' || *at == '\\')
            text_print(text, "\\%c", *at);
        else
            text_print(text, isprint((unsigned char)*at) ? "%c" : "\\%03o", (unsigned char)*at);
    text_print(text, "\"");
}

static void write_kernel(const struct att_bundle_kernel *kernel, int number, struct text *text) {
    const struct {
        const char *name, *value;
    } strings[] = {
        {"name", kernel->name}, {"variant", kernel->variant}, {"arch", kernel->arch}, {"plan", kernel->plan}};
    text_print(text, "    {\n");
    for (size_t i = 0; i < sizeof strings / sizeof *strings; i++) {
        text_print(text, "        /* %s */ ", strings[i].name);
        write_string(strings[i].value, text);
        text_print(text, ",\n");
    }
    text_print(text, "        binary_%d, %zu, /* registers */ %d, /* spill_bytes */ %d,\n    },\n", number,
               kernel->size, kernel->registers, kernel->spill_bytes);
}

enum att_status bundle_check_symbol(const char *symbol, struct failure *failure) {
    if (is_keyword(symbol))
        return failure_set(failure, ATT_INVALID_ARGUMENT, "symbol: '%s' is a keyword of C or C++, and no name", symbol);
    if (!is_identifier(symbol))
        return failure_set(failure, ATT_INVALID_ARGUMENT, "symbol: '%s' is no C identifier", symbol);
    return ATT_OK;
}

enum att_status bundle_write_c(const char *symbol, const struct att_bundle_kernel *kernels, int count,
                               struct text *text, struct failure *failure) {
    enum att_status status = bundle_check_symbol(symbol, failure);
    if (status != ATT_OK)
        return status;
    char layout[PARAMS_LAYOUT];
    if (!params_layout(embedded_templates, layout))
        return failure_set(failure, ATT_OUT_OF_MEMORY, "out of memory while writing bundle %s", symbol);
    struct att_bundle bundle = {ATT_BUNDLE_FORMAT, count, kernels, layout};
    if (count < 1)
        return failure_set(failure, ATT_INVALID_ARGUMENT, "bundle %s: there are no kernels to write", symbol);
    if (bundle_check(&bundle, 0, failure) != ATT_OK)
        return failure->status;
    text_print(text,
               "/* %d kernel%s, made by attile %s. List the table in att_options.bundles:\n\n"
               "       extern const struct att_bundle %s;\n"
               "       const struct att_bundle *bundles[] = {&%s, NULL}; */\n"
               "#include <attile.h>\n\n",
               count, count == 1 ? "" : "s", GEN_VERSION, symbol, symbol);
    for (int i = 0; i < count; i++)
        write_binary(&kernels[i], i, text);
    text_print(text, "static const struct att_bundle_kernel kernels[] = {\n");
    for (int i = 0; i < count; i++)
        write_kernel(&kernels[i], i, text);
    text_print(text,
               "};\n\nextern const struct att_bundle %s;\nconst struct att_bundle %s = {%d, %d, kernels, \"%s\"};\n",
               symbol, symbol, ATT_BUNDLE_FORMAT, count, layout);
    return text->failed ? failure_set(failure, ATT_OUT_OF_MEMORY, "out of memory while writing bundle %s", symbol)
                        : ATT_OK;
}

/* --- searching ------------------------------------------------------------------------------------------------- */

/* Reads the knobs of a bundle's kernel; unused ones stay AUTO, as in a completed variant. */
static bool read_knobs(const char *variant, struct knobs *knobs, struct text *error) {
    struct input input = {"<bundle>", variant, strlen(variant)};
    struct diag diag = {0};
    *knobs = knobs_filled(AUTO);
    unsigned groups = 1u << KNOB_GROUP_TOP | 1u << KNOB_GROUP_PROBLEM | 1u << KNOB_GROUP_SCHEDULE;
    bool good = knobs_parse(&input, groups, knobs, &diag);
    if (error)
        text_print(error, "%s", text_string(&diag.text));
    diag_free(&diag);
    return good;
}

/* Returns false with a failure if the knob names are those of another version. */
static bool check_knobs(const struct att_bundle_kernel *kernel, int number, struct failure *failure) {
    struct knobs knobs;
    struct text error = {0};
    bool good = read_knobs(kernel->variant, &knobs, &error);
    if (!good)
        failure_set(failure, ATT_INVALID_ARGUMENT,
                    "bundles[%d]: the knobs of %s cannot be read; rebuild it with this version's `attile build`\n%s",
                    number, kernel->name, text_string(&error));
    text_free(&error);
    return good;
}

enum att_status bundle_check(const struct att_bundle *bundle, int number, struct failure *failure) {
    if (bundle->format != ATT_BUNDLE_FORMAT)
        return failure_set(failure, ATT_INVALID_ARGUMENT,
                           "bundles[%d]: format is %d, expected %d; rebuild it with this version's `attile build`",
                           number, bundle->format, ATT_BUNDLE_FORMAT);
    char layout[PARAMS_LAYOUT];
    if (!params_layout(embedded_templates, layout))
        return failure_set(failure, ATT_OUT_OF_MEMORY, "out of memory while looking at a bundle");
    if (!bundle->params || strcmp(bundle->params, layout) != 0)
        return failure_set(
            failure, ATT_INVALID_ARGUMENT,
            "bundles[%d]: its kernels take parameters of layout %s, expected %s, which this version fills; "
            "rebuild it with this version's `attile build`",
            number, bundle->params ? bundle->params : "(null)", layout);
    for (int i = 0; i < bundle->count; i++) {
        const struct att_bundle_kernel *kernel = &bundle->kernels[i];
        struct plan plan;
        if (!kernel->name || !kernel->variant || !kernel->arch || !kernel->plan || !kernel->binary || !kernel->size)
            return failure_set(failure, ATT_INVALID_ARGUMENT, "bundles[%d]: kernel %d is incomplete", number, i);
        if (!plan_read(kernel->plan, &plan))
            return failure_set(failure, ATT_INVALID_ARGUMENT, "bundles[%d]: the plan of %s cannot be read", number,
                               kernel->name);
        if (!check_knobs(kernel, number, failure))
            return ATT_INVALID_ARGUMENT;
    }
    return ATT_OK;
}

static bool is_ptx(const char *built) { return strncmp(built, "compute_", 8) == 0; }

bool bundle_arch_runs(const char *built, const char *device) {
    int built_number, device_number, built_end = 0;
    if (strcmp(built, device) == 0)
        return true;
    if (sscanf(built, is_ptx(built) ? "compute_%d%n" : "sm_%d%n", &built_number, &built_end) != 1 || built[built_end] ||
        sscanf(device, "sm_%d", &device_number) != 1)
        return false; /* a suffix means exactly that architecture */
    return (is_ptx(built) || built_number / 10 == device_number / 10) && built_number <= device_number;
}

bool bundle_serves(const struct att_bundle *bundle, const char *device, struct text *built) {
    for (int i = 0; i < bundle->count; i++)
        if (bundle_arch_runs(bundle->kernels[i].arch, device))
            return true;
    for (int i = 0; i < bundle->count; i++) {
        int first = 0;
        while (strcmp(bundle->kernels[first].arch, bundle->kernels[i].arch) != 0)
            first++;
        if (first == i)
            text_print(built, "%s%s", i ? ", " : "", bundle->kernels[i].arch);
    }
    return false;
}

static bool same(const struct knobs *knobs, const struct variant *variant, bool problem_only) {
    for (int id = 0; id < KNOB_COUNT; id++) {
        if (problem_only && knob_table[id].group != KNOB_GROUP_PROBLEM && id != KNOB_family)
            continue;
        bool used = knob_in(variant->used, id);
        if (used ? !knob_same(knobs, &variant->knobs, id) : knob_get(knobs, id) != AUTO)
            return false;
    }
    return true;
}

static const struct att_bundle_kernel *find_among(const struct att_bundle *const *bundles,
                                                  const struct variant *variant, const char *arch, bool any_schedule,
                                                  bool ptx) {
    const struct att_bundle_kernel *similar = NULL;
    for (; bundles && *bundles; bundles++)
        for (int i = 0; i < (*bundles)->count; i++) {
            const struct att_bundle_kernel *kernel = &(*bundles)->kernels[i];
            struct knobs knobs;
            if (is_ptx(kernel->arch) != ptx || !bundle_arch_runs(kernel->arch, arch) ||
                !read_knobs(kernel->variant, &knobs, NULL))
                continue;
            if (same(&knobs, variant, false))
                return kernel;
            if (!similar && any_schedule && same(&knobs, variant, true))
                similar = kernel;
        }
    return similar;
}

const struct att_bundle_kernel *bundle_find(const struct att_bundle *const *bundles, const struct variant *variant,
                                            const char *arch, bool any_schedule) {
    const struct att_bundle_kernel *binary = find_among(bundles, variant, arch, any_schedule, false);
    return binary ? binary : find_among(bundles, variant, arch, any_schedule, true);
}
