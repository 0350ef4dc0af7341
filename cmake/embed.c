/* embed: writes files as a C table of { name, bytes, size }, so that a program can carry them.
   usage: embed SYMBOL BASE_DIR FILE... > out.c      names are relative to BASE_DIR; sorted as given. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void embed_bytes(FILE *file) {
    int byte, column = 0;
    while ((byte = fgetc(file)) != EOF)
        printf(column++ % 24 ? "%d," : "\n    %d,", byte);
}

int main(int argc, char **argv) {
    if (argc < 3) {
        fprintf(stderr, "usage: embed SYMBOL BASE_DIR FILE...\n");
        return 2;
    }
    size_t base = strlen(argv[2]);
    printf("#include \"embedded.h\"\n");
    for (int i = 3; i < argc; i++) {
        FILE *file = fopen(argv[i], "rb");
        if (!file) {
            perror(argv[i]);
            return 1;
        }
        printf("static const unsigned char file_%d[] = {", i - 3);
        embed_bytes(file);
        printf("0};\n");
        fclose(file);
    }
    printf("const struct embedded_file %s[] = {\n", argv[1]);
    for (int i = 3; i < argc; i++) {
        const char *name = strncmp(argv[i], argv[2], base) == 0 ? argv[i] + base + (argv[i][base] == '/') : argv[i];
        printf("    {\"%s\", (const char *)file_%d, sizeof file_%d - 1},\n", name, i - 3, i - 3);
    }
    printf("    {0, 0, 0}};\n");
    return 0;
}
