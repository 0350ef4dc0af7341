/* formula_parse: what formula_token.c, formula_operand.c, formula_parse.c (form), formula_check.c (types) and
   formula_table.c (named entries) share. */
#ifndef ATTILE_FORMULA_PARSE_H
#define ATTILE_FORMULA_PARSE_H

#include "formula_tree.h"

/* The canonical text of the deepest tree may be read back: a level is an operator and a bracket. */
enum { PARSE_NESTING = 2 * FORMULA_DEPTH + 16, PARSE_BINDINGS = 32 };

/* A part that was read: its node, and where its text begins, for the caret. */
struct part {
    int node;
    int at;
    bool fraction; /* an integer divided by an integer with '/' */
};

/* A parameter of a named entry while its text is read. */
struct binding {
    const char *name;
    size_t size;
    int node;  /* its value, or */
    int param; /* the tensor that it stands for; -1 = a value */
};

struct parser {
    struct formula *formula;
    struct place place; /* of the first byte that the user wrote */
    const char *user_text;
    int user_size;
    const char *text; /* being read: the user's, or that of an entry */
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
int parse_here(const struct parser *p); /* where a part begins that starts at the current token */
bool parse_is_letter(char c);
bool parse_is_digit(char c);
bool parse_is_blank(char c);
int parse_number_end(const char *text, int at, int size); /* of the number that begins at `at` */
/* Step over a token, or say that it was expected `where`; a null symbol: that nothing was. */
bool parse_expect(struct parser *p, const char *symbol, const char *where);
/* Say what is wrong at byte `at`, unless something was wrong before. */
struct part parse_refuse(struct parser *p, int at, const char *format, ...) TEXT_PRINTF(3, 4);
/* A note about byte `at`, unless the diag holds one with this sentence. */
void parse_note_once(struct parser *p, int at, const char *format, ...) TEXT_PRINTF(3, 4);

/* --- formula_parse.c */
struct part parse_expression(struct parser *p);

/* --- formula_operand.c: the current token begins with a digit, or a letter and is no operator */
struct part parse_number(struct parser *p);
struct part parse_name(struct parser *p);

/* --- formula_check.c: operands must fit; null-safe: a failed operand gives a failed part */
struct part check_one(struct parser *p, enum tree_op op, struct part a, int at);
struct part check_two(struct parser *p, enum tree_op op, struct part a, struct part b, int at);
struct part check_if(struct parser *p, struct part condition, struct part a, struct part b, int at);
bool check_type(struct parser *p, struct part part, enum formula_type wanted, const char *who, struct part *out);
struct part check_part(struct parser *p, int node, int at); /* reports a fault of the tree */
const char *check_describe(enum formula_type type);

/* --- formula_table.c */
int table_find(enum formula_kind kind, const char *name, size_t size); /* -1 = none */
/* Read the arguments after the entry's name, at which the parser stands, and then the entry's own text with them. */
struct part table_expand(struct parser *p, int entry);

/* --- formula_storage.c: names of storage */
extern const char *const storage_names[FORMULA_STORAGES];
int storage_find(const char *name, size_t size); /* -1 = none */
enum formula_type storage_type(enum formula_storage storage);

/* formula_operand.c: is this a word of the language: a name, a function, an operator, an entry that is written without brackets? */
bool parse_is_word(const char *name, size_t size);

#endif
