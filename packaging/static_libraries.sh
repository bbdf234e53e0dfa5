#!/usr/bin/env bash
# static_libraries.sh: builds the libraries of which Debian has no static archive that a release may contain: libzip's is
# missing, libmicrohttpd's needs GnuTLS (reports are served without TLS), libtiff's needs JBIG-KIT, which is under the GPL,
# and that of Protocol Buffers cannot be linked into a shared library. Prints the prefix as its last line.
# ONNX_AMP_DEPS: cache folder, as in cmake/bootstrap.sh.
set -euo pipefail
LIBZIP=libzip_1.7.3
LIBZIP_SHA256=a60473ffdb7b4260c08bfa19c2ccea0438edac11193c3afbbb1f17fbcf6c6132
MICROHTTPD=libmicrohttpd_0.9.75
MICROHTTPD_SHA256=796e7e217a4802679fcac667a4e98501c53185dcf50ca0583870e84192620131
TIFF=tiff_4.5.0
TIFF_SHA256=638f43d7dea33948d5dee7f39572fc0194d9cc3c74195de9dd26a4388a1f880a
PROTOBUF=protobuf_3.21.12  # the version of Debian 12, whose headers and compiler are used
PROTOBUF_SHA256=930c2c3b5ecc6c9c12615cf5ad93f1cd6e12d0aba862b572e076259970ac3a53
cache=${ONNX_AMP_DEPS:-${XDG_CACHE_HOME:-$HOME/.cache}/onnx-amp-finetune}
mirror=${ONNX_AMP_DEBIAN:-http://deb.debian.org/debian}
prefix=$cache/static-$(c++ -dumpmachine)-$LIBZIP-$MICROHTTPD-$TIFF-$PROTOBUF

# source_of NAME FOLDER SHA256 [KIND]: fetches and unpacks Debian's copy of the original sources.
source_of() {
  local file=$work/$1.tar
  curl -fsSL --retry 3 -o "$file" "$mirror/pool/main/$2/$1.orig.tar.${4:-xz}"
  echo "$3  $file" | sha256sum --check --quiet >&2
  mkdir "$work/$1"
  tar -xf "$file" -C "$work/$1" --strip-components=1
}

if [ ! -f "$prefix/.done" ]; then
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
  rm -rf "$prefix"
  source_of $LIBZIP libz/libzip $LIBZIP_SHA256
  cmake -S "$work/$LIBZIP" -B "$work/zip" -G Ninja -Wno-dev -DCMAKE_BUILD_TYPE=Release -DCMAKE_INSTALL_PREFIX="$prefix" \
    -DCMAKE_INSTALL_LIBDIR=lib -DBUILD_SHARED_LIBS=OFF -DCMAKE_POSITION_INDEPENDENT_CODE=ON -DENABLE_BZIP2=OFF \
    -DENABLE_LZMA=OFF -DENABLE_ZSTD=OFF -DENABLE_COMMONCRYPTO=OFF -DENABLE_GNUTLS=OFF -DENABLE_MBEDTLS=OFF \
    -DENABLE_OPENSSL=OFF -DBUILD_TOOLS=OFF -DBUILD_REGRESS=OFF -DBUILD_EXAMPLES=OFF -DBUILD_DOC=OFF >&2
  cmake --build "$work/zip" >&2
  cmake --install "$work/zip" >/dev/null
  source_of $TIFF t/tiff $TIFF_SHA256 bz2
  cmake -S "$work/$TIFF" -B "$work/tiff" -G Ninja -Wno-dev -DCMAKE_BUILD_TYPE=Release -DCMAKE_INSTALL_PREFIX="$prefix" \
    -DCMAKE_INSTALL_LIBDIR=lib -DBUILD_SHARED_LIBS=OFF -DCMAKE_POSITION_INDEPENDENT_CODE=ON -Djbig=OFF -Dlerc=OFF \
    -Dcxx=OFF -Dtiff-tools=OFF -Dtiff-tests=OFF -Dtiff-contrib=OFF -Dtiff-docs=OFF >&2
  cmake --build "$work/tiff" >&2
  cmake --install "$work/tiff" >/dev/null
  mkdir -p "$prefix/licenses"
  cp "$work/$TIFF/LICENSE.md" "$prefix/licenses/libtiff.txt"
  cp "$work/$LIBZIP/LICENSE" "$prefix/licenses/libzip.txt"
  source_of $PROTOBUF p/protobuf $PROTOBUF_SHA256 gz
  cmake -S "$work/$PROTOBUF" -B "$work/protobuf" -G Ninja -Wno-dev -DCMAKE_BUILD_TYPE=Release -DCMAKE_INSTALL_PREFIX="$prefix" \
    -DCMAKE_INSTALL_LIBDIR=lib -DBUILD_SHARED_LIBS=OFF -DCMAKE_POSITION_INDEPENDENT_CODE=ON -Dprotobuf_BUILD_TESTS=OFF \
    -Dprotobuf_BUILD_PROTOC_BINARIES=OFF -Dprotobuf_BUILD_LIBPROTOC=OFF >&2
  cmake --build "$work/protobuf" --target libprotobuf >&2
  cp "$work"/protobuf/libprotobuf.a "$prefix/lib/"
  cp "$work/$PROTOBUF/LICENSE" "$prefix/licenses/libprotobuf.txt"
  source_of $MICROHTTPD libm/libmicrohttpd $MICROHTTPD_SHA256
  (cd "$work/$MICROHTTPD" && ./configure --prefix="$prefix" --disable-shared --with-pic --disable-https --disable-doc \
    --disable-examples --disable-curl --disable-dauth --disable-postprocessor >&2 && make -s -j"$(nproc)" >&2 && make -s install >&2)
  cp "$work/$MICROHTTPD/COPYING" "$prefix/licenses/libmicrohttpd.txt"
  touch "$prefix/.done"
fi
echo "$prefix"
