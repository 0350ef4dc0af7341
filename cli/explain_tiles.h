/* explain_tiles: attile explain --tiles: which tiles of a problem's mask are empty, partial and full at given sizes. */
#ifndef ATTILE_EXPLAIN_TILES_H
#define ATTILE_EXPLAIN_TILES_H

#include "cli.h"

/* Rows of options_explain; --shapes is among those of explore.h. */
#define EXPLAIN_TILES_OPTIONS                                                                                          \
    {"tiles", 0, OPTION_FLAG, NULL, "show instead which tiles of the mask are empty, partial and full"},               \
        {"params", 0, OPTION_TEXT, "VALUES",                                                                           \
         "with --tiles: parameters of the mask, 'window=1024, doc=doc.npy'; what is left out is random"},              \
    {                                                                                                                  \
        "svg", 0, OPTION_TEXT, "FILE", "with --tiles: write the picture of the first variant and shape to a file"      \
    }

enum exit_code explain_tiles(struct cli *cli);

#endif
