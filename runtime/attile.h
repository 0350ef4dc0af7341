/* attile: generates, compiles and caches attention kernels, each specialised for one problem.

   What it does: turns a problem ("attention_forward, bf16, head_dim 96, causal") into a CUDA kernel and launches it. A
   GPU kernel is compiled with NVRTC and loaded through the driver (both opened at run time). A host kernel is compiled
   for this CPU with the C++ compiler.
   What it does not do: manage your memory, pick your stream, link against CUDA, print, exit or abort.

       att_session *session;
       att_kernel *kernel;
       if (att_open(NULL, &session) ||
           att_find(session, "family=attention_forward dtype=fp32 head_dim=64 mask=causal", NULL, &kernel))
           puts(att_message(session));
       struct att_args args = {.size = sizeof args,
                               .family = ATT_ATTENTION_FORWARD,
                               .attention = {.q = {q, 0, n * 64, 64}, ..., .batch = 1, .heads = 8, .len_q = n, .len_kv = n}};
       att_launch(kernel, &args, stream);
       att_close(session);

   Sizes: a struct whose first member is `size` may grow at its end in later versions. The caller sets `size` to the
   sizeof of the struct; the library refuses calls without it. att_tensor and att_param never change.
   Threads: many threads may use a session and its kernels at once, except for att_close.
   Environment read: ATTILE_CACHE_DIR, ATTILE_TUNED, XDG_CACHE_HOME, HOME, ATTILE_NVRTC, CUDA_HOME, CUDA_PATH, and for
   the host device CXX, PATH, LD_LIBRARY_PATH, TMPDIR; none if the process is set-user-ID. Nothing else is read.
   Programs that the library starts see PATH, HOME, LD_LIBRARY_PATH and a TMPDIR of their own. */
#ifndef ATTILE_H
#define ATTILE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define ATT_API __attribute__((visibility("default")))
#else
#define ATT_API
#endif

#define ATT_VERSION_MAJOR 0
#define ATT_VERSION_MINOR 1
#define ATT_VERSION_PATCH 0

ATT_API const char *att_version(void); /* "0.1.0" */

/* --- statuses -------------------------------------------------------------------------------------------------- */

/* Every function that can fail returns one of these; each is something a caller can act on. docs/errors.md has a
   section for each. */
enum att_status {
    ATT_OK = 0,
    ATT_INVALID_ARGUMENT, /* a pointer, size or stride: the message says which, what was expected and what was found */
    ATT_INVALID_TEXT,     /* a problem, schedule or spec text: the message has line, column and caret */
    ATT_UNSUPPORTED,      /* no kernel can do this: the message names the constraint that failed */
    ATT_NO_DEVICE,        /* no usable GPU or driver */
    ATT_NO_COMPILER,      /* NVRTC (cuda) or a C++ compiler (host) was not found */
    ATT_COMPILE_FAILED,   /* the compiler's log is in the message, with template lines */
    ATT_NOT_PREPARED,     /* a launch in a graph capture, without att_prepare before it */
    ATT_LAUNCH_FAILED,    /* the device refused or faulted; on the host device: what a check found */
    ATT_OUT_OF_MEMORY,    /* host or device memory */
    ATT_IO,               /* a file could not be read or written */
    ATT_FORKED,           /* the process forked after att_open; open a new session in the child */
    ATT_INTERNAL,         /* a bug in attile; please report the message */
    ATT_STATUS_COUNT
};

ATT_API const char *att_status_name(enum att_status status); /* "invalid argument"; never null */

/* --- sessions -------------------------------------------------------------------------------------------------- */

typedef struct att_session att_session; /* owned by the caller */
typedef struct att_kernel att_kernel;   /* borrowed from its session, valid until it is released or att_close */
struct att_bundle;                      /* kernels built ahead of time, see the end of this file */

enum att_device { ATT_DEVICE_AUTO, /* cuda if there is one, else host */ ATT_DEVICE_CUDA, ATT_DEVICE_HOST };

