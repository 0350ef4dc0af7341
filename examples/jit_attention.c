/* Attention from a description in words: no YAML, no build step. Runs on the GPU if there is one, else on this CPU. */
#include <attile.h>
#include <stdio.h>

enum { HEADS = 2, LENGTH = 100, DIM = 48, COUNT = HEADS * LENGTH * DIM };

int main(void) {
    static float q[COUNT], k[COUNT], v[COUNT], o[COUNT];
    for (int i = 0; i < COUNT; i++) {
        q[i] = (float)(i % 13) / 13;
        k[i] = (float)(i % 17) / 17;
        v[i] = (float)(i % 19) / 19;
    }
    att_session *session;
    att_kernel *kernel;
    void *dq, *dk, *dv, *d_o;
    if (att_open(NULL, &session) != ATT_OK ||
        att_find(session, "family=attention_forward head_dim=48 mask=causal", NULL, &kernel) != ATT_OK ||
        att_alloc(session, sizeof q, &dq) != ATT_OK || att_alloc(session, sizeof k, &dk) != ATT_OK ||
        att_alloc(session, sizeof v, &dv) != ATT_OK || att_alloc(session, sizeof o, &d_o) != ATT_OK)
        return fprintf(stderr, "%s\n", att_message(session)), 1;
    att_copy_in(session, dq, q, sizeof q);
    att_copy_in(session, dk, k, sizeof k);
    att_copy_in(session, dv, v, sizeof v);
    struct att_args args = {.size = sizeof args,
                            .family = ATT_ATTENTION_FORWARD,
                            .attention = {.q = {dq, 0, LENGTH * DIM, DIM}, /* pointer; batch, head and row stride */
                                          .k = {dk, 0, LENGTH * DIM, DIM},
                                          .v = {dv, 0, LENGTH * DIM, DIM},
                                          .o = {d_o, 0, LENGTH * DIM, DIM},
                                          .batch = 1,
                                          .heads = HEADS,
                                          .len_q = LENGTH,
                                          .len_kv = LENGTH}};
    if (att_launch(kernel, &args, NULL) != ATT_OK || att_copy_out(session, o, d_o, sizeof o) != ATT_OK)
        return fprintf(stderr, "%s\n", att_message(session)), 1;
    printf("%s\nlast row of O: %f %f %f ...\n", att_kernel_name(kernel), (double)o[COUNT - DIM],
           (double)o[COUNT - DIM + 1], (double)o[COUNT - DIM + 2]);
    att_free(session, dq);
    att_free(session, dk);
    att_free(session, dv);
    att_free(session, d_o);
    att_close(session);
    return 0;
}
