#!/usr/bin/env python3
"""Measures the speed of reading with one thread: of tables, until their rows are in memory, compared with
pandas.read_csv (both engines) and pyarrow.csv; of a folder of many small images, compared with torchvision's
ImageFolder and DataLoader.

    bench/reading_speed.py --tables build/table_speed --binary build/onnx-amp-finetune --out docs/results/reading-DATE.json

The tables have 9 columns of which the first 6 are numbers, as Rossmann's sales, or a text and a label. Every reading is a
new process; the program and the libraries take turns, and the median of the rounds is reported. Processor seconds are
those of all threads and worker processes. pandas and pyarrow convert the cells to numbers as they read. The program
keeps texts, so its time to numbers (guess of the columns, 13 parts of the date, statistics, codes; table_speed.cc) is
measured once, separately.

Images: PNGs of 32 x 32 in two class folders. `start` is the whole time of a training run of one step, or for torchvision
from the ImageFolder to the first batch; importing torch is listed separately. Throughput is that of `eval` and of the
DataLoader, with two threads or workers. Needs: pip install pandas pyarrow torch torchvision onnx.
"""

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import time
from importlib import metadata
from pathlib import Path

import common

PARTS = ("sales", "numbers", "texts", "images")
HEADER = '"Store","DayOfWeek","Date","Sales","Customers","Open","Promo","StateHoliday","SchoolHoliday"\n'
ENV = dict(os.environ, OMP_NUM_THREADS="1", OMP_WAIT_POLICY="passive")


def write_sales(path, megabytes, stores=1115):
    """Writes a table with Rossmann's columns, types and quotes, sorted by date."""
    import numpy as np

    rng, size, day = np.random.default_rng(1), 0, np.datetime64("1990-01-01")
    with open(path, "w") as file:
        size += file.write(HEADER)
        while size < megabytes * 1e6:
            sales, customers = rng.integers(0, 20000, stores).tolist(), rng.integers(0, 2000, stores).tolist()
            week, promo, holiday = (day - np.datetime64("1990-01-01")).astype(int) % 7 + 1, int(rng.integers(2)), "0a"[int(rng.integers(9)) == 0]
            size += file.write("".join(f'{s},{week},"{day}",{sales[s - 1]},{customers[s - 1]},{int(week < 7)},{promo},"{holiday}","{promo}"\n'
                                       for s in range(1, stores + 1)))  # fmt: skip
            day += 1


def write_texts(path, megabytes):
    """Writes tweets with labels, repeated until the file has the size."""
    tweets = common.read_tweets(common.TWEETS / "train.csv")
    common.write_tweets(path, tweets)
    lines = Path(path).read_text().split("\n", 1)
    repeats = int(megabytes * 1e6 / len(lines[1].encode()))
    Path(path).write_text(lines[0] + "\n" + lines[1] * max(1, repeats))


def write_images(folder, count):
    import numpy as np
    from PIL import Image

    rng = np.random.default_rng(1)
    for i in range(count):
        path = Path(folder) / "ab"[i % 2]
        path.mkdir(parents=True, exist_ok=True)
        Image.fromarray(rng.integers(0, 256, (32, 32, 3), dtype=np.uint8)).save(path / f"{i:05}.png")


# --- processes of other libraries -----------------------------------------------------------------------------------