/* What the host device checks. Ignored on cuda. */
enum att_host_mode {
    ATT_HOST_CHECK, /* bounds of every access checked, bytes counted */
    ATT_HOST_FAST,  /* nothing checked, nothing counted */
    ATT_HOST_RACE   /* under ThreadSanitizer; needs a process linked with it (`attile-race`) */
};

enum att_log_level { ATT_LOG_WARNING, ATT_LOG_INFO, ATT_LOG_DEBUG };

/* Zero means default for every field but `size`. Strings are copied. */
struct att_options {
    size_t size; /* sizeof(struct att_options) */
    enum att_device device;
    int ordinal;              /* which GPU; 0 = the first */
    const char *cache_dir;    /* null = ATTILE_CACHE_DIR, else XDG_CACHE_HOME/attile, else HOME/.cache/attile */
    int no_disk_cache;        /* 1 = keep compiled kernels in memory only */
    uint64_t cache_limit;     /* bytes on disk; 0 = 1 GiB; least recently used entries are dropped first */
    const char *template_dir; /* null = the templates built into the library */
    /* A file of measured schedules, which takes precedence over the built-in ones, or a lock file (docs/tuned.md);
       null = ATTILE_TUNED. */
    const char *tuned_table;
    /* Null-terminated list of bundles, searched before compiling. The bundles and their kernels must outlive the
       session. Null = none. */
    const struct att_bundle *const *bundles;
    enum att_host_mode host_mode;
    uint64_t host_seed; /* 0 = round-robin; else a random schedule of threads, the same for the same seed */

    /* Null = silent. Called from any thread. */
    void (*log)(void *context, enum att_log_level level, const char *message);
    void *log_context;

    /* 1 = for an attention_forward problem without a schedule, att_find does not wait for the best kernel to be
       compiled. It returns a kernel that compiles in a tenth of the time but runs many times as long, and a thread of
       the session compiles the best one. att_find returns the best kernel once it is ready, so call it again from time
       to time. The two kernels round differently. Kernels in a bundle or on disk are returned at once. att_close waits
       for a compile in progress. */
    int64_t quick_first;
};

/* Opens a session. Null options mean all defaults. On failure *session is still set, so that att_message can be read
   (it is null only if memory ran out); close it in any case. Starts no compiler. */
ATT_API enum att_status att_open(const struct att_options *options, att_session **session);

/* Waits for running kernels, then releases everything that the session holds. Accepts null. */
ATT_API void att_close(att_session *session);

/* Returns the full text of this thread's last failure in this session; "" if there was none. Valid until the thread's
   next failure or att_close. */
ATT_API const char *att_message(const att_session *session);

/* --- kernels --------------------------------------------------------------------------------------------------- */

/* Finds or builds the kernel for a problem.

   problem   knobs that say what is computed, written as in a spec: "family=attention_forward dtype=bf16 head_dim=96
             mask=causal" (name=value or name: value; spaces, commas and newlines separate). Field reference:
             specs/README.md. Expressions are quoted: "... mask='k <= q and q - k < window' params='window: int'"
             (docs/expressions.md). Omitted knobs have their defaults. The text may also give hints about later
             launches, which guide the choice of the schedule: sizes ("batch=4 heads=16 len_q=1024 len_kv=1024";
             default: long sequences) and alignment, a number of bytes that divides the addresses and strides of all
             tensors.
   schedule  knobs that say how it is computed, in the same form, or null to let the library choose (docs/tuned.md).

   Launches may have any sizes, whatever the hints. The fastest kernels require addresses and strides that are multiples
   of 16 bytes, and att_launch refuses others; alignment=1 (or 2, 4, 8) finds a kernel that accepts them. The default is
   16.

   Without a schedule and without hints of all sizes, launches with few queries, with few Q tiles and with short
   sequences use kernels of their own, the same ones that hints of their sizes would have found. Each is compiled when a
   launch first uses it, or by att_prepare. What the functions below say about the kernel holds for the one that was
   found.

   The kernel is chosen once for a problem and schedule, and compiled at most once; later calls return the same kernel.
   The call looks in memory, then in bundles, then on disk, and then compiles. For a problem without a schedule, a
   bundle supplies its first kernel for that problem. */
