//$ needs output_columns output_registers

#ifndef ATTILE_HOST
#define ALL_OF_O "{" \
                 //$ for j below output_columns / 8 - 1
                 "%${4 * j}, %${4 * j + 1}, %${4 * j + 2}, %${4 * j + 3}, " \
                 //$ end
                 "%${output_registers - 4}, %${output_registers - 3}, %${output_registers - 2}, %${output_registers - 1}}, "
#endif
