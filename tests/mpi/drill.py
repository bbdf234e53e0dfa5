#!/usr/bin/env python3
"""Lets a rank fail at a random moment of a run under mpirun: it is killed, stopped or ended, or loses its memory or its
connections.

After each failure the other ranks must end with exit code 10 within the heartbeat and 5 s, and a message must name the rank.
The resumed run must end with the same bytes as an undisturbed one. Exits with 4 if it is skipped, with the reason."""
import argparse, json, os, random, re, shutil, signal, subprocess, sys, tempfile, time

from launcher import ENVIRONMENT, MPIRUN, require
from processes import processes_with
from small_texts import write_texts

parser = argparse.ArgumentParser()
parser.add_argument("--binary", required=True)
parser.add_argument("--model", required=True)
parser.add_argument("--faults", required=True, help="libmpi_faults.so")
parser.add_argument("--trials", type=int, default=40)
parser.add_argument("--seed", type=int, default=1)
parser.add_argument("--ranks", type=int, default=3)
parser.add_argument("--steps", type=int, default=300)
parser.add_argument("--patience", type=float, default=5, help="seconds that the others' end may take; more on a busy machine")
parser.add_argument("--until", type=float, default=1e9, help="faults strike in the first so many seconds of a run")
args = parser.parse_args()
for name in ("binary", "model", "faults"):
    setattr(args, name, os.path.abspath(getattr(args, name)))
    if not os.path.exists(getattr(args, name)):
        sys.exit(f"there is no {getattr(args, name)}")  # a library that cannot be preloaded is ignored
require(args.binary)
HEARTBEAT = 3
RANKS = MPIRUN + ["-np", str(args.ranks)]
environment = ENVIRONMENT
work = tempfile.mkdtemp()
write_texts(work, 48)


