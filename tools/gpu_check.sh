#!/usr/bin/env bash
# Proof on a GPU, in slices that each end within 10 minutes:
#   tools/gpu_check.sh correctness|train|sanitize|bench [CASE...]|all
# correctness: every operator, the zoo, the update and repeats on the device (test_cuda [gpu]); train: fine-tunes on CPU and GPU in
# fp32, fp16 and bf16, losses side by side, model.onnx twice the same bytes; sanitize: compute-sanitizer where it is;
# bench: bench/gpu.py, cases (mlp lenet minilm unet tweets bert_b32 bert_b128) or all. A bench that says "unfinished" goes on
# when it is called again.
# Uses the bundle that it lies in (tools/gpu_bundle.sh), else builds. Each slice adds to gpu-DATE.json and gpu-DATE.md in
# docs/results (in $OUT when that is set). Ends with 1 when anything failed.
set -uo pipefail
cd "$(dirname "$0")/.."
slice=${1:-}
case $slice in correctness | train | sanitize | bench | all) shift ;; *) sed -n '2,10s/^# \{0,1\}//p' "$0"; exit 2 ;; esac

if [ -x bin/test_cuda ]; then  # a bundle
  bin=$PWD/bin
  export ONNX_AMP_TEST_DATA=$PWD/tests/data
  # CUDA's libraries: a toolkit's, or those that came with PyTorch.
  torch=$(python3 -c 'import glob, os, torch; print(":".join(glob.glob(os.path.join(os.path.dirname(torch.__path__[0]), "nvidia", "*", "lib"))))' 2>/dev/null || true)
  ours=$PWD/lib:/usr/local/cuda/lib64:$torch:${LD_LIBRARY_PATH:-}
else
  prefix=$(./cmake/bootstrap.sh | tail -1) || exit 1
  cmake --preset release -DCMAKE_PREFIX_PATH="$prefix" -DONNX_AMP_CUDA=ON >/dev/null && cmake --build build -t test_cuda onnx-amp-finetune cuda_plugin || exit 1
  mkdir -p build/gpu_check && ln -sf ../tests/test_cuda ../onnx-amp-finetune ../libonnx_amp_cuda.so build/gpu_check/
  bin=$PWD/build/gpu_check
  ours=${LD_LIBRARY_PATH:-}
fi
program=$bin/onnx-amp-finetune
ours() { LD_LIBRARY_PATH=$ours "$@"; }

gpu=${GPU_CHECK_DEVICE:-cuda}  # cpu: to try this script where there is no GPU
results=${OUT:-docs/results}
mkdir -p "$results"
work=$(mktemp -d)
# What later calls go on with: unfinished benches, compiled code. Not in $results: the next call may find another folder there.
state=${GPU_CHECK_STATE:-$([ -x bin/test_cuda ] && echo "$PWD/state" || echo "$PWD/build/gpu_check/state")}
mkdir -p "$state"
export TORCHINDUCTOR_CACHE_DIR=${TORCHINDUCTOR_CACHE_DIR:-$state/inductor}
export XDG_CACHE_HOME=${XDG_CACHE_HOME:-$state/cache}  # where choices of algorithms are kept: the same for all runs
mkdir -p "$XDG_CACHE_HOME"
trap 'rm -rf "$work"' EXIT
report=$results/gpu-$(date -u +%Y-%m-%d)
failed=0
# note SLICE NAME ok|failed|skipped|unfinished TEXT
note() {
  printf '%s\t%s\t%s\t%s\n' "$1" "$2" "$3" "$4" >>"$work/notes.tsv"
  echo "$1 $2: $3 $4"
  [ "$3" != failed ] || failed=1
}
# tests SLICE NAME SECONDS COMMAND...: test_cuda must run tests, and skip none
tests() {
  local slice=$1 name=$2 limit=$3 rc=0 last
  shift 3
  LD_LIBRARY_PATH=$ours timeout "$limit" "$@" >"$work/log" 2>&1 || rc=$?
  last=$(grep -E '^(test cases|All tests)' "$work/log" | tail -1)
  if [ $rc = 0 ] && [ -n "$last" ] && ! grep -q SKIPPED "$work/log"; then
    note "$slice" "$name" ok "$last"
  else
    tail -60 "$work/log"
    note "$slice" "$name" failed "exit $rc; ${last:-it did not end}; $(grep -m1 -A3 -E 'SKIPPED|FAILED|ERROR SUMMARY: [1-9]' "$work/log" | tr '\n' ' ')"
  fi
}

correctness() {
  tests correctness kernels 240 "$bin/test_cuda" "GPU: kernels agree with the CPU's"
  tests correctness update 60 "$bin/test_cuda" "GPU: the update is the CPU's"
  tests correctness zoo 120 "$bin/test_cuda" "GPU: models agree with PyTorch"
  tests correctness repeats 120 "$bin/test_cuda" "GPU: the same bits in every run and without CUDA graphs"
  tests correctness memory 30 "$bin/test_cuda" "GPU: memory comes back"
}