ATT_API enum att_status att_find(att_session *session, const char *problem, const char *schedule, att_kernel **kernel);

/* Releases a kernel that att_find returned, for programs that use many kernels one after another. Once a kernel has
   been released as often as it was found, it must not be used any more. The session keeps the last 64 released kernels
   loaded, in case they are found again. It unloads the others after waiting for the device, but not during graph
   capture, nor while a graph holds the kernel. Without this call kernels stay loaded until att_close. Accepts null. */
ATT_API void att_release(att_kernel *kernel);

/* Loads the kernel onto the device now; otherwise the driver does so at the first launch. For a kernel found without
   sizes, also compiles and loads the kernels that launches of some sizes use, in parallel, with as many threads as
   there are processors. Call it before graph capture and before measuring memory. Idempotent. */
ATT_API enum att_status att_prepare(att_kernel *kernel);

ATT_API const char *att_kernel_name(const att_kernel *kernel);   /* an identifier with every knob in it */
ATT_API const char *att_kernel_source(const att_kernel *kernel); /* the emitted CUDA text; "" for a bundle's kernel */

/* What the compiler reports. -1 = not known (host device). */
struct att_kernel_info {
    size_t size;             /* sizeof(struct att_kernel_info), set by the caller */
    int registers;           /* per thread, maximum over all entries */
    int spill_bytes;         /* per thread, stores and loads of all entries */
    int shared_bytes;        /* per block, maximum over all entries */
    int threads;             /* per block, maximum over all entries */
    int launches;            /* kernels that one att_launch starts */
    int instructions;        /* of all entries; -1 = not known */
    uint64_t binary_size;    /* bytes */
    double compile_seconds;  /* 0 if it came from a cache or a bundle */
    double compiler_seconds; /* compiler time when the kernel was made, now or earlier; -1 = not known */
    const char *from;        /* "compiler", "disk" or "bundle" */
};
ATT_API enum att_status att_kernel_describe(const att_kernel *kernel, struct att_kernel_info *info);

/* Explains in prose which variant is chosen for the problem and why, or why there is none (which the status also says).
   Writes up to `size` bytes to `text`, including the final NUL. Unless `needed` is null, writes the size of the whole
   text to *needed. Compiles nothing. */
ATT_API enum att_status att_explain(att_session *session, const char *problem, const char *schedule, char *text,
                                    size_t size, size_t *needed);

/* --- launching ------------------------------------------------------------------------------------------------- */

/* A tensor of up to four dimensions in device memory. Strides are in elements and not negative; the last dimension is
   contiguous. Inputs may repeat (stride 0); elements of an output must not share memory. A tensor without elements may
   be null. Addresses are multiples of the element size. The fastest kernels require that addresses and strides of q, k,
   v and o are multiples of 16 bytes; alignment=1 in the problem finds a kernel that does not (att_find). */
struct att_tensor {
    void *data;
    int64_t batch_stride, head_stride, row_stride;
};

/* A parameter of a mask or a score, identified by the name under which the problem declares it (params="window: int,
   slope: float[heads]"). Knob sinks requires the tensor "sinks", float[heads]. */
enum att_param_type {
    ATT_PARAM_BOOL = 1, /* in a tensor: bytes, anything but 0 is true */
    ATT_PARAM_INT,      /* int32_t */
    ATT_PARAM_FP32,
    ATT_PARAM_FP16, /* tensors only, like bf16 */
    ATT_PARAM_BF16
};

/* Means a stride of 0. Needed where all strides are 0, which would mean contiguous: one number for a whole tensor. */
#define ATT_REPEAT INT64_MIN

struct att_param {
    const char *name;
    enum att_param_type type; /* as declared; "float" is FP32 */
    double number;            /* value of a scalar; an int in -2^30 to 2^30 */
    const void *data;         /* elements of a tensor, in device memory; read only */
    int64_t size[4];          /* elements of each dimension, as declared */
    int64_t stride[4];        /* in elements, not negative; 0 or ATT_REPEAT repeats; all 0 = contiguous */
};

