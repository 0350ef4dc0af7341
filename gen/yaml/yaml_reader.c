#include "yaml_reader.h"

#include <yaml.h>

#include <stdlib.h>
#include <string.h>

struct reader {
    const struct input *input;
    const struct yaml_kind *kind;
    struct diag *diag;
    yaml_parser_t parser;
    struct node *root, *open[YAML_DEPTH]; /* containers being filled, outermost first */
    int depth, events, documents;
    bool stop;

    /* Position of the last mark: libyaml counts characters, places count bytes. */
    size_t at, line_start, characters;
    int line;
};

const char *node_kind_name(const struct node *node) {
    static const char *const names[] = {"a single value", "a list", "a map"};
    return names[node->kind];
}

void yaml_tree_free(struct node *node) {
    if (!node)
        return;
    for (struct node *child = node->first, *next; child; child = next) {
        next = child->next;
        yaml_tree_free(child); /* no deeper than YAML_DEPTH */
    }
    free(node);
}

/* --- bytes ----------------------------------------------------------------------------------------------------- */

/* Returns the size of the UTF-8 character at s, or 0 if the bytes are not one. */
static size_t character(const unsigned char *s, size_t left, unsigned *code) {
    size_t size = s[0] < 0x80 ? 1 : s[0] < 0xC2 ? 0 : s[0] < 0xE0 ? 2 : s[0] < 0xF0 ? 3 : s[0] < 0xF5 ? 4 : 0;
    if (size == 0 || size > left)
        return 0;
    *code = size == 1 ? s[0] : s[0] & (0x7Fu >> size);
    for (size_t i = 1; i < size; i++) {
        if ((s[i] & 0xC0) != 0x80)
            return 0;
        *code = *code << 6 | (s[i] & 0x3F);
    }
    bool overlong = (size == 3 && *code < 0x800) || (size == 4 && *code < 0x10000);
    return overlong || *code > 0x10FFFF || (*code >= 0xD800 && *code < 0xE000) ? 0 : size;
}

/* Returns why this character is not allowed, or null. Lines end only in LF or CRLF, so that every tool counts the same
   lines. */
static const char *refuse_character(unsigned code, bool before_newline) {
    if (code == '\r' && !before_newline)
        return "a carriage return must be followed by a newline";
    if (code == 0xFEFF)
        return "byte order mark: save the file as UTF-8 without one";
    if (code == 0)
        return "zero byte: this is not a text file (or it is UTF-16: save it as UTF-8)";
    if (code == 0x85 || code == 0x2028 || code == 0x2029)
        return "unusual line break: end lines with a newline";
    if ((code < ' ' && code != '\t' && code != '\n' && code != '\r') || (code >= 127 && code < 160))
        return "control character";
    return (code & 0xFFFE) == 0xFFFE ? "this is not a character" : NULL;
}

static bool check_bytes(const struct input *input, const struct yaml_kind *kind, struct diag *diag) {
    if (input->size > kind->bytes) {
        diag_error(diag, (struct place){input, 0, 0}, "a %s has at most %zu bytes, this one has %zu", kind->noun,
                   kind->bytes, input->size);
        return false;
    }
    const unsigned char *bytes = (const unsigned char *)input->text;
    size_t line_start = 0;
    int line = 1;
    for (size_t at = 0, size; at < input->size; at += size) {
        struct place place = {input, line, (int)(at - line_start) + 1};
        unsigned code = 0;
        size = character(bytes + at, input->size - at, &code);
        if (size == 0) {
            diag_error(diag, place, "byte 0x%02x is not UTF-8: save the file as UTF-8", bytes[at]);
            return false;
        }
        const char *reason = refuse_character(code, at + 1 < input->size && bytes[at + 1] == '\n');
        if (reason) {
            diag_error(diag, place, "%s (U+%04X)", reason, code);
            return false;
        }
        if (code == '\n') {
            line++;
            line_start = at + 1;
        }
    }
    return true;
}

/* --- places ---------------------------------------------------------------------------------------------------- */

