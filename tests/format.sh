#!/usr/bin/env bash
# Checks that every C++ and CUDA source has the layout of .clang-format (with the version that cmake/bootstrap.sh installs),
# and that only lines with a string literal exceed 120 columns. tests/format.sh --fix formats the sources.
set -euo pipefail
cd "$(dirname "$0")/.."
tool=$(command -v clang-format-14 || true)
[ -n "$tool" ] || { echo "clang-format 14 is not installed"; exit 4; }
mapfile -t files < <(git ls-files -co --exclude-standard '*.cc' '*.h' '*.cu' '*.cuh' 2>/dev/null)
[ ${#files[@]} -gt 0 ] || { echo "not a git checkout"; exit 4; }
if [ "${1:-}" = --fix ]; then
  printf '%s\0' "${files[@]}" | xargs -0 -P "$(nproc)" -n 20 "$tool" -i
  exit 0
fi
failed=0
printf '%s\0' "${files[@]}" | xargs -0 -P "$(nproc)" -n 20 "$tool" --dry-run -Werror || failed=1
long=$(awk 'length($0) > 120 && $0 ~ /^[[:space:]]*\/\// {print FILENAME ":" FNR ": a comment beyond 120 columns"}' "${files[@]}")
[ -z "$long" ] || { echo "$long"; failed=1; }
[ "$failed" = 0 ] || echo "tests/format.sh --fix formats what clang-format can"
exit "$failed"
