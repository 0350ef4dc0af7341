#include "cli.h"

enum exit_code verb_version(struct cli *cli) {
    if (!cli->json) {
        text_print(&cli->out, "attile %s\n", att_version());
        return CLI_OK;
    }
    struct json json;
    cli_json_open(cli, &json);
    json_put_string(&json, "generator", GEN_VERSION);
    json_close(&json);
    return CLI_OK;
}
