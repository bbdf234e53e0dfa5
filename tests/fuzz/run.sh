#!/usr/bin/env bash
# Runs a fuzz target by libFuzzer: run.sh TARGET SECONDS PATH..., where PATH is an input or a folder of inputs. New inputs
# stay in a separate folder. An input that makes the target fail is written to the working folder, with libFuzzer's name;
# TARGET FILE repeats the failure. FUZZ_RUNS=N ends the run after N executions. An execution may take 10 s, because test
# machines are shared, and may allocate 256 MiB at once.
set -euo pipefail
target=$1 seconds=$2
shift 2
work=$(mktemp -d -p "$([ -w /dev/shm ] && echo /dev/shm || echo /tmp)")
trap 'rm -rf "$work"' EXIT
mkdir "$work/new" "$work/seeds" "$work/files"
number=0
while IFS= read -r -d '' file; do  # longer seeds would make all executions slow
  ln -s "$file" "$work/seeds/$((number += 1))"
done < <(find "$@" -type f -size -64k -print0)
name=$(basename "$target") dictionary=
name=$(dirname "$0")/dictionaries/${name#fuzz_}
[ ! -f "$name" ] || dictionary=-dict=$name
TMPDIR=$work/files "$target" "$work/new" "$work/seeds" -max_total_time="$seconds" -runs="${FUZZ_RUNS:--1}" -timeout=10 \
  -report_slow_units=2 -malloc_limit_mb=256 -rss_limit_mb=2048 -max_len=65536 $dictionary -print_final_stats=1 2>&1 |
  tail -40
