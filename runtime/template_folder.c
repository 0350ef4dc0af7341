#include "template_folder.h"
#include "text_file.h"

#include <stdlib.h>
#include <string.h>

struct template_folder {
    struct file {
        struct file *next;
        char *name;
        struct text text;
    } * files;
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

static bool read_file(const char *folder, const char *name, struct text *text) {
    struct text path = {0};
    text_print(&path, "%s/%s", folder, name);
    bool good = !path.failed && text_file_read(text_string(&path), text);
    text_free(&path);
    return good;
}

const char *template_folder_load(void *context, const char *name, size_t *size) {
    struct template_folder *folder = context;
    for (const struct file *file = folder->files; file; file = file->next)
        if (strcmp(file->name, name) == 0) {
            *size = file->text.size;
            return file->text.bytes;
        }
    struct file *file = stays_inside(name) ? calloc(1, sizeof *file) : NULL;
    if (!file)
        return NULL;
    file->name = strdup(name);
    if (!file->name || !read_file(folder->path, name, &file->text)) {
        free_file(file);
        return NULL;
    }
    file->next = folder->files;
    folder->files = file;
    *size = file->text.size;
    return file->text.bytes;
}
