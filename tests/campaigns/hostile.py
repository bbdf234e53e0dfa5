"""Hostile files: whatever a file contains, the program must end with a documented exit code, within limits of processor
time and memory, and must write no control character to a terminal.

The tries take turns: each of the BOMBS (small files that request much memory or time), and random edits of valid files
of every kind. bench/mutate.py edits ONNX models by the fields of their protobuf; tests/fuzz has libFuzzer's targets.
"""
import json
import os
import resource
import shutil
import struct
import subprocess
import threading
import time
import zlib

from compare import digest
from edits import edited
from job import ENVIRONMENT, EXIT_CODES, RESUME, ROOT, STOP_EARLY, job, write_materials

MOST_S = 2.0  # limit of processor time, for a file of at most 1 MB
SLOW_S = {"image of 169 million pixels": 6.0}  # it is decoded twice; Pillow accepts no larger image
MOST_MB = 256  # limit of resident memory
HANG_S = 900  # limit of wall-clock time, which is longer than processor time on a busy machine
CONTROLS = [b"\x1b", b"\xc2\x9b", "\u202e".encode()]


def run(campaign):
    """Alternates between bombs and random edits until each bomb was tried once. Then tries only random edits."""
    prepare(campaign)
    worst = {"most seconds of processor time": 0.0, "most MB": 0.0}
    bombs = list(BOMBS)
    campaign.random.shuffle(bombs)
    valid = set()
    while campaign.more():
        shutil.rmtree(campaign.folder / "run", ignore_errors=True)
        if bombs and campaign.tries % 2:
            kind = bombs.pop()
            words = BOMBS[kind](campaign.folder)
            trial, why = f"bomb: {kind}", kind
        else:
            kind, words, why = an_edit(campaign, valid)
            trial = f"edits: {kind}"
        problems, seconds, megabytes = outcome(campaign, words, SLOW_S.get(why, MOST_S))
        campaign.tried(trial)
        worst = {"most seconds of processor time": max(worst["most seconds of processor time"], round(seconds, 2)),
                 "most MB": max(worst["most MB"], round(megabytes))}
        if problems:
            problems.append("command: " + " ".join(map(str, words)))
        campaign.fault(f"{trial} ({why})", *problems)
    campaign.measured.update(worst)


def outcome(campaign, words, most_s=MOST_S):
    """Runs a command. Returns its problems, its seconds of processor time, and its MB of resident memory."""
    with open(campaign.folder / "said", "wb") as said, open(campaign.folder / "lines.txt", "rb") as lines:
        process = subprocess.Popen([campaign.program.path, *map(str, words)], cwd=campaign.folder, env=ENVIRONMENT,
                                   stdin=lines, stdout=said, stderr=said, preexec_fn=limit)
        timer = threading.Timer(HANG_S, process.kill)
        timer.start()
        _, status, used = os.wait4(process.pid, 0)
        timer.cancel()
    process.returncode = code = os.waitstatus_to_exitcode(status)
    text = (campaign.folder / "said").read_bytes()
    seconds, megabytes = used.ru_utime + used.ru_stime, used.ru_maxrss / 1024
    problems = [f"exit {code}: {text[-200:]}"] * (code not in EXIT_CODES)
    if code and code in EXIT_CODES and b'"id"' not in text and "check" not in words:
        problems.append(f"exit {code} without a JSON line: {text[-200:]}")
    problems += [f"{seconds:.1f} s of processor time"] * (seconds > most_s)
    problems += [f"{megabytes:.0f} MB"] * (megabytes > MOST_MB)
    return problems + ["a control character in the output"] * any(c in text for c in CONTROLS), seconds, megabytes


def limit():
    """Sets limits at which a runaway process is ended by SIGXCPU, or by a failed allocation, before it harms the
    machine."""
    resource.setrlimit(resource.RLIMIT_CPU, (20, 20))
    resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30))


