#!/usr/bin/env bash
# The tuned table of the H200, and whether it pays: measures the schedules of tune_h200.yaml on common shapes, then the
# table's choices beside the templates' own on shapes that were left out. Uses every GPU of the machine.
#
#     bench/tune_h200.sh tune            # $BUDGET, 6 minutes; stop it at any time, the same command goes on
#     bench/tune_h200.sh mma             # rows of flash_mma, for sm_80 and sm_90 (tune_h200_mma.yaml), at some of these shapes
#     bench/tune_h200.sh validate        # a third of $BUDGET
#     bench/tune_h200.sh report          # from the results of both, without a GPU: how right is the model (else of the recorded
#                                        # results), does the table pay?
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
candidates=${CANDIDATES:-10}
mkdir -p "$results" "$(dirname "$table")"

# batch,heads,length of each shape, on which the table is made and on which it is tested: 4 to 64 heads, 1 to 128 sequences, lengths on
# powers of two and off them. Rows for older targets belong at shapes that have one for the newest (docs/tuned.md).
made="128,16,128 32,16,512 16,16,1024 8,16,2048 4,16,4096 1,16,16384
    32,16,300 8,64,360 16,12,600 4,32,700 32,8,900 2,40,1100 8,16,1300 1,64,1500 4,28,1800 16,8,2200 2,32,2600 8,8,3100 1,24,3500 1,64,5000
    2,8,6200 1,32,7500 2,32,8192 4,4,9000 1,16,12000 1,8,20000"
held="64,12,250 16,32,330 8,24,500 4,64,800 24,8,1000 2,20,1700 8,32,2000 1,40,2900 4,12,4100 2,32,6000 1,12,10000 1,16,24576"
made_mma="32,16,512 16,16,1024 2,40,1100 8,16,2048 4,16,4096 1,16,16384"

shapes() { # batch,heads,length ...: as --shapes has them
    local batch heads length
    tr ' ' '\n' <<<"$*" | while IFS=, read -r batch heads length; do
        [ -z "$batch" ] || printf 'batch=%d,heads=%d,len_q=%d,len_kv=%d;' "$batch" "$heads" "$length" "$length"
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
    [ -f "$document" ] || return
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
    run "$budget" tune.jsonl "$(shapes "$made")" --candidates "$candidates" --table "$table"
    ;;
mma)
    for target in sm_80 sm_90; do
        "$attile" tune bench/tune_h200_mma.yaml --variant "target=$target" --shapes "$(shapes "$made_mma")" --budget "$((budget / 2))s" \
            --candidates "$candidates" --out "$results/tune_$target.jsonl" --table "$table"
    done
    ;;
validate)
    run $((budget / 3)) validate.jsonl "$(shapes "$held")" --validate "$table" --json >"$results/validate.json" && summarise
    ;;
report)
    judge && summarise
    ;;
*)
    sed -n '2,/^set/p' "$0" | grep '^#' | cut -c 3-
    exit 2
    ;;
esac
