/* template_folder: templates from a folder of the user's instead of those built in. */
#ifndef ATTILE_TEMPLATE_FOLDER_H
#define ATTILE_TEMPLATE_FOLDER_H

#include "gen.h"

struct template_folder;

struct template_folder *template_folder_open(const char *path); /* null: out of memory */
void template_folder_close(struct template_folder *folder);     /* accepts null; frees the texts handed out */

/* A template_loader; its context is the folder. Names that lead out of the folder are not found. Not for several
   threads at once. */
const char *template_folder_load(void *folder, const char *name, size_t *size);

#endif