/* Means a scale of 0: all keys that a query sees have the same P, and O is the mean of their V. */
#define ATT_SCALE_ZERO (-0.0f)

/* Query head h reads K/V head h / (heads / kv_heads). If a query sees no key, its row of O is 0 and its LSE is -inf. */
struct att_attention_args { /* family attention_forward: O = softmax(scale Q K^T + mask) V */
    struct att_tensor q;    /* (batch, heads, len_q, head_dim) */
    struct att_tensor k;    /* (batch, kv_heads, len_kv, head_dim) */
    struct att_tensor v;    /* (batch, kv_heads, len_kv, head_dim_v) */
    struct att_tensor o;    /* (batch, heads, len_q, head_dim_v); must not overlap the inputs */
    float *lse;             /* (batch, heads, len_q) natural logarithm of the row sums; null = not computed */

    int64_t lse_batch_stride, lse_head_stride; /* both 0 = contiguous */
    int64_t batch, heads;                      /* at least 1 */
    int64_t kv_heads;                          /* divides heads; 0 = as heads */
    int64_t len_q, len_kv;                     /* may be 0 */
    float scale;                               /* 0 = 1 / sqrt(head_dim); ATT_SCALE_ZERO, which is -0, = 0 */

    int param_count;
    const struct att_param *params; /* one for each declared parameter, in any order; null when there is none */

    /* Per-sequence lengths: problem knobs layout and page_size (docs/serving.md). len_q and len_kv above are then the
       maximum over all sequences. These arrays are int32 in device memory; null where the layout has none. On a GPU the
       launch call does not read them, so they may change between replays of a graph; the host device checks them.

       padded   lengths_kv; tensors as above.
       ragged   cu_seqlens_q and, unless K and V are paged, cu_seqlens_kv. q and o are packed: (total_q, heads, head_dim), with
                row_stride from one token to the next; batch_stride is not used. k and v likewise. lse is (heads, total_q).
       paged    (either of them) lengths_kv; k and v are (pages, kv_heads, page_size, head_dim), batch_stride is from one page to
                the next. page_table, or page_indptr and page_indices. */
    const int32_t
        *cu_seqlens_q; /* (batch + 1): where the tokens of each sequence begin, and where those of the last end */
    const int32_t *cu_seqlens_kv; /* (batch + 1) */
    const int32_t *lengths_kv;    /* (batch): keys of each sequence, 0 to len_kv */
    const int32_t
        *page_table; /* (batch, pages of len_kv keys): page numbers; those past a sequence's end are not read */
    int64_t page_table_row_stride; /* 0 = contiguous */
    const int32_t *page_indptr;    /* (batch + 1): where the page numbers of each sequence begin in page_indices */
    const int32_t *page_indices;   /* page numbers, one sequence after the other */
    int64_t pages;                 /* in k and in v; all page numbers are smaller */
    int64_t total_q, total_kv;     /* rows of the packed tensors, at least as many as the sequences have */

    /* Problem knob dropout=1 (docs/dropout.md): after the softmax, each weight P is dropped with this probability, and
       the others are divided by 1 - dropout_p. The backward pass takes the same numbers as the forward pass. All 0
       without the knob. */
    float dropout_p; /* in [0, 1); rounded to a multiple of 2^-16, at most 1 - 2^-16 */
    uint64_t dropout_seed;
    uint64_t dropout_offset; /* a launch uses batch * heads numbers from here on: add as many for the next one */
    /* Seed and offset in device memory instead of the two fields above, 8-byte aligned; null = use those. The host does
       not read them, so they may change between replays of a graph. */
    const uint64_t *dropout_state;

    /* 8-bit K and V: an element times its scale is the number that it represents. Scales are finite numbers in device
       memory. Shape by problem knob kv_scale: tensor: one number; head: (kv_heads); token: like k and v without their
       last dimension, with the strides below, in elements, all 0 = contiguous. Null with kv_scale=none. */
    const float *k_scale, *v_scale;
    int64_t k_scale_batch_stride, k_scale_head_stride, k_scale_row_stride;
    int64_t v_scale_batch_stride, v_scale_head_stride, v_scale_row_stride;

