/* attile explain: which kernel answers a problem and why, or what rules it out. */
#include "explain_tiles.h"
#include "explore.h"
#include "gpu_option.h"
#include "session.h"

#include <stdlib.h>

const struct option options_explain[] = {
    {"device", 'd', OPTION_WORD, "auto|cuda|host",
     "for which device; auto (default) = a GPU if there is one, else this CPU"},
    {"model", 0, OPTION_FLAG, NULL, "show the time that the model predicts instead, term by term (docs/model.md)"},
    EXPLAIN_TILES_OPTIONS,
    EXPLORE_OPTIONS,
    CATALOG_OPTIONS,
    CLI_COMMON_OPTIONS,
};

/* Gets the whole text of att_explain. */
static enum att_status ask(att_session *session, const char *problem, const char *schedule, struct text *text) {
    size_t needed = 0;
    enum att_status status = att_explain(session, problem, schedule, NULL, 0, &needed);
    char *bytes = calloc(1, needed + 1);
    if (!bytes)
        return ATT_OUT_OF_MEMORY;
    if (needed > 0) {
        status = att_explain(session, problem, schedule, bytes, needed, &needed);
        text_print(text, "%s", bytes);
    }
    free(bytes);
    return status;
}

static void answer(struct cli *cli, struct json *json, const char *name, const char *words) {
    if (cli->json) {
        json_open_object(json, NULL);
        json_put_string(json, "variant", name);
        json_put_string(json, "explanation", words);
        json_end(json);
        return;
    }
    text_print(&cli->out, cli->out.size ? "\n%s" : "%s", words);
    if (cli->out.size && cli->out.bytes[cli->out.size - 1] != '\n')
        text_print(&cli->out, "\n");
}

/* Passes the problem to the library unchanged, so that the answer shows what the library would choose. */
static enum exit_code explain_problem(struct cli *cli, struct json *json, att_session *session,
                                      struct catalog *catalog) {
    struct text problem = {0}, schedule = {0}, words = {0};
    catalog_print_given(catalog, &problem, &schedule);
    enum att_status status = ask(session, text_string(&problem), schedule.size ? text_string(&schedule) : NULL, &words);
    answer(cli, json, NULL, words.size ? text_string(&words) : att_message(session));
    text_free(&problem);
    text_free(&schedule);
    text_free(&words);
    return cli_exit_code(status);
}

static enum exit_code explain_variants(struct cli *cli, struct json *json, att_session *session,
                                       struct catalog *catalog) {
    struct variant variant;
    int explained = 0;
    for (; catalog_next(catalog, &variant); explained++) {
        struct text problem = {0}, schedule = {0}, words = {0};
        if (variant.feasible) {
            variant_print_problem(&variant, &problem, &schedule);
            ask(session, text_string(&problem), text_string(&schedule), &words);
        } else {
            variant_print(&variant, &words);
            text_print(&words, "\n  is pruned: %s\n", variant.reason);
        }
        answer(cli, json, variant.name, words.size ? text_string(&words) : att_message(session));
        text_free(&problem);
        text_free(&schedule);
        text_free(&words);
    }
    if (explained == 0)
        return cli_error(cli, CLI_USAGE, "no variant of %s is '%s'; see attile list %s", catalog->name,
                         cli_text(cli, "variant", "*"), catalog->name);
    return CLI_OK;
}

enum exit_code verb_explain(struct cli *cli) {
    static const enum att_device devices[] = {ATT_DEVICE_AUTO, ATT_DEVICE_CUDA, ATT_DEVICE_HOST};
    struct catalog catalog;
    struct json json;
    att_session *session = NULL;
    struct model_gpu gpu;
    struct att_options options = {.size = sizeof options,
                                  .device = devices[cli_number(cli, "device", 0)],
                                  .template_dir = cli_text(cli, "templates", NULL)};
    if (cli_given(cli, "model"))
        return explain_model(cli);
    if (cli_given(cli, "tiles"))
        return explain_tiles(cli);
    enum exit_code code = catalog_open(&catalog, cli);
    if (!code && cli_given(cli, "for"))
        code = gpu_option_name(cli, cli_text(cli, "for", ""), "", &gpu);
    if (!code) {
        enum att_status status = cli_given(cli, "for") ? session_open_to_choose(&options, gpu.name, gpu.arch, &session)
                                                       : att_open(&options, &session);
        if (status != ATT_OK)
            code = cli_error(cli, cli_exit_code(status), "%s", session ? att_message(session) : "out of memory");
    }
    if (!code) {
        if (cli->json) {
            cli_json_open(cli, &json);
            json_open_array(&json, "explanations");
        }
        code = (catalog.spec ? explain_variants : explain_problem)(cli, &json, session, &catalog);
        if (cli->json)
            json_close(&json);
    }
    att_close(session);
    catalog_close(&catalog);
    return code;
}
