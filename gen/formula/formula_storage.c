/* formula_storage: how the elements of a parameter are stored, by name, and their type in a formula. */
#include "formula_parse.h"

#include <string.h>

const char *const storage_names[FORMULA_STORAGES] = {[FORMULA_STORE_BOOL] = "bool",
                                                     [FORMULA_STORE_INT] = "int",
                                                     [FORMULA_STORE_FP32] = "float",
                                                     [FORMULA_STORE_FP16] = "fp16",
                                                     [FORMULA_STORE_BF16] = "bf16"};

int storage_find(const char *name, size_t size) {
    for (int i = 0; i < FORMULA_STORAGES; i++)
        if (text_equals(name, size, storage_names[i]))
            return i;
    return size == 4 && memcmp(name, "fp32", 4) == 0 ? FORMULA_STORE_FP32 : -1;
}

enum formula_type storage_type(enum formula_storage storage) {
    return storage == FORMULA_STORE_BOOL ? FORMULA_BOOL : storage == FORMULA_STORE_INT ? FORMULA_INT : FORMULA_REAL;
}
