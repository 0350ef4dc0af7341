/* plugin_probe: loads the library as a plugin does: with RTLD_LOCAL, into a program that links nothing.

       plugin_probe CACHE_DIRECTORY LIBRARY...

   Finds a kernel that needs the mathematical library in each library, then runs all of them. 0 = right. */
#include "attile.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

enum { LIBRARIES = 4 };

struct plugin {
    void *library;
    att_session *session;
    att_kernel *kernel;
    void *memory;
};

static void find(const struct plugin *plugin, const char *name, void *function) {
    void *address = dlsym(plugin->library, name);
    memcpy(function, &address, sizeof address);
}

static int open_plugin(struct plugin *plugin, const char *path, const char *cache) {
    enum att_status (*open)(const struct att_options *, att_session **);
    enum att_status (*find_kernel)(att_session *, const char *, const char *, att_kernel **);
    enum att_status (*alloc)(att_session *, size_t, void **);
    plugin->library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!plugin->library)
        return fprintf(stderr, "plugin_probe: %s\n", dlerror()), 2;
    find(plugin, "att_open", &open);
    find(plugin, "att_find", &find_kernel);
    find(plugin, "att_alloc", &alloc);
    const struct att_options options = {.size = sizeof options, .device = ATT_DEVICE_HOST, .cache_dir = cache};
    return open(&options, &plugin->session) || find_kernel(plugin->session, "family=softmax", NULL, &plugin->kernel) ||
           alloc(plugin->session, 4 * sizeof(float), &plugin->memory);
}

static int run(const struct plugin *plugin) {
    enum att_status (*launch)(att_kernel *, const struct att_args *, void *);
    find(plugin, "att_launch", &launch);
    float *row = plugin->memory;
    for (int i = 0; i < 4; i++)
        row[i] = 1;
    struct att_args args = {
        .size = sizeof args,
        .family = ATT_SOFTMAX,
        .softmax = {.x = row, .y = row, .x_row_stride = 4, .y_row_stride = 4, .rows = 1, .cols = 4}};
    return launch(plugin->kernel, &args, NULL) != ATT_OK || row[3] < 0.249f || row[3] > 0.251f;
}

static void close_plugin(const struct plugin *plugin, int failed) {
    const char *(*message)(const att_session *);
    void (*close)(att_session *);
    if (!plugin->library)
        return;
    find(plugin, "att_message", &message);
    find(plugin, "att_close", &close);
    if (failed)
        fprintf(stderr, "plugin_probe: %s\n", message(plugin->session));
    close(plugin->session);
}

int main(int count, char **arguments) {
    struct plugin plugin[LIBRARIES] = {{0}};
    int libraries = count - 2, result = 0;
    if (libraries < 1 || libraries > LIBRARIES) {
        fprintf(stderr, "plugin_probe: expected a cache directory and at most %d libraries\n", LIBRARIES);
        return 2;
    }
    for (int i = 0; i < libraries && !result; i++)
        result = open_plugin(&plugin[i], arguments[i + 2], arguments[1]);
    for (int i = 0; i < libraries && !result; i++)
        result = run(&plugin[i]);
    for (int i = 0; i < libraries; i++)
        close_plugin(&plugin[i], result);
    return result;
}