/* Marks nearly always move forward; starting over for the others keeps the total work linear. */
static struct place place_of(struct reader *reader, yaml_mark_t mark) {
    if (mark.index < reader->characters) {
        reader->at = reader->line_start = reader->characters = 0;
        reader->line = 1;
    }
    const char *text = reader->input->text;
    for (; reader->characters < mark.index && reader->at < reader->input->size; reader->characters++) {
        if (text[reader->at++] == '\n') {
            reader->line++;
            reader->line_start = reader->at;
        }
        while (reader->at < reader->input->size && ((unsigned char)text[reader->at] & 0xC0) == 0x80)
            reader->at++;
    }
    return (struct place){reader->input, reader->line, (int)(reader->at - reader->line_start) + 1};
}

/* --- the tree -------------------------------------------------------------------------------------------------- */

static void fail(struct reader *reader, struct place place, const char *sentence) {
    diag_error(reader->diag, place, "%s", sentence);
    reader->stop = true;
}

static void check_repeated(struct reader *reader, const struct node *map, const struct node *key) {
    for (const struct node *old = map->first; old; old = old->next->next) /* key, value, key, value */
        if (old->size == key->size && memcmp(old->text, key->text, key->size) == 0) {
            diag_error(reader->diag, key->place, "'%s' appears twice in this map", shown(key->text, key->size).text);
            diag_note(reader->diag, old->place, "it is here already");
            return;
        }
}

/* Makes a node and adds it to the innermost open container. */
static struct node *add_node(struct reader *reader, enum node_kind kind, struct place place, const char *text,
                             size_t size) {
    struct node *parent = reader->depth ? reader->open[reader->depth - 1] : NULL;
    bool is_key = parent && parent->kind == NODE_MAP && parent->children % 2 == 0;
    if (is_key && kind != NODE_SCALAR) {
        fail(reader, place, "a key must be a single word");
        return NULL;
    }
    if (is_key && parent->children >= 2 * YAML_KEYS) {
        fail(reader, place, "too many keys in one map");
        return NULL;
    }
    struct node *node = calloc(1, sizeof *node + size + 1);
    if (!node) {
        fail(reader, place, "out of memory");
        return NULL;
    }
    node->kind = kind;
    node->place = place;
    node->size = size;
    if (size)
        memcpy(node->text, text, size);
    if (is_key)
        check_repeated(reader, parent, node);
    if (!parent)
        reader->root = node;
    else if (parent->last)
        parent->last->next = node;
    else
        parent->first = node;
    if (parent) {
        parent->last = node;
        parent->children++;
    }
    return node;
}

static void refuse_decorations(struct reader *reader, struct place place, const void *anchor, const void *tag) {
    if (anchor)
        diag_error(reader->diag, place, "anchors (&name) are not supported: write the value out");
    if (tag)
        diag_error(reader->diag, place, "tags (!name) are not supported: every field's type is known");
}

static void add_scalar(struct reader *reader, const yaml_event_t *event) {
    struct place place = place_of(reader, event->start_mark);
    const char *text = (const char *)event->data.scalar.value;
    size_t size = event->data.scalar.length, start = reader->at;
    refuse_decorations(reader, place, event->data.scalar.anchor, event->data.scalar.tag);
    if (size > YAML_SCALAR) {
        fail(reader, place, "this value is too long: at most 4096 bytes");
        return;
    }
    if (memchr(text, '\0', size)) {
        fail(reader, place, "this value holds a zero byte");
        return;
    }
    struct node *node = add_node(reader, NODE_SCALAR, place, text, size);
    if (!node)
        return;
    yaml_scalar_style_t style = event->data.scalar.style;
    start += style == YAML_SINGLE_QUOTED_SCALAR_STYLE || style == YAML_DOUBLE_QUOTED_SCALAR_STYLE;
    const char *raw = reader->input->text + start;
    bool inside = start <= reader->input->size && size <= reader->input->size - start;
    if (inside && memcmp(raw, text, size) == 0 && !memchr(text, '\n', size)) {
        node->raw = raw;
        node->raw_col = (int)(start - reader->line_start) + 1;
    }
}

static void open_container(struct reader *reader, enum node_kind kind, yaml_mark_t mark, const void *anchor,
                           const void *tag) {
    struct place place = place_of(reader, mark);
    refuse_decorations(reader, place, anchor, tag);
    if (reader->depth == YAML_DEPTH) {
        fail(reader, place, "nested too deeply");
        return;
    }
    struct node *node = add_node(reader, kind, place, NULL, 0);
    if (node)
        reader->open[reader->depth++] = node;
}

