/* emit_prune: removes functions, types and constants that no kernel reaches from the body of a source, so that parts
   can hold definitions for some variants without a condition around each. It removes the definition with the comment
   above it, and the name of a part of which nothing is left.

   It scans the text outside of functions word by word, then each function that was named, once. The text is large, so
   the part that stays is read only once, by this and by emit_mention, which sees the same words.

   It recognises definitions by the formatter's layout: a head that starts at the left margin, with `template <...>` on
   the same line or on the one before, and contains __device__ or begins with struct, using or constexpr; and an end at
   the left margin, or on the line of the first brace or semicolon. Anything that it does not recognise stays, and so
   does everything with the name of something that is used. */
#include "emit.h"

#include <stdlib.h>
#include <string.h>

enum { FUNCTIONS = 512, BUCKETS = 256 };

/* A definition or declaration, usually of a function; several may share a name. */
struct function {
    int first, last; /* lines, including its comment */
    const char *name;
    size_t size;
    int next; /* in its bucket, or -1 */
    bool used;
};

struct pruning {
    const struct emitter *body;
    const char **line; /* lines + 1 starts */
    struct function function[FUNCTIONS];
    int functions;
    int bucket[BUCKETS]; /* of functions by name */
    int used[FUNCTIONS]; /* in the order they were named */
    int used_count;
    struct emit_mentions *mentions;
};

static size_t size_of(const struct pruning *p, int line) { return (size_t)(p->line[line + 1] - p->line[line]) - 1; }

static bool starts(const struct pruning *p, int line, const char *word) {
    return size_of(p, line) >= strlen(word) && memcmp(p->line[line], word, strlen(word)) == 0;
}

static const char *find(const struct pruning *p, int line, const char *word) {
    return memmem(p->line[line], size_of(p, line), word, strlen(word));
}

static bool is_margin(const struct pruning *p, int line) { /* true if code starts at the left margin */
    return size_of(p, line) && text_is_name(*p->line[line]);
}

/* Returns the position after a word that begins a line or follows its `template <...>`; or null. */
static const char *after_word(const struct pruning *p, int line, const char *word) {
    const char *at = find(p, line, word);
    bool first = at == p->line[line], of_template = at && at - p->line[line] > 2 && memcmp(at - 2, "> ", 2) == 0;
    return first || (of_template && starts(p, line, "template <")) ? at + strlen(word) : NULL;
}

/* Returns the name of the type or constant that a line defines, or null. */
static const char *find_defined(const struct pruning *p, int line) {
    const char *at = after_word(p, line, "struct "), *end = p->line[line + 1];
    if (at && memcmp(at, "alignas(", 8) == 0 && (at = memchr(at, ')', (size_t)(end - at))))
        at += 2;
    if (!at)
        at = after_word(p, line, "using ");
    if (!at && after_word(p, line, "constexpr ")) { /* TYPE NAME = VALUE; of one constant */
        const char *equals = find(p, line, " = ");
        for (at = equals; at && text_is_name(at[-1]);)
            at--;
        if (!equals || memmem(equals + 3, (size_t)(end - equals) - 3, " = ", 3))
            return NULL;
    }
    return at;
}

/* Returns the line with the name of the definition that starts at `line`, or -1. */
static int find_head(const struct pruning *p, int line) {
    if (!is_margin(p, line))
        return -1;
    if (find(p, line, "__device__") || find_defined(p, line))
        return line;
    bool split = starts(p, line, "template <") && line + 1 < p->body->lines && is_margin(p, line + 1);
    return split && (find(p, line + 1, "__device__") || find_defined(p, line + 1)) ? line + 1 : -1;
}

/* Returns how many braces a line leaves open. */
static int open_braces(const struct pruning *p, int line) {
    int open = 0;
    for (const char *at = p->line[line]; at < p->line[line + 1]; at++)
        open += (*at == '{') - (*at == '}');
    return open;
}

/* Returns the last line of the function whose head is at `line`: the line of its first brace if it is closed there,
   otherwise the line with a brace at the margin; for a declaration, the line that ends in a semicolon. -1 if something
   else comes at the margin. */
static int find_end(const struct pruning *p, int line) {
    bool open = false;
    for (int head = line; line < p->body->lines; line++) {
        if (open && starts(p, line, "}"))
            return line;
        if (line > head && is_margin(p, line))
            return -1;
        if (open)
            continue;
        open = find(p, line, "{");
        if (open ? open_braces(p, line) == 0 : find(p, line, ";") != NULL)
            return line;
    }
    return -1;
}

/* Takes the name: for a function, the name before the first parenthesis after __device__, without the arguments of a
   specialisation. */
static bool take_name(const struct pruning *p, int head, struct function *function) {
    if (!find(p, head, "__device__")) {
        function->name = find_defined(p, head);
        for (function->size = 0; text_is_name(function->name[function->size]);)
            function->size++;
        return function->size > 0;
    }
    const char *start = find(p, head, "__device__") + strlen("__device__"), *at = start + strcspn(start, "({;=");
    if (*at != '(') /* a variable */
        return false;
    if (at[-1] == '>')
        for (int depth = 1; depth > 0 && --at > start;)
            depth += (at[-1] == '>') - (at[-1] == '<');
    const char *end = at;
    if (at[-1] == '<')
        end = --at;
    while (at > start && text_is_name(at[-1]))
        at--;
    function->name = at;
    function->size = (size_t)(end - at);
    return function->size > 0;
}