    /* Problem knob append=1: K and V of the queries' own tokens, as in family append_kv (docs/serving.md). The launch
       writes them into the cache (k and v) as the last keys of each sequence; lengths_kv include them. With knob rope
       it rotates K before writing it, and Q in registers: q is only read. A token whose position or page is outside the
       cache is not written. Null and 0 without the knobs. */
    struct att_tensor k_new;          /* (batch, kv_heads, len_q, head_dim), packed as q is */
    struct att_tensor v_new;          /* (batch, kv_heads, len_q, head_dim_v) */
    float rope_base;                  /* rope_from=base; 0 = 10000 */
    const float *rope_cos, *rope_sin; /* rope_from=tables: (rope_rows, rope_dim / 2) */
    int64_t rope_row_stride;          /* 0 = contiguous */
    int64_t rope_rows;                /* positions in the tables, at least len_kv */
};

struct att_softmax_args { /* family softmax: each row of y is the softmax of that row of x */
    const void *x;        /* (rows, cols) */
    void *y;              /* (rows, cols); may be x itself when the strides are equal */
    int64_t x_row_stride, y_row_stride;
    int64_t rows, cols;
};

struct att_merge_args {        /* family merge: combines partial attention results over disjoint sets of keys */
    struct att_tensor o_parts; /* (parts, batch, heads, len_q, head_dim_v) */
    int64_t o_parts_part_stride;
    const float *lse_parts; /* (parts, batch, heads, len_q) */

    /* All 0 = contiguous. */
    int64_t lse_parts_part_stride, lse_parts_batch_stride, lse_parts_head_stride;

    struct att_tensor o;                       /* (batch, heads, len_q, head_dim_v) */
    float *lse;                                /* (batch, heads, len_q); null = not computed */
    int64_t lse_batch_stride, lse_head_stride; /* both 0 = contiguous */
    int64_t parts, batch, heads, len_q;        /* parts = 0: O = 0, LSE = -inf */
};

/* The lengths determine the positions of the new tokens of a sequence and where they are written (docs/serving.md): in
   a sequence with n new tokens, token i is at position length - n + i, where length includes the new ones. length is
   len_kv (layout dense) or lengths_kv[b] (padded, ragged). With slots=1 the caller gives both. A token without a place
   in the cache, for example because its slot is -1, is not written. These arrays are in device memory. On a GPU the
   launch call does not read them, so they may change between replays of a graph. */
struct att_append_args {     /* family append_kv: writes new K and V into a cache, with RoPE of Q and K */
    struct att_tensor q;     /* (batch, heads, len_q, head_dim); data null = none; read with RoPE only */
    struct att_tensor q_out; /* the same, rotated; may be q itself */
    struct att_tensor k;     /* (batch, kv_heads, len_q, head_dim): new tokens */
    struct att_tensor v;     /* (batch, kv_heads, len_q, head_dim_v) */

    /* (batch, kv_heads, len_kv, head_dim), or with pages (pages, kv_heads, page_size, head_dim), where batch_stride is
       from one page to the next; elements of dtype_kv. The two may interleave. */
    struct att_tensor k_cache, v_cache;

    int64_t batch, heads; /* at least 1 */
    int64_t kv_heads;     /* 0 = as heads */
    int64_t len_q;        /* new tokens of a sequence; the maximum if they are packed */
    int64_t len_kv;       /* maximum number of tokens of a sequence in the cache */

