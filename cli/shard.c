#include "shard.h"

#include <stdlib.h>
#include <string.h>

/* Environment variables that schedulers set for the processes they start. `first` and `step`, if any, are the offset
   and the stride of the index. */
static const struct scheduler {
    const char *index, *count, *first, *step;
} schedulers[] = {
    {"SLURM_ARRAY_TASK_ID", "SLURM_ARRAY_TASK_COUNT", "SLURM_ARRAY_TASK_MIN", "SLURM_ARRAY_TASK_STEP"},
    {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", NULL, NULL},
    {"PMI_RANK", "PMI_SIZE", NULL, NULL},
    {"SLURM_PROCID", "SLURM_NTASKS", NULL, NULL},
};

enum { SHARDS = 1000000 };

/* Parses the whole text as an integer; -1 if it is not one. */
static int number(const char *text) {
    char *end;
    if (!text || *text < '0' || *text > '9')
        return -1;
    long value = strtol(text, &end, 10);
    return *end || value > SHARDS ? -1 : (int)value;
}

static int from_environment(const char *name, int fallback) {
    const char *text = name ? getenv(name) : NULL;
    return text ? number(text) : fallback;
}

static bool ask(struct shard *shard, struct text *error) {
    for (size_t i = 0; i < sizeof schedulers / sizeof *schedulers; i++) {
        const struct scheduler *scheduler = &schedulers[i];
        if (!getenv(scheduler->index))
            continue;
        int index = from_environment(scheduler->index, -1), count = from_environment(scheduler->count, -1);
        int first = from_environment(scheduler->first, 0), step = from_environment(scheduler->step, 1);
        *shard = (struct shard){step > 0 && first >= 0 ? (index - first) / step : -1, count};
        if (index >= first && shard->index >= 0 && shard->index < count)
            return true;
        text_print(error, "%s is '%s' and %s is '%s', which is no part of a whole", scheduler->index,
                   getenv(scheduler->index), scheduler->count,
                   getenv(scheduler->count) ? getenv(scheduler->count) : "");
        return false;
    }
    text_print(error, "auto finds no scheduler: none of");
    for (size_t i = 0; i < sizeof schedulers / sizeof *schedulers; i++)
        text_print(error, "%s %s", i ? "," : "", schedulers[i].index);
    text_print(error, " is set; give the part and the number of parts, for example '0/4'");
    return false;
}

bool shard_read(const char *text, struct shard *shard, struct text *error) {
    if (strcmp(text, "auto") == 0)
        return ask(shard, error);
    const char *slash = strchr(text, '/');
    char *begin = slash ? strndup(text, (size_t)(slash - text)) : NULL;
    *shard = (struct shard){number(begin), slash ? number(slash + 1) : -1};
    free(begin);
    if (shard->index >= 0 && shard->index < shard->count)
        return true;
    text_print(error, "expected a part and the number of parts, '0/4' to '3/4' for example, or auto; found '%s'", text);
    return false;
}
