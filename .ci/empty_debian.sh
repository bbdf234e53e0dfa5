#!/usr/bin/env bash
# empty_debian.sh COMMAND [ARGUMENT...]: runs the command in a copy of this checkout inside an empty Debian 12 that
# debootstrap makes. A command fails there if it calls a program that the build does not install.
# Exit status: that of the command; 125 if no such root can be made, with the reason on standard error.
#   shared with this machine: ccache's folder, the libraries that cmake/bootstrap.sh built, the CUDA toolkit, the settings
#   of apt and pip, certificates, proxies. Everything else comes from Debian's packages.
set -euo pipefail
cd "$(dirname "$0")/.."
checkout=$PWD

cannot() { echo "no empty Debian: $*" >&2; exit 125; }
[ "$(id -u)" = 0 ] || cannot "only root can make one"
command -v debootstrap >/dev/null ||
  { apt-get update -qq && apt-get install -y -qq --no-install-recommends debootstrap; } >/dev/null 2>&1 || cannot "there is no debootstrap"
command -v unshare >/dev/null && unshare --mount true 2>/dev/null || cannot "mount namespaces are not allowed"

root=$(mktemp -d "${TMPDIR:-/tmp}/empty-debian-XXXXXX")
trap 'rm -rf --one-file-system "$root"' EXIT
mirror=$(sed -n 's/^URIs: *//p' /etc/apt/sources.list.d/debian.sources 2>/dev/null | head -1)
debootstrap --variant=minbase --include=ca-certificates bookworm "$root" ${mirror:+"$mirror"} >"$root.log" 2>&1 ||
  { tail -3 "$root.log" >&2; rm -f "$root.log"; cannot "debootstrap failed"; }
rm -f "$root.log"

for f in /etc/resolv.conf /etc/hosts /etc/pip.conf; do [ ! -f "$f" ] || cp "$f" "$root$f"; done
for d in /etc/apt/sources.list.d /etc/apt/apt.conf.d /etc/ssl/certs; do
  [ ! -d "$d" ] || { mkdir -p "$root$d" && cp -a "$d/." "$root$d/"; }
done
mkdir -p "$root$checkout"
tar -C "$checkout" --exclude='./build*' --exclude=./runs -cf - . | tar -C "$root$checkout" -xf -

# Folders of this machine, mounted at the same path in the root. They are kept when the root is removed.
shared=("${CCACHE_DIR:-$HOME/.cache/ccache}" "${ONNX_AMP_DEPS:-${XDG_CACHE_HOME:-$HOME/.cache}/onnx-amp-finetune}")
mkdir -p "${shared[@]}"
if [ -d /usr/local/cuda ]; then
  shared+=("$(readlink -f /usr/local/cuda)")
  mkdir -p "$root/usr/local" && ln -sfn "$(readlink -f /usr/local/cuda)" "$root/usr/local/cuda"
fi
kept=()
while IFS='=' read -r name value; do
  case $name in *PROXY | *proxy | PIP_* | SSL_CERT* | CURL_CA_BUNDLE | REQUESTS_CA_BUNDLE | ONNX_AMP_*) kept+=("$name=$value") ;; esac
done < <(env)

inside() {
  local root=$1 checkout=$2 folders=$3
  shift 3
  mount --make-rprivate /
  mount -t proc proc "$root/proc"
  mount --rbind /dev "$root/dev"
  mount -t tmpfs shm "$root/dev/shm"
  while IFS= read -r folder; do
    mkdir -p "$root$folder"
    mount --bind "$folder" "$root$folder"
  done <<<"$folders"
  exec chroot "$root" "$@"
}
export -f inside
folders=$(printf '%s\n' "${shared[@]}")
in_root() {
  unshare --mount bash -euc 'inside "$@"' bash "$root" "$checkout" "$folders" \
    /usr/bin/env -i HOME=/root LANG=C.UTF-8 PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
    GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=safe.directory 'GIT_CONFIG_VALUE_0=*' \
    CCACHE_DIR="${shared[0]}" ONNX_AMP_DEPS="${shared[1]}" ${kept[@]+"${kept[@]}"} \
    sh -c 'cd "$0" && exec "$@"' "$checkout" "$@"
}
in_root apt-get update -qq >/dev/null 2>&1 || cannot "it does not reach Debian's packages"
in_root ./cmake/bootstrap.sh --ci >/dev/null || cannot "what the project needs cannot be installed in it"
echo "in an empty Debian 12: $*"
status=0
in_root "$@" || status=$?
[ "$status" != 125 ] || status=1  # 125 is this script's own
exit "$status"