def prepare(campaign):
    """Writes valid files of every kind."""
    folder = campaign.folder
    write_materials(folder)
    shutil.copy(ROOT / "tests/data/surgery/gpt2.onnx", folder / "gpt2.onnx")
    shutil.copy(ROOT / "tests/data/zoo/lenet_relu_dyn18/model.onnx", folder / "lenet.onnx")
    shutil.copy(ROOT / "tests/data/zoo/lenet_relu_dyn18/batch.safetensors", folder / "batch.safetensors")
    for name in ("word_piece.json", "byte_level.json", "unigram.json", "spm_bpe.model"):
        shutil.copy(ROOT / "tests/fuzz/corpus/tokenizers" / name, folder / name)
    vocabulary = {w: i for i, w in enumerate(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "good", "a", "b"])}
    write_json(folder / "tokenizer.json", {
        "version": "1.0", "added_tokens": [], "normalizer": None, "pre_tokenizer": {"type": "Whitespace"},
        "post_processor": None, "decoder": None,
        "model": {"type": "WordLevel", "vocab": vocabulary, "unk_token": "[UNK]"}})
    chat = {"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b good"}]}
    (folder / "chat.jsonl").write_text((json.dumps(chat) + "\n") * 4)
    rows = [{"text": f"good film w{i}", "sentiment": ["pos", "neg", "so"][i % 3]} for i in range(12)]
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "lines.txt").write_text("a good film\nthe bad one\n")
    write_json(folder / "config.json", {"lr": 0.001, "batch_size": 4, "loss": "cross_entropy", "max_steps": 1})
    (folder / "config.yaml").write_text("lr: 0.001\nbatch_size: 4\nmax_steps: 1\n")
    (folder / "template.jinja").write_text("{% for m in messages %}{{ m['role'] }} {{ m['content'] }}{% endfor %}")
    campaign.program.run(job("half", *STOP_EARLY, steps=4, save=1, evaluate=2), folder)
    if digest(folder / "half/run.json") is None:
        raise AssertionError("no stopped run was made")


def write_json(path, value):
    """Writes a JSON file."""
    path.write_text(json.dumps(value))


def text_job(*more, train="t.csv", vocab="vocab.txt", model="bert.onnx"):
    """Returns a command line that trains one step on a file of texts."""
    return [model, "--train", train, "--vocab", vocab, "--text_columns", "text", "--label_column", "sentiment",
            "--num_labels", "3", "--batch_size", "4", "--threads", "1", "--max_steps", "1", "--output_dir", "run",
            "--quiet", *more]


def chat_job(template="template.jinja", tokenizer="tokenizer.json", train="chat.jsonl"):
    """Returns a command line that trains a language model one step on conversations."""
    return ["gpt2.onnx", "--train", train, "--task", "language", "--text_columns", "messages", "--tokenizer",
            tokenizer, "--chat_template", template, "--max_steps", "1", "--max_seq_len", "16", "--batch_size", "2",
            "--threads", "1", "--quiet", "--output_dir", "run"]


def image_job(table):
    """Returns a command line that trains one step on images that a table lists."""
    return ["lenet.onnx", "--train", table, "--image_column", "image", "--label_column", "label", "--loss",
            "cross_entropy", "--max_steps", "1", "--threads", "1", "--quiet", "--output_dir", "run"]


def resumed_job():
    """Returns a command line that resumes a copy of the stopped run."""
    return job("run", *RESUME, steps=2, save=1, evaluate=2)


# Files that are edited: (file, the command that reads it, "run" for a file in a copy of the stopped run's folder).
SEEDS = {
    "table": ("t.csv", lambda f: text_job(train=f)),
    "JSON lines": ("rows.jsonl", lambda f: text_job(train=f)),
    "vocabulary": ("vocab.txt", lambda f: text_job(vocab=f)),
    "model": ("bert.onnx", lambda f: text_job(model=f)),
    "configuration": ("config.json", lambda f: text_job("--config", f)),
    "YAML": ("config.yaml", lambda f: text_job("--config", f)),
    "conversations": ("chat.jsonl", lambda f: chat_job(train=f)),
    "chat template": ("template.jinja", lambda f: chat_job(template=f)),
    "tokenizer": ("tokenizer.json", lambda f: chat_job(tokenizer=f)),
    "WordPiece": ("word_piece.json", lambda f: chat_job(tokenizer=f)),
    "byte-level BPE": ("byte_level.json", lambda f: ["tokenize", "--tokenizer", f]),
    "Unigram": ("unigram.json", lambda f: ["tokenize", "--tokenizer", f]),
    "SentencePiece": ("spm_bpe.model", lambda f: ["tokenize", "--tokenizer", f]),
    "tensors": ("batch.safetensors", lambda f: ["predict", "lenet.onnx", "--inputs", f, "--out", "p.safetensors"]),
    "run.json": ("half/run.json", lambda f: ["report", "run", "--out", "page.html"]),
    "manifest": ("half/checkpoints/checkpoint-1/manifest.json", lambda f: resumed_job()),
    "state": ("half/checkpoints/checkpoint-1/state.safetensors", lambda f: resumed_job()),
    "list of the run's files": ("half/.run-files.json", lambda f: resumed_job()),
}