    const int32_t *cu_seqlens_q;   /* ragged: (batch + 1), where the tokens of each sequence begin */
    int64_t total_q;               /* ragged: rows of packed q, q_out, k and v, whose batch_stride is not used */
    const int32_t *lengths_kv;     /* padded, ragged: (batch), tokens of each sequence, the new ones included */
    const int32_t *page_table;     /* page_table=table: (batch, pages of len_kv tokens), page numbers */
    int64_t page_table_row_stride; /* 0 = contiguous */
    const int32_t *page_indptr;    /* page_table=csr: (batch + 1), where the page numbers of each sequence begin */
    const int32_t *page_indices;   /* page_table=csr: page numbers */
    int64_t pages;                 /* in the cache; tokens with other page numbers are not written */
    const int64_t *slots;          /* slots=1: (batch, len_q), page * page_size + row of each token; -1 = nowhere */
    const int32_t *positions;      /* slots=1 with RoPE: (batch, len_q) */

    /* kv_scale=tensor: one number; head: (kv_heads); token: (batch, kv_heads, len_kv) or (pages, kv_heads, page_size),
       written by the launch, with the strides below, all 0 = contiguous. An element of the cache times its scale is the
       number that was appended. */
    float *k_scale, *v_scale;
    int64_t k_scale_batch_stride, k_scale_head_stride, k_scale_row_stride;
    int64_t v_scale_batch_stride, v_scale_head_stride, v_scale_row_stride;

    float rope_base;                  /* rope_from=base; 0 = 10000 */
    const float *rope_cos, *rope_sin; /* rope_from=tables: (rope_rows, rope_dim / 2) */
    int64_t rope_row_stride;          /* 0 = contiguous */
    int64_t rope_rows;                /* positions in the tables, at least len_kv */
};

/* The gradient with respect to a parameter of the score, which the problem requests as d_NAME in knob wants. It is
   summed in fp32 over all pairs of a query and a key. If different pairs read different elements, the order of these
   sums, and so their last bits, vary from launch to launch. */
struct att_param_gradient {
    const char *name;  /* of the parameter */
    float *data;       /* (size as declared); one element for a scalar; in device memory; must not overlap anything */
    int64_t size[4];   /* elements of each dimension, as declared */
    int64_t stride[4]; /* in elements, not negative; 0 or ATT_REPEAT = summed over this dimension; all 0 = contiguous */
};

/* Computes the gradients of a loss with respect to Q, K and V from those with respect to O and LSE. `forward` has the
   arguments of the attention_forward launch, with o and lse as that launch wrote them: here they are read, lse is
   required, and o has the element type of the inputs. dk and dv are summed over the query heads that share a K/V head.
   A masked pair contributes nothing, and a query that sees no key has a gradient of 0. The same inputs give the same
   bits, except in gradients of parameters. Gradients that the problem knob wants omits are neither computed nor
   written, and may be null. */
struct att_attention_backward_args { /* family attention_backward; for sequences, shaped as in `forward` */
    struct att_tensor d_o;           /* (batch, heads, len_q, head_dim_v), element type of the inputs */
    const float *d_lse;              /* (batch, heads, len_q); null = 0 */
    struct att_tensor dq;            /* (batch, heads, len_q, head_dim); outputs must not overlap anything */
    struct att_tensor dk;            /* (batch, kv_heads, len_kv, head_dim) */
    struct att_tensor dv;            /* (batch, kv_heads, len_kv, head_dim_v) */
    float *d_sinks;                  /* (heads) with knob sinks: gradient of the sinks, summed; null = not computed */

    int64_t d_lse_batch_stride, d_lse_head_stride; /* both 0 = contiguous */

    struct att_attention_args forward;

    int param_gradient_count;
    const struct att_param_gradient *param_gradients; /* one for each d_NAME that the problem requests, in any order */
};

enum att_family { ATT_SOFTMAX = 1, ATT_ATTENTION_FORWARD, ATT_MERGE, ATT_ATTENTION_BACKWARD, ATT_APPEND_KV };

struct att_args {
    size_t size;            /* sizeof(struct att_args) */
    enum att_family family; /* that of the kernel; says which member of the union is set */
    size_t workspace_size;  /* bytes at workspace */
    /* Device memory, 256-byte aligned, att_workspace_size bytes. May be null if that size is 0, or if the workspace is
       needed only for split keys (schedule splits=0): the kernel then does not split keys, which takes longer if there
       are few queries. */
    void *workspace;
    union {
        struct att_attention_args attention;
        struct att_softmax_args softmax;
        struct att_merge_args merge;
        struct att_attention_backward_args attention_backward;
        struct att_append_args append;
    };
};

