/* The table of verbs: dispatch, help and docs/cli.md come from it. */
#include "cli.h"

const struct option options_common[] = {CLI_COMMON_OPTIONS};

const struct option_rule option_rules[] = {
    {"run", "cache-dir", NULL, "no-cache"},
    {"explain", "model", NULL, "tiles"},
    {"explain", "for", NULL, "tiles"},
    {"explain", "device", NULL, "tiles|model|for"},
    {"explain", "shapes", "tiles|model", NULL},
    {"explain", "params", "tiles", NULL},
    {"explain", "svg", "tiles", NULL},
    {"explore", "best", NULL, "all"},
    {"explore", "map", "report", NULL},
    {"tune", "shapes", NULL, "merge"},
    {"tune", "budget", NULL, "merge"},
    {"tune", "candidates", NULL, "merge|validate"},
    {"tune", "jobs", NULL, "merge"},
    {"tune", "timeout", NULL, "merge"},
    {"tune", "shard", NULL, "merge"},
    {"tune", "validate", NULL, "merge"},
    {"tune", "device", NULL, "merge"},
    {"tune", "gpu", NULL, "merge"},
    {"build", "shapes", "for", NULL},
    {"build", "budget", "for", NULL},
    {NULL, NULL, NULL, NULL},
};

const struct verb verbs[] = {
    {"run", "SPEC", 1, 1, "run the kernels of a spec on tensors and check every result", options_run,
     "Every feasible variant runs on the same tensors, and a double-precision oracle checks each result. Tensors\n"
     "come from the given files, else from --shape, else from the spec's `test: inputs:`, else from its\n"
     "`test: shapes:`; the others are random (normal, from --seed). Tensor files are NumPy .npy,\n"
     "little-endian, C order: <f4 (fp32), <f2 (fp16), <u2 or V2 (bf16 bits); Q, K and V have dimensions\n"
     "(batch, heads, len, dim) or (heads, len, dim). Values are first rounded to each variant's dtype; the oracle\n"
     "reads the rounded values.\n"
     "\n"
     "Columns: error is the largest absolute difference; limit is the largest difference in percent of the\n"
     "tolerance of its element; time, read and written (bytes of global memory, counted by the host device)\n"
     "are sums over the shapes; regs and spills (bytes) a thread are what NVRTC reports.\n"
     "\n"
     "A spec's variants for targets that the GPU cannot run are shown as unsupported and are no failure: the exit\n"
     "code is that of the others, and 3 where there are no others.\n"
     "\n"
     "Examples:\n"
     "  attile run specs/quickstart.yaml\n"
     "  attile run specs/attention_flash_tiled.yaml --device cuda \\\n"
     "      --variant 'head_dim=64 dtype=fp32'\n"
     "  attile run SPEC --variant NAME --q q.npy --k k.npy --v v.npy --out o.npy\n"
     "  attile run 'family=softmax algorithm=online' --shape rows=4,cols=1000\n",
     verb_run},
    {"list", "SPEC", 1, 1, "list the variants of a spec", options_list, NULL, verb_list},
    {"show", "SPEC", 1, 1, "show the emitted source of a variant", options_show, NULL, verb_show},
    {"explain", "SPEC", 1, 1, "show which kernel is chosen for a problem, and why", options_explain,
     "With --tiles it shows instead how the mask classifies tiles: the kernel does not load empty tiles, runs full\n"
     "tiles without mask code, and evaluates the mask for each pair of a partial tile. The kernel classifies\n"
     "tiles in the same way.\n"
     "\n"
     "Example:\n"
     "  attile explain specs/cookbook/sliding_window.yaml --tiles \\\n"
     "      --shapes 'len_q=8192,len_kv=8192' --params window=1024 --svg window.svg\n",
     verb_explain},
    {"explore", "SPEC", 1, 1, "predict all schedules of a problem and compile the best", options_explore,
     "Explores every schedule that a spec, or a problem given as knobs, leaves open: every algorithm, every target of\n"
     "the GPU, and for an open knob each value that the templates list. Counts infeasible schedules by reason,\n"
     "predicts the time of the others (docs/model.md), compiles the best with NVRTC, and prints them with registers\n"
     "and spills. Needs no GPU.\n"
     "\n"
     "Columns: A, B, C are predicted times at the first shapes; of best is the time divided by the best schedule's\n"
     "time, as a geometric mean over all shapes; Pareto marks schedules that no other beats in time, registers,\n"
     "shared memory and compile time together.\n"
     "\n"
     "Examples:\n"
     "  attile explore 'family=attention_forward dtype=bf16 head_dim=96' --best 0\n"
     "  attile explore my.yaml --shapes 'batch=1,heads=32,len_q=8192,len_kv=8192' \\\n"
     "      --best 64 --csv > schedules.csv\n",
     verb_explore},
    {"generate", "SPEC", 1, 1, "write the emitted sources of a spec", options_generate,
     "Writes DIR/VARIANT.cu for every feasible variant. Writes nothing when one of them cannot be expanded, and\n"
     "leaves files alone whose content would not change. With -o - all sources go to standard output.\n",
     verb_generate},
    {"build", "SPEC", 1, 1, "compile the kernels of a spec ahead of time", options_build,
     "Writes into DIR: VARIANT.cu, VARIANT.ARCH.cubin (.ptx, .so), manifest.json, and kernels.c, which contains all\n"
     "kernels: compile it into a program and give its bundle to att_open. Needs NVRTC, or a C++ compiler for --arch\n"
     "host, and no GPU. Writes nothing when one kernel fails.\n"
     "\n"
     "sm_80 runs on GPUs of compute capability 8.x, sm_90a on 9.0 only. compute_80 is PTX: the driver of any later "
     "GPU\n"
     "compiles it when the program finds the kernel. host and host_fast run on this kind of CPU, in the modes check\n"
     "and fast. Without --arch, --for builds for its GPU.\n"
     "\n"
     "Example, with the tuned schedules of an H200 for two lengths:\n"
     "  attile build 'family=attention_forward dtype=bf16 head_dim=128 mask=causal' \\\n"
     "      --for h200 -v --shapes 'batch=8,heads=32,len_q=2048,len_kv=2048; \\\n"
     "      batch=1,heads=32,len_q=16384,len_kv=16384'\n",
     verb_build},
    {"tune", "SPEC | FILE...", 1, ARGUMENTS, "measure which schedule of a problem is fastest on this GPU", options_tune,
     "SPEC is a file, or knobs such as 'family=attention_forward dtype=bf16 head_dim=96'. The tuner explores the\n"
     "schedule knobs that it leaves open. It draws candidates for every problem and shape, most of them from those\n"
     "that the performance model ranks first. Several processes compile them. The tuner checks each against the\n"
     "oracle and times them, interleaved, by successive halving, until the budget is spent or two are left.\n"
     "\n"
     "The tuner writes each measurement to the results file at once, one JSON object a line. After an interruption "
     "the\n"
     "same command continues; after the end it measures nothing more. A kernel that hangs, crashes or is wrong ends\n"
     "a worker process; the tuner does not try it again.\n"
     "\n"
     "Examples:\n"
     "  attile tune 'family=attention_forward dtype=bf16 head_dim=96 mask=causal' \\\n"
     "      --shapes 'batch=4,heads=16,len_q=4096,len_kv=4096' --budget 2m -t a.yaml\n"
     "  srun --ntasks=8 --gpus-per-task=1 \\\n"
     "      bash -c 'attile tune SPEC --shard auto -o part$SLURM_PROCID.jsonl'\n"
     "  attile tune --merge part*.jsonl -o all.jsonl --table h200.yaml\n",
     verb_tune},
    {"cache stat", "", 0, 0, "show the path and the contents of the kernel cache", options_cache, NULL,
     verb_cache_stat},
    {"cache list", "", 0, 0, "list cached kernels", options_cache, NULL, verb_cache_list},
    {"cache explain", "KEY", 1, 1, "show the fields of a cache key, and how it differs from its nearest neighbour",
     options_cache_explain, NULL, verb_cache_explain},
    {"cache verify", "", 0, 0, "check every byte of every cached kernel", options_cache, NULL, verb_cache_verify},
    {"cache trim", "", 0, 0, "remove least recently used kernels", options_cache_trim, NULL, verb_cache_trim},
    {"cache clear", "", 0, 0, "remove all cached kernels", options_cache_trim, NULL, verb_cache_clear},
    {"doctor", "", 0, 0, "check devices, compilers and cache, and say what to do", options_common, NULL, verb_doctor},
    {"version", "", 0, 0, "show the version", options_common, NULL, verb_version},
    {"help", "[VERB]", 0, 2, "show help", options_help_verb, NULL, verb_help},
    {NULL, NULL, 0, 0, NULL, NULL, NULL, NULL},
};
