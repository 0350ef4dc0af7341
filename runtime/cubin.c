#include "cubin.h"

#include <elf.h>
#include <stdint.h>
#include <string.h>

/* Section .nv.info (of the file) and .nv.info.KERNEL are lists of attributes:
     byte 0   format; 4 = a payload follows, whose size is in bytes 2 and 3; otherwise the attribute has four bytes
     byte 1   attribute
   A record of INFO_SPILLS has two words; the second is the instruction's position in the code. */
enum { FORMAT_PAYLOAD = 4 };
enum { INFO_FRAME = 0x11, INFO_REGISTERS = 0x2f, INFO_SPILLS = 0x55 };
enum { SPILL_RECORD = 8, INSTRUCTION = 16, SECTIONS_MOST = 1 << 16, MACHINE_CUDA = 190 };
enum { OPCODE_MASK = 0xfff, OPCODE_WGMMA = 0x9f0 }; /* with 16-bit operands: HGMMA, as nvdisasm prints it */

struct bytes {
    const unsigned char *at;
    size_t size;
};

struct elf {
    struct bytes file;
    size_t sections; /* offset of the section table */
    int count;       /* of sections */
    struct bytes names, symbols, symbol_names;
};

static struct bytes slice(struct bytes from, uint64_t offset, uint64_t size) {
    if (offset > from.size || size > from.size - offset)
        return (struct bytes){0};
    return (struct bytes){from.at + offset, (size_t)size};
}

/* A NUL-terminated string inside a table, or null. */
static const char *string(struct bytes table, uint64_t offset) {
    if (offset >= table.size || !memchr(table.at + offset, '\0', table.size - (size_t)offset))
        return NULL;
    return (const char *)table.at + offset;
}

static bool section(const struct elf *elf, int index, Elf64_Shdr *header) {
    struct bytes raw = slice(elf->file, elf->sections + (uint64_t)index * sizeof *header, sizeof *header);
    if (index < 0 || index >= elf->count || !raw.at)
        return false;
    memcpy(header, raw.at, sizeof *header);
    return true;
}

static struct bytes contents(const struct elf *elf, const Elf64_Shdr *header) {
    return header->sh_type == SHT_NOBITS ? (struct bytes){0} : slice(elf->file, header->sh_offset, header->sh_size);
}

static bool read_header(const void *bytes, size_t size, Elf64_Ehdr *header) {
    if (!bytes || size < sizeof *header)
        return false;
    memcpy(header, bytes, sizeof *header);
    return memcmp(header->e_ident, ELFMAG, SELFMAG) == 0 && header->e_ident[EI_CLASS] == ELFCLASS64 &&
           header->e_ident[EI_DATA] == ELFDATA2LSB && header->e_machine == MACHINE_CUDA;
}

static bool open_elf(const void *bytes, size_t size, struct elf *elf) {
    Elf64_Ehdr header;
    if (!read_header(bytes, size, &header) || header.e_shentsize != sizeof(Elf64_Shdr))
        return false;
    *elf = (struct elf){.file = {bytes, size}, .count = header.e_shnum};
    if (header.e_shoff > size || elf->count > SECTIONS_MOST ||
        !slice(elf->file, header.e_phoff, (uint64_t)header.e_phnum * header.e_phentsize).at)
        return false;
    elf->sections = (size_t)header.e_shoff;
    Elf64_Shdr names;
    if (!section(elf, header.e_shstrndx, &names))
        return false;
    elf->names = contents(elf, &names);
    for (int i = 0; i < elf->count; i++) {
        Elf64_Shdr table, strings;
        if (!section(elf, i, &table) || (table.sh_type != SHT_NOBITS && !contents(elf, &table).at))
            return false; /* truncated */
        if (table.sh_type != SHT_SYMTAB || !section(elf, (int)table.sh_link, &strings))
            continue;
        elf->symbols = contents(elf, &table);
        elf->symbol_names = contents(elf, &strings);
    }
    return elf->names.at && elf->symbols.at;
}

