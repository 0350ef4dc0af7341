#!/usr/bin/env bash
# The tuned table of the H200, and whether it pays: measures the schedules of tune_h200.yaml on common shapes, then the
# table's choices beside the templates' own on shapes that were left out. Uses every GPU of the machine.
#
#     bench/tune_h200.sh tune            # $BUDGET, 6 minutes; stop it at any time, the same command goes on
#     bench/tune_h200.sh validate        # a third of $BUDGET
#     bench/tune_h200.sh report          # from the results of both, else the recorded ones, without a GPU: how right is the model,
#                                        # does the table pay?
#     ONLY='head_dim=128 mask=none' bench/tune_h200.sh tune   # a part; parts go into the same files
#
# Results: $RESULTS (tune.jsonl and validate.jsonl there), table: $TABLE.
set -uo pipefail
cd "$(dirname "$0")/.." || exit

attile=${ATTILE:-build/release/cli/attile}
fit_model=${FIT_MODEL:-build/release/bench/fit_model}
results=${RESULTS:-build/tune}
table=${TABLE:-tuned/nvidia_h200.yaml}
budget=${BUDGET:-360} # seconds
candidates=${CANDIDATES:-16}
mkdir -p "$results" "$(dirname "$table")"

shapes() { # heads, lengths...: as many sequences of each as have 16384 tokens
    local heads=$1 length
    shift
    for length in "$@"; do
        printf 'batch=%d,heads=%d,len_q=%d,len_kv=%d;' $((length < 16384 ? 16384 / length : 1)) "$heads" "$length" "$length"
    done
}

run() { # seconds, results, shapes, further options...
    local seconds=$1 out=$2 where=$3
    shift 3
    "$attile" tune bench/tune_h200.yaml ${ONLY:+--variant "$ONLY"} --shapes "$where" --budget "${seconds}s" --out "$results/$out" "$@"
}

# Of all ratios in the JSON documents of validate: geometric mean, least, how many.
summarise() {
    local document=$results/validate.json
    [ -f "$document" ] || document=bench/results/validate_h200.json
    grep -o '"ratio": [0-9.e+-]*' "$document" |
        awk '{ sum += log($2); n++; below += $2 < 0.98; if (n == 1 || $2 < least) least = $2 }
             END { if (n) printf "tuned beside untuned: geometric mean %.3f, least %.3f, %d below 0.98, of %d\n",
                                 exp(sum / n), least, below, n }'
}

# How often the model is right about what was measured: the model as it is in this build.
judge() {
    [ -f "$results/tune.jsonl" ] || gzip -dc bench/results/tune_h200.jsonl.gz >"$results/tune.jsonl" || return
    "$fit_model" h200 "$results/tune.jsonl" --judge
}

case "${1:-}" in
tune)
    run "$budget" tune.jsonl "$(shapes 16 128 512 1024 2048 4096 16384 32768)batch=1,heads=16,len_q=1024,len_kv=1024" \
        --candidates "$candidates" --table "$table"
    ;;
validate)
    run $((budget / 3)) validate.jsonl "$(shapes 12 384 1536 6144 24576)$(shapes 8 768 3072)" \
        --validate "$table" --json >"$results/validate.json" && summarise
    ;;
report)
    judge && summarise
    ;;
*)
    sed -n '2,/^set/p' "$0" | grep '^#' | cut -c 3-
    exit 2
    ;;
esac