/* Computes the bytes of workspace that these arguments need. Does not read the pointers in args. Smaller problem sizes
   may need more, since the kernel splits few Q tiles over more SMs; a launch with less workspace makes do with it.
   Compiles the kernel for these sizes if att_launch would. */
ATT_API enum att_status att_workspace_size(const att_kernel *kernel, const struct att_args *args, size_t *bytes);

/* Checks the arguments and starts the kernel on `stream` (a CUstream; null = the default stream; ignored on the host
   device, which returns when the kernel has ended). Asynchronous. After att_prepare it never compiles, allocates, locks
   or synchronises, and is safe inside graph capture (otherwise the call returns ATT_NOT_PREPARED, and the capture
   continues). If an argument is refused, nothing has been started and outputs are untouched. */
ATT_API enum att_status att_launch(att_kernel *kernel, const struct att_args *args, void *stream);

/* Checks the arguments as att_launch does. On a GPU, also checks the numbers in the arrays that describe sequences,
   which a launch does not check there: lengths, where sequences begin, page numbers (docs/serving.md). Waits for the
   device and copies them to host memory, so it is meant for debugging and not for each step of a server. Not allowed
   during graph capture. Starts nothing. The result holds for launches that see the same numbers. */
ATT_API enum att_status att_check(att_kernel *kernel, const struct att_args *args);

/* --- dropout ---------------------------------------------------------------------------------------------------------- */

/* Whether knob dropout=1 keeps the weight of a query and a key: 1 = kept, 0 = dropped. p, seed and offset are those of
   the launch; `heads` is its number of query heads. For programs that need the mask, which the kernels apply without
   storing it. The answer holds for every algorithm, tile size and split (docs/dropout.md has the formula, from Salmon
   et al., SC 2011). */
ATT_API int att_dropout_keep(float p, uint64_t seed, uint64_t offset, int64_t heads, int64_t batch, int64_t head,
                             int64_t query, int64_t key);

/* --- a prefix that many sequences share -------------------------------------------------------------------------------------- */

/* The keys at the beginning of all sequences of a launch, and the additional kernels that the launch needs. Element
   types are those of the launch's kernel, but K and V of the prefix may be stored differently (dtype_kv, kv_scale). The
   prefix kernel's dtype_out and the merge kernel's dtype must equal the launch kernel's dtype_out, which is best
   fp32. */
struct att_shared_prefix {
    size_t size; /* sizeof(struct att_shared_prefix), set by the caller */
    att_kernel
        *prefix; /* attention_forward with mask=none and no parameters; layout=dense, or layout=padded with pages */
    att_kernel *merge;   /* merge; its dtype_out is the type of o */
    struct att_tensor k; /* (kv_heads, len, head_dim), or (pages, kv_heads, page_size, head_dim) */
    struct att_tensor v; /* likewise, of head_dim_v */
    int64_t len;         /* keys */

    /* For a paged prefix, otherwise null and 0. In device memory. */
    const int32_t *lengths_kv; /* one number: len */
    const int32_t *page_table; /* the numbers of its pages */
    int64_t pages;             /* of k and v */

    /* For an 8-bit prefix: scales of k and v, as in att_attention_args, for the prefix kernel's kv_scale. Both are null
       if that is none, or if it is tensor or head in both kernels: the launch's scales then apply to the prefix. */
    const float *k_scale, *v_scale;
    int64_t k_scale_batch_stride, k_scale_head_stride, k_scale_row_stride;
    int64_t v_scale_batch_stride, v_scale_head_stride, v_scale_row_stride;
};

