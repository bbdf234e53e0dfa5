#!/usr/bin/env bash
# Runs a fuzz target: run.sh TARGET SECONDS CORPUS. New inputs stay in a folder of its own; an input that breaks the
# target is left in the working folder as libFuzzer names it, and repeated by TARGET FILE.
set -euo pipefail
target=$1 seconds=$2 corpus=$3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/new"
TMPDIR=$work "$target" "$work/new" "$corpus" -max_total_time="$seconds" -timeout=25 -rss_limit_mb=2048 -max_len=65536 \
  -print_final_stats=1 2>&1 | tail -40