def processor_seconds():
    used = [resource.getrusage(w) for w in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(u.ru_utime + u.ru_stime for u in used)


def worker_table(reader, path):
    import pandas
    import pyarrow
    import pyarrow.csv

    pyarrow.set_cpu_count(1)
    pyarrow.set_io_thread_count(1)
    read = {"pandas": lambda: pandas.read_csv(path), "pandas_pyarrow": lambda: pandas.read_csv(path, engine="pyarrow"),
            "pyarrow": lambda: pyarrow.csv.read_csv(path, pyarrow.csv.ReadOptions(use_threads=False))}[reader]  # fmt: skip
    begin, processor = time.perf_counter(), processor_seconds()
    table = read()
    print(json.dumps({"wall": time.perf_counter() - begin, "processor": processor_seconds() - processor,
                      "rows": len(table), "peak": common.peak_bytes()}))  # fmt: skip


def worker_images(folder):
    begin = time.perf_counter()
    import torch
    import torchvision.transforms as T
    from torchvision.datasets import ImageFolder

    imported, processor = time.perf_counter(), processor_seconds()
    transform = T.Compose([T.ToTensor(), T.Normalize((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))])
    loader = torch.utils.data.DataLoader(ImageFolder(folder, transform), batch_size=32, num_workers=2, shuffle=True)
    batches, count = iter(loader), 0
    next(batches)
    first, start_processor = time.perf_counter(), processor_seconds()
    for x, _ in batches:
        count += len(x)
    wall = time.perf_counter() - first
    del batches, loader  # ends the workers, so that their time is known
    print(json.dumps({"import": imported - begin, "start": first - imported, "start_processor": start_processor - processor,
                      "per_second": count / wall, "processor_ms": 1e3 * (processor_seconds() - processor) / (count + 32)}))  # fmt: skip


def worker(*words):
    done = subprocess.run([sys.executable, __file__, "--worker", *map(str, words)], env=ENV, stdout=subprocess.PIPE, check=True)
    return json.loads(done.stdout)


def timed(command, env=ENV):
    """Runs a command. Returns its standard output, wall and processor seconds, peak memory in bytes."""
    begin = time.perf_counter()
    process = subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=env, text=True)
    out = process.stdout.read()
    _, status, used = os.wait4(process.pid, 0)
    if os.waitstatus_to_exitcode(status):
        raise SystemExit(f"{' '.join(map(str, command))} failed")
    return out, time.perf_counter() - begin, used.ru_utime + used.ru_stime, used.ru_maxrss * 1024


# --- the program ----------------------------------------------------------------------------------------------------


def ours_table(program, path, target=None):
    """Returns the seconds until the rows are in memory, or with a target the seconds from the file to the numbers."""
    out, _, _, peak = timed([program, path, *([target] if target else [])])
    told = json.loads(out)
    parts = [told["rows"], told["features"]] if target else [told["rows"]]
    return {"wall": sum(p["wall"] for p in parts), "processor": sum(p["processor"] for p in parts), "rows": told["count"], "peak": peak}


def ours_images(binary, model, folder, work, count):
    env = dict(ENV, OMP_NUM_THREADS="2")
    data = ["--device", "cpu", "--quiet", "--loading_threads", "2"]
    _, start, start_processor, _ = timed([binary, model, "--train", folder, "--transforms", "normalize imagenet",
                                          "--batch_size", "32", "--max_steps", "1", "--overwrite", "--output_dir", work / "run",
                                          *data], env)  # fmt: skip
    evaluate = [binary, "eval", model, "--val", folder, "--eval_transforms", "normalize imagenet",
                "--eval_batch_size", "32", *data]  # fmt: skip
    _, whole, processor, _ = timed(evaluate, env)
    few = count // 20
    _, part, part_processor, _ = timed([*evaluate, "--limit_val", few], env)
    return {"start": start, "start_processor": start_processor, "per_second": (count - few) / (whole - part),
            "processor_ms": 1e3 * (processor - part_processor) / (count - few)}  # fmt: skip


def medians(rounds):
    return {k: statistics.median(r[k] for r in rounds) for k in rounds[0]} | {"rounds": rounds}


def in_turns(rounds, sides):
    results = {name: [] for name in sides}
    for _ in range(rounds):
        for name, measure in sides.items():
            results[name].append(measure())
    return {name: medians(r) for name, r in results.items()}