# finetune ENTRY DEVICE FOLDER FLAGS...
finetune() {
  local entry=tests/data/zoo/$1 device=$2 folder=$3
  shift 3
  ours timeout 60 "$program" "$entry/model.onnx" --train "$entry/batch.safetensors" --loss cross_entropy --device "$device" --no_shuffle \
    --epochs 200 --max_steps 200 --lr 1e-3 --weight_decay 0.01 --dropout 0 --output_dir "$work/$folder" --overwrite --quiet >"$work/log" 2>&1
}
train() {
  local entry precision flags name
  for entry in bert_cls_eager_ts14 lenet_relu_dyn18; do
    for precision in fp32 fp16 bf16; do
      name=$entry-$precision
      flags=$([ $precision = fp32 ] || echo "--use_$precision")
      if finetune $entry cpu "$name-cpu" $flags && finetune $entry "$gpu" "$name-gpu" $flags && finetune $entry "$gpu" "$name-again" $flags; then
        if said=$(python3 tools/gpu_report.py curves "$work/$name-cpu/metrics.jsonl" "$work/$name-gpu/metrics.jsonl" --precision $precision); then
          note train "$name losses" ok "$said"
        else
          note train "$name losses" failed "$said"
        fi
        if cmp -s "$work/$name-gpu/model.onnx" "$work/$name-again/model.onnx"; then
          note train "$name repeats" ok "model.onnx twice the same bytes"
        else
          note train "$name repeats" failed "model.onnx differs between two runs"
        fi
      else
        note train "$name" failed "$(tail -3 "$work/log" | tr '\n' ' ')"
      fi
    done
  done
}

# sanitized TOOL OPERATOR: no error may be found. Instrumented kernels are 20 to 50 times slower: what does not end in its time is
# noted with what it found until then.
sanitized() {
  local rc=0 found last
  [ $((SECONDS - began)) -lt 490 ] || { note sanitize "$1 $2" skipped "no time was left in this slice"; return; }
  LD_LIBRARY_PATH=$ours timeout -k 5 50 "$sanitizer" --tool "$1" "${only[@]}" --error-exitcode 9 "$bin/test_cuda" "GPU: kernels agree with the CPU's" -c "$2" >"$work/log" 2>&1 || rc=$?
  found=$(grep -cE '^=+ (Error|Invalid|Misaligned|Race|Hazard|Out-of-range|Program hit)|^=+ .*(Invalid __|Potential|hazard)' "$work/log")
  last=$(grep -E '^(test cases|All tests)' "$work/log" | tail -1)
  if grep -q SKIPPED "$work/log"; then
    note sanitize "$1 $2" failed "the test was skipped: $(grep -m1 -A2 SKIPPED "$work/log" | tr '\n' ' ')"
  elif [ "$found" != 0 ] || [ $rc = 9 ]; then
    grep -E '^=====' "$work/log" | head -40
    note sanitize "$1 $2" failed "$found lines of errors; $(grep -m1 -E '^=+ (Invalid|Error|Race|Hazard|Program hit)' "$work/log")"
  elif [ $rc = 124 ] || [ $rc = 137 ]; then
    note sanitize "$1 $2" unfinished "no error in its 50 s; it did not end"
  elif [ $rc = 0 ] && [ -n "$last" ]; then
    note sanitize "$1 $2" ok "$last"
  else
    tail -30 "$work/log"
    note sanitize "$1 $2" failed "exit $rc; ${last:-no test ran}"
  fi
}
sanitize() {
  local op tool began=$SECONDS
  sanitizer=${SANITIZER:-compute-sanitizer}
  command -v "$sanitizer" >/dev/null || sanitizer=/usr/local/cuda/bin/compute-sanitizer
  if ! command -v "$sanitizer" >/dev/null; then
    note sanitize compute-sanitizer skipped "there is none on this machine"
    return
  fi
  only=()  # the project's kernels, not the libraries'
  for op in --kernel-name --filter; do
    if [ ${#only[@]} = 0 ] && "$sanitizer" --help 2>/dev/null | grep -q -e "$op"; then only=("$op" kns=3amp4cuda); fi
  done
  # Few and small, by what can go wrong in them: shared memory, rows cut over blocks, sorting, scatters, tiles.
  for op in Softmax ScatterElementsAdd LayerNorm ReduceSum Transpose; do
    for tool in racecheck memcheck; do sanitized $tool $op; done
  done
}

# Each call goes on where the last one stopped: a case of many arms takes several.
bench() {
  # A wrapper, so that Python itself does not see the bundle's libraries.
  printf '#!/bin/sh\nLD_LIBRARY_PATH="%s" exec "%s" "$@"\n' "$ours" "$program" >"$work/program"
  chmod +x "$work/program"
  local case rc began=$SECONDS left
  for case in ${*:-mlp lenet minilm unet tweets bert_b32 bert_b128}; do
    left=$((${BENCH_SECONDS:-540} - SECONDS + began))
    if [ $left -lt 60 ]; then
      note bench "$case" unfinished "no time was left in this slice: call it again"
      continue
    fi
    rc=0
    timeout $((left + 45)) "${PYTHON:-python3}" bench/gpu.py --device "$gpu" --binary "$work/program" --program "$program" --cases "$case" --seconds $((left - 15)) \
      --out "$state/bench-$case.json" ${BENCH_FLAGS:-} >"$work/bench-$case.md" 2>"$work/log" || rc=$?
    case $rc in
      0) note bench "$case" ok "losses agree with PyTorch's" ;;
      75 | 124) note bench "$case" unfinished "time is up: call it again" ;;
      *) note bench "$case" failed "exit $rc; $(tail -3 "$work/log" | tr '\n' ' ')" ;;
    esac
    [ ! -f "$state/bench-$case.json" ] || cp "$state/bench-$case.json" "$work/"
    cat "$work/bench-$case.md"
  done
}

ours "$program" version
nvidia-smi --query-gpu=name,driver_version,memory.total,clocks.sm,temperature.gpu --format=csv 2>/dev/null || echo "there is no nvidia-smi: no driver?"
case $slice in
  all) correctness; train; sanitize; bench "$@" ;;
  *) "$slice" "$@" ;;
esac
python3 tools/gpu_report.py write "$report" "$work" "$(cat commit 2>/dev/null || git describe --always --dirty)" || failed=1
exit $failed
