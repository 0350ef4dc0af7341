/* plugin_probe: the library as a plugin has it: loaded with RTLD_LOCAL into a program that is linked with nothing.

       plugin_probe CACHE_DIRECTORY

   Finds a kernel that needs the mathematical library and runs it. 0 = right. */
#include "attile.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

static void *library;

static void find(const char *name, void *function) {
    void *address = dlsym(library, name);
    memcpy(function, &address, sizeof address);
}

int main(int count, char **arguments) {
    enum att_status (*open)(const struct att_options *, att_session **);
    enum att_status (*find_kernel)(att_session *, const char *, const char *, att_kernel **);
    enum att_status (*alloc)(att_session *, size_t, void **);
    enum att_status (*launch)(att_kernel *, const struct att_args *, void *);
    const char *(*message)(const att_session *);
    void (*close)(att_session *);
    library = dlopen(ATTILE_SHARED, RTLD_NOW | RTLD_LOCAL);
    if (!library || count != 2) {
        fprintf(stderr, "plugin_probe: %s\n", library ? "expected a cache directory" : dlerror());
        return 2;
    }
    find("att_open", &open);
    find("att_find", &find_kernel);
    find("att_alloc", &alloc);
    find("att_launch", &launch);
    find("att_message", &message);
    find("att_close", &close);
    const struct att_options options = {.device = ATT_DEVICE_HOST, .cache_dir = arguments[1]};
    att_session *session;
    att_kernel *kernel;
    void *memory;
    int result = 1;
    if (open(&options, &session) == ATT_OK && find_kernel(session, "family=softmax", NULL, &kernel) == ATT_OK &&
        alloc(session, 4 * sizeof(float), &memory) == ATT_OK) {
        float *row = memory;
        for (int i = 0; i < 4; i++)
            row[i] = 1;
        struct att_args args = {
            .softmax = {.x = row, .y = row, .x_row_stride = 4, .y_row_stride = 4, .rows = 1, .cols = 4}};
        result = launch(kernel, &args, NULL) == ATT_OK && row[3] > 0.249f && row[3] < 0.251f ? 0 : 1;
    }
    if (result)
        fprintf(stderr, "plugin_probe: %s\n", message(session));
    close(session);
    return result;
}