def an_edit(campaign, valid):
    """Edits a file at random; returns its kind, the command, and a description of the edit. `valid`: kinds whose
    unedited file was read without an error, which is checked first."""
    random, folder = campaign.random, campaign.folder
    kind = random.choice(list(SEEDS))
    name, command = SEEDS[kind]
    data = (folder / name).read_bytes()
    if kind not in valid:
        valid.add(kind)
        with open(folder / "lines.txt", "rb") as lines:
            campaign.program.succeed(command(put(folder, name, data)), folder, stdin=lines)
    changed, how = edited(random, data)
    return kind, command(put(folder, name, changed)), how


def put(folder, name, data):
    """Writes a file; a file of a run is written into a new copy of the stopped run. Returns the name that a command is
    given."""
    shutil.rmtree(folder / "run", ignore_errors=True)
    if name.startswith("half/"):
        shutil.copytree(folder / "half", folder / "run")
        path = folder / "run" / name.removeprefix("half/")
    else:
        path = folder / ("edited" + os.path.splitext(name)[1])
    path.write_bytes(data)
    return path.name


def template(text):
    """Returns a function that writes `text` as a chat template and returns the command that reads it."""
    def make(folder):
        (folder / "bomb.jinja").write_text(text)
        return chat_job("bomb.jinja")
    return make


def nested(depth, inner="1"):
    """Returns JSON of nested objects."""
    return '{"a": ' * depth + inner + "}" * depth


def deep_configuration(folder):
    (folder / "bomb.json").write_text('{"loss": ' + nested(100_000) + "}")
    return text_job("--config", "bomb.json")


def deep_in_run(name, command):
    """Returns a function that writes a deep JSON file to the folder of a run and returns the command that reads it."""
    def make(folder):
        shutil.copytree(folder / "half", folder / "run")
        (folder / "run" / name).write_text(nested(150_000))
        return command
    return make


def many_keys(folder):
    keys = ",".join(f'"k{i}":1' for i in range(80_000))
    (folder / "bomb.jsonl").write_text("{" + keys + ',"text":"a","sentiment":"pos"}\n')
    return text_job(train="bomb.jsonl")


def many_settings(folder):
    (folder / "bomb.yaml").write_text("".join(f"k{i}: 1\n" for i in range(40_000)))
    return text_job("--config", "bomb.yaml")


def aliases(folder):
    levels = [f"{chr(98 + i)}: &{chr(98 + i)} [{', '.join(['*' + chr(97 + i)] * 9)}]" for i in range(9)]
    (folder / "bomb.yaml").write_text("a: &a [lol, lol]\n" + "\n".join(levels) + "\n")
    return text_job("--config", "bomb.yaml")


def normalizers(folder):
    tokenizer = json.loads((folder / "tokenizer.json").read_text())
    step = {"type": "Replace", "pattern": {"String": "a"}, "content": "a" * 10}
    tokenizer["normalizer"] = {"type": "Sequence", "normalizers": [step] * 12}
    write_json(folder / "bomb_tokenizer.json", tokenizer)
    return chat_job(tokenizer="bomb_tokenizer.json")


def device_as_image(folder):
    (folder / "bomb.csv").write_text("image,label\n/dev/zero,0\n/dev/zero,1\n")
    return image_job("bomb.csv")


def pipe_as_image(folder):
    if not (folder / "pipe.png").exists():
        os.mkfifo(folder / "pipe.png")
    (folder / "bomb.csv").write_text("image,label\npipe.png,0\npipe.png,1\n")
    return image_job("bomb.csv")


def device_as_table(folder):
    (folder / "bomb_device.csv").unlink(missing_ok=True)
    (folder / "bomb_device.csv").symlink_to("/dev/zero")
    return text_job(train="bomb_device.csv")


