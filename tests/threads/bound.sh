#!/usr/bin/env bash
# bound.sh PROGRAM: tests that with OMP_PROC_BIND the program's threads may run on every core that the process had when it
# was started, although the program executes itself again (tools/main.cc). Exit code 4: skipped; the reason is printed.
set -euo pipefail
unset GOMP_SPINCOUNT OMP_WAIT_POLICY OMP_PLACES
# GNU's OpenMP prints its places once for each start. Without /sys it finds no places and binds no threads.
places() { OMP_PROC_BIND=true OMP_DISPLAY_ENV=true "$1" --version 2>&1 | sed -n "s/.*OMP_PLACES = '\(.*\)'/\1/p"; }
printed=$(places "$1")
if [ -z "$(tr -d '\n' <<<"$printed")" ]; then
  echo "skipped: OpenMP finds no places on this machine (is /sys mounted?)"
  exit 4
fi
if [ "$(wc -l <<<"$printed")" -ne 2 ] || [ "$(sort -u <<<"$printed" | wc -l)" -ne 1 ]; then
  echo "places of the program, and of the program that it starts:" >&2
  echo "$printed" >&2
  exit 1
fi
