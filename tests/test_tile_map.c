#include "file.h"
#include "formulas.h"
#include "tile_map.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct drawn {
    struct tile_map map;
    struct text text, svg;
};

static struct drawn draw(const char *mask, const char *declared, const char *given, struct shape shape, int block,
                         int width) {
    struct formula_texts texts = {.params = {declared, strlen(declared), {0}}};
    struct knobs knobs = knobs_default();
    struct drawn drawn = {0};
    struct diag diag = {0};
    struct text error = {0};
    knobs.family = family_attention_forward;
    knobs.mask = mask_custom_mask;
    texts.mask = (struct formula_text){mask, strlen(mask), {0}};
    cr_assert(formulas_read(&texts, &knobs, &diag), "%s", text_string(&diag.text));
    struct params *params = params_make_given(&knobs, &shape, 0, given, &error);
    cr_assert(params, "%s", text_string(&error));
    cr_assert(tile_map_make(&drawn.map, &knobs, params, block, block));
    tile_map_draw(&drawn.map, width, &drawn.text);
    tile_map_svg(&drawn.map, mask, &drawn.svg);
    params_free(params);
    return drawn;
}

static void done(struct drawn *drawn) {
    tile_map_free(&drawn->map);
    text_free(&drawn->text);
    text_free(&drawn->svg);
}

static struct shape square(int64_t length) {
    return (struct shape){.batch = 2, .heads = 3, .kv_heads = 3, .len_q = length, .len_kv = length};
}

Test(tile_map, pictures_show_the_mask) {
    static const struct {
        const char *mask, *declared, *given, *picture;
    } cases[] = {
        {"k <= q", "", NULL, "  +...\n  #+..\n  ##+.\n  ###+\n"},
        {"k <= q and q - k < window", "window: int", "window=32", "  +...\n  ++..\n  .++.\n  ..++\n"},
        {"prefix(n)", "n: int", "n=64", "  ##..\n  ##..\n  ##+.\n  ###+\n"},
        {"q // 64 == k // 64", "", NULL, "  ##..\n  ##..\n  ..##\n  ..##\n"},
        {"document(doc)", "doc: int[batch, len_kv]", NULL, "  #...\n  .#..\n  ..#.\n  ...#\n"},
        {"h >= 0 and k % 2 == 0", "", NULL, "  ++++\n  ++++\n  ++++\n  ++++\n"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct drawn drawn = draw(cases[i].mask, cases[i].declared, cases[i].given, square(128), 32, 80);
        cr_expect(strncmp(text_string(&drawn.text), cases[i].picture, strlen(cases[i].picture)) == 0, "%s:\n%s",
                  cases[i].mask, text_string(&drawn.text));
        done(&drawn);
    }
}

Test(tile_map, counts_are_over_all_batches_and_heads) {
    struct drawn drawn = draw("k <= q", "", NULL, square(128), 32, 80);
    cr_expect_eq(drawn.map.count[FORMULA_EMPTY], 6 * 6);
    cr_expect_eq(drawn.map.count[FORMULA_PARTIAL], 6 * 4);
    cr_expect_eq(drawn.map.count[FORMULA_FULL], 6 * 6);
    cr_expect_eq(drawn.map.seen, 6 * 128 * 129 / 2);
    cr_expect_eq(drawn.map.needless, 0);
    done(&drawn);
    drawn = draw("h == 1 and k <= q", "", NULL, square(128), 32, 80); /* of two batches, one head each */
    cr_expect_eq(drawn.map.count[FORMULA_PARTIAL], 2 * 4);
    cr_expect_eq(drawn.map.count[FORMULA_EMPTY], 4 * 16 + 2 * 6);
    done(&drawn);
}

/* The last query and the last key are aligned, and tiles at the ends are smaller. */
Test(tile_map, lengths_need_not_be_equal_nor_multiples) {
    struct shape shape = {.batch = 1, .heads = 1, .kv_heads = 1, .len_q = 50, .len_kv = 100};
    struct drawn drawn = draw("k <= q", "", NULL, shape, 32, 80);
    cr_expect_eq(drawn.map.rows, 2);
    cr_expect_eq(drawn.map.columns, 4);
    cr_expect(strncmp(text_string(&drawn.text), "  #++.\n  ##++\n", 14) == 0, "%s", text_string(&drawn.text));
    done(&drawn);
    shape.len_q = 0;
    drawn = draw("k <= q", "", NULL, shape, 32, 80);
    cr_expect_eq(drawn.map.rows, 0);
    cr_expect_eq(drawn.map.seen, 0);
    done(&drawn);
}

Test(tile_map, many_tiles_share_a_sign) {
    struct drawn drawn = draw("k <= q", "", NULL, square(1024), 16, 8);
    cr_expect(strncmp(text_string(&drawn.text), "  +.......\n  #+......\n", 22) == 0, "%s", text_string(&drawn.text));
    cr_expect(strstr(text_string(&drawn.text), "one sign for 8 x 8 tiles"));
    done(&drawn);
}

Test(tile_map, svg_is_escaped_and_has_every_class) {
    struct drawn drawn = draw("k <= q", "", NULL, square(128), 32, 80);
    const char *svg = text_string(&drawn.svg);
    cr_expect(strstr(svg, "<title>k &lt;= q</title>"), "%s", svg);
    cr_expect(strstr(svg, "<rect class=\"full\" x=\"0\" y=\"480\" width=\"480\" height=\"160\"/>"), "%s", svg);
    cr_expect(strstr(svg, "36 empty") && strstr(svg, "24 partial") && strstr(svg, "36 full"), "%s", svg);
    cr_expect(strstr(svg, "</svg>\n"));
    done(&drawn);
}

/* A file of 8 elements, with this `descr` and `shape`. */
static void save(const char *path, const char *descr, const char *shape, const void *elements, size_t bytes) {
    struct text file = {0}, header = {0}, error = {0};
    text_print(&header, "{'descr': '%s', 'fortran_order': False, 'shape': %s}", descr, shape);
    text_append(&file, "\x93NUMPY\1\0", 8);
    text_append(&file, &(char){(char)header.size}, 1);
    text_append(&file, "", 1);
    text_append(&file, header.bytes, header.size);
    text_append(&file, elements, bytes);
    cr_assert(file_save(path, file.bytes, file.size, NULL, &error), "%s", text_string(&error));
    text_free(&file);
    text_free(&header);
}

Test(tile_map, tensors_are_read_from_files) {
    static const int32_t ids[8] = {1, 1, 2, 2, 2, 3, 3, -7};
    static const int64_t wide[8] = {1, 1, 2, 2, 2, 3, 3, -7}, too_wide[8] = {(int64_t)1 << 40};
    static const float halves[8] = {0.5F};
    static const unsigned char seen[8] = {1, 0, 1};
    static const struct {
        const char *descr, *shape;
        const void *elements;
        size_t bytes;
        const char *reason; /* null: read */
    } cases[] = {
        {"<i4", "(1, 8)", ids, sizeof ids, NULL},
        {"<i8", "(1, 8)", wide, sizeof wide, NULL},
        {"<i8", "(1, 8)", too_wide, sizeof too_wide, "element 0 is 1.09951e+12, and doc has integers of 32 bits"},
        {"<f4", "(1, 8)", halves, sizeof halves, "element 0 is 0.5, and doc has integers"},
        {"<i4", "(8,)", ids, sizeof ids, "shape (8,): doc is (1, 8) at these sizes"},
        {"<i4", "(1, 8)", ids, sizeof ids - 4, "truncated"},
        {"<c8", "(1, 4)", ids, sizeof ids, "expected '<f4' (fp32), '<f2' (fp16), '<i4', '<i8' (integers)"},
        {"|b1", "(1, 8)", seen, sizeof seen, NULL},
    };
    const char *mask = "doc[b, k] < 3", *declared = "doc: int[batch, len_kv]";
    char path[] = "/tmp/attile_doc_XXXXXX", given[64];
    int file = mkstemp(path);
    struct formula_texts texts = {.mask = {mask, strlen(mask), {0}}, .params = {declared, strlen(declared), {0}}};
    struct knobs knobs = knobs_default();
    struct diag diag = {0};
    struct shape shape = {.batch = 1, .heads = 1, .len_q = 8, .len_kv = 8};
    knobs.mask = mask_custom_mask;
    cr_assert(file >= 0 && close(file) == 0);
    cr_assert(formulas_read(&texts, &knobs, &diag));
    snprintf(given, sizeof given, "doc=%s", path);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct text error = {0};
        save(path, cases[i].descr, cases[i].shape, cases[i].elements, cases[i].bytes);
        struct params *params = params_make_given(&knobs, &shape, 0, given, &error);
        cr_expect_eq(!params, cases[i].reason != NULL, "%zu: %s", i, text_string(&error));
        cr_expect(!cases[i].reason || strstr(text_string(&error), cases[i].reason), "%zu: %s", i, text_string(&error));
        for (int k = 0; params && cases[i].elements != seen && k < 8; k++)
            cr_expect_eq(params->param[0].value[k], ids[k], "%zu: element %d is %g", i, k, params->param[0].value[k]);
        params_free(params);
        text_free(&error);
    }
    remove(path);
}

