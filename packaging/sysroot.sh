#!/usr/bin/env bash
# sysroot.sh [amd64|arm64]: fetches glibc 2.31 and libgomp of Debian 11. Programs that are linked with them run
# on Debian 11 and on later systems. Prints the folder as its last line. ONNX_AMP_DEPS: cache folder, as in
# cmake/bootstrap.sh.
set -euo pipefail
# shellcheck source=packaging/keep_root.sh
. "$(dirname "$0")/keep_root.sh"
arch=${1:-amd64}
cache=${ONNX_AMP_DEPS:-${XDG_CACHE_HOME:-$HOME/.cache}/onnx-amp-finetune}
mirror=${ONNX_AMP_DEBIAN:-http://deb.debian.org/debian}
folder=$cache/sysroot-glibc-2.31-libgomp-$arch

# Lists the sha256 and the path of each package. snapshot.debian.org keeps packages that the mirror no longer has.
case $arch in
  amd64) packages="
05f7264da867b37f4c5ce49266b558ea1e81e05a9464f623152fca70f3550282 pool/main/g/glibc/libc6_2.31-13+deb11u11_amd64.deb
e7f7b45d9c5cfcf37609f0b6efd3c645272c812144703af89dfd32218fcb0fd3 pool/main/g/glibc/libc6-dev_2.31-13+deb11u11_amd64.deb
e478f2709d8474165bb664de42e16950c391f30eaa55bc9b3573281d83a29daf pool/main/g/gcc-10/libgcc-s1_10.2.1-6_amd64.deb
4530c95aefa48e33fd8cf4acbe5c4b559dbe7bdf4c56469986c83a203982cef1 pool/main/g/gcc-10/libgomp1_10.2.1-6_amd64.deb" ;;
  arm64) packages="
baaa9aa184e2f21738c5819055e6740cc5b22f198e3f416e33f82b40ff6933d8 pool/main/g/glibc/libc6_2.31-13+deb11u11_arm64.deb
28d478134722dcd4b0bd2045a199301d18713bf95947b9fce66634e7aeacab2e pool/main/g/glibc/libc6-dev_2.31-13+deb11u11_arm64.deb
e2fcdb378d3c1ad1bcb64d4fb6b37aab44011152beca12a4944f435a2582df1f pool/main/g/gcc-10/libgcc-s1_10.2.1-6_arm64.deb
813af2e0b8ba0a7cea18c988cd843412ef6d0415700fc860d62816750e741670 pool/main/g/gcc-10/libgomp1_10.2.1-6_arm64.deb" ;;
  *) echo "sysroot.sh: no packages are listed for $arch" >&2; exit 2 ;;
esac

if [ ! -f "$folder/.done" ]; then
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
  while read -r sum path; do
    [ -n "$sum" ] || continue
    deb=$work/$(basename "$path")
    curl -fsSL --retry 3 -o "$deb" "$mirror/$path" ||
      curl -fsSL --retry 3 -o "$deb" "https://snapshot.debian.org/archive/debian/20250601T000000Z/$path"
    echo "$sum  $deb" | sha256sum --check --quiet >&2
    dpkg-deb -x "$deb" "$work/tree"
  done <<<"$packages"
  keep_root "$work/tree" "$folder"
fi
echo "$folder"
