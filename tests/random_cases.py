"""Models, data and flags from which tests/random_runs.py chooses at random. Standard library only.

A source is a model with a way to write data for it. make(rng, folder) returns a dict: "train", "val" and
"rows" (files without labels, or with them), "base" (flags that every verb of the source needs)."""

import csv
import gzip
import json
import math
import pathlib
import random
import shutil
import struct
import zipfile
import zlib

ROOT = pathlib.Path(__file__).resolve().parent.parent
MODELS = ROOT / "models"
DECODERS = ROOT / "tests/data/llm"
VOCABULARY = ["--vocab", str(MODELS / "tweet_sentiment/vocab.txt")]
FORMATS = {"F64": ("<f8", "d"), "F32": ("<f4", "f"), "F16": ("<f2", "e"), "I64": ("<i8", "q"), "I32": ("<i4", "i"),
           "BOOL": ("|b1", "?"), "U8": ("|u1", "B"), "I8": ("|i1", "b")}
ONNX_TYPES = {1: "F32", 2: "U8", 3: "I8", 6: "I32", 7: "I64", 9: "BOOL", 10: "F16", 11: "F64"}


def read_safetensors(path):
    """Returns {name: (dtype, dims, values)}; bfloat16 is widened to F32."""
    data = pathlib.Path(path).read_bytes()
    size = struct.unpack("<Q", data[:8])[0]
    tensors = {}
    for name, entry in json.loads(data[8 : 8 + size]).items():
        if name == "__metadata__":
            continue
        begin, end = (8 + size + offset for offset in entry["data_offsets"])
        kind, raw = entry["dtype"], data[begin:end]
        if kind == "BF16":
            kind, raw = "F32", b"".join(b"\0\0" + raw[i : i + 2] for i in range(0, len(raw), 2))
        code = FORMATS[kind][1]
        tensors[name] = (kind, entry["shape"], list(struct.unpack(f"<{len(raw) // struct.calcsize(code)}{code}", raw)))
    return tensors


def read_npz(path):
    """Returns the dims and floating values of each array of an .npz file: {name: (dims, values)}."""
    arrays = {}
    with zipfile.ZipFile(path) as archive:
        for name in archive.namelist():
            data = archive.read(name)
            size = struct.unpack("<H", data[8:10])[0]
            header, raw = data[10 : 10 + size].decode(), data[10 + size :]
            dims = [int(n) for n in header.split("'shape': (")[1].split(")")[0].split(",") if n.strip()]
            code = {"'<f4'": "f", "'<f8'": "d", "'<f2'": "e"}.get(header.split("'descr': ")[1].split(",")[0])
            values = struct.unpack(f"<{len(raw) // struct.calcsize(code)}{code}", raw) if code else ()
            arrays[name.removesuffix(".npy")] = (dims, values)
    return arrays


def write_tensors(path, tensors):
    packed = {n: struct.pack(f"<{len(v)}{FORMATS[k][1]}", *v) for n, (k, _, v) in tensors.items()}
    if str(path).endswith(".npz"):
        with zipfile.ZipFile(path, "w") as archive:
            for name, (kind, dims, _) in tensors.items():
                shape = "".join(f"{d}, " for d in dims)
                header = f"{{'descr': '{FORMATS[kind][0]}', 'fortran_order': False, 'shape': ({shape}), }}".encode()
                header += b" " * (-(len(header) + 11) % 64) + b"\n"
                size = struct.pack("<H", len(header))
                archive.writestr(name + ".npy", b"\x93NUMPY\1\0" + size + header + packed[name])
        return
    entries, at = {}, 0
    for name, (kind, dims, _) in tensors.items():
        entries[name] = {"dtype": kind, "shape": list(dims), "data_offsets": [at, at + len(packed[name])]}
        at += len(packed[name])
    header = json.dumps(entries).encode()
    header += b" " * (-len(header) % 8)
    path.write_bytes(struct.pack("<Q", len(header)) + header + b"".join(packed.values()))


