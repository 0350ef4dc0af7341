/* nvrtc: CUDA source in, cubin out. NVRTC is opened at run time and needs neither GPU nor driver, so this serves the
   ahead-of-time build as well as the cuda device. */
#ifndef ATTILE_NVRTC_H
#define ATTILE_NVRTC_H

#include "backend.h"

struct nvrtc;

/* Find and open the library. Order: ATTILE_NVRTC (a path), a libnvrtc this process has loaded already, the system's
   libnvrtc.so.13 and .12, then lib64 and lib below CUDA_HOME, CUDA_PATH and /usr/local/cuda. The environment is not
   read when the process is setuid. ATT_NO_COMPILER says where it looked. The library stays loaded for good. */
enum att_status nvrtc_open(struct nvrtc **nvrtc, struct failure *failure);
void nvrtc_close(struct nvrtc *nvrtc); /* accepts null */

/* Where nvrtc_open looks, for nvrtc_search.c. */
enum { NVRTC_SONAMES = 2, NVRTC_FOLDERS = 4, NVRTC_ROOTS = 3 };
extern const char *const nvrtc_sonames[NVRTC_SONAMES];
extern const char *const nvrtc_folders[NVRTC_FOLDERS]; /* below a root */
const char *nvrtc_root(int i);                         /* null = not given */

/* What decides which library nvrtc_open would find, as lines with paths and stamps of files: where two searches read alike it
   is the same library, unless the system was told nothing of a new one (ldconfig). Loads nothing, which takes 10 ms less.
   False where that cannot be said, or where the library is loaded already, so that opening it takes no time. */
bool nvrtc_search(struct text *search);

struct nvrtc_info {
    int major, minor;
    const char *path;     /* of the library */
    const char *rule;     /* how it was found: "ATTILE_NVRTC", "loaded already", "system", "CUDA_HOME", ... */
    const char *builtins; /* path of libnvrtc-builtins, or null: then the first compile looks for it by itself */
    const char *title;    /* "NVRTC 13.0 (libnvrtc.so.13)" */
};
void nvrtc_describe(const struct nvrtc *nvrtc, struct nvrtc_info *info);

/* Does this NVRTC know the architecture, "sm_90a" say? */
bool nvrtc_knows(const struct nvrtc *nvrtc, const char *arch);

/* What decides the bytes besides the source, as "name: value\n" lines: version, build identity, options. */
void nvrtc_identity(const struct nvrtc *nvrtc, const char *arch, struct text *text);

/* Compile for job->arch (not null): "sm_90a" makes a cubin, "compute_80" PTX with its NUL, of which no more is known. Safe from several threads. ATT_COMPILE_FAILED holds the log. So is a
   binary that compile_log.h refuses. The caller frees the binary. */
enum att_status nvrtc_compile(const struct nvrtc *nvrtc, const struct compile_job *job, struct binary *binary,
                              struct failure *failure);

#endif
