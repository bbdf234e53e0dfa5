#!/usr/bin/env python3
"""LeNet on Fashion-MNIST with one and with two ranks: the program under mpirun against PyTorch's
DistributedDataParallel on gloo. Both use the same batches of 256, SGD at 0.2, one thread per
rank. Prints test accuracy, seconds per epoch, and the parallel efficiency of two ranks.

    python3 bench/ddp_lenet.py --data DIR_OF_FASHION_MNIST [--epochs 10] [--binary build/onnx-amp-finetune]

Needs torch and numpy; openmpi-bin. Both sides load all data into memory before timing starts.
"""
import argparse, gzip, json, os, subprocess, sys, tempfile, time

import numpy as np
import torch
import torch.distributed as dist

parser = argparse.ArgumentParser()
parser.add_argument("--data", required=True)
parser.add_argument("--epochs", type=int, default=10)
parser.add_argument("--binary", default="build/onnx-amp-finetune")
parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
args = parser.parse_args()


def idx(name, offset):
    with gzip.open(f"{args.data}/{name}", "rb") as f:
        return np.frombuffer(f.read(), np.uint8, offset=offset)


def worker():
    """One rank of PyTorch, with torchrun's environment."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank, size = dist.get_rank(), dist.get_world_size()
    x = torch.from_numpy(idx("train-images-idx3-ubyte.gz", 16).reshape(-1, 1, 28, 28).astype(np.float32) / 255)
    y = torch.from_numpy(idx("train-labels-idx1-ubyte.gz", 8).astype(np.int64))
    vx = torch.from_numpy(idx("t10k-images-idx3-ubyte.gz", 16).reshape(-1, 1, 28, 28).astype(np.float32) / 255)
    vy = torch.from_numpy(idx("t10k-labels-idx1-ubyte.gz", 8).astype(np.int64))
    torch.manual_seed(1)
    nn = torch.nn
    net = nn.Sequential(nn.Conv2d(1, 20, 3), nn.ReLU(), nn.AvgPool2d(2), nn.Conv2d(20, 50, 5), nn.ReLU(), nn.AvgPool2d(2), nn.Flatten(),
                        nn.Linear(800, 128), nn.ReLU(), nn.Linear(128, 10))
    model = nn.parallel.DistributedDataParallel(net) if size > 1 else net
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2)
    batch = 256 // size
    seconds = []
    for epoch in range(args.epochs):
        order = torch.randperm(len(x), generator=torch.Generator().manual_seed(epoch))
        begin = time.perf_counter()
        for at in range(0, len(x) - 255, 256):
            rows = order[at + rank * batch : at + (rank + 1) * batch]
            optimizer.zero_grad(set_to_none=True)
            nn.functional.cross_entropy(model(x[rows]), y[rows]).backward()
            optimizer.step()
        seconds.append(time.perf_counter() - begin)
    with torch.no_grad():
        right = sum((net(vx[i : i + 1000]).argmax(1) == vy[i : i + 1000]).sum().item() for i in range(0, len(vx), 1000))
    if rank == 0:
        print(json.dumps({"accuracy": right / len(vx), "seconds": seconds}))
    dist.destroy_process_group()


def torch_ranks(size):
    environment = dict(os.environ, MASTER_ADDR="127.0.0.1", MASTER_PORT="29531", WORLD_SIZE=str(size), OMP_NUM_THREADS="1")
    ranks = [subprocess.Popen([sys.executable, __file__, "--worker", "--data", args.data, "--epochs", str(args.epochs)],
                              env=dict(environment, RANK=str(r)), stdout=subprocess.PIPE, text=True) for r in range(size)]
    outputs = [r.communicate()[0] for r in ranks]
    return json.loads(outputs[0].strip().splitlines()[-1])


def our_ranks(size, folder):
    root = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
    model, out = f"{folder}/lenet.onnx", f"{folder}/ranks{size}"
    if not os.path.exists(model):
        subprocess.run([args.binary, "create", "lenet", "--model_config", f"{root}/models/lenet/model.json", "--out", model], check=True,
                       capture_output=True)
    mpirun = ["mpirun", "--oversubscribe", "--allow-run-as-root", "--bind-to", "none", "-np", str(size)] if size > 1 else []
    subprocess.run(mpirun + [args.binary, model, "--config", f"{root}/models/lenet/config.json", "--train",
                             f"{args.data}/train-images-idx3-ubyte.gz", "--val", f"{args.data}/t10k-images-idx3-ubyte.gz", "--batch_size",
                             str(256 // size), "--epochs", str(args.epochs), "--threads", "1", "--output_dir", out, "--overwrite"],
                   check=True, capture_output=True, env=dict(os.environ, OMP_WAIT_POLICY="passive"))
    lines = [json.loads(line) for line in open(f"{out}/metrics.jsonl")]
    per_epoch = len(lines) / args.epochs
    seconds = [0.0] * args.epochs
    for i, line in enumerate(lines):
        seconds[min(int(i / per_epoch), args.epochs - 1)] += 256 / line["samples_per_s"]
    accuracy = [json.loads(line) for line in open(f"{out}/eval.jsonl")][-1]["accuracy"]
    return {"accuracy": accuracy, "seconds": seconds}


if args.worker:
    worker()
    sys.exit()
with tempfile.TemporaryDirectory() as folder:
    results = {}
    for size in (1, 2):
        results["ours", size] = our_ranks(size, folder)
        results["torch", size] = torch_ranks(size)
print(f"load {os.getloadavg()[0]:.1f}, {os.cpu_count()} CPUs, {args.epochs} epochs; seconds of an epoch: the median")
for who in ("ours", "torch"):
    one, two = (float(np.median(results[who, n]["seconds"])) for n in (1, 2))
    print(f"{who:6} one rank: accuracy {results[who, 1]['accuracy']:.4f}, {one:.2f} s; two: accuracy {results[who, 2]['accuracy']:.4f}, "
          f"{two:.2f} s; efficiency {one / two / 2:.2f}")
