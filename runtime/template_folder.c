#include "template_folder.h"
#include "text_file.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

struct template_folder {
    struct file {
        struct file *next;
        char *name;
        struct text text;
    } * files;
    struct diag *diag; /* while templates are parsed, otherwise null */
    char path[];
};

struct template_folder *template_folder_open(const char *path) {
    size_t size = strlen(path) + 1;
    struct template_folder *folder = calloc(1, sizeof *folder + size);
    if (folder)
        memcpy(folder->path, path, size);
    return folder;
}

static void free_file(struct file *file) {
    text_free(&file->text);
    free(file->name);
    free(file);
}

void template_folder_close(struct template_folder *folder) {
    if (!folder)
        return;
    for (struct file *next, *file = folder->files; file; file = next) {
        next = file->next;
        free_file(file);
    }
    free(folder);
}

static bool stays_inside(const char *name) {
    if (*name == '/')
        return false;
    for (const char *part = name; part; part = strchr(part, '/')) {
        part += *part == '/';
        if (strncmp(part, "..", 2) == 0 && (part[2] == '/' || part[2] == '\0'))
            return false;
    }
    return true;
}

static bool refuse(const struct template_folder *folder, const char *name, const char *why) {
    if (folder->diag)
        diag_error(folder->diag, (struct place){0}, "template %s/%s: %s", folder->path, name, why);
    return false;
}

/* False if links lead elsewhere. A missing file counts as inside. */
static bool ends_inside(const char *folder, const char *path) {
    char *root = realpath(folder, NULL), *end = realpath(path, NULL);
    size_t size = root ? strlen(root) : 0;
    bool inside = !root || !end || (strncmp(end, root, size) == 0 && (end[size] == '/' || root[size - 1] == '/'));
    free(root);
    free(end);
    return inside;
}

static bool read_file(const struct template_folder *folder, const char *name, struct text *text) {
    struct text path = {0};
    bool absent = false;
    text_print(&path, "%s/%s", folder->path, name);
    const char *why = "out of memory";
    if (!path.failed && !ends_inside(folder->path, text_string(&path)))
        why = "this link leads out of the folder; put a copy there";
    else if (!path.failed)
        why = text_file_read(text_string(&path), text, &absent);
    text_free(&path);
    return !why || (!absent && refuse(folder, name, why));
}

const char *template_folder_load(void *context, const char *name, size_t *size) {
    struct template_folder *folder = context;
    for (const struct file *file = folder->files; file; file = file->next)
        if (strcmp(file->name, name) == 0) {
            *size = file->text.size;
            return file->text.bytes;
        }
    if (!stays_inside(name)) {
        refuse(folder, name, "this name leads out of the folder");
        return NULL;
    }
    struct file *file = calloc(1, sizeof *file);
    if (!file)
        return NULL;
    file->name = strdup(name);
    if (!file->name || !read_file(folder, name, &file->text)) {
        free_file(file);
        return NULL;
    }
    file->next = folder->files;
    folder->files = file;
    *size = file->text.size;
    return file->text.bytes;
}

struct template_set *template_folder_parse(struct template_folder *folder, struct diag *diag) {
    struct stat info;
    if (!folder)
        return template_set_open(NULL, NULL, diag);
    if (stat(folder->path, &info) != 0 || !S_ISDIR(info.st_mode)) {
        diag_error(diag, (struct place){0}, "there is no folder of templates %s", folder->path);
        return NULL;
    }
    folder->diag = diag;
    struct template_set *set = template_set_open(template_folder_load, folder, diag);
    folder->diag = NULL;
    return set;
}
