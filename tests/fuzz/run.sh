#!/usr/bin/env bash
# Runs a fuzz target by libFuzzer: run.sh TARGET SECONDS PATH..., where PATH is an input or a folder of inputs. New inputs
# stay in a folder of their own; an input that breaks the target is left in the working folder as libFuzzer names it, and
# repeated by TARGET FILE. FUZZ_RUNS=N ends it after so many executions. An execution may take 10 s, because machines of
# tests are shared, and allocate 256 MiB at once.
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
