#!/usr/bin/env bash
# The tuned table of a GPU, and whether it pays: tunes every problem of the list below on common shapes, a few seconds
# each, then measures the table's choices beside the templates' own on shapes that were left out.
#
#     bench/tune_h200.sh tune            # about six minutes; stop it at any time, the same command goes on
#     bench/tune_h200.sh validate        # about three minutes
#     bench/tune_h200.sh report          # from the results of both, without a GPU: does the table pay, is the model right?
#     SECONDS_EACH=60 DTYPES="bf16 fp16" bench/tune_h200.sh tune
#     ONLY=128 bench/tune_h200.sh tune   # one head dimension: pieces of the whole go into the same files
#
# Results: $RESULTS (tune.jsonl and validate.jsonl there), table: $TABLE.
set -uo pipefail
cd "$(dirname "$0")/.." || exit

attile=${ATTILE:-build/release/cli/attile}
fit_model=${FIT_MODEL:-build/release/bench/fit_model}
results=${RESULTS:-build/tune}
table=${TABLE:-tuned/nvidia_h200.yaml}
seconds_each=${SECONDS_EACH:-22}
candidates=${CANDIDATES:-16}
dtypes=${DTYPES:-bf16}
gpu=${GPU:-0}
problems=${ONLY:-40 64 80 96 128 192 256 192/128}
tokens=16384
hidden=2048
mkdir -p "$results" "$(dirname "$table")"

# One shape a length: as many sequences as fill $tokens, heads as a model of width $hidden has them.
shapes_of() { # head_dim, heads (0 = of the width), lengths...
    local dim=$1 heads=$2 shapes="" length batch
    shift 2
    [ "$heads" != 0 ] || heads=$((hidden / dim))
    for length in "$@"; do
        batch=$((tokens / length))
        [ $batch -ge 1 ] || batch=1
        shapes+="batch=$batch,heads=$heads,len_q=$length,len_kv=$length;"
    done
    echo "$shapes"
}

each_problem() { # command, head dimensions...: calls it with the knobs and the head dimension
    local command=$1 dtype mask problem
    for dtype in $dtypes; do
        for problem in $problems; do
            for mask in none causal; do
                local knobs="family=attention_forward dtype=$dtype head_dim=${problem%/*} mask=$mask"
                [ "$problem" = "${problem%/*}" ] || knobs+=" head_dim_v=${problem#*/}"
                knobs+=" algorithm=flash_async target=sm_90a"
                echo "== $knobs" >&2
                $command "$knobs" "${problem%/*}"
                local code=$?
                [ $code != 130 ] || exit 130 # interrupted
                [ $code = 0 ] || failed=1
            done
        done
    done
}

tune_one() {
    local shapes
    shapes=$(shapes_of "$2" 0 128 256 512 1024 2048 4096 8192 16384 32768)
    shapes+="batch=1,heads=16,len_q=512,len_kv=512;batch=1,heads=16,len_q=2048,len_kv=2048"
    "$attile" tune "$1" --shapes "$shapes" --candidates "$candidates" --budget "${seconds_each}s" --gpu "$gpu" \
        --out "$results/tune.jsonl" --table "$table"
}

validate_one() {
    local shapes
    shapes=$(shapes_of "$2" 12 384 1536 6144 24576)$(shapes_of "$2" 0 768 3072 12288)
    "$attile" tune "$1" --shapes "$shapes" --budget "$((seconds_each / 2))s" --gpu "$gpu" --out "$results/validate.jsonl" \
        --validate "$table" --json >>"$results/validate.json"
}

# Of all ratios in the JSON documents of validate: geometric mean, least, how many.
summarise() {
    grep -o '"ratio": [0-9.e+-]*' "$results/validate.json" |
        awk '{ sum += log($2); n++; below += $2 < 0.98; if (n == 1 || $2 < least) least = $2 }
             END { if (n) printf "tuned beside untuned: geometric mean %.3f, least %.3f, %d below 0.98, of %d\n",
                                 exp(sum / n), least, below, n }'
}

# How often the model is right about what was measured: the model as it is in this build.
judge() {
    "$fit_model" h200 "$results/tune.jsonl" --judge
}

failed=0
case "${1:-}" in
tune) each_problem tune_one ;;
validate)
    : >"$results/validate.json"
    each_problem validate_one
    summarise
    ;;
report)
    judge || failed=1
    summarise
    ;;
*)
    sed -n '2,/^set/p' "$0" | grep '^#' | cut -c 3-
    exit 2
    ;;
esac
exit $failed
