/* What determines which NVRTC a process finds, without opening one. */
#include "nvrtc.h"

#include <dlfcn.h>
#include <limits.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* A replaced file has another stamp. Absent files count too, since a file that appears may be found first. */
static void print_stamp(const char *path, struct text *search) {
    struct stat status;
    if (stat(path, &status) == 0)
        text_print(search, "%s: %llu %llu %lld %lld.%09ld\n", path, (unsigned long long)status.st_dev,
                   (unsigned long long)status.st_ino, (long long)status.st_size, (long long)status.st_mtim.tv_sec,
                   status.st_mtim.tv_nsec);
    else
        text_print(search, "%s: none\n", path);
}

static void print_folder(const char *folder, struct text *search) {
    for (int i = 0; i < NVRTC_SONAMES; i++) {
        char path[PATH_MAX];
        if (snprintf(path, sizeof path, "%s/%s", folder, nvrtc_sonames[i]) < (int)sizeof path)
            print_stamp(path, search);
    }
}

/* Stamps the places where dlopen looks for a name without a slash: the path of the object that calls it,
   LD_LIBRARY_PATH, the system's cache. */
static bool print_system(struct text *search) {
    Dl_info info;
    struct link_map *own;
    Dl_serinfo size;
    if (!dladdr1((const void *)nvrtc_sonames, &info, (void **)&own, RTLD_DL_LINKMAP) ||
        dlinfo(own, RTLD_DI_SERINFOSIZE, &size) != 0)
        return false;
    Dl_serinfo *paths = calloc(1, size.dls_size);
    if (!paths)
        return false;
    bool known = dlinfo(own, RTLD_DI_SERINFOSIZE, paths) == 0 && dlinfo(own, RTLD_DI_SERINFO, paths) == 0;
    for (unsigned i = 0; known && i < paths->dls_cnt; i++)
        print_folder(paths->dls_serpath[i].dls_name, search);
    free(paths);
    print_stamp("/etc/ld.so.cache", search);
    return known;
}

static bool is_loaded(void) {
    for (int i = 0; i < NVRTC_SONAMES; i++) {
        void *library = dlopen(nvrtc_sonames[i], RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
        if (library) {
            dlclose(library);
            return true;
        }
    }
    return false;
}

bool nvrtc_search(struct text *search) {
    const char *path = secure_getenv("ATTILE_NVRTC");
    if (path && *path && *path != '/')
        return false; /* dlopen would search for it */
    if (path && *path) {
        print_stamp(path, search);
        return !search->failed;
    }
    if (is_loaded() || !print_system(search))
        return false;
    for (int i = 0; i < NVRTC_ROOTS; i++) {
        const char *root = nvrtc_root(i);
        for (int j = 0; root && j < NVRTC_FOLDERS; j++) {
            char folder[PATH_MAX];
            if (snprintf(folder, sizeof folder, "%s/%s", root, nvrtc_folders[j]) < (int)sizeof folder)
                print_folder(folder, search);
        }
    }
    return !search->failed;
}
