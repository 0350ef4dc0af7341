/* att_options.quick_first: the first answer, and what replaces it. The compiler is a stand-in, which the tests
   can hold up. */
#include "helper_cache.h"
#include "session.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define BEST  "_flash_tiled_"
#define QUICK "_flash_t1" /* the threads follow; does not match flash_tiled */

static const char problem[] = "family=attention_forward head_dim=16";

static const char *folder;
static atomic_bool held, fails; /* for kernels that are not quick: do not finish, or do not compile */
static atomic_int compiles;
static struct backend_type stand_in;
static struct text log_text;
static pthread_mutex_t log_lock = PTHREAD_MUTEX_INITIALIZER;

static void nap(void) { nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL); }

static enum att_status identity(struct backend *backend, const char *arch, struct text *text, struct failure *failure) {
    (void)backend, (void)arch, (void)failure;
    text_print(text, "compiler: stand-in\n");
    return ATT_OK;
}

static enum att_status compile(struct backend *backend, const struct compile_job *job, struct binary *binary,
                               struct failure *failure) {
    (void)backend;
    atomic_fetch_add(&compiles, 1);
    if (!strstr(job->name, QUICK)) {
        while (atomic_load(&held))
            nap();
        if (atomic_load(&fails))
            return failure_set(failure, ATT_NO_COMPILER, "the stand-in is gone");
    }
    binary->size = 8;
    binary->bytes = calloc(1, binary->size);
    return binary->bytes ? ATT_OK : ATT_OUT_OF_MEMORY;
}

static enum att_status load(struct backend *backend, const void *bytes, size_t size, const struct plan *plan,
                            struct module **module, struct failure *failure) {
    (void)backend, (void)bytes, (void)size, (void)plan, (void)failure;
    *module = NULL;
    return ATT_OK;
}

static void keep_log(void *context, enum att_log_level level, const char *message) {
    (void)context, (void)level;
    pthread_mutex_lock(&log_lock);
    text_print(&log_text, "%s\n", message);
    pthread_mutex_unlock(&log_lock);
}

static bool is_logged(const char *words) {
    pthread_mutex_lock(&log_lock);
    bool found = strstr(text_string(&log_text), words);
    pthread_mutex_unlock(&log_lock);
    return found;
}

static att_session *open_session(bool quick) {
    const struct att_options options = {
        .size = sizeof options, .device = ATT_DEVICE_HOST, .cache_dir = folder, .log = keep_log, .quick_first = quick};
    att_session *session;
    cr_assert_eq(att_open(&options, &session), ATT_OK, "%s", att_message(session));
    stand_in = *session->type;
    stand_in.identity = identity;
    stand_in.compile = compile;
    stand_in.load = load;
    session->type = &stand_in;
    return session;
}

static void setup(void) {
    folder = scratch_make_fast();
    cr_assert(folder);
}
static void teardown(void) { scratch_remove(folder); }
TestSuite(quick, .init = setup, .fini = teardown, .timeout = 60);

static const char *find(att_session *session, const char *what, const char *schedule) {
    att_kernel *kernel;
    cr_assert_eq(att_find(session, what, schedule, &kernel), ATT_OK, "%s", att_message(session));
    return att_kernel_name(kernel);
}

/* Asks until the answer's name contains `part`. */
static const char *wait_for(att_session *session, const char *what, const char *part) {
    const char *name = find(session, what, NULL);
    for (int i = 0; i < 5000 && !strstr(name, part); i++) {
        nap();
        name = find(session, what, NULL);
    }
    return name;
}

Test(quick, answers_at_once_and_later_with_the_best) {
    atomic_store(&held, true);
    att_session *session = open_session(true);
    att_kernel *first;
    cr_assert_eq(att_find(session, problem, NULL, &first), ATT_OK, "%s", att_message(session));
    char name[VARIANT_NAME];
    snprintf(name, sizeof name, "%s", att_kernel_name(first));
    cr_expect(strstr(name, QUICK), "%s", name);
    for (int i = 0; i < 5; i++)
        cr_expect_str_eq(find(session, problem, NULL), name, "the same one until the best is there");
    cr_expect(strstr(find(session, "family=attention_forward head_dim=16 len_q=100", NULL), QUICK),
              "other hints do not wait for it");
    atomic_store(&held, false);
    cr_expect(strstr(wait_for(session, problem, BEST), BEST));
    cr_expect(is_logged("takes the place of the quick kernel"));
    cr_expect_str_eq(att_kernel_name(first), name, "a kernel that was found stays what it is");
    att_close(session);
    session = open_session(true);
    cr_expect(strstr(find(session, problem, NULL), BEST), "what is on disk is returned at once");
    att_close(session);
}

Test(quick, is_off_unless_asked_for) {
    att_session *session = open_session(false);
    cr_expect(strstr(find(session, problem, NULL), BEST));
    cr_expect_eq(atomic_load(&compiles), 1);
    att_close(session);
}

Test(quick, what_it_cannot_speed_up_is_found_as_always) {
    att_session *session = open_session(true);
    cr_expect(strstr(find(session, "family=softmax", NULL), "softmax"));
    cr_expect(strstr(find(session, problem, "algorithm=flash_tiled"), BEST), "a schedule is kept");
    cr_expect_eq(atomic_load(&compiles), 2);
    att_close(session);
    att_kernel *kernel;
    session = open_session(true);
    cr_expect_eq(att_find(session, "family=attention_forward head_dim=1000", NULL, &kernel), ATT_INVALID_TEXT);
    cr_expect_eq(att_find(session, NULL, NULL, &kernel), ATT_INVALID_ARGUMENT);
    att_close(session);
}

Test(quick, stays_when_the_best_cannot_be_compiled) {
    atomic_store(&fails, true);
    att_session *session = open_session(true);
    cr_expect(strstr(find(session, problem, NULL), QUICK));
    for (int i = 0; i < 5000 && !is_logged("the quick kernel stays: "); i++)
        nap();
    cr_expect(is_logged("the stand-in is gone"));
    cr_expect(strstr(find(session, problem, NULL), QUICK));
    att_close(session);
}

static void *let_go(void *context) {
    (void)context;
    for (int i = 0; i < 50; i++)
        nap();
    atomic_store(&held, false);
    return NULL;
}

Test(quick, closing_waits_for_one_compile_and_drops_the_others) {
    pthread_t thread;
    char text[100];
    atomic_store(&held, true);
    att_session *session = open_session(true);
    for (int i = 1; i <= 8; i++) {
        snprintf(text, sizeof text, "family=attention_forward head_dim=%d", 8 * i);
        cr_expect(strstr(find(session, text, NULL), QUICK));
    }
    cr_assert_eq(pthread_create(&thread, NULL, let_go, NULL), 0);
    att_close(session);
    cr_expect_lt(atomic_load(&compiles), 8 + 8);
    pthread_join(thread, NULL);
}

static void *ask(void *context) {
    for (int i = 0; i < 50; i++)
        find(context, problem, NULL);
    return NULL;
}

Test(quick, many_threads_start_one_compile) {
    enum { THREADS = 8 };
    pthread_t thread[THREADS];
    att_session *session = open_session(true);
    for (int i = 0; i < THREADS; i++)
        cr_assert_eq(pthread_create(&thread[i], NULL, ask, session), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(thread[i], NULL);
    cr_expect(strstr(wait_for(session, problem, BEST), BEST));
    cr_expect_eq(atomic_load(&compiles), 2);
    att_close(session);
}
