#!/usr/bin/env bash
# foreign_root.sh [arm64]: fetches the third-party libraries for another architecture, which are packages of
# Debian 12 with their dependencies. The folder that it makes is the system root of the cross-compiler and of
# QEMU. Installs nothing on this machine. Fetches the newest versions; apt checks the signatures. Prints the
# folder as its last line. ONNX_AMP_DEPS: cache folder, as in cmake/bootstrap.sh; ONNX_AMP_DEBIAN: Debian's
# mirror.
set -euo pipefail
# shellcheck source=packaging/keep_root.sh
. "$(dirname "$0")/keep_root.sh"
arch=${1:-arm64}
cache=${ONNX_AMP_DEPS:-${XDG_CACHE_HOME:-$HOME/.cache}/onnx-amp-finetune}
mirror=${ONNX_AMP_DEBIAN:-http://deb.debian.org/debian}
# The libraries that cmake/bootstrap.sh installs. catch2 is in backports.
packages="libc6-dev libgomp1 libstdc++6 libprotobuf-dev nlohmann-json3-dev libutf8proc-dev libpcre2-dev zlib1g-dev
  libzip-dev libssl-dev libyaml-cpp-dev libpng-dev libjpeg62-turbo-dev libwebp-dev libtiff-dev libgif-dev libmicrohttpd-dev
  libcatch2-dev/bookworm-backports"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work"/{lists,archives}/partial
: >"$work/status"
key="[signed-by=/usr/share/keyrings/debian-archive-keyring.gpg]"
printf 'deb %s\n' "$key $mirror bookworm main" "$key $mirror bookworm-updates main" "$key $mirror bookworm-backports main" \
  "$key ${mirror%/debian}/debian-security bookworm-security main" >"$work/sources.list"
apt() {
  apt-get -qq -o APT::Architecture="$arch" -o APT::Architectures="$arch" -o Dir::State="$work" -o Dir::State::status="$work/status" \
    -o Dir::State::Lists="$work/lists" -o Dir::Cache="$work" -o Dir::Cache::archives="$work/archives" \
    -o Dir::Etc::SourceList="$work/sources.list" -o Dir::Etc::SourceParts=/dev/null -o APT::Sandbox::User=root "$@"
}
apt update >&2
# shellcheck disable=SC2086
uris=$(apt --print-uris -y --no-install-recommends install $packages)
folder=$cache/root-bookworm-$arch-$(printf '%s' "$uris" | sha256sum | cut -c1-12)

if [ ! -f "$folder/.done" ]; then
  # shellcheck disable=SC2086
  apt --download-only -y --no-install-recommends install $packages >&2
  mkdir "$work/tree"
  info=$work/tree/var/lib/dpkg/info  # records which package each file is from; artifacts.py reads it with dpkg-query
  mkdir -p "$info"
  echo 1 >"$info/format"
  for deb in "$work"/archives/*.deb; do
    dpkg-deb -x "$deb" "$work/tree"
    name=$(dpkg-deb -f "$deb" Package)
    [ "$(dpkg-deb -f "$deb" Multi-Arch)" != same ] || name=$name:$(dpkg-deb -f "$deb" Architecture)
    dpkg-deb --fsys-tarfile "$deb" | tar -t | sed 's/^\.//; s/\/$//; s/^$/\/./' >"$info/$name.list"
    { dpkg-deb -f "$deb"; printf 'Status: install ok installed\n\n'; } >>"$work/tree/var/lib/dpkg/status"
  done
  keep_root "$work/tree" "$folder"
fi
echo "$folder"
