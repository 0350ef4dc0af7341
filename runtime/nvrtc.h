/* nvrtc: compiles CUDA source to a cubin. NVRTC is opened at run time and needs neither GPU nor driver, so this serves
   the ahead-of-time build as well as the cuda device. */
#ifndef ATTILE_NVRTC_H
#define ATTILE_NVRTC_H

#include "backend.h"

struct nvrtc;

/* Finds and opens the library. Order: ATTILE_NVRTC (a path), a libnvrtc that this process has already loaded, the
   system's libnvrtc.so.13 and .12, then lib64 and lib below CUDA_HOME, CUDA_PATH and /usr/local/cuda. A setuid process
   does not read the environment. ATT_NO_COMPILER says where it looked. The library is never unloaded. */
enum att_status nvrtc_open(struct nvrtc **nvrtc, struct failure *failure);
void nvrtc_close(struct nvrtc *nvrtc); /* accepts null */

/* Where nvrtc_open looks, for nvrtc_search.c. */
enum { NVRTC_SONAMES = 2, NVRTC_FOLDERS = 4, NVRTC_ROOTS = 3 };
extern const char *const nvrtc_sonames[NVRTC_SONAMES];
extern const char *const nvrtc_folders[NVRTC_FOLDERS]; /* below a root */
const char *nvrtc_root(int i);                         /* null = not given */

/* Writes what determines which library nvrtc_open would find, as lines with paths and stamps of files: equal texts mean
   the same library, unless the system has not been told about a new one (ldconfig). Loads nothing, which takes 10 ms
   less. False if this cannot be determined, or if the library is already loaded, so that opening it takes no time. */
bool nvrtc_search(struct text *search);

struct nvrtc_info {
    int major, minor;
    const char *path;     /* of the library */
    const char *rule;     /* how it was found: "ATTILE_NVRTC", "loaded already", "system", "CUDA_HOME", ... */
    const char *builtins; /* path of libnvrtc-builtins, or null: the first compile then looks for it by itself */
    const char *title;    /* "NVRTC 13.0 (libnvrtc.so.13)" */
};
void nvrtc_describe(const struct nvrtc *nvrtc, struct nvrtc_info *info);

/* True if this NVRTC knows the architecture, for example "sm_90a". */
bool nvrtc_knows(const struct nvrtc *nvrtc, const char *arch);

/* Writes what determines the bytes besides the source, as "name: value\n" lines: version, build identity, options. */
void nvrtc_identity(const struct nvrtc *nvrtc, const char *arch, struct text *text);

/* Compiles for job->arch (not null): "sm_90a" gives a cubin; "compute_80" gives PTX with its NUL, about which nothing
   else is known. May be called from several threads. On ATT_COMPILE_FAILED the message has the log; this includes a
   binary that compile_log.h refuses, and one that spills too much among its wgmma. The caller frees the binary. */
enum att_status nvrtc_compile(const struct nvrtc *nvrtc, const struct compile_job *job, struct binary *binary,
                              struct failure *failure);

#endif