/* Launches `kernel` on `args`, with the prefix before the keys in args. Queries attend to the prefix, in one pass for
   all sequences, and to their own keys; the two results are merged into o and lse. A sequence's own keys are those
   after the prefix, and lengths and causal masks count from there. Sinks of `kernel` count once. `args` are those of
   family attention_forward, and args.workspace serves all three launches. Asynchronous and safe in graph capture, like
   att_launch; a refused call leaves o and lse untouched. Unless packed, queries of neighbouring sequences must be
   evenly spaced: len_q is 1, or batch_stride is len_q * row_stride. docs/serving.md says when it pays. */
ATT_API enum att_status att_launch_shared_prefix(att_kernel *kernel, const struct att_args *args,
                                                 const struct att_shared_prefix *prefix, void *stream);

/* Computes the bytes of workspace that att_launch_shared_prefix needs. Does not read pointers to device memory. */
ATT_API enum att_status att_shared_prefix_workspace_size(att_kernel *kernel, const struct att_args *args,
                                                         const struct att_shared_prefix *prefix, size_t *bytes);

/* --- device memory, for programs without an allocator of their own ------------------------------------------------------- */

/* Memory is 256-byte aligned and owned by the caller, who frees it before att_close. Freeing null does nothing. Copies
   return when they have completed. They are ordered after launches on the null stream and on streams that wait for it.
   For a stream created with CU_STREAM_NON_BLOCKING, synchronise yourself, for example with att_synchronize. */
ATT_API enum att_status att_alloc(att_session *session, size_t bytes, void **device);
ATT_API enum att_status att_free(att_session *session, void *device);
ATT_API enum att_status att_copy_in(att_session *session, void *device, const void *host, size_t bytes);
ATT_API enum att_status att_copy_out(att_session *session, void *host, const void *device, size_t bytes);

/* Waits for all work on the device; reports faults of earlier launches. */
ATT_API enum att_status att_synchronize(att_session *session);

/* --- about this session ---------------------------------------------------------------------------------------- */

struct att_session_info {
    size_t size;            /* sizeof(struct att_session_info), set by the caller */
    enum att_device device; /* CUDA or HOST */
    int multiprocessors;
    const char *device_name; /* "NVIDIA H200", or the name of the CPU */
    const char *arch;        /* "sm_90a", or "host" */
    const char *compiler;    /* "NVRTC 13.0 (libnvrtc.so.13)", "g++ 12.2.0", or why there is none */
    const char *cache_dir;   /* null = memory only */
};
ATT_API enum att_status att_session_describe(const att_session *session, struct att_session_info *info);

/* Bytes that launches on the host device moved since the session was opened or the counters were reset; all 0 on cuda
   and in fast mode. */
struct att_counters {
    size_t size;                          /* sizeof(struct att_counters), set by the caller */
    uint64_t global_read, global_written; /* bytes */
    uint64_t shared_read, shared_written; /* bytes */
    uint64_t shared_conflicts;            /* ldmatrix passes beyond the minimum, due to rows in the same banks */
};
ATT_API enum att_status att_counters_read(att_session *session, struct att_counters *counters, int reset);

/* --- kernels built ahead of time -------------------------------------------------------------------------------- */

/* `attile build` writes such a table as a C file that needs only this header. List it in att_options.bundles; its
   kernels then need neither compiler nor cache. Do not write one by hand. */
enum { ATT_BUNDLE_FORMAT = 2 };

struct att_bundle_kernel {
    const char *name;
    const char *variant; /* every knob, "family: attention_forward, dtype: bf16, ..." */
    const char
        *arch; /* "sm_90a": only this GPU; "sm_80": this GPU and later ones with the same first digit; "compute_80":
                            PTX, for this GPU and all later ones; "host", "host_fast": a CPU, modes CHECK and FAST */
    const char *plan; /* how it is launched */
    const void *binary;
    size_t size; /* bytes of binary */
    int registers, spill_bytes;
};

struct att_bundle {
    int format; /* ATT_BUNDLE_FORMAT */
    int count;  /* of kernels */
    const struct att_bundle_kernel *kernels;
    const char *params; /* parameter layout of its kernels; att_open refuses others */
};

#ifdef __cplusplus
}
#endif
#endif
