/* template_folder: templates from a user's folder instead of the built-in ones. */
#ifndef ATTILE_TEMPLATE_FOLDER_H
#define ATTILE_TEMPLATE_FOLDER_H

#include "gen.h"

struct template_folder;

struct template_folder *template_folder_open(const char *path); /* null: out of memory */
void template_folder_close(struct template_folder *folder);     /* accepts null; frees the texts handed out */

/* A template_loader; its context is the folder. Refuses files that exist but cannot be a template of this folder,
   within template_folder_parse with an error: names and links that lead out of it, and files that are not regular or
   too large. Not for several threads at once. */
const char *template_folder_load(void *folder, const char *name, size_t *size);

/* Calls template_set_open with the folder, or, if it is null, with the built-in templates. */
struct template_set *template_folder_parse(struct template_folder *folder, struct diag *diag);

#endif
