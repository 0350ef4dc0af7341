/* session: the contents of att_session and att_kernel, and what the files that implement attile.h share. */
#ifndef ATTILE_SESSION_H
#define ATTILE_SESSION_H

#include "backend.h"
#include "by_sizes.h"
#include "cache.h"
#include "choose.h"
#include "formulas.h"
#include "gen.h"
#include "model.h"
#include "names.h"
#include "quick.h"
#include "tables.h"

#include <pthread.h>
#include <stdatomic.h>

/* Limits of a session: number of problem texts, and of released kernels that stay loaded. */
enum { TEXTS_KEPT = 4096, KERNELS_KEPT = 64 };

/* What a kernel stands for. Kernels of one variant but different kinds are different: a bundle may supply another
   schedule for an open one, and launches of a kernel found without sizes may use others (by_sizes.h). Flags. */
enum kernel_kind { KERNEL_OF_VARIANT, KERNEL_OF_ANY_SCHEDULE = 1, KERNEL_OF_ANY_SIZES = 2 };

struct att_kernel {
    struct att_session *session;
    struct variant variant; /* complete */
    unsigned kind;
    struct by_sizes *by_sizes; /* for KERNEL_OF_ANY_SIZES, otherwise null; owned */
    pthread_mutex_t lock;      /* held while building and loading: other threads that need the kernel wait */
    atomic_bool ready;         /* everything below is set and does not change, except `prepared` */
    atomic_bool prepared;
    struct module *module;
    struct plan plan;
    struct formula_set formulas; /* parameters of its mask and score at launch */
    struct text source;          /* empty for a bundle's kernel */
    struct att_kernel_info info;

    struct att_kernel *next; /* in the list of all kernels of the session */

    /* Guarded by the session's lock. */
    unsigned users;     /* finds not yet released */
    uint64_t last_used; /* when the last user left, by the session's clock */
};

struct att_session {
    unsigned process; /* process_number at att_open */
    bool open;        /* att_open succeeded */
    const struct backend_type *type;
    struct backend *backend;
    struct backend_info info;
    struct cache *cache;
    struct template_folder *template_folder; /* null = the embedded templates */
    struct template_set *templates;
    const struct att_bundle *const *bundles; /* a copy of the list; null = none */
    void (*log)(void *context, enum att_log_level level, const char *message);
    void *log_context;

    struct tables tables;
    bool modelled; /* the model knows this device, and gpu is set */
    struct model_gpu gpu;
    pthread_mutex_t lock;  /* guards what follows */
    struct names variants; /* the kernel of each variant in the session, by its canonical text */
    struct quick quick;
    struct names asked; /* kernels by the problem and schedule that led to them, at most TEXTS_KEPT */
    struct att_kernel *kernels;
    unsigned idle;            /* kernels without a user, at most KERNELS_KEPT */
    uint64_t clock;           /* counts kernels that became idle */
    struct message *messages; /* the last failure of each thread that had one */
};

/* att_open. If `compile_for` ("sm_90a") is not null, opens a session on cuda that only compiles, which needs no GPU. */
enum att_status session_open(const struct att_options *options, const char *compile_for, att_session **session);

/* Opens a session that chooses kernels as one on the device of that name would, and can do nothing else: it needs
   neither the device nor a compiler. If the options name a table, it is the only one. `arch` "host" is this CPU.
   `device` is borrowed. */
enum att_status session_open_to_choose(const struct att_options *options, const char *device, const char *arch,
                                       att_session **session);

/* Every public function calls it first: checks that this session is usable, in this process. If not, leaves a
   message. */
enum att_status session_enter(att_session *session);

/* Stores the failure as this thread's message, clears it, and returns its status. */
enum att_status session_fail(att_session *session, struct failure *failure);

void session_log(const att_session *session, enum att_log_level level, const char *format, ...) TEXT_PRINTF(3, 4);

/* kernels.c: returns the kernel of a variant, new or known, with one more user. `request` for KERNEL_OF_ANY_SIZES,
   otherwise null. Null: out of memory. */
att_kernel *kernel_of_variant(att_session *session, const struct variant *variant, unsigned kind,
                              const struct request *request);
/* Adds one user; call it with the session's lock held. */
void kernel_use(att_kernel *kernel);
/* Removes one user; call it without the lock. */
void kernel_release(att_kernel *kernel);

/* kernel.c; without `compile_it`: ATT_NOT_PREPARED if a compiler would have to make it. */
enum att_status kernel_build(att_kernel *kernel, bool compile_it, struct failure *failure);
/* Compiles into the cache without loading; does nothing if it is there already. Needs no device. */
enum att_status kernel_compile(att_session *session, const struct variant *variant, struct att_kernel_info *info,
                               struct failure *failure);
enum att_status kernel_prepare(att_kernel *kernel, struct failure *failure);
void kernel_free(att_kernel *kernel);

#endif
