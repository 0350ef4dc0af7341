/* emit_prune: functions that no kernel reaches leave the body of a source, so that parts can hold what some variants
   need without a condition around each function. Taken out is the definition with the comment above it.

   What stands outside of functions is gone through word by word, then each function that was named, once: the text is
   large, and what stays of it is read only once, by this and by emit_mention, which sees the same words.

   It knows functions by how they are laid out, as the formatter does it: a head that starts at the left margin and says
   __device__ within its first line or the one after `template <...>`, and an end at the left margin, or on the line of
   the first brace. What it does not recognise stays, and so does whatever has the name of something that is used. */
#include "emit.h"

#include <stdlib.h>
#include <string.h>

enum { FUNCTIONS = 256, BUCKETS = 256 };

/* A definition or declaration; several may have one name. */
struct function {
    int first, last; /* lines, its comment included */
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

static bool is_margin(const struct pruning *p, int line) { /* does code start at the left margin? */
    return size_of(p, line) && text_is_name(*p->line[line]);
}

/* The line with __device__ of a function that starts at `line`, or -1. */
static int find_head(const struct pruning *p, int line) {
    if (!is_margin(p, line))
        return -1;
    if (find(p, line, "__device__"))
        return line;
    bool split = starts(p, line, "template <") && line + 1 < p->body->lines && is_margin(p, line + 1);
    return split && find(p, line + 1, "__device__") ? line + 1 : -1;
}

/* Braces that a line leaves open. */
static int open_braces(const struct pruning *p, int line) {
    int open = 0;
    for (const char *at = p->line[line]; at < p->line[line + 1]; at++)
        open += (*at == '{') - (*at == '}');
    return open;
}

/* The last line of the function whose head is at `line`: the one of its first brace, if that is closed there, or else a
   brace at the margin; of a declaration the one that ends in a semicolon. -1 when something else comes at the margin. */
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
        if (open ? open_braces(p, line) == 0 : size_of(p, line) && p->line[line + 1][-2] == ';')
            return line;
    }
    return -1;
}

/* What stands before the first parenthesis after __device__, without the arguments of a specialisation. */
static bool take_name(const struct pruning *p, int head, struct function *function) {
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

/* The first line of the comment above, from the same file; a comment after an empty line is about more than the function. */
static int find_comment(const struct pruning *p, int line) {
    const struct line_origin *origin = p->body->origin;
    while (line > 0 && starts(p, line - 1, "//") && origin[line - 1].file == origin[line].file)
        line--;
    return line;
}

/* Most identifiers are no function's name, which this has to say fast. */
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
        function->first = find_comment(p, line);
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

/* Move the lines that stay up; of empty lines that come together one stays. */
static void keep_used(const struct pruning *p, struct emitter *body) {
    bool blank = true;
    int lines = 0;
    body->text.size = 0;
    for (int i = 0, line = 0; line < p->body->lines; line++) {
        size_t size = size_of(p, line);
        while (i < p->functions && p->function[i].last < line)
            i++;
        if ((blank && !size) || (i < p->functions && line >= p->function[i].first && !p->function[i].used))
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
    if (p && line && !body->text.failed) {
        const char *at = text_string(&body->text);
        for (int i = 0; i < body->lines; i++, at = strchr(at, '\n') + 1)
            line[i] = at;
        line[body->lines] = at;
        p->body = body;
        p->line = line;
        p->mentions = mentions;
        find_functions(p);
        find_used(p);
        keep_used(p, body);
    }
    body->text.failed |= !p || !line;
    free(line);
    free(p);
}
