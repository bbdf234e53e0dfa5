#!/usr/bin/env python3
"""Runs ranks as processes, started with the variables of torchrun or srun or by --gpus. The results must have the bytes of a
run with as many threads in one process. Also checks how the other ranks end if one is lost."""
import argparse, json, os, shutil, signal, subprocess, sys, tempfile, time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "mpi"))
from processes import children_of, ended, environment_without_ranks, free_port
from small_texts import write_texts

parser = argparse.ArgumentParser()
parser.add_argument("--binary", required=True)
parser.add_argument("--model", required=True)
args = parser.parse_args()
args.binary, args.model = os.path.abspath(args.binary), os.path.abspath(args.model)
environment = environment_without_ranks()
work = tempfile.mkdtemp()
write_texts(work)


def has_connection(port):
    """True if a TCP connection to this local port is established (state 01 in /proc/net/tcp)."""
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        if os.path.exists(table):
            with open(table) as file:
                rows = [line.split() for line in file][1:]
            if any(int(row[1].rpartition(":")[2], 16) == port and row[3] == "01" for row in rows):
                return True
    return False


def by_torchrun(rank, size, port):
    return {"RANK": rank, "WORLD_SIZE": size, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}


def by_srun(rank, size, port):  # without MPI; the job's other variables as in a batch script
    return {"SLURM_PROCID": rank, "SLURM_NTASKS": 8, "SLURM_STEP_NUM_TASKS": size, "SLURM_STEP_ID": 0, "SLURM_JOB_ID": os.getpid(),
            "SLURM_STEP_NODELIST": "localhost", "SLURM_LAUNCH_NODE_IPADDR": "192.0.2.1"}


def start(name, variables, *more, cwd=work):
    command = [args.binary, args.model, "--train", "train.csv", "--val", "train.csv", "--vocab", "vocab.txt", "--text_columns", "text",
               "--output_dir", name, "--max_seq_len", "16", "--lr", "1e-3", "--dropout", "0.2", "--device", "cpu", "--use_fp16", "true",
               "--gradient_accumulation_steps", "2", "--eval_batch_size", "8", *more]
    return subprocess.Popen(command, cwd=cwd, env=dict(environment, **{k: str(v) for k, v in variables.items()}), stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, text=True)


def run(name, launcher, size, *more):
    port = free_port()
    results = ended([start(name, launcher(r, size, port), *more) for r in range(size)])
    assert all(code == 0 for code, _, _ in results), results
    return results


def wait_for_steps(name, processes):
    log = f"{work}/{name}/metrics.jsonl"
    deadline = time.time() + 120
    while not (os.path.exists(log) and os.path.getsize(log) > 0):
        assert time.time() < deadline and all(p.poll() is None for p in processes), ended(processes)
        time.sleep(0.1)


def same(a, b, *files):
    for name in files:
        x, y = (open(f"{work}/{run}/{name}", "rb").read() for run in (a, b))
        assert x == y, f"{name} of {a} and of {b} differ"