def command(name, ranks, *more):
    return [args.binary, args.model, "--train", "train.csv", "--val", "train.csv", "--vocab", "vocab.txt", "--text_columns", "text",
            "--output_dir", name, "--max_seq_len", "16", "--lr", "1e-3", "--dropout", "0.1", "--device", "cpu", "--batch_size", str(12 // ranks),
            "--eval_batch_size", "8", "--max_steps", str(args.steps), "--save_steps", "10", "--eval_steps", "50", "--pad_to_multiple", "16",
            "--heartbeat", str(HEARTBEAT), *more]


def start(name, prefix=(), fault=None):
    """Returns the exit status and end time of each rank, from a file per rank. mpirun returns only the status of the
    first rank that fails."""
    shell = ["sh", "-c", f'"$@"; s=$?; echo $s $(date +%s.%N) > {name}.status.$OMPI_COMM_WORLD_RANK; exit $s', "rank"]
    preload = [f"LD_PRELOAD={args.faults}", "GOMP_SPINCOUNT=1000"] + [f"{k}={v}" for k, v in (fault or {}).items()]
    return subprocess.Popen(RANKS + list(prefix) + shell + ["env"] + preload + command(name, args.ranks), cwd=work, env=environment,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace")


def statuses(name):
    out = {}
    for r in range(args.ranks):
        path = f"{work}/{name}.status.{r}"
        text = open(path).read().split() if os.path.exists(path) else []
        # An incomplete file means that mpirun ended the shell, too.
        out[r] = (int(text[0]), float(text[1])) if len(text) == 2 else (None, None)
    return out


def clear(name):
    shutil.rmtree(f"{work}/{name}", ignore_errors=True)
    for r in range(args.ranks):
        if os.path.exists(f"{work}/{name}.status.{r}"):
            os.remove(f"{work}/{name}.status.{r}")


def end_stopped(name):
    for pid in processes_with(f"output_dir {name} "):
        try:
            if open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()[0] == "T":
                os.kill(pid, signal.SIGKILL)
        except FileNotFoundError:
            pass


def losses(name):
    return [json.loads(line)["loss"] for line in open(f"{work}/{name}/metrics.jsonl")]


before = time.time()
whole = start("whole")
out, err = whole.communicate(timeout=300)
assert whole.returncode == 0, err
length = time.time() - before
subprocess.run(command("alone", 1), cwd=work, env=environment, check=True, capture_output=True)


def distance(name):
    return max(abs(a - b) for a, b in zip(losses(name), losses("whole")))


# Another number of ranks adds in another order. The tolerance is three times the difference between a run with one rank
# and a run with all ranks.
rounding = 3 * distance("alone") + 1e-6
random.seed(args.seed)
kinds = ["kill", "exit", "message", "stop", "memory", "init_kill", "init_stop"]
missed = []
told = {}
longest = {}  # by kind of fault: seconds until the other ranks had ended
trial = 0
while trial < args.trials:
    name, kind, rank = f"run{trial}", kinds[trial % len(kinds)], random.randrange(args.ranks)
    moment = random.uniform(0.1, min(length, args.until)) if kind[:4] != "init" else 0.5  # about when MPI starts
    # If a rank is lost, some launchers end all others; srun does not.
    leaves = trial % 2 == 1
    fault = {"FAULT_KIND": kind, "FAULT_RANK": rank, "FAULT_MS": int(moment * 1000)}
    begin = time.time()
    process = start(name, ["--enable-recovery"] if leaves else [], fault)
    faults = []
    # Only the launcher can end a process that is stopped.
    for limit in [moment + HEARTBEAT + args.patience + 1, moment + 2 * (HEARTBEAT + args.patience)]:
        try:
            out, err = process.communicate(timeout=max(0.1, begin + limit - time.time()))
            break
        except subprocess.TimeoutExpired:
            if "stop" in kind:
                end_stopped(name)
    else:
        process.kill()
        subprocess.run(["pkill", "-9", "-f", f"output_dir {name} "])
        out, err = process.communicate()
        faults.append("hangs")
    ended = statuses(name)
    survivors = [ended[r] for r in range(args.ranks) if r != rank]
    # A lack of memory has an effect only at the next allocation.
    since = max(begin + moment, ended[rank][1] or 0) if kind == "memory" else begin + moment
    took = max([t - since for s, t in survivors if t] or [0])
    # A rank that has written the model does not need the other ranks any more. The launcher may end another rank before
    # that rank prints its message.
    if any(s == 0 for s, t in survivors) and os.path.exists(f"{work}/{name}/model.onnx"):
        clear(name)  # the fault came after the end of the run, so the trial is repeated
        length *= 0.9
        continue
    by_mpi = "MPI_Init_thread" in err  # MPI's initialization ended the ranks
    absent = "did not connect within" in err  # a rank that ended before it connected looks like one that hangs
    in_start = absent or "had started" in err or by_mpi
    if took > HEARTBEAT * ("stop" in kind or absent) + args.patience:
        faults.append(f"took {took:.1f} s")
    by_launcher = ([] if leaves else [None, 143]) + [1] * by_mpi
    if any(s != 10 and s not in by_launcher for s, t in survivors):
        faults.append(f"the others' exit codes {[s for s, t in survivors]}")
    phase = re.search(r"rank (\d+) \(host .*?\) (.*?) at step (\d+), ([a-z ]+)", err)
    if phase:
        key = f"{phase.group(2)} while {phase.group(4)}"
        if int(phase.group(1)) != rank:
            faults.append("another rank is named")
    elif in_start or kind == "memory" and "E_OOM" in err or not os.path.exists(f"{work}/{name}"):
        key = "before the ranks knew each other"
    else:
        key = "nothing told"
        faults.append(key)
    told[key] = told.get(key, 0) + 1
    longest[kind] = max(took, longest.get(kind, 0))
    # The remaining checkpoint must be complete: the run resumes from it, with the same number of ranks or with one.
    again = RANKS + command(name, args.ranks, "--resume", "auto") if trial % 4 < 2 else command(name, 1, "--resume", "auto")
    if not os.path.exists(f"{work}/{name}/model.onnx"):
        r = subprocess.run(again, cwd=work, env=environment, capture_output=True, text=True, timeout=300)
        if r.returncode != 0:
            faults.append(f"cannot be resumed: {r.stderr[-300:]}")
        else:
            if len(losses(name)) != args.steps or distance(name) > rounding:
                faults.append(f"resumed, {len(losses(name))} losses, {distance(name):g} off, {rounding:g} allowed")
            if trial % 4 < 2 and open(f"{work}/{name}/model.onnx", "rb").read() != open(f"{work}/whole/model.onnx", "rb").read():
                faults.append("resumed by as many ranks, another model")
    if faults:
        missed.append(f"trial {trial}: {kind} of rank {rank} after {moment:.2f} s{' (launcher ends nobody)' if leaves else ''}: {'; '.join(faults)}")
        print(missed[-1], flush=True)
        print("   ", ended, "mpirun", process.returncode, err[-900:].replace("\n", "\n    "), flush=True)
    clear(name)
    trial += 1
shutil.rmtree(work)
print(f"{args.trials - len(missed)} of {args.trials} trials right; a run takes {length:.1f} s; told: " +
      ", ".join(f"{n} x {what}" for what, n in sorted(told.items())) + "; the others had ended after at most " +
      ", ".join(f"{s:.1f} s ({kind})" for kind, s in sorted(longest.items())))
sys.exit(1 if missed else 0)