def fields(data):
    """Yields (number, value) of each field of a protobuf message."""
    at = 0

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while at < len(data):
        key = varint()
        if key & 7 == 0:
            yield key >> 3, varint()
        else:
            size = varint() if key & 7 == 2 else {1: 8, 5: 4}[key & 7]
            at += size
            yield key >> 3, data[at - size : at]


def model_inputs(path):
    """Returns the graph inputs of an ONNX file that are not initializers: [(name, dtype, dims)]; 0 for a dynamic
    dimension."""
    graph = next(v for n, v in fields(pathlib.Path(path).read_bytes()) if n == 7)
    stored = {v for n, t in fields(graph) if n == 5 for k, v in fields(t) if k == 8}
    inputs = []
    for number, value in fields(graph):
        parts = dict(fields(value)) if number == 11 else {1: next(iter(stored), b"")}
        if parts[1] in stored or 2 not in parts:
            continue
        tensor = dict(fields(dict(fields(parts[2])).get(1, b"")))
        dims = [dict(fields(d)).get(1, 0) for n, d in fields(tensor.get(2, b"")) if n == 1]
        inputs.append((parts[1].decode(), ONNX_TYPES.get(tensor.get(1)), dims))
    return inputs


class Tensors:
    """An ONNX file and rows of tensors: those of batch.safetensors beside it, else drawn by the declared inputs."""

    def __init__(self, path, loss=None):
        self.name, self.model, self.loss = path.parent.name if path.stem == "model" else path.stem, path, loss
        batch = path.parent / "batch.safetensors"
        self.batch = read_safetensors(batch) if batch.exists() else None
        reference = path.parent / "ref.json"
        if reference.exists():
            self.loss = json.loads(reference.read_text())["loss_kind"]
        self.kinds = ["classes"] if self.loss == "cross_entropy" else []

    def prepare(self, folder, predict):
        """Writes a random batch for a model that has none; the label of mse has the shape of the first floating
        output."""
        if self.batch:
            return
        batch, rng = {}, random.Random(self.name)
        for name, kind, dims in model_inputs(self.model):
            dims = [d or (4 if i == 0 else 16) for i, d in enumerate(dims)] or [1]
            count = math.prod(dims)
            floating = kind in ("F32", "F64", "F16")
            batch[name] = (kind, dims, [rng.gauss(0, 1) if floating else rng.randint(0, 1) for _ in range(count)])
        write_tensors(folder / "drawn.safetensors", batch)
        outputs = predict(self.model, folder / "drawn.safetensors")
        rows, finite = next(iter(batch.values()))[1][0], [o for o in outputs.values() if o[1]]
        if not finite or not finite[0][0] or finite[0][0][0] != rows:
            raise ValueError("no floating output with the rows of the inputs")
        self.loss = "mse"
        self.batch = batch | {"label": ("F32", finite[0][0], [rng.gauss(0, 1) for _ in finite[0][1]])}

    def rows(self, rng, count, fixed):
        first = next(d for n, (_, d, _) in self.batch.items() if n != "label")[0]
        labels = self.batch["label"][1][0]
        group = max(1, first // labels)  # pairs of rows share a label
        scale = rng.choice([1] * 16 + [0, 1e-3, 30, 1e4])
        picks = [rng.randrange(labels) for _ in range(first // group if fixed else count)]
        drawn = {}
        for name, (kind, dims, values) in self.batch.items():
            each = group if name != "label" else 1
            size = math.prod(dims[1:])
            if len(dims) == 0 or dims[0] != (labels if name == "label" else first):
                drawn[name] = (kind, dims, values)  # an input without a batch axis
                continue
            out = [v for p in picks for v in values[p * each * size : (p + 1) * each * size]]
            if kind[0] == "F" and name != "label":
                out = [v * scale * (1 + rng.gauss(0, 0.05)) for v in out]
            drawn[name] = (kind, [len(picks) * each] + dims[1:], out)
        if drawn["label"][0] == "I64" and rng.random() < 0.05:
            kind, dims, values = drawn["label"]
            drawn["label"] = (kind, dims, [-100 if rng.random() < 0.6 else v for v in values])
        return drawn

    def make(self, rng, folder):
        suffix = rng.choice([".safetensors", ".npz"])
        made = {}
        for part, most in (("train", 40), ("val", 20), ("rows", 9)):
            made[part] = folder / (part + suffix)
            drawn = self.rows(rng, rng.randint(1, most), fixed=False)
            if part == "rows" and rng.random() < 0.5:
                del drawn["label"]
            write_tensors(made[part], drawn)
        made["grad"] = folder / ("grad" + suffix)
        write_tensors(made["grad"], self.rows(rng, rng.randint(1, 5), fixed=False))
        made["base"] = ["--loss", self.loss] if rng.random() < 0.9 else []
        return made


class Recipe:
    """A model of `create` on rows of a recipe's sample data."""

    def __init__(self, name, kinds, model, write, base):
        self.name, self.kinds, self.model, self.write, self.base = name, kinds.split(), model, write, base

    def make(self, rng, folder):
        made = self.write(rng, folder)
        made["base"] = [str(b) for b in self.base] + made.get("base", [])
        return made


def table(path, columns, kinds=("csv", "tsv", "jsonl")):
    """Returns a function that writes rows of the table to files of a random kind."""
    tabs = path.suffix == ".tsv"
    with open(path, newline="", encoding="utf-8") as f:
        rows = list(csv.reader(f, delimiter="\t" if tabs else ",", quoting=csv.QUOTE_NONE if tabs else csv.QUOTE_MINIMAL))
    places = [rows[0].index(c) for c in columns]
    rows = [[r[p] for p in places] for r in rows[1:400]]

    def write(rng, folder):
        made = {}
        kind = rng.choice(kinds)
        for part, most in (("train", 40), ("val", 12), ("rows", 9)):
            made[part] = folder / f"{part}.{kind}"
            picked = rng.sample(rows, rng.randint(1 if part != "train" else 4, most))
            with open(made[part], "w", newline="", encoding="utf-8") as f:
                if kind == "jsonl":
                    f.writelines(json.dumps(dict(zip(columns, r)), ensure_ascii=rng.random() < 0.5) + "\n" for r in picked)
                else:
                    csv.writer(f, delimiter="," if kind == "csv" else "\t").writerows([columns] + picked)
        return made

    return write


def pieces(path, separator):
    """Returns a function that writes documents of a text file to files of the same kind. `separator` separates them."""
    parts = [p for p in path.read_text(encoding="utf-8").split(separator) if p.strip()]

    def write(rng, folder):
        made = {part: folder / (part + path.suffix) for part in ("train", "val", "rows")}
        for part, most in (("train", 24), ("val", 6), ("rows", 3)):
            made[part].write_text(separator.join(rng.sample(parts, rng.randint(2, most))) + separator, encoding="utf-8")
        return made

    return write


def questions(rng, folder):
    articles = json.loads((MODELS / "qa/sample/train.json").read_text(encoding="utf-8"))
    made = {part: folder / (part + ".json") for part in ("train", "val", "rows")}
    for part in made:
        paragraphs = rng.sample(rng.choice(articles["data"])["paragraphs"], 2)
        made[part].write_text(json.dumps({"version": "1", "data": [{"title": "t", "paragraphs": paragraphs}]}))
    return made


def png(path, rng, side, channels):
    pixels = b"".join(b"\0" + rng.randbytes(side * channels) for _ in range(side))
    chunk = lambda kind, data: struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    header = struct.pack(">IIBBBBB", side, side, 8, 2 if channels == 3 else 0, 0, 0, 0)
    parts = chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(pixels, 1)) + chunk(b"IEND", b"")
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + parts)


def image_folders(rng, folder):
    made = {}
    for part, most in (("train", 6), ("val", 3)):
        made[part] = folder / part
        for label in ("cat", "dog", "owl"):
            (made[part] / label).mkdir(parents=True)
            for i in range(rng.randint(1, most)):
                png(made[part] / label / f"{i}.png", rng, rng.choice([32, 40, 57]), rng.choice([1, 3]))
    made["rows"] = made["val"] / "cat"
    return made


def masks(rng, folder):
    sample = MODELS / "unet/sample"
    made = {}
    for part, count in (("train", rng.randint(1, 4)), ("val", rng.randint(1, 2))):
        for kind in ("image", "mask"):
            (folder / f"{part}_{kind}").mkdir()
        for name in rng.sample(sorted(p.name for p in (sample / f"{part}_image").iterdir()), count):
            for kind in ("image", "mask"):
                shutil.copy(sample / f"{part}_{kind}" / name, folder / f"{part}_{kind}" / name)
        made[part] = folder / f"{part}_image"
    made["rows"] = made["val"]
    made["masks"] = {"--train_masks": folder / "train_mask", "--val_masks": folder / "val_mask"}
    return made


def rossmann(rng, folder):
    lines = gzip.decompress((MODELS / "rossmann/sample/train.csv.gz").read_bytes()).decode().splitlines()
    rows = [line for line in lines[1:3000] if int(line.split(",")[3]) > 0]
    made = {}
    for part, most in (("train", 60), ("val", 20), ("rows", 9)):
        made[part] = folder / (part + ".csv")
        made[part].write_text("\n".join([lines[0]] + rng.sample(rows, rng.randint(2, most))) + "\n")
    return made


def numbers(rng, folder):
    made = {}
    for part, most in (("train", 40), ("val", 12), ("rows", 9)):
        made[part] = folder / (part + ".csv")
        row = lambda: ",".join([f"{rng.gauss(0, 1):.4f}" for _ in range(6)] + [str(rng.randrange(3))])
        lines = [row() for _ in range(rng.randint(3, most))]
        made[part].write_text("\n".join(["a,b,c,d,e,f,y"] + lines) + "\n")
    return made


def conversations(rng, folder):
    rows = table(MODELS / "tweet_sentiment/train.csv", ["text", "sentiment"], ("jsonl",))(rng, folder)
    for path in rows.values():
        pairs = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        said = lambda role, text: {"role": role, "content": text[:40]}
        lines = [json.dumps({"messages": [said("user", p["text"]), said("assistant", p["sentiment"])]}) + "\n" for p in pairs]
        path.write_text("".join(lines), encoding="utf-8")
    return rows


def recipes(create):
    """Returns the sources that need no file: create(name, architecture, configuration, head) writes a model and returns
    its path."""
    tiny = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
    gpt = {"vocab_size": 2000, "n_positions": 64, "n_embd": 16, "n_layer": 2, "n_head": 2}
    small = {"image_size": 32, "num_classes": 3}
    config = lambda name: ["--config", MODELS / name / "config.json", "--warmup_steps", "0"]
    tweets = table(MODELS / "tweet_sentiment/train.csv", ["text", "sentiment"])
    pairs = table(MODELS / "glue/sample/stsb_train.tsv", ["sentence1", "sentence2", "score"], ("tsv", "jsonl"))
    spans = table(MODELS / "tweet_extraction/sample/train.csv", ["sentiment", "text", "selected_text"], ("csv", "jsonl"))
    of_text = ["--text_columns", "text", "--label_column", "sentiment", "--max_seq_len", "32"] + VOCABULARY
    tokenizer = ["--tokenizer", MODELS / "language_model"]
    bert = create("bert", "bert", tiny, "none")
    distilbert = {"dim": 16, "n_layers": 2, "n_heads": 2, "hidden_dim": 32}
    encoders = [bert, create("distilbert", "distilbert", distilbert, "none"), create("modernbert", "modernbert", tiny, "none"),
                create("electra", "electra", tiny | {"embedding_size": 16}, "none")]
    glue = ["--task", "regression", "--text_columns", "sentence1,sentence2", "--label_column", "score", "--max_seq_len", "48"]
    negatives = ["--loss", "multiple_negatives", "--text_columns", "sentence1,sentence2", "--max_seq_len", "32"]
    qa = ["--max_seq_len", "128", "--doc_stride", "32", "--limit_train", "20", "--limit_val", "10"]
    masked = ["--loss", "masked_lm", "--text_columns", "text", "--max_seq_len", "32"]
    language = config("language_model") + ["--max_seq_len", "32"] + tokenizer
    texts = pieces(MODELS / "language_model/sample/train.txt", "\n")
    llama = tiny | {"num_key_value_heads": 1, "vocab_size": 2000}
    unet = ["--mask_values", "0,255", "--transforms", "random_crop 32 | horizontal_flip"]
    tabular = json.loads((MODELS / "rossmann/model.json").read_text()) | {"hidden": [16], "continuous": 6}
    features = ["--continuous", "a,b,c,d,e,f", "--target", "y", "--task"]
    mlp = {"inputs": 6, "hidden": [8]}
    vit = tiny | {"image_size": 32, "patch_size": 8, "num_labels": 3}
    convnext = small | {"dims": [8, 16, 16, 16], "depths": [1, 1, 1, 1]}
    image = "image_classification"
    found = [Recipe("tweets_" + m.stem, "text classes", m, tweets, of_text) for m in encoders]
    found += [
        Recipe("tweets_head", "text classes", create("bert_head", "bert", tiny | {"num_labels": 3}, "sequence_classification"),
               tweets, of_text),
        Recipe("glue", "text", bert, pairs, config("glue") + glue + VOCABULARY),
        Recipe("embeddings", "text", bert, pairs, config("embeddings") + ["--max_seq_len", "32"] + VOCABULARY),
        Recipe("negatives", "text", bert, pairs, negatives + VOCABULARY),
        Recipe("ner", "text classes", bert, pieces(MODELS / "ner/sample/train.conll", "\n\n"),
               config("ner") + ["--max_seq_len", "64"] + VOCABULARY),
        Recipe("qa", "text", bert, questions, config("qa") + qa + VOCABULARY),
        Recipe("tweet_extraction", "text", bert, spans, config("tweet_extraction") + VOCABULARY),
        Recipe("masked_lm", "text", create("bert_mlm", "bert", tiny, "masked_lm"), tweets, masked + VOCABULARY),
        Recipe("language_model", "language", create("gpt2", "gpt2", gpt, "causal_lm"), texts, language),
        Recipe("llama", "language", create("llama", "llama", llama, "causal_lm"), texts, language),
        Recipe("unet", "image", create("unet", "unet", {"in_chans": 1, "num_classes": 2, "width": 4, "depth": 2}, None), masks,
               config("unet") + unet),
        Recipe("rossmann", "table", create("tabular", "tabular", tabular, None), rossmann,
               config("rossmann") + ["--join", f"{MODELS / 'rossmann/sample/store.csv'}:Store"]),
        Recipe("mlp", "table classes", create("mlp", "mlp", mlp | {"outputs": 3, "batch_norm": True}, None), numbers,
               features + ["classification"]),
        Recipe("mlp_regression", "table", create("mlp1", "mlp", mlp | {"outputs": 1}, None), numbers, features + ["regression"]),
        Recipe("images_vit", "image classes", create("vit", "vit", vit, image), image_folders, []),
        Recipe("images_resnet", "image classes", create("resnet18", "resnet18", small, image), image_folders, []),
        Recipe("images_convnext", "image classes", create("convnext", "convnext_tiny", convnext, image), image_folders, []),
    ]
    for name in ("llama-int4", "llama-int4-qdq", "qwen3-fp32"):
        base = ["--lora", "r=2"] + ([] if name == "llama-int4" else ["--tokenizer", DECODERS / "llama-int4"])
        found.append(Recipe(name, "language decoder", DECODERS / name, conversations, base))
    digits = MODELS / "lenet/sample"
    train, val = digits / "train-images-idx3-ubyte.gz", digits / "t10k-images-idx3-ubyte.gz"
    found.append(Recipe("lenet", "image classes", create("lenet", "lenet", {}, None),
                        lambda rng, folder: {"train": train, "val": val, "rows": val},
                        ["--limit_train", "40", "--limit_val", "20", "--lr", "0.02"]))
    return found
