#!/usr/bin/env bash
# Packs, on a machine without a GPU, what tools/gpu_check.sh needs on a machine with one: the program, the CUDA plugin, the
# tests, the shared libraries of theirs that are neither glibc's nor CUDA's, small models and data, the bench.
#   tools/gpu_bundle.sh [--build DIR] [--out FILE.tar.gz]
# What it is for: any x86-64 Linux with a glibc not older than this machine's, an NVIDIA driver for CUDA 13, the CUDA 13
# libraries (a toolkit, or those that came with PyTorch), and for the bench Python with torch, onnx, onnxruntime.
# The plugin has the architectures that the build was configured with (-DONNX_AMP_CUDA_ARCHITECTURES="80;90;100").
set -euo pipefail
cd "$(dirname "$0")/.."
build=build out=
while [ $# -gt 0 ]; do
  case $1 in
    --build) build=$2; shift 2 ;;
    --out) out=$2; shift 2 ;;
    *) sed -n '2,8s/^# \{0,1\}//p' "$0"; exit 2 ;;
  esac
done
out=${out:-$build/gpu_bundle.tar.gz}

for f in onnx-amp-finetune libonnx_amp_cuda.so tests/test_cuda; do
  [ -f "$build/$f" ] || { echo "$build/$f is missing: cmake --build $build (nvcc builds the plugin)" >&2; exit 1; }
done
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
root=$work/gpu_bundle
mkdir -p "$root/bin" "$root/lib" "$root/tests/data" "$root/bench" "$root/tools" "$root/models"
cp "$build/onnx-amp-finetune" "$build/libonnx_amp_cuda.so" "$build/tests/test_cuda" "$root/bin/"
strip --strip-unneeded "$root"/bin/*

# Their libraries but glibc's (the loader belongs to it), CUDA's and the driver's.
ldd "$root"/bin/* | awk '$2 == "=>" && $3 ~ /^\// { print $3 }' | sort -u | while read -r lib; do
  case $(basename "$lib") in
    libc.so.* | libm.so.* | libdl.so.* | libpthread.so.* | librt.so.* | libresolv.so.* | ld-linux*) ;;
    libcuda* | libcublas* | libcudnn* | libcudart* | libnvrtc* | libnvJitLink* | libnccl* | libnvidia*) ;;
    *) cp -L "$lib" "$root/lib/" ;;
  esac
done
strip --strip-unneeded "$root"/lib/*

cp -r tests/data/zoo "$root/tests/data/"
cp -r models/tweet_sentiment "$root/models/"
cp bench/gpu*.py bench/common.py "$root/bench/"
cp tools/gpu_check.sh tools/gpu_check.py tools/gpu_checks.py tools/gpu_report.py "$root/tools/"
git describe --always --dirty >"$root/commit" 2>/dev/null || true
# gzip: it is everywhere, also in Python's tarfile where there is no tar.
tar -C "$work" -c gpu_bundle | gzip -9 >"$out"
bytes=$(stat -c %s "$out")
echo "$out: $((bytes >> 20)) MiB; when it is carried along with a checkout, name it: it lies in an ignored folder"
[ "$bytes" -le $((40 << 20)) ] || { echo "more than 40 MiB" >&2; exit 1; }
