#!/usr/bin/env bash
# check.sh DIST: installs the artifacts in DIST in empty roots of Debian and Ubuntu, and trains there. Needs root. Tests
# the tarball, the wheel and the Debian package in each suite of ONNX_AMP_SUITES (default: bullseye bookworm trixie
# jammy). The quickstart's run must reach an accuracy of 0.6 (README.md: 0.69 after one epoch of all data). Prints
# seconds per step.
set -euo pipefail
dist=$(realpath "$1")
cd "$(dirname "$0")/.."
mirror=${ONNX_AMP_DEBIAN:-http://deb.debian.org/debian}
model=$(./cmake/fetch_minilm.sh | tail -1)
work=$(mktemp -d)
trap 'rm -rf --one-file-system "$work"' EXIT
now() { date +%s.%N; }
spent() { awk -v a="$1" -v b="$(now)" 'BEGIN { printf "%.1f s", b - a }'; }
inside() { chroot "$root" /usr/bin/env -i HOME=/root LANG=C.UTF-8 PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin "$@"; }
# empty_root SUITE FOLDER: makes a root with a minimal system of the suite. Ubuntu's signatures are
# checked only if Debian's package ubuntu-archive-keyring is installed.
empty_root() {
  local from=$mirror components=main
  case $1 in jammy | noble) from=${ONNX_AMP_UBUNTU:-http://archive.ubuntu.com/ubuntu} components=main,universe ;; esac
  debootstrap --variant=minbase --components=$components --include=ca-certificates,python3-numpy,python3-venv "$1" "$2" "$from"
}

for suite in ${ONNX_AMP_SUITES:-bullseye bookworm trixie jammy}; do
  root=$work/$suite
  empty_root "$suite" "$root" >"$work/log" 2>&1 || { tail -5 "$work/log"; exit 1; }
  for f in /etc/resolv.conf /etc/pip.conf; do [ ! -f "$f" ] || cp "$f" "$root$f"; done
  mkdir -p "$root/job"
  cp "$dist"/*.tar.gz "$dist"/*.whl "$dist"/*.deb "$root/job/"
  cp -r models/tweet_sentiment "$root/job/data"
  cp "$model" "$root/job/model.onnx"
  cp python/example.py tests/data/zoo/lenet_relu_dyn18/model.onnx "$root/job/data/"
  echo "$suite: $(chroot "$root" /bin/sh -c 'ldd --version | head -1')"

  start=$(now)
  inside sh -c 'mkdir /opt/tar && tar -xzf /job/*.tar.gz -C /opt/tar --strip-components=1'
  echo "  tarball installed in $(spent "$start")"
  if inside sh -c 'ldd /opt/tar/bin/onnx-amp-finetune /opt/tar/lib/libonnx_amp.so.1' | grep 'not found'; then exit 1; fi
  start=$(now)
  inside sh -c 'cd /job && python3 -m venv --system-site-packages /opt/venv && /opt/venv/bin/pip install -q --no-deps *.whl'
  echo "  wheel installed in $(spent "$start")"
  start=$(now)
  inside sh -c 'apt-get -qq update && DEBIAN_FRONTEND=noninteractive apt-get -qq install -y /job/*.deb >/dev/null'
  echo "  Debian package installed in $(spent "$start")"

  for program in /opt/tar/bin/onnx-amp-finetune /opt/venv/bin/onnx-amp-finetune /usr/bin/onnx-amp-finetune; do
    [ "$(inside "$program" version)" = "$(inside /opt/tar/bin/onnx-amp-finetune version)" ] || { echo "$program is another program"; exit 1; }
  done
  start=$(now)
  inside sh -c 'cd /job && /opt/venv/bin/onnx-amp-finetune model.onnx --use_fp16 --train data/train.csv --val data/dev.csv \
    --vocab data/vocab.txt --text_columns text --label_column sentiment --batch_size 32 --lr 1e-4 --epochs 1 \
    --warmup_steps 0.1 --weight_decay 0.01 --require "accuracy>=0.6" --quiet --output_dir run'
  echo "  trained in $(spent "$start"); $(grep -o '"accuracy": *[0-9.]*' "$root/job/run/run.json" | tail -1)"
  inside sh -c 'cd /job/data && /opt/venv/bin/python example.py model.onnx >/dev/null'
  echo "  Python example: ok"
done
