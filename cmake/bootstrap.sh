#!/usr/bin/env bash
# Installs the system packages and builds the third-party libraries, in fixed versions, once into a cache that is keyed
# by version and compiler. Prints the install prefix as its last line.
#   --tests            also installs the programs that ./test.sh calls: clang-format, git, OpenMPI, strace
#                      (tests/programs.txt)
#   --sanitize         as --tests, and clang with its sanitizers
#   --ci               as --sanitize, and clang-tidy, and Chromium if the system has a package of it (350 MB, 30 s;
#                      tests/browser)
#   --aarch64          for 64-bit ARM: the cross-compiler, QEMU, and the libraries for that architecture (cmake/aarch64.cmake)
#   ONNX_AMP_DEPS      cache folder (default ~/.cache/onnx-amp-finetune)
#   ONNX_AMP_SKIP_APT  1: install no packages
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)

ONNX_VERSION=1.22.0
ONNX_SHA256=ef40c0aaf0b643857ea9306fc7eddce17eaf9fb0407e4801f1fc5758443a38e0
LLAMA_CPP_PYTHON_VERSION=0.3.22  # its copy of llama.cpp contains the Jinja engine
LLAMA_CPP_PYTHON_SHA256=93c54af95d917fe6d6d70039efe16ca9240634d11010f5aaf795261b9f43042f
CACHE=${ONNX_AMP_DEPS:-${XDG_CACHE_HOME:-$HOME/.cache}/onnx-amp-finetune}
PACKAGES="build-essential cmake ninja-build ccache pkg-config python3 python3-pip python3-venv
  libprotobuf-dev protobuf-compiler nlohmann-json3-dev
  libutf8proc-dev libpcre2-dev zlib1g-dev libzip-dev libssl-dev libyaml-cpp-dev
  libpng-dev libjpeg62-turbo-dev libwebp-dev libtiff-dev libgif-dev libmicrohttpd-dev"
# The versions of clang-format and clang are fixed, because other versions format and warn differently. clang before
# version 16 does not let lambdas capture structured bindings.
TESTS="clang-format-14 git libopenmpi-dev openmpi-bin python3-numpy strace"
SANITIZE="$TESTS clang-16 libclang-rt-16-dev libomp-16-dev"
case "${1:-}" in
  --tests) PACKAGES="$PACKAGES $TESTS" ;;
  --sanitize) PACKAGES="$PACKAGES $SANITIZE" ;;
  --ci) PACKAGES="$PACKAGES $SANITIZE clang-tidy-16" BROWSER="chromium fonts-dejavu-core" ;;
  --aarch64) PACKAGES="$PACKAGES g++-aarch64-linux-gnu qemu-user" ;;
esac

say() { echo "bootstrap: $*" >&2; }