/* True if symbol number `index` has the name `name`. */
static bool symbol_is(const struct elf *elf, uint32_t index, const char *name) {
    Elf64_Sym symbol;
    struct bytes raw = slice(elf->symbols, (uint64_t)index * sizeof symbol, sizeof symbol);
    if (!raw.at)
        return false;
    memcpy(&symbol, raw.at, sizeof symbol);
    const char *found = string(elf->symbol_names, symbol.st_name);
    return found && strcmp(found, name) == 0;
}

/* Attributes of the whole file identify their kernel by symbol; those in a kernel's own section need not. */
static bool read_info(const struct elf *elf, struct bytes info, bool own, const char *kernel, struct cubin_usage *usage,
                      struct bytes *spills) {
    while (info.size >= 4) {
        int format = info.at[0], attribute = info.at[1];
        size_t length = format == FORMAT_PAYLOAD ? (size_t)(info.at[2] | info.at[3] << 8) : 0;
        struct bytes payload = slice(info, 4, length);
        if (!payload.at)
            return false;
        if (own && attribute == INFO_SPILLS)
            *spills = payload;
        if (!own && length >= 8 && (attribute == INFO_REGISTERS || attribute == INFO_FRAME)) {
            uint32_t word[2];
            memcpy(word, payload.at, sizeof word);
            if (symbol_is(elf, word[0], kernel))
                *(attribute == INFO_REGISTERS ? &usage->registers : &usage->frame_bytes) = (int)(word[1] & INT32_MAX);
        }
        info = slice(info, 4 + length, info.size - 4 - length);
    }
    return true;
}

static void look_among_products(struct bytes code, struct bytes spills, struct cubin_usage *usage) {
    uint32_t first = UINT32_MAX, last = 0;
    for (size_t at = 0; at + INSTRUCTION <= code.size && at < INT32_MAX; at += INSTRUCTION)
        if (((code.at[at] | code.at[at + 1] << 8) & OPCODE_MASK) == OPCODE_WGMMA) {
            first = first < at ? first : (uint32_t)at;
            last = (uint32_t)at;
        }
    usage->instructions_among_products = first <= last ? (int)((last - first) / INSTRUCTION) + 1 : 0;
    for (size_t i = 0; i + SPILL_RECORD <= spills.size; i += SPILL_RECORD) {
        uint32_t word[2];
        memcpy(word, spills.at + i, sizeof word);
        usage->spills_among_products += first <= word[1] && word[1] <= last;
    }
}

static bool belongs(const char *name, const char *prefix, const char *kernel) {
    size_t length = strlen(prefix);
    return strncmp(name, prefix, length) == 0 && strcmp(name + length, kernel) == 0;
}

int cubin_arch(const void *bytes, size_t size) {
    Elf64_Ehdr header;
    return read_header(bytes, size, &header) ? (int)(header.e_flags >> 8 & 0xff) : -1;
}

bool cubin_read(const void *bytes, size_t size, const char *kernel, struct cubin_usage *usage) {
    struct elf elf;
    struct bytes code = {0}, spills = {0};
    *usage = (struct cubin_usage){.registers = -1};
    if (!open_elf(bytes, size, &elf))
        return false;
    for (int i = 0; i < elf.count; i++) {
        Elf64_Shdr header;
        const char *name = section(&elf, i, &header) ? string(elf.names, header.sh_name) : NULL;
        if (!name)
            return false;
        if (belongs(name, ".nv.shared.", kernel))
            usage->static_shared = (int)(header.sh_size & INT32_MAX);
        if (belongs(name, ".text.", kernel))
            code = contents(&elf, &header);
        bool own = belongs(name, ".nv.info.", kernel);
        if ((own || strcmp(name, ".nv.info") == 0) &&
            !read_info(&elf, contents(&elf, &header), own, kernel, usage, &spills))
            return false;
    }
    usage->instructions = (int)(code.size / INSTRUCTION & INT32_MAX);
    usage->spills = (int)(spills.size / SPILL_RECORD);
    look_among_products(code, spills, usage);
    return usage->registers >= 0;
}