/* True if this line is the name of a part, above its lines. */
static bool is_heading(const struct pruning *p, int line) {
    const char *file = p->body->origin[line].file;
    return file && starts(p, line, "// ") && text_equals(p->line[line] + 3, size_of(p, line) - 3, file);
}

/* Returns the first line of the comment above, from the same file; an empty line ends the search, since a comment above
   it is about more than the function. Lines before `least` belong to the previous function: a comment that contains
   __device__ looks like one. */
static int find_comment(const struct pruning *p, int line, int least) {
    const struct line_origin *origin = p->body->origin;
    while (line > least && starts(p, line - 1, "//") && origin[line - 1].file == origin[line].file &&
           !is_heading(p, line - 1))
        line--;
    return line;
}

/* Most identifiers are not names of functions, and the lookup must find that out fast. */
static unsigned bucket_of(const char *name, size_t size) {
    return ((unsigned char)name[0] * 31u + (unsigned char)name[size - 1] * 7u + (unsigned)size) % BUCKETS;
}

static void find_functions(struct pruning *p) {
    for (int i = 0; i < BUCKETS; i++)
        p->bucket[i] = -1;
    for (int line = 0; line < p->body->lines && p->functions < FUNCTIONS; line++) {
        struct function *function = &p->function[p->functions];
        int head = find_head(p, line), end = head < 0 ? -1 : find_end(p, head);
        if (end < 0 || find(p, head, "__global__") || !take_name(p, head, function))
            continue;
        function->first = find_comment(p, line, p->functions ? p->function[p->functions - 1].last + 1 : 0);
        function->last = line = end;
        unsigned bucket = bucket_of(function->name, function->size);
        function->next = p->bucket[bucket];
        p->bucket[bucket] = p->functions++;
    }
}

static void note_word(void *context, const char *name, size_t size, bool capitals) {
    struct pruning *p = context;
    if (capitals)
        emit_mention(p->mentions, name, size);
    for (int i = p->bucket[bucket_of(name, size)]; i >= 0; i = p->function[i].next) {
        struct function *function = &p->function[i];
        if (function->used || function->size != size || memcmp(function->name, name, size) != 0)
            continue;
        function->used = true;
        p->used[p->used_count++] = i;
    }
}

static void note_words(struct pruning *p, int first, int end) {
    template_words(p->line[first], (size_t)(p->line[end] - p->line[first]), note_word, p);
}

static void find_used(struct pruning *p) {
    int line = 0;
    for (int i = 0; i < p->functions; i++) {
        note_words(p, line, p->function[i].first);
        line = p->function[i].last + 1;
    }
    note_words(p, line, p->body->lines);
    for (int i = 0; i < p->used_count; i++)
        note_words(p, p->function[p->used[i]].first, p->function[p->used[i]].last + 1);
}

/* True if a line of the part below this heading stays. `goes`: the lines that do not. */
static bool has_lines(const struct pruning *p, int heading, const bool *goes) {
    for (int i = heading + 1; i < p->body->lines; i++)
        if (!goes[i] && size_of(p, i) && p->body->origin[i].file == p->body->origin[heading].file)
            return true;
    return false;
}

/* Marks the lines to remove; `goes` has room for all. */
static void find_going(const struct pruning *p, bool *goes) {
    for (int i = 0; i < p->functions; i++)
        for (int line = p->function[i].first; !p->function[i].used && line <= p->function[i].last; line++)
            goes[line] = true;
    for (int line = 0; line < p->body->lines; line++)
        goes[line] = goes[line] || (is_heading(p, line) && !has_lines(p, line, goes));
}

/* Moves the lines that stay up; of adjacent empty lines one stays. */
static void keep_used(const struct pruning *p, struct emitter *body, const bool *goes) {
    bool blank = true;
    int lines = 0;
    body->text.size = 0;
    for (int line = 0, all = body->lines; line < all; line++) {
        size_t size = size_of(p, line);
        if ((blank && !size) || goes[line])
            continue;
        memmove(body->text.bytes + body->text.size, p->line[line], size + 1);
        body->text.size += size + 1;
        body->origin[lines++] = body->origin[line];
        blank = !size;
    }
    body->lines = lines;
    body->line_start = body->text.size;
    emit_finish(body);
}

void emit_prune(struct emitter *body, struct emit_mentions *mentions) {
    struct pruning *p = calloc(1, sizeof *p);
    const char **line = calloc((size_t)body->lines + 1, sizeof *line);
    bool *goes = calloc((size_t)body->lines + 1, sizeof *goes);
    if (p && line && goes && !body->text.failed) {
        const char *at = text_string(&body->text);
        for (int i = 0; i < body->lines; i++, at = strchr(at, '\n') + 1)
            line[i] = at;
        line[body->lines] = at;
        p->body = body;
        p->line = line;
        p->mentions = mentions;
        find_functions(p);
        find_used(p);
        find_going(p, goes);
        keep_used(p, body, goes);
    }
    body->text.failed |= !p || !line || !goes;
    free(goes);
    free(line);
    free(p);
}