install_packages() {
  local sudo=
  [ "$(id -u)" = 0 ] || sudo=sudo
  local missing=()
  for p in $PACKAGES; do
    dpkg-query -W -f='${Status}' "$p" 2>/dev/null | grep -q 'ok installed' || missing+=("$p")
  done
  # Catch2 version 3 (for SKIP() and the static library) is only in bookworm-backports.
  if ! dpkg-query -W -f='${Version}' libcatch2-dev 2>/dev/null | grep -q '^3'; then missing+=(catch2); fi
  [ ${#missing[@]} -gt 0 ] || return 0
  say "installing: ${missing[*]}"
  if grep -qs bookworm /etc/os-release && [ ! -f /etc/apt/sources.list.d/onnx-amp-backports.list ]; then
    local uri
    uri=$(awk '/^URIs:/{print $2; exit}' /etc/apt/sources.list.d/debian.sources 2>/dev/null || true)
    [ -n "$uri" ] || uri=$(awk '/^deb /{for(i=2;i<=NF;i++) if ($i ~ /^[a-z]+:\/\//) {print $i; exit}}' /etc/apt/sources.list)
    echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $uri bookworm-backports main" |
      $sudo tee /etc/apt/sources.list.d/onnx-amp-backports.list >/dev/null
  fi
  $sudo apt-get update -qq
  local catch2="catch2 libcatch2-dev"
  if grep -qs bookworm /etc/os-release; then catch2="catch2/bookworm-backports libcatch2-dev/bookworm-backports"; fi
  # shellcheck disable=SC2086
  $sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
    $PACKAGES $catch2 >/dev/null
}

# build_onnx COMPILER CMAKE_ARGUMENT...: builds ONNX once and prints its install prefix.
build_onnx() {
  local key prefix compiler=$1
  shift
  key=onnx-$ONNX_VERSION-$("$compiler" -dumpmachine)-gcc$("$compiler" -dumpversion)-pb$(protoc --version | awk '{print $2}')
  prefix=$CACHE/$key
  if [ ! -f "$prefix/.done" ]; then
    say "building onnx $ONNX_VERSION into $prefix (once, about two minutes)"
    mkdir -p "$CACHE"
    work=$(mktemp -d)
    trap 'rm -rf "${work:-}"' EXIT
    printf 'onnx==%s --hash=sha256:%s\n' "$ONNX_VERSION" "$ONNX_SHA256" >"$work/req.txt"
    python3 -m venv "$work/venv"
    "$work/venv/bin/pip" download -q --no-deps --no-binary onnx --require-hashes -r "$work/req.txt" -d "$work" >&2
    tar -xf "$work/onnx-$ONNX_VERSION.tar.gz" -C "$work"
    local src=$work/onnx-$ONNX_VERSION
    sed -i 's/^cmake_minimum_required(VERSION 3\.26)/cmake_minimum_required(VERSION 3.25)/' "$src/CMakeLists.txt"
    CCACHE_BASEDIR=$work CCACHE_NOHASHDIR=1 cmake -S "$src" -B "$work/b" -G Ninja -Wno-dev -DCMAKE_BUILD_TYPE=Release \
      -DCMAKE_INSTALL_PREFIX="$work/out" -DCMAKE_POSITION_INDEPENDENT_CODE=ON -DONNX_USE_PROTOBUF_SHARED_LIBS=ON \
      -DONNX_USE_UNITY_BUILD=ON -DCMAKE_C_COMPILER_LAUNCHER=ccache -DCMAKE_CXX_COMPILER_LAUNCHER=ccache "$@" >&2
    CCACHE_BASEDIR=$work CCACHE_NOHASHDIR=1 cmake --build "$work/b" >&2
    cmake --install "$work/b" >/dev/null
    mkdir -p "$work/out/include/onnx/inliner" "$work/out/share/onnx"
    cp -n "$src/onnx/inliner/inliner.h" "$work/out/include/onnx/inliner/" || true
    cp -r "$src/onnx/backend/test/data" "$work/out/share/onnx/backend_test_data"
    touch "$work/out/.done"
    rm -rf "$prefix"
    mv -T "$work/out" "$prefix" 2>/dev/null || cp -r "$work/out" "$prefix"
  fi
  echo "$prefix"
}

# Installs the source of llama.cpp's Jinja engine (MIT) next to ONNX's headers. CMakeLists.txt compiles it as part of
# the module data.
fetch_jinja() {
  local to=$1/include/llama-jinja
  [ ! -f "$to/.$LLAMA_CPP_PYTHON_VERSION" ] || return 0
  say "fetching the Jinja engine of llama-cpp-python $LLAMA_CPP_PYTHON_VERSION into $to (once)"
  work=$(mktemp -d)
  trap 'rm -rf "${work:-}"' EXIT
  printf 'llama-cpp-python==%s --hash=sha256:%s\n' "$LLAMA_CPP_PYTHON_VERSION" "$LLAMA_CPP_PYTHON_SHA256" >"$work/req.txt"
  python3 -m venv "$work/venv"
  "$work/venv/bin/pip" download -q --no-deps --no-binary llama-cpp-python --require-hashes -r "$work/req.txt" -d "$work" >&2
  local root=llama_cpp_python-$LLAMA_CPP_PYTHON_VERSION/vendor/llama.cpp
  tar -xf "$work/llama_cpp_python-$LLAMA_CPP_PYTHON_VERSION.tar.gz" -C "$work" "$root/common" "$root/LICENSE"
  rm -rf "$to"
  mkdir -p "$to/jinja"
  cp "$work/$root/LICENSE" "$work/$root"/common/unicode.{h,cpp} "$to/"
  cp "$work/$root"/common/jinja/{lexer,parser,runtime,string,value}.{h,cpp} "$work/$root/common/jinja/utils.h" "$to/jinja/"
  touch "$to/.$LLAMA_CPP_PYTHON_VERSION"
}

# Installs Chromium. Without it, the test `browser` is skipped.
install_browser() {
  local sudo=
  [ "$(id -u)" = 0 ] || sudo=sudo
  # shellcheck disable=SC2086
  command -v chromium >/dev/null ||
    $sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $BROWSER >/dev/null ||
    say "no Chromium: the browser's test will be skipped"
}

[ "${ONNX_AMP_SKIP_APT:-0}" = 1 ] || install_packages
[ "${ONNX_AMP_SKIP_APT:-0}" = 1 ] || [ -z "${BROWSER:-}" ] || install_browser
if [ "${1:-}" = --aarch64 ]; then
  root=$("$here/../packaging/foreign_root.sh" arm64 | tail -1)
  prefix=$(build_onnx aarch64-linux-gnu-g++ -DCMAKE_TOOLCHAIN_FILE="$here/aarch64.cmake" -DONNX_AMP_ROOT="$root")
else
  prefix=$(build_onnx c++)
fi
fetch_jinja "$prefix"
echo "$prefix"
