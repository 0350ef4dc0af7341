/* formula_parse: shared by formula_token.c, formula_operand.c, formula_parse.c (syntax), formula_check.c (types) and
   formula_table.c (named entries). */
#ifndef ATTILE_FORMULA_PARSE_H
#define ATTILE_FORMULA_PARSE_H

#include "formula_tree.h"

/* Allows parsing the canonical text of the deepest tree: each level is an operator and a bracket. */
enum { PARSE_NESTING = 2 * FORMULA_DEPTH + 16, PARSE_BINDINGS = 32 };

/* A parsed part: its node, and where its text begins, for the caret. */
struct part {
    int node;
    int at;
    bool fraction; /* an integer divided by an integer with '/' */
};

/* A parameter of a named entry while its text is read. */
struct binding {
    const char *name;
    size_t size;
    int node;  /* its value, unless it is a tensor */
    int param; /* the tensor that it stands for; -1 = a value */
};

struct parser {
    struct formula *formula;
    struct place place; /* of the first byte that the user wrote */
    const char *user_text;
    int user_size;
    const char *text; /* being parsed: the user's text, or that of an entry */
    int size, at;     /* at: start of the current token */
    int token;        /* its length; 0 at the end */
    int call;         /* within an entry: where its name stands in the user's text; -1 = outside */
    int nesting;
    int score; /* what `s` means here: NO_NODE = the score itself */
    struct binding binding[PARSE_BINDINGS];
    int bindings, first_binding; /* those from first_binding on are visible */
    bool failed;
    struct diag *diag;
};

/* --- formula_token.c */
void parse_advance(struct parser *p); /* to the next token */
bool parse_is_token(const struct parser *p, const char *symbol);
int parse_here(const struct parser *p); /* position of a part that starts at the current token */
bool parse_is_letter(char c);
bool parse_is_digit(char c);
bool parse_is_blank(char c);
int parse_number_end(const char *text, int at, int size); /* end of the number that begins at `at` */
/* Steps over a token, or reports that it was expected `where`; with a null symbol, that nothing was expected. */
bool parse_expect(struct parser *p, const char *symbol, const char *where);
/* Reports an error at byte `at`, unless there was an earlier one. */
struct part parse_refuse(struct parser *p, int at, const char *format, ...) TEXT_PRINTF(3, 4);
/* Adds a note about byte `at`, unless the diag already has one with this sentence. */
void parse_note_once(struct parser *p, int at, const char *format, ...) TEXT_PRINTF(3, 4);

/* --- formula_parse.c */
struct part parse_expression(struct parser *p);

/* --- formula_operand.c: the current token begins with a digit; or with a letter, and is not an operator */
struct part parse_number(struct parser *p);
struct part parse_name(struct parser *p);

/* --- formula_check.c: operands must fit; a failed operand gives a failed part */
struct part check_one(struct parser *p, enum tree_op op, struct part a, int at);
struct part check_two(struct parser *p, enum tree_op op, struct part a, struct part b, int at);
struct part check_if(struct parser *p, struct part condition, struct part a, struct part b, int at);
bool check_type(struct parser *p, struct part part, enum formula_type wanted, const char *who, struct part *out);
struct part check_part(struct parser *p, int node, int at); /* reports a fault of the tree */
const char *check_describe(enum formula_type type);

/* --- formula_table.c */
int table_find(enum formula_kind kind, const char *name, size_t size); /* -1 = none */
/* Parses the arguments after the entry's name, which is the current token, and then the entry's own text with them. */
struct part table_expand(struct parser *p, int entry);

/* --- formula_storage.c: names of storage */
extern const char *const storage_names[FORMULA_STORAGES];
int storage_find(const char *name, size_t size); /* -1 = none */
enum formula_type storage_type(enum formula_storage storage);

/* formula_operand.c: true for a word of the language: a name, a function, an operator, an entry without brackets. */
bool parse_is_word(const char *name, size_t size);

#endif