static void open_document(struct reader *reader, const yaml_event_t *event) {
    struct place place = place_of(reader, event->start_mark);
    bool tags = event->data.document_start.tag_directives.start != event->data.document_start.tag_directives.end;
    if (event->data.document_start.version_directive || tags)
        fail(reader, place, "directives (%YAML, %TAG) are not supported: delete the line");
    else if (reader->documents++ > 0) {
        diag_error(reader->diag, place, "a second document starts here: a %s file holds one", reader->kind->noun);
        reader->stop = true;
    }
}

static void take_event(struct reader *reader, const yaml_event_t *event) {
    switch (event->type) {
    case YAML_DOCUMENT_START_EVENT: open_document(reader, event); break;
    case YAML_STREAM_END_EVENT: reader->stop = true; break;
    case YAML_SCALAR_EVENT: add_scalar(reader, event); break;
    case YAML_SEQUENCE_START_EVENT:
        open_container(reader, NODE_LIST, event->start_mark, event->data.sequence_start.anchor,
                       event->data.sequence_start.tag);
        break;
    case YAML_MAPPING_START_EVENT:
        open_container(reader, NODE_MAP, event->start_mark, event->data.mapping_start.anchor,
                       event->data.mapping_start.tag);
        break;
    case YAML_SEQUENCE_END_EVENT:
    case YAML_MAPPING_END_EVENT: reader->depth--; break;
    case YAML_ALIAS_EVENT:
        fail(reader, place_of(reader, event->start_mark), "aliases (*name) are not supported: write the value out");
        break;
    default: break;
    }
}

/* Reports libyaml's own error, with a hint if the cause is a well-known mistake. */
static void report_syntax(struct reader *reader) {
    const yaml_parser_t *parser = &reader->parser;
    if (parser->error == YAML_MEMORY_ERROR) {
        fail(reader, (struct place){reader->input, 0, 0}, "out of memory");
        return;
    }
    struct place place = place_of(reader, parser->problem_mark);
    char at = reader->at < reader->input->size ? reader->input->text[reader->at] : '\0';
    const char *hint = at == '\t' ? ": indent with spaces, not tabs" : "";
    if (at == '@' || at == '`' || at == '%')
        hint = ": put the value in quotes";
    diag_error(reader->diag, place, "%s%s", parser->problem ? parser->problem : "this is not YAML", hint);
    if (parser->context && parser->context_mark.index != parser->problem_mark.index)
        diag_note(reader->diag, place_of(reader, parser->context_mark), "%s that starts here", parser->context);
    reader->stop = true;
}

static bool read_events(struct reader *reader) {
    int errors_before = reader->diag->errors;
    for (bool stopped_early = false; !stopped_early;) {
        yaml_event_t event;
        if (!yaml_parser_parse(&reader->parser, &event)) {
            report_syntax(reader);
            return false;
        }
        bool end = event.type == YAML_STREAM_END_EVENT;
        if (++reader->events <= reader->kind->events)
            take_event(reader, &event);
        else {
            diag_error(reader->diag, place_of(reader, event.start_mark),
                       "this %s is too large: more than %d YAML events", reader->kind->noun, reader->kind->events);
            reader->stop = true;
        }
        yaml_event_delete(&event);
        if (end)
            return true;
        stopped_early = reader->stop || reader->diag->errors - errors_before >= DIAG_LIMIT;
    }
    return false;
}

struct node *yaml_tree_read(const struct input *input, const struct yaml_kind *kind, struct diag *diag) {
    if (!check_bytes(input, kind, diag))
        return NULL;
    struct reader reader = {.input = input, .kind = kind, .diag = diag, .line = 1};
    if (!yaml_parser_initialize(&reader.parser)) {
        diag_error(diag, (struct place){input, 0, 0}, "out of memory");
        return NULL;
    }
    yaml_parser_set_encoding(&reader.parser, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&reader.parser, (const unsigned char *)input->text, input->size);
    bool complete = read_events(&reader);
    yaml_parser_delete(&reader.parser);
    if (complete && !reader.root)
        diag_error(diag, (struct place){input, 0, 0}, "this %s is empty: start it with `%s`", kind->noun, kind->start);
    if (complete)
        return reader.root;
    yaml_tree_free(reader.root);
    return NULL;
}
