/* cache_admin: operations on a whole cache directory: count, trim, inspect each entry. */
#include "cache_disk.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static enum att_status cannot(struct cache_disk *disk, const char *what, int error, struct failure *failure) {
    return failure_set(failure, error == ENOMEM ? ATT_OUT_OF_MEMORY : ATT_IO, "Cannot %s the cache directory %s: %s.",
                       what, disk->path, strerror(error));
}

enum att_status cache_trim(struct cache *cache, uint64_t bytes, int quarantine, int dry_run, uint64_t *removed,
                           struct failure *failure) {
    struct cache_disk *disk = cache_disk_of(cache);
    struct cache_tally tally = {.dry = dry_run};
    cache_drop_unused(disk->entries, bytes, &tally);
    cache_drop_old(disk->temporary, CACHE_TEMPORARY, &tally);
    if (quarantine)
        cache_drop_old(disk->quarantine, INT64_MIN, &tally);
    *removed = tally.removed;
    return tally.error ? cannot(disk, "remove everything from", tally.error, failure) : ATT_OK;
}

enum att_status cache_stat(struct cache *cache, struct cache_stat *stat, struct failure *failure) {
    struct cache_disk *disk = cache_disk_of(cache);
    struct cache_listing entries, quarantined, temporary;
    *stat = (struct cache_stat){.limit = disk->limit};
    int errors[] = {cache_list(disk->entries, &entries), cache_list(disk->quarantine, &quarantined),
                    cache_list(disk->temporary, &temporary)};
    int error = errors[0] ? errors[0] : errors[1] ? errors[1] : errors[2];
    stat->entries = entries.count;
    stat->bytes = entries.bytes;
    stat->quarantined = quarantined.count;
    stat->temporary = temporary.count;
    free(entries.items);
    free(quarantined.items);
    free(temporary.items);
    return error ? cannot(disk, "list", error, failure) : ATT_OK;
}

/* Reads one entry for a visitor. False = it has disappeared since it was listed. */
static bool describe(struct cache_disk *disk, const struct cache_listed *listed, int verify, struct cache_file *file,
                     struct cache_item *item) {
    *item = (struct cache_item){.size = (uint64_t)listed->status.st_size, .last_used = listed->status.st_mtime};
    memcpy(item->digest, listed->name, sizeof item->digest);
    enum cache_found found = cache_file_read(disk, listed->name, NULL, file);
    if (found == CACHE_MISS && errno == ENOENT)
        return false;
    item->damage = found == CACHE_MISS ? "cannot be read" : file->damage;
    if (found != CACHE_HIT)
        return true;
    item->meta = file->parts.meta;
    item->meta_size = file->parts.meta_size;
    text_append(&item->preimage, file->parts.preimage, file->parts.preimage_size);
    char digest[CACHE_DIGEST + 1];
    if (verify) {
        cache_digest(file->parts.preimage, file->parts.preimage_size, digest);
        item->damage = strcmp(digest, item->digest) == 0 ? NULL : "digest is not the preimage's";
    }
    return true;
}

enum att_status cache_visit(struct cache *cache, int verify, int (*visit)(void *context, const struct cache_item *item),
                            void *context, struct failure *failure) {
    struct cache_disk *disk = cache_disk_of(cache);
    struct cache_listing listing;
    int error = cache_list(disk->entries, &listing);
    enum att_status status = error ? cannot(disk, "list", error, failure) : ATT_OK;
    cache_sort(&listing, cache_by_name);
    int stop = 0;
    for (size_t i = 0; status == ATT_OK && !stop && i < listing.count; i++) {
        struct cache_file file;
        struct cache_item item;
        if (!describe(disk, &listing.items[i], verify, &file, &item))
            continue;
        stop = item.preimage.failed ? 1 : visit(context, &item);
        if (item.preimage.failed)
            status = cannot(disk, "list", ENOMEM, failure);
        text_free(&item.preimage);
        free(file.bytes);
    }
    free(listing.items);
    return status;
}
