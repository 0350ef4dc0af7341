/* template_folder: templates from a folder of the user's instead of those built in. */
#ifndef ATTILE_TEMPLATE_FOLDER_H
#define ATTILE_TEMPLATE_FOLDER_H

#include "gen.h"

struct template_folder;

struct template_folder *template_folder_open(const char *path); /* null: out of memory */
void template_folder_close(struct template_folder *folder);     /* accepts null; frees the texts handed out */

/* A template_loader; its context is the folder. What is there and cannot be a template of this folder is refused,
   within template_folder_parse with an error: names and links that lead out of it, what is no regular file or too
   large. Not for several threads at once. */
const char *template_folder_load(void *folder, const char *name, size_t *size);

/* template_set_open from the folder, or with null from what is built in. */
struct template_set *template_folder_parse(struct template_folder *folder, struct diag *diag);

#endif
