/* race_probe SOURCE GRID BLOCK SEED CLUSTER: runs the kernel in that file twice in race mode and prints the messages of
   the launches; 0 = no race. It is linked with ThreadSanitizer, which test_race, a Criterion program, cannot be. */
#include "helper_kernel.h"

#include <stdio.h>
#include <stdlib.h>

enum { ELEMENTS = 4096, SHARED = 4096 };

static char *read_source(const char *path) {
    static char source[65536];
    FILE *file = fopen(path, "r");
    size_t size = file ? fread(source, 1, sizeof source - 1, file) : 0;
    if (file)
        fclose(file);
    source[size] = '\0';
    return source;
}

int main(int argc, char **argv) {
    if (argc != 6)
        return 2;
    struct kernel kernel = {read_source(argv[1]), atoi(argv[2]), atoi(argv[3]), SHARED};
    struct device device = device_open(ATT_HOST_RACE, strtoull(argv[4], NULL, 10));
    float *zero = calloc(ELEMENTS, sizeof *zero);
    struct {
        const float *x;
        float *y;
    } p = {device_buffer(&device, ELEMENTS * sizeof *zero, zero),
           device_buffer(&device, ELEMENTS * sizeof *zero, zero)};
    enum att_status status = ATT_OK;
    for (int i = 0; i < 2 && !status; i++)
        status = device_run_clusters(&device, &kernel, atoi(argv[5]), &p, sizeof p);
    puts(text_string(&device.failure.text));
    device_close(&device);
    free(zero);
    return status != ATT_OK;
}