def device_as_vocabulary(folder):
    return text_job(vocab="/dev/zero")


def png(width, height):
    """Returns a PNG of zeros. Each pixel adds about a thousandth of a byte to the file."""
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    pixels = zlib.compressobj(9)
    body = b"".join(pixels.compress(bytes(width + 1)) for _ in range(height)) + pixels.flush()
    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", body) + chunk(b"IEND", b"")


def large_image(folder):
    (folder / "bomb.png").write_bytes(png(13_000, 13_000))
    (folder / "honest.png").write_bytes(png(28, 28))
    (folder / "bomb.csv").write_text("image,label\nbomb.png,0\nhonest.png,1\n")
    return image_job("bomb.csv")


def packed_zeros(folder):
    import zipfile
    header = b"{'descr': '<f4', 'fortran_order': False, 'shape': (536870912,), }"
    header = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header) + 1) + header + b"\n"
    with zipfile.ZipFile(folder / "bomb.npz", "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        with archive.open("input.npy", "w", force_zip64=True) as file:
            file.write(header)
            for _ in range(256):
                file.write(bytes(1 << 20))
    return ["predict", "lenet.onnx", "--inputs", "bomb.npz", "--out", "p.safetensors"]


def endless_layers(folder):
    return ["create", "bert", "--model_config", '{"num_hidden_layers": 1000000000}', "--out", "bomb.onnx"]


def negative_length(folder):
    (folder / "bomb.safetensors").write_bytes(struct.pack("<q", -1) + b"{}")
    return ["predict", "lenet.onnx", "--inputs", "bomb.safetensors", "--out", "p.safetensors"]


REPORT = ["report", "run", "--out", "page.html"]
BOMBS = {
    "macro without end": template("{% macro f(x) %}{{ f(x) }}{% endmacro %}{{ f(1) }}"),
    "list in itself": template("{% set x = [] %}{{ x.append(x) }}{{ x }}"),
    "namespace in itself": template("{% set ns = namespace() %}{% set ns.x = ns %}{{ ns|tojson }}"),
    "nested loops": template("{% for i in range(100000) %}{% for j in range(100000) %}{% endfor %}{% endfor %}a"),
    "doubled text": template("{% set ns = namespace(x='a') %}{% for i in range(40) %}{% set ns.x = ns.x + ns.x %}"
                             "{% endfor %}{{ ns.x }}"),
    "repeated text": template("{{ 'a' * 4000000000 }}"),
    "indented text": template("{{ 'a'|indent(1000000000) }}"),
    "chain of not": template("{{ " + "not " * 16_000 + "a }}"),
    "chain of sums": template("{{ 'a'" + " + 'a'" * 8000 + " }}"),
    "chain of attributes": template("{{ a" + ".a" * 16_000 + " }}"),
    "chain of filters": template("{{ 'a'" + "|upper" * 8000 + " }}"),
    "nested conditions": template("{{ " + "1 if false else " * 8000 + "1 }}"),
    "nested for": template("{% for i in [1] %}" * 8000 + "{% endfor %}" * 8000),
    "macro that calls itself twice": template("{% macro f(n) %}{% if n > 0 %}{{ f(n - 1) }}{{ f(n - 1) }}{% endif %}"
                                              "{% endmacro %}{{ f(60) }}"),
    "deep configuration": deep_configuration,
    "deep run.json": deep_in_run("run.json", REPORT),
    "deep samples.json": deep_in_run("samples.json", REPORT),
    "deep samples.json, resumed": deep_in_run("samples.json", resumed_job()),
    "deep precision_plan.json": deep_in_run("precision_plan.json", REPORT),
    "deep list of files": deep_in_run(".run-files.json", resumed_job()),
    "row of 80,000 keys": many_keys,
    "YAML of 40,000 keys": many_settings,
    "YAML of aliases": aliases,
    "normalizers that multiply": normalizers,
    "device as image": device_as_image,
    "pipe as image": pipe_as_image,
    "device as table": device_as_table,
    "device as vocabulary": device_as_vocabulary,
    "image of 169 million pixels": large_image,
    "archive of zeros": packed_zeros,
    "a billion layers": endless_layers,
    "negative length": negative_length,
}