FILES = ["model.onnx", "eval.jsonl"]
for n in (2, 4):
    more = ["--batch_size", str(8 // n), "--max_steps", "20", "--save_steps", "10"]
    (code, _, err), = ended([start(f"threads{n}", {}, "--ranks", str(n), *more)])
    assert code == 0, err
    results = run(f"tcp{n}", by_torchrun, n, *more)
    same(f"threads{n}", f"tcp{n}", *FILES)
    assert [o.count("model:") for _, o, _ in results] == [1] + [0] * (n - 1), results  # only rank 0 prints
run("srun2", by_srun, 2, "--batch_size", "4", "--max_steps", "20", "--save_steps", "10")
same("threads2", "srun2", *FILES)
# Local SGD, 16-bit arithmetic and an average every third step: threads and processes end in the same model
more = ["--batch_size", "4", "--max_steps", "12", "--sync_every", "3", "--ema_decay", "0.9", "--export_weights", "ema"]
(code, _, err), = ended([start("local_threads", {}, "--ranks", "2", *more)])
assert code == 0, err
run("local_tcp", by_torchrun, 2, *more)
same("local_threads", "local_tcp", *FILES)
(code, _, err), = ended([start("none", {}, "--ranks", "2", *more, "--save_steps", "4")])
assert code == 2 and "--save_steps 4 is no multiple" in err, (code, err)
# torchrun is started by an srun that offers MPI only to torchrun.
run("nested2", lambda rank, size, port: {**by_torchrun(rank, size, port), "PMIX_RANK": 0, "TORCHELASTIC_RUN_ID": "x"}, 2, "--batch_size", "4",
    "--max_steps", "20", "--save_steps", "10")
same("threads2", "nested2", *FILES)
# --gpus starts a rank per GPU; on the CPU, the same number. An error of all ranks is printed once. A stop signal to the parent
# process stops all ranks.
(code, out, err), = ended([start("gpus2", {}, "--gpus", "0,1", "--batch_size", "4", "--max_steps", "20", "--save_steps", "10")])
assert code == 0 and out.count("model:") == 1, (code, out, err)
same("threads2", "gpus2", *FILES)
(code, _, err), = ended([start("none", {}, "--gpus", "0,1", "--train", "nowhere.csv")])
assert code == 2 and err.count('{"id":') == 1, (code, err)
# With --gpus, a machine without GPUs is an error, also with --device auto.
(code, _, err), = ended([start("no_gpus", {"CUDA_VISIBLE_DEVICES": ""}, "--device", "auto", "--gpus", "0,1", "--max_steps", "2")])
assert code == 2 and "E_DEVICE_UNAVAILABLE" in err, (code, err)
process = start("stopped", {}, "--gpus", "0,1", "--max_steps", "100000", "--eval_steps", "1000000")
wait_for_steps("stopped", [process])
process.send_signal(signal.SIGTERM)
(code, _, err), = ended([process])
assert code == 75 and err.count('{"id":') == 1 and "E_STOPPED" in err, (code, err)
process = start("killed", {}, "--gpus", "3,7,9", "--max_steps", "100000", "--eval_steps", "1000000", "--heartbeat", "3")
wait_for_steps("killed", [process])
children = children_of(process.pid)
assert len(children) == 3, children
os.kill(children[2], signal.SIGKILL)
(code, _, err), = ended([process])
assert code == 10 and "rank 2 (host " in err, (code, err)

# The environment of a batch script (one process) does not start ranks; --ranks works in it.
code, _, err = ended([start("batch", {"SLURM_PROCID": 0, "SLURM_NTASKS": 8, "SLURM_JOB_ID": 7}, "--max_steps", "2")])[0]
assert code == 0 and "ranks" not in err, err

# Invalid variables are usage errors, which are reported before ranks connect.
for changed, part in (({"RANK": 3}, "RANK=3 of WORLD_SIZE=2"), ({"MASTER_ADDR": ""}, "no MASTER_ADDR"), ({"MASTER_PORT": "http"}, "MASTER_PORT=http"),
                      ({"RANK": ""}, "no RANK")):
    (code, _, err), = ended([start("none", {**by_torchrun(1, 2, free_port()), **changed})])
    assert code == 2 and part in err and "E_FLAG_VALUE" in err, (changed, code, err)

# Ranks with different settings are refused; the message names the setting.
port = free_port()
results = ended([start("other", by_torchrun(r, 2, port), "--max_steps", "2", "--seed", str(r)) for r in range(2)])
assert all(code == 10 for code, _, _ in results), results
assert "E_RANKS" in results[1][2] and "seed" in results[1][2], results
port = free_port()
results = ended([start("other", by_torchrun(r, 2 + r, port)) for r in range(2)])
assert all(code == 10 and "E_RANKS" in err and "WORLD_SIZE" in err for code, _, err in results), results
(code, _, err), = ended([start("other", by_torchrun(0, 2, free_port()), "--heartbeat", "0.5")])  # rank 1 does not start
assert code == 10 and "E_RANKS" in err and "within 10 s: 1" in err, (code, err)


def lose(lost, how):
    """Sends the signal to one of three ranks during training. Checks messages and exit codes of the others."""
    name, port = f"lost{lost}{how}", free_port()
    processes = [start(name, by_torchrun(r, 3, port), "--max_steps", "100000", "--eval_steps", "1000000", "--heartbeat", "3") for r in range(3)]
    wait_for_steps(name, processes)
    processes[lost].send_signal(how)
    others = ended([p for r, p in enumerate(processes) if r != lost])
    processes[lost].kill()
    processes[lost].communicate()
    told = "".join(err for _, _, err in others)
    assert all(code == 10 for code, _, _ in others), others
    assert told.count("E_RANK_LOST") > 0 and f"rank {lost} (host " in told, told
    sign = "no sign of life" if how == signal.SIGSTOP else "is gone"
    assert sign in told and "at step" in told, told


def lose_at_start(lost):
    """Kills one of two connected ranks while a third one is awaited. The other must end long before the connect timeout
    (20 minutes)."""
    port = free_port()
    processes = [start("none", by_torchrun(r, 3, port), "--heartbeat", "60") for r in range(2)]
    deadline = time.time() + 60
    while not has_connection(port):
        assert time.time() < deadline and all(p.poll() is None for p in processes), ended(processes)
        time.sleep(0.1)
    time.sleep(0.5)  # until the handshake is complete
    processes[lost].kill()
    code, _, err = ended(processes)[1 - lost]
    assert code == 10 and "E_RANK_LOST" in err and f"rank {lost} " in err and "left before all ranks were connected" in err, (code, err)


def stop_one(name, phase_reached, code, said, **more):
    """Sends SIGTERM to the second of two ranks only. Both must end with `code`, and the first one prints the reason."""
    port = free_port()
    processes = [start(name, by_torchrun(r, 2, port), "--batch_size", "4", "--max_steps", "100000", "--eval_steps", "1000000",
                       **(more if r == 1 else {})) for r in range(2)]
    phase_reached(processes)
    processes[1].send_signal(signal.SIGTERM)
    results = ended(processes)
    assert [c for c, _, _ in results] == [code, code], results
    assert ("E_STOPPED" if code == 75 else "E_INTERRUPTED") in results[0][2] and f"stopped by SIGTERM{said}" in results[0][2], results


# During training, all ranks stop after the same step, which is saved. Before training, all end.
stop_one("stopped1", lambda processes: wait_for_steps("stopped1", processes), 75, "; a checkpoint contains all completed work")
(code, _, err), = ended([start("stopped1", {}, "--ranks", "2", "--batch_size", "4", "--max_steps", "100000", "--max_minutes", "0.001",
                               "--eval_steps", "1000000", "--resume", "auto")])
assert code == 75 and "resum" in err, (code, err)
late = tempfile.mkdtemp()
shutil.copy(f"{work}/vocab.txt", late)
with open(f"{work}/train.csv") as few, open(f"{late}/train.csv", "w") as many:  # so that the second rank takes long to read it
    head, *rows = few.readlines()
    many.write(head)
    many.writelines(rows * (80_000_000 // sum(map(len, rows))))
stop_one("stopped2", lambda processes: time.sleep(3), 143, " before its work was done", cwd=late)
shutil.rmtree(late)
for lost in range(2):
    lose_at_start(lost)
lose(1, signal.SIGKILL)
lose(0, signal.SIGKILL)
lose(2, signal.SIGSTOP)
shutil.rmtree(work)
print("ok")