def measure_table(args, path):
    others = {r: lambda r=r: worker("table", r, path) for r in ("pandas", "pandas_pyarrow", "pyarrow")}
    return {"bytes": path.stat().st_size} | in_turns(args.rounds, {"rows": lambda: ours_table(args.tables, path), **others})


def made(path, make, *words):
    """Returns the path of the file or folder. Makes it if it does not exist."""
    if not path.exists():
        make(path, *words)
    return path


def measure(args, part, work):
    if part == "images":
        import image_loading

        folder = made(work / "images", write_images, args.images)
        model = made(work / "mean.onnx", image_loading.write_model, 32)
        ours = lambda: ours_images(args.binary, model, folder, work, args.images)
        return {"files": args.images} | in_turns(args.rounds, {"ours": ours, "torchvision": lambda: worker("images", folder)})
    path = made(work / ("texts.csv" if part == "texts" else "sales.csv"), write_texts if part == "texts" else write_sales, args.megabytes)
    if part == "numbers":  # takes ten times as long
        return {"bytes": path.stat().st_size, "numbers": ours_table(args.tables, path, "Sales")}
    return measure_table(args, path)


NAMES = {"rows": "onnx-amp-finetune, rows of texts", "numbers": "onnx-amp-finetune, features as numbers",
         "pandas": "pandas.read_csv", "pandas_pyarrow": "pandas.read_csv, pyarrow engine", "pyarrow": "pyarrow.csv"}  # fmt: skip


def print_tables(result):
    for name in [p for p in ("sales", "numbers", "texts") if p in result]:
        table, megabytes = result[name], result[name]["bytes"] / 1e6
        print(f"\n{name}: {megabytes:.0f} MB, {table[next(k for k in NAMES if k in table)]['rows']:.0f} rows\n\n| reader | processor s | MB/s | wall s | peak MiB |\n|---|---:|---:|---:|---:|")
        for key in [k for k in NAMES if k in table]:
            t = table[key]
            print(f"| {NAMES[key]} | {t['processor']:.2f} | {megabytes / t['processor']:.0f} | {t['wall']:.2f} | {t['peak'] / 2**20:.0f} |")
    if "images" in result:
        print("\n| images | start s | of processor time | images/s | processor ms an image |\n|---|---:|---:|---:|---:|")
        for key, name in (("ours", "onnx-amp-finetune"), ("torchvision", "torchvision")):
            i = result["images"][key]
            print(f"| {name} | {i['start']:.2f} | {i['start_processor']:.2f} | {i['per_second']:.0f} | {i['processor_ms']:.3f} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", help="the program table_speed")
    parser.add_argument("--binary", help="onnx-amp-finetune")
    parser.add_argument("--megabytes", type=float, default=300)
    parser.add_argument("--images", type=int, default=20000, help="number of files")
    parser.add_argument("--parts", nargs="+", default=list(PARTS), choices=PARTS)
    parser.add_argument("--work", type=Path, help="folder whose data sets are used again, and kept")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--out", type=Path, help="JSON file; parts of earlier calls are kept")
    parser.add_argument("--worker", nargs="+", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.worker:
        return worker_table(*args.worker[1:]) if args.worker[0] == "table" else worker_images(args.worker[1])
    args.binary = common.find_binary(args.binary)
    machine = common.machine_facts(args.binary)
    machine["versions"] |= {p: metadata.version(p) for p in ("pandas", "pyarrow", "torchvision")}
    with common.scratch_dir() as temporary:
        parts = {}
        for part in args.parts:
            parts[part] = measure(args, part, args.work or Path(temporary)) | {"load_average": os.getloadavg(), "rounds": args.rounds}
    earlier = json.loads(args.out.read_text()) if args.out and args.out.exists() else {}
    result = earlier | {"date": time.strftime("%Y-%m-%d"), "machine": machine} | parts
    print_tables(result)
    if args.out:
        common.write_json(args.out, result)


if __name__ == "__main__":
    main()
