#!/usr/bin/env bash
# What only a GPU can show, in one command; results are appended to bench/results/gpu_checks.jsonl. Words are
# gpu_checks.py's: --commit NAME, --part numbers, ... Exit status 1 when anything is wrong.
set -uo pipefail
cd "$(dirname "$0")/.."
export ATTILE_LIBRARY=${ATTILE_LIBRARY:-$PWD/build/release/runtime/libattile.so} PYTHONUNBUFFERED=1
wrong=0
for test in test_cuda test_graph; do
    if [ -x build/release/tests/$test ]; then
        build/release/tests/$test || wrong=1
    fi
done
python3 bench/gpu_checks.py "$@" || wrong=1
exit $wrong
