#include "object.h"

#include <elf.h>
#include <link.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

static bool inside(uint64_t offset, uint64_t length, size_t size) { return offset <= size && length <= size - offset; }

static bool segments_inside(const char *bytes, size_t size, const ElfW(Ehdr) * header) {
    for (unsigned i = 0; i < header->e_phnum; i++) {
        ElfW(Phdr) segment;
        memcpy(&segment, bytes + header->e_phoff + i * sizeof segment, sizeof segment);
        if (!inside(segment.p_offset, segment.p_filesz, size))
            return false;
    }
    return true;
}

static bool sections_inside(const char *bytes, size_t size, const ElfW(Ehdr) * header) {
    for (unsigned i = 0; i < header->e_shnum; i++) {
        ElfW(Shdr) section;
        memcpy(&section, bytes + header->e_shoff + i * sizeof section, sizeof section);
        if (section.sh_type != SHT_NOBITS && !inside(section.sh_offset, section.sh_size, size))
            return false;
    }
    return true;
}

const char *object_check(const void *bytes, size_t size) {
    ElfW(Ehdr) header;
    if (size < sizeof header)
        return "it ends within its first header";
    memcpy(&header, bytes, sizeof header);
    if (memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_type != ET_DYN || header.e_phnum == 0 ||
        header.e_phentsize != sizeof(ElfW(Phdr)) || (header.e_shnum && header.e_shentsize != sizeof(ElfW(Shdr))))
        return "it is no shared object";
    if (!inside(header.e_phoff, header.e_phnum * sizeof(ElfW(Phdr)), size) || !segments_inside(bytes, size, &header))
        return "it ends within a segment";
    if (!inside(header.e_shoff, header.e_shnum * sizeof(ElfW(Shdr)), size) || !sections_inside(bytes, size, &header))
        return "it ends within a section";
    return NULL;
}
