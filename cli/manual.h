/* manual: man pages and shell completions, from the tables that read the command line. */
#ifndef ATTILE_MANUAL_H
#define ATTILE_MANUAL_H

#include "cli.h"

/* Text of the overview; defined in help.c. */
extern const char help_about[], help_specs[], help_exit_codes[], help_environment[];

void manual_overview(struct text *page); /* attile.1 */
void manual_verb(const struct verb *verb, struct text *page);

void completion_bash(struct text *script);
void completion_zsh(struct text *script);
void completion_fish(struct text *script);

/* Writes all of them below DIR/share, each where its reader looks for it. */
enum exit_code manual_save(const struct cli *cli, const char *folder);

#endif
