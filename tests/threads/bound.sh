#!/usr/bin/env bash
# bound.sh PROGRAM: with OMP_PROC_BIND its threads still have every core that the process had when it was started,
# though it starts itself once more (tools/main.cc).
set -euo pipefail
unset GOMP_SPINCOUNT OMP_WAIT_POLICY OMP_PLACES
places() { "$@" 2>&1 | sed -n "s/.*OMP_PLACES = '\(.*\)'/\1/p"; }
said=$(OMP_PROC_BIND=true OMP_DISPLAY_ENV=true places "$1" --version)
if [ "$(wc -l <<<"$said")" -ne 2 ] || [ "$(sort -u <<<"$said" | wc -l)" -ne 1 ]; then
  echo "places of the program, and of the program that it starts:" >&2
  echo "$said" >&2
  exit 1
fi
