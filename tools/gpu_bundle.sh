#!/usr/bin/env bash
# Packs the files that tools/gpu_smoke.py and tools/gpu_check.py need on a machine with a GPU; runs on one without.
# These are: the program, the CUDA plugin, the tests, their shared libraries except those of glibc and CUDA, small
# models and data, the bench.
#   tools/gpu_bundle.sh [--build DIR] [--out FILE.tar.xz]
# The machine with a GPU needs x86-64 Linux with a glibc not older than this machine's, an NVIDIA driver for CUDA 13,
# and the CUDA 13 libraries (a toolkit's, or those that came with PyTorch). The comparison needs Python with torch, onnx
# and numpy. The plugin has the architectures that the build was configured with
# (-DONNX_AMP_CUDA_ARCHITECTURES="80;90;100").
set -euo pipefail
cd "$(dirname "$0")/.."
build=build out=
while [ $# -gt 0 ]; do
  case $1 in
    --build) build=$2; shift 2 ;;
    --out) out=$2; shift 2 ;;
    *) sed -n '2,9s/^# \{0,1\}//p' "$0"; exit 2 ;;
  esac
done
out=${out:-$build/gpu_bundle.tar.xz}

for f in onnx-amp-finetune libonnx_amp_cuda.so tests/test_cuda; do
  [ -f "$build/$f" ] || { echo "$build/$f is missing: cmake --build $build (nvcc builds the plugin)" >&2; exit 1; }
done
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
root=$work/gpu_bundle
mkdir -p "$root/bin" "$root/lib" "$root/tests/data" "$root/bench" "$root/tools" "$root/models"
cp "$build/onnx-amp-finetune" "$build/libonnx_amp_cuda.so" "$build/tests/test_cuda" "$root/bin/"
strip --strip-unneeded "$root"/bin/*

# Copies the shared libraries that the files in bin need, except those of glibc (including the loader), CUDA and the
# driver.
ldd "$root"/bin/* | awk '$2 == "=>" && $3 ~ /^\// { print $3 }' | sort -u | while read -r lib; do
  case $(basename "$lib") in
    libc.so.* | libm.so.* | libdl.so.* | libpthread.so.* | librt.so.* | libresolv.so.* | ld-linux*) ;;
    libcuda* | libcublas* | libcudnn* | libcudart* | libnvrtc* | libnvJitLink* | libnccl* | libnvidia*) ;;
    *) cp -L "$lib" "$root/lib/" ;;
  esac
done
[ -z "$(ls "$root/lib")" ] || strip --strip-unneeded "$root"/lib/*

cp -r tests/data/zoo "$root/tests/data/"
cp -r models/tweet_sentiment "$root/models/"
cp bench/gpu*.py bench/common.py "$root/bench/"
cp tools/gpu_kit.py tools/gpu_smoke.py tools/gpu_check.py "$root/tools/"
git describe --always --dirty >"$root/commit" 2>/dev/null || true
# xz is used because Python's tarfile can read it on machines without tar or xz.
tar -C "$work" -c gpu_bundle | xz -9 >"$out"
bytes=$(stat -c %s "$out")
# The bundle and the tracked files may have to be transferred together, and their total must not exceed 64 MiB.
tree=$(git ls-files -z | du -cb --files0-from=- 2>/dev/null | tail -1 | cut -f1)
most=$((36 << 20)) left=$(((64 << 20) - ${tree:-0}))
[ "$left" -ge "$most" ] || most=$left
echo "$out: $((bytes >> 10)) KiB of at most $((most >> 10)); it lies in an ignored folder: name it where only tracked files travel"
[ "$bytes" -le "$most" ] || { echo "$out is too large" >&2; exit 1; }