Test(tile_map, numbers_that_are_given_must_be_of_the_mask) {
    static const char *const cases[][2] = {{"widow=3", "'widow' is no parameter"},
                                           {"doc=3", "cannot open 3"},
                                           {"window=3.5", "window is '3.5'; expected an integer"},
                                           {"window", "window is ''; expected an integer"},
                                           {"window=", "window is ''; expected an integer"},
                                           {"window=3x", "window is '3x'"},
                                           {"window=nan", "window is 'nan'"},
                                           {"window=1e20", "an integer within -1073741823 to 1073741823"},
                                           {"window=1073741824", "an integer within -1073741823 to 1073741823"},
                                           {"=3,window=4", "expected NAME=VALUE, found '=3,window=4'"},
                                           {"window=4, =3", "expected NAME=VALUE, found '=3'"},
                                           {"window=4, window=5", "window is given twice"},
                                           {"window=4, window=4", "window is given twice"}};
    const char *mask = "doc[b, k] < window", *declared = "window: int, doc: int[batch, len_kv]";
    struct formula_texts texts = {.mask = {mask, strlen(mask), {0}}, .params = {declared, strlen(declared), {0}}};
    struct knobs knobs = knobs_default();
    struct diag diag = {0};
    struct shape shape = square(8);
    knobs.mask = mask_custom_mask;
    cr_assert(formulas_read(&texts, &knobs, &diag));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct text error = {0};
        struct params *params = params_make_given(&knobs, &shape, 0, cases[i][0], &error);
        cr_expect(!params && strstr(text_string(&error), cases[i][1]), "%s: %s", cases[i][0], text_string(&error));
        params_free(params);
        text_free(&error);
    }
}
