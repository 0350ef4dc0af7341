/* formula_token: text -> tokens, one at a time, and the error if another one was expected. Only the first error of a
   formula is reported: further messages would be guesses. */
#include "formula_parse.h"

#include <string.h>

static const struct part nothing = {.node = NO_NODE};

bool parse_is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool parse_is_digit(char c) { return c >= '0' && c <= '9'; }
bool parse_is_blank(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

int parse_number_end(const char *s, int at, int size) {
    int end = at;
    while (end < size && parse_is_digit(s[end]))
        end++;
    if (end < size && s[end] == '.')
        for (end++; end < size && parse_is_digit(s[end]);)
            end++;
    if (end < size && (s[end] == 'e' || s[end] == 'E')) {
        int digits = end + 1;
        if (digits < size && (s[digits] == '+' || s[digits] == '-'))
            digits++;
        if (digits < size && parse_is_digit(s[digits]))
            for (end = digits; end < size && parse_is_digit(s[end]);)
                end++;
    }
    return end;
}

void parse_advance(struct parser *p) {
    static const char *const doubles[] = {"==", "!=", "<=", ">=", "<<", ">>", "//", "**", "&&", "||"};
    const char *s = p->text;
    p->at += p->token;
    while (p->at < p->size && parse_is_blank(s[p->at]))
        p->at++;
    int end = p->at;
    if (end < p->size && parse_is_digit(s[end]))
        end = parse_number_end(s, end, p->size);
    if (end < p->size && (parse_is_letter(s[end]) || parse_is_digit(s[end]))) /* also letters that spoil a number */
        while (end < p->size && (parse_is_letter(s[end]) || parse_is_digit(s[end])))
            end++;
    if (end == p->at && end < p->size) {
        end++;
        while (end < p->size && (s[end] & 0xC0) == 0x80) /* the rest of a UTF-8 character */
            end++;
        for (size_t i = 0; i < sizeof doubles / sizeof *doubles; i++)
            if (p->at + 1 < p->size && memcmp(s + p->at, doubles[i], 2) == 0)
                end = p->at + 2;
    }
    p->token = end - p->at;
}

bool parse_is_token(const struct parser *p, const char *symbol) {
    return text_equals(p->text + p->at, (size_t)p->token, symbol);
}

/* Steps through an input, counting lines and columns. */
struct cursor {
    const struct input *input;
    size_t at;
    struct place place;
};

static bool is_over(const struct cursor *c) { return c->at >= c->input->size; }

static void step(struct cursor *c) {
    bool newline = c->input->text[c->at++] == '\n';
    c->place.line += newline;
    c->place.col = newline ? 1 : c->place.col + 1;
}

static void skip_blanks(struct cursor *c) {
    while (!is_over(c) && parse_is_blank(c->input->text[c->at]))
        step(c);
}

/* Returns where the text of a scalar begins: after its quote, or on the line after `>-` and `|`. */
static struct cursor find_start(struct place place) {
    struct cursor c = {place.input, 0, {place.input, 1, 1}};
    while (!is_over(&c) && (c.place.line < place.line || (c.place.line == place.line && c.place.col < place.col)))
        step(&c);
    char first = is_over(&c) ? '\0' : c.input->text[c.at];
    if (first == '\'' || first == '"')
        step(&c);
    else if (first == '|' || first == '>')
        for (int line = c.place.line; !is_over(&c) && c.place.line == line;)
            step(&c);
    return c;
}

/* YAML folds lines but changes only blanks: the n-th nonblank character is the same in the file and in the text. */
static struct place place_of(const struct parser *p, int at) {
    struct place simple = p->place;
    simple.col += at;
    if (!p->place.input || p->place.line == 0)
        return simple;
    struct cursor c = find_start(p->place);
    for (int i = 0; i <= at && i < p->user_size; i++) {
        char wanted = p->user_text[i];
        if (parse_is_blank(wanted))
            continue;
        skip_blanks(&c);
        if (is_over(&c) || c.input->text[c.at] != wanted)
            return simple;
        if (i < at)
            step(&c);
    }
    return c.place;
}

struct part parse_refuse(struct parser *p, int at, const char *format, ...) {
    if (p->failed)
        return nothing;
    p->failed = true;
    struct text sentence = {0};
    va_list arguments;
    va_start(arguments, format);
    text_vprint(&sentence, format, arguments);
    va_end(arguments);
    diag_error(p->diag, place_of(p, p->call >= 0 ? p->call : at), "%s", text_string(&sentence));
    text_free(&sentence);
    return nothing;
}

void parse_note_once(struct parser *p, int at, const char *format, ...) {
    struct text sentence = {0};
    va_list arguments;
    va_start(arguments, format);
    text_vprint(&sentence, format, arguments);
    va_end(arguments);
    if (!strstr(text_string(&p->diag->text), text_string(&sentence)))
        diag_note(p->diag, place_of(p, at), "%s", text_string(&sentence));
    text_free(&sentence);
}

int parse_here(const struct parser *p) { return p->call >= 0 ? p->call : p->at; }

bool parse_expect(struct parser *p, const char *symbol, const char *where) {
    if (p->failed)
        return false;
    if (symbol && parse_is_token(p, symbol)) {
        parse_advance(p);
        return true;
    }
    static const struct {
        const char *found, *meant;
    } slips[] = {{"&&", "and"},    {"||", "or"},     {"=", "=="},      {"?", ".. if .. else .."}, {"!", "not"},
                 {"\u2264", "<="}, {"\u2265", ">="}, {"\u2260", "!="}, {"\u2227", "and"},         {"\u2228", "or"},
                 {"\u00d7", "*"},  {"\u00b7", "*"},  {"\u2212", "-"}};
    for (size_t i = 0; i < sizeof slips / sizeof *slips; i++)
        if (parse_is_token(p, slips[i].found)) {
            parse_refuse(p, p->at, "'%s' is no operator here; did you mean '%s'?", slips[i].found, slips[i].meant);
            return false;
        }
    if (parse_is_token(p, "**"))
        parse_refuse(p, p->at, "there is no power; write x * x, or exp(y * log(x))");
    else if (symbol)
        parse_refuse(p, p->at, "expected '%s'%s", symbol, where);
    else
        parse_refuse(p, p->at, "unexpected text after the formula");
    return false;
}
