#!/usr/bin/env bash
# Builds the release artifacts into dist/: a tarball, a wheel and a Debian package with the program and the C library, their
# SHA-256 sums, and a software bill of materials. They run on glibc 2.31 and later (Debian 11, Ubuntu 20.04) and need no
# other library than libgcc, which every Debian has.
#   --check    also installs tarball and wheel in an empty Debian 11, 12 and 13 and trains there (check.sh; needs root)
set -euo pipefail
cd "$(dirname "$0")/.."
case "${1:-}" in '' | --check) ;; *) echo "usage: packaging/release.sh [--check]" >&2; exit 2 ;; esac

for program in curl xz bzip2 nasm objdump dpkg-deb dpkg-source; do
  command -v $program >/dev/null || { echo "packaging/release.sh needs $program" >&2; exit 2; }
done
prefix=$(./cmake/bootstrap.sh | tail -1)
sysroot=$(packaging/sysroot.sh | tail -1)
static=$(packaging/static_libraries.sh | tail -1)
rm -f build-portable/CMakeCache.txt  # or libraries that were found before would stay
cmake --preset release -B build-portable -DCMAKE_PREFIX_PATH="$static;$prefix" -DONNX_AMP_SYSROOT="$sysroot" \
  -DONNX_AMP_CUDA=OFF -DONNX_AMP_MPI=OFF -DProtobuf_INCLUDE_DIR=/usr/include -DPNG_PNG_INCLUDE_DIR=/usr/include -DJPEG_INCLUDE_DIR=/usr/include
cmake --build build-portable --target onnx-amp-finetune onnx_amp_shared program_texts
rm -rf build-portable/stage dist
cmake --install build-portable --prefix build-portable/stage --strip
ninja -C build-portable -t commands onnx-amp-finetune onnx_amp_shared | tail -2 | grep -oE '[^ ]+\.a' | sort -u >build-portable/archives
c++ -print-file-name=libstdc++.a >>build-portable/archives
packaging/artifacts.py --stage build-portable/stage --out dist --archives build-portable/archives --static "$static" \
  --jinja "$prefix/include/llama-jinja"
if [ "${1:-}" = --check ]; then packaging/check.sh dist; fi
