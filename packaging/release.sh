#!/usr/bin/env bash
# Builds the release artifacts into dist/: a tarball, a wheel and a Debian package with the program and the C library,
# their SHA-256 sums, and a software bill of materials. Program and library need glibc 2.31 or later (Debian 11, Ubuntu
# 20.04) and libgcc, which every Debian has, and no other libraries.
#   --arch aarch64   cross-compiles for 64-bit ARM (Debian's compiler; QEMU prints the manual page and the completions)
#   --check          also installs tarball and wheel in an empty Debian 11, 12, 13 and Ubuntu 22.04 and trains there
#                    (check.sh; needs root)
set -euo pipefail
cd "$(dirname "$0")/.."
arch=$(uname -m) check=
usage() { echo "usage: packaging/release.sh [--arch aarch64] [--check]" >&2; exit 2; }
while [ $# -gt 0 ]; do
  case "$1" in
    --arch) arch=${2:-}; shift ;;
    --check) check=yes ;;
    *) usage ;;
  esac
  shift
done
compiler=c++ objdump=objdump debian=amd64 preset=release build=build-portable toolchain=() bootstrap=() headers=/usr/include
case "$arch" in
  "$(uname -m)") [ "$arch" = x86_64 ] || debian=arm64 ;;
  aarch64) compiler=aarch64-linux-gnu-g++ objdump=aarch64-linux-gnu-objdump debian=arm64 preset=aarch64 \
    build=build-portable-aarch64 bootstrap=(--aarch64) ;;
  *) usage ;;
esac
[ -z "$check" ] || [ "$arch" = "$(uname -m)" ] || { echo "packaging/release.sh: --check runs on the artifacts' architecture only" >&2; exit 2; }

for program in curl xz bzip2 nasm objdump dpkg-deb dpkg-source; do
  command -v $program >/dev/null || { echo "packaging/release.sh needs $program" >&2; exit 2; }
done
prefix=$(./cmake/bootstrap.sh "${bootstrap[@]}" | tail -1)
if [ ${#bootstrap[@]} -gt 0 ]; then
  root=$(packaging/foreign_root.sh "$debian" | tail -1)
  headers=$root/usr/include
  toolchain=(-DCMAKE_TOOLCHAIN_FILE="$PWD/cmake/aarch64.cmake" -DONNX_AMP_ROOT="$root")
fi
sysroot=$(packaging/sysroot.sh "$debian" | tail -1)
static=$(packaging/static_libraries.sh "${toolchain[@]}" | tail -1)
rm -f "$build/CMakeCache.txt"  # without this, CMake would use paths of libraries that it found earlier
cmake --preset "$preset" -B "$build" "${toolchain[@]}" -DCMAKE_PREFIX_PATH="$static;$prefix" -DONNX_AMP_SYSROOT="$sysroot" \
  -DONNX_AMP_CUDA=OFF -DONNX_AMP_MPI=OFF -DProtobuf_INCLUDE_DIR="$headers" -DPNG_PNG_INCLUDE_DIR="$headers" -DJPEG_INCLUDE_DIR="$headers"
cmake --build "$build" --target onnx-amp-finetune onnx_amp_shared program_texts
rm -rf "$build/stage" dist
cmake --install "$build" --prefix "$build/stage" --strip
ninja -C "$build" -t commands onnx-amp-finetune onnx_amp_shared | tail -2 | grep -oE '[^ ]+\.a' | sort -u >"$build/archives"
$compiler -print-file-name=libstdc++.a >>"$build/archives"
packaging/artifacts.py --stage "$build/stage" --out dist --archives "$build/archives" --static "$static" \
  --jinja "$prefix/include/llama-jinja" --machine "$arch" --objdump "$objdump" ${root:+--root "$root"}
if [ -n "$check" ]; then packaging/check.sh dist; fi
