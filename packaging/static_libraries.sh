#!/usr/bin/env bash
# static_libraries.sh [CMAKE_ARGUMENT...]: builds static libraries that Debian lacks or that a release cannot contain.
# Debian has no static archive of libzip. Its archive of libmicrohttpd needs GnuTLS (reports are served without TLS),
# and its archive of libtiff needs JBIG-KIT, which is under the GPL. Its archives of Protocol Buffers, libpng and
# libjpeg-turbo cannot be linked into a shared library. The sources are Debian's, with its security patches. Prints the
# prefix as its last line. The arguments select another architecture: a toolchain file and its options (release.sh).
# ONNX_AMP_DEPS: cache folder, as in cmake/bootstrap.sh; ONNX_AMP_DEBIAN: Debian's mirror.
set -euo pipefail
cache=${ONNX_AMP_DEPS:-${XDG_CACHE_HOME:-$HOME/.cache}/onnx-amp-finetune}
mirror=${ONNX_AMP_DEBIAN:-http://deb.debian.org/debian}
toolchain=("$@")
compiler=cc host=
case "$*" in *aarch64.cmake*) compiler=aarch64-linux-gnu-gcc host=aarch64-linux-gnu ;; esac
sources=(libzip libmicrohttpd tiff protobuf libpng1.6 libjpeg-turbo)

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/lists/partial"
apt() {
  apt-get -qq -o Dir::Etc::SourceList="$work/sources.list" -o Dir::Etc::SourceParts=/dev/null \
    -o Dir::State::Lists="$work/lists" -o APT::Sandbox::User=root "$@"
}
# fetch ARCHIVE...: fetches the newest versions of the sources from these Debian archives.
fetch() {
  printf "deb-src [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] %s main\n" "$@" >"$work/sources.list"
  apt update >&2 && (cd "$work" && apt --download-only source "${sources[@]}" >&2)
}
fetch "$mirror bookworm" "$mirror bookworm-updates" "${mirror%/debian}/debian-security bookworm-security" || {
  echo "static_libraries.sh: warning: the newest security updates cannot be fetched; those of the last point release are used" >&2
  rm -f "$work"/*.dsc
  fetch "$mirror bookworm"
}
versions=$(cd "$work" && ls ./*.dsc | sort)
prefix=$cache/static-$($compiler -dumpmachine)-$(printf '%s' "$versions" | sha256sum | cut -c1-12)

# archive NAME SOURCE CMAKE_ARGUMENT...: builds a library with CMake and installs its archive, headers and license.
archive() {
  local name=$1 source
  source=$(find "$work" -maxdepth 1 -type d -name "$2-*")
  shift 2
  cmake -S "$source" -B "$work/build-$name" -G Ninja -Wno-dev -DCMAKE_BUILD_TYPE=Release -DCMAKE_INSTALL_PREFIX="$prefix" \
    -DCMAKE_INSTALL_LIBDIR:STRING=lib -DBUILD_SHARED_LIBS=OFF -DCMAKE_POSITION_INDEPENDENT_CODE=ON \
    -DCMAKE_PREFIX_PATH="$prefix" "${toolchain[@]}" "$@" >&2
  cmake --build "$work/build-$name" >&2
  cmake --install "$work/build-$name" >/dev/null
  cp "$source/debian/copyright" "$prefix/licenses/$name.txt"
}

if [ ! -f "$prefix/.done" ]; then
  rm -rf "$prefix"
  mkdir -p "$prefix/licenses"
  # --no-check, because apt has already checked the signatures.
  for dsc in "$work"/*.dsc; do (cd "$work" && dpkg-source --no-check -x "$dsc" >&2); done
  archive libzip libzip -DENABLE_BZIP2=OFF -DENABLE_LZMA=OFF -DENABLE_ZSTD=OFF -DENABLE_COMMONCRYPTO=OFF -DENABLE_GNUTLS=OFF \
    -DENABLE_MBEDTLS=OFF -DENABLE_OPENSSL=OFF -DBUILD_TOOLS=OFF -DBUILD_REGRESS=OFF -DBUILD_EXAMPLES=OFF -DBUILD_DOC=OFF
  archive libprotobuf protobuf -Dprotobuf_BUILD_TESTS=OFF -Dprotobuf_BUILD_PROTOC_BINARIES=OFF -Dprotobuf_BUILD_LIBPROTOC=OFF
  archive libpng libpng1.6 -DPNG_SHARED=OFF -DPNG_TESTS=OFF
  archive libjpeg libjpeg-turbo -DENABLE_SHARED=OFF -DREQUIRE_SIMD=ON -DWITH_TURBOJPEG=OFF
  archive libtiff tiff -Djbig=OFF -Dlerc=OFF -Dcxx=OFF -Dtiff-tools=OFF -Dtiff-tests=OFF -Dtiff-contrib=OFF -Dtiff-docs=OFF
  source=$(find "$work" -maxdepth 1 -type d -name 'libmicrohttpd-*')
  (cd "$source" && ./configure ${host:+--host="$host"} --prefix="$prefix" --disable-shared --with-pic --disable-https --disable-doc \
    --disable-examples --disable-curl --disable-dauth --disable-postprocessor >&2 && make -s -j"$(nproc)" >&2 && make -s install >&2)
  cp "$source/COPYING" "$prefix/licenses/libmicrohttpd.txt"
  rm -rf "$prefix/lib/cmake"  # otherwise CMake would find these packages instead of Debian's, with other headers
  touch "$prefix/.done"
fi
echo "$versions" | sed 's/^/static_libraries.sh: /' >&2
echo "$prefix"
