/* One template set used by several threads: all complete and expand the same variants and must get the same bytes. */
#include "gen.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { THREADS = 8, ROUNDS = 20, VARIANTS = 4 };

static struct template_set *set;
static char *expected[VARIANTS];

/* Returns variant number i as source text; null when there is none. The caller frees it. */
static char *make_source(int i) {
    struct knobs knobs = knobs_default();
    struct variant variant;
    struct source source;
    struct diag diag = {0};
    knobs.family = i < 2 ? family_softmax : family_attention_forward;
    knobs.algorithm = i < 2 ? AUTO : algorithm_flash;
    knobs.dtype = i % 2 ? dtype_fp16 : dtype_fp32;
    if (!variant_complete(set, &knobs, true, &variant))
        return NULL;
    bool good = source_expand(set, &variant, "thread_template", &source, &diag);
    char *text = good ? strdup(text_string(&source.text)) : NULL;
    source_free(&source);
    diag_free(&diag);
    return text;
}

static void *work(void *wrong) {
    for (int i = 0; i < ROUNDS * VARIANTS; i++) {
        char *text = make_source(i % VARIANTS);
        if (!text || strcmp(text, expected[i % VARIANTS]) != 0)
            *(int *)wrong = 1;
        free(text);
    }
    return NULL;
}

int main(void) {
    struct diag diag = {0};
    pthread_t thread[THREADS];
    int wrong[THREADS] = {0}, failed = 0;
    set = template_set_open(NULL, NULL, &diag);
    if (!set) {
        fprintf(stderr, "%s", text_string(&diag.text));
        return 1;
    }
    for (int i = 0; i < VARIANTS; i++) {
        expected[i] = make_source(i);
        failed |= !expected[i];
    }
    template_set_close(set);
    set = template_set_open(NULL, NULL, &diag); /* so that the threads are the first to read its templates */
    if (!set)
        return 1;
    int started = 0;
    while (!failed && started < THREADS && pthread_create(&thread[started], NULL, work, &wrong[started]) == 0)
        started++;
    for (int i = 0; i < started; i++) {
        pthread_join(thread[i], NULL);
        failed |= wrong[i];
    }
    for (int i = 0; i < VARIANTS; i++)
        free(expected[i]);
    template_set_close(set);
    if (failed || started < THREADS)
        fprintf(stderr, "sources differ between threads, or could not be made\n");
    return failed || started < THREADS;
}
