/* entries: follows the kernel's source, with its trampolines and the table that the device looks up. */
template <class Params> static ATTILE_UNWATCHED void attile_enter(void (*kernel)(Params), const void *params) {
    kernel(*(const Params *)params);
}
template <class Params> constexpr unsigned long long attile_params_size(void (*)(Params)) { return sizeof(Params); }

#define ATTILE_TRAMPOLINE(name)                                                                                        \
    static ATTILE_UNWATCHED void attile_run_##name(const void *params) { attile_enter(&name, params); }
#define ATTILE_ENTRY(name) {#name, attile_run_##name, attile_params_size(&name)},
#define ATTILE_MODULE(entries)                                                                                         \
    entries(ATTILE_TRAMPOLINE) static const attile_entry attile_entries[] = {entries(ATTILE_ENTRY)};                   \
    extern "C" __attribute__((visibility("default"))) const attile_module attile_module_table = {                      \
        ATTILE_HOST_ABI, ATTILE_MODE, sizeof attile_entries / sizeof *attile_entries, attile_entries};
