"""Small files under the names that docs/first_day.md uses, made from the repository's own samples: a sentence encoder
(tests/data/sentences/bert), an image classifier (tests/data/models/convnext_classifier), texts of the encoder's few
words, PNG files of a few colors, and a table of made-up prices. Needs only Python's standard library."""
import csv
import json
import pathlib
import random
import shutil
import struct
import zlib

ROOT = pathlib.Path(__file__).resolve().parents[2]
OPINIONS = {"negative": ["bad", "very bad"], "positive": ["good", "very good"]}
COLORS = {"daisy": (240, 240, 225), "rose": (200, 30, 50), "tulip": (250, 190, 40), "violet": (110, 60, 180)}


def write_csv(path, header, rows):
    with open(path, "w", newline="") as file:
        out = csv.writer(file)
        out.writerow(header)
        out.writerows(rows)


def reviews(rows, seed):
    """Yields rows of text and label. Reviews of the same words always have the same label."""
    draw = random.Random(seed)
    for _ in range(rows):
        label = draw.choice(list(OPINIONS))
        yield f"the {draw.choice(['film', 'day', 'night'])} {draw.choice(['is', 'was'])} {draw.choice(OPINIONS[label])}", label


def write_tokenizer(folder):
    """Writes a tokenizer.json for the vocab.txt of a folder, as transformers saves it beside a BERT."""
    words = (folder / "vocab.txt").read_text().split()
    vocab = {word: i for i, word in enumerate(words)}
    added = [{"id": vocab[w], "content": w, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False,
              "special": True} for w in words if w.startswith("[")]  # fmt: skip
    piece = lambda name, kind: {name: {"id": kind, "type_id": 0}}  # noqa: E731
    special = lambda name: {"id": name, "ids": [vocab[name]], "tokens": [name]}  # noqa: E731
    (folder / "tokenizer.json").write_text(json.dumps({
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": added,
        "normalizer": {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True, "strip_accents": None,
                       "lowercase": True},
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "post_processor": {"type": "TemplateProcessing",
                           "single": [piece("SpecialToken", "[CLS]"), piece("Sequence", "A"), piece("SpecialToken", "[SEP]")],
                           "pair": [piece("SpecialToken", "[CLS]"), piece("Sequence", "A"), piece("SpecialToken", "[SEP]"),
                                    {"Sequence": {"id": "B", "type_id": 1}}, {"SpecialToken": {"id": "[SEP]", "type_id": 1}}],
                           "special_tokens": {"[CLS]": special("[CLS]"), "[SEP]": special("[SEP]")}},
        "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": True},
        "model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
                  "max_input_chars_per_word": 100, "vocab": vocab}}))  # fmt: skip


def write_encoder(folder):
    """Writes a sentence-transformers folder with mean pooling and normalization."""
    shutil.copytree(ROOT / "tests/data/sentences/bert", folder)
    write_tokenizer(folder)
    module = "sentence_transformers.models."
    kinds = [("", "Transformer"), ("1_Pooling", "Pooling"), ("2_Normalize", "Normalize")]
    (folder / "modules.json").write_text(json.dumps([{"idx": i, "name": str(i), "path": path, "type": module + kind}
                                                     for i, (path, kind) in enumerate(kinds)]))  # fmt: skip
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling/config.json").write_text(json.dumps({"word_embedding_dimension": 16, "pooling_mode_mean_tokens": True}))


def texts(folder, _):
    write_encoder(folder / "all-MiniLM-L6-v2")
    write_csv(folder / "reviews.csv", ["text", "label"], reviews(200, 1))
    write_csv(folder / "new.csv", ["text"], [["the film was good"], ["a very bad day"]])


def embeddings(folder, _):
    """Writes pairs of texts. Both texts of a pair are about the same one of 12 things."""
    write_encoder(folder / "all-MiniLM-L6-v2")
    draw = random.Random(2)
    things = [f"{very}{how} {noun}" for very in ("", "very ") for how in ("good", "bad") for noun in ("film", "day", "night")]
    rows = [[f"was it a {thing}", f"the {thing}"] for thing in 10 * things]
    draw.shuffle(rows)
    write_csv(folder / "pairs.csv", ["question", "answer"], rows)
    write_csv(folder / "documents.csv", ["text"], [["the film"], ["a very good day"], ["it is night"]])


def classifier(folder, program):
    """Writes a classifier as other programs export it: model.onnx, tokenizer.json, and a config.json whose classes are
    not in alphabetical order. `program`: a function that runs the program with the given words."""
    checkpoint, trained, exported = folder / "checkpoint", folder / "trained", folder / "exported"
    shutil.copytree(ROOT / "tests/data/sentences/bert", checkpoint)
    config = json.loads((checkpoint / "config.json").read_text())
    names = {"0": "positive", "1": "negative"}
    config |= {"architectures": ["BertForSequenceClassification"], "id2label": names, "label2id": {v: int(k) for k, v in names.items()}}
    (checkpoint / "config.json").write_text(json.dumps(config))
    write_csv(folder / "before.csv", ["text", "label"], reviews(100, 3))
    program("convert", checkpoint, "--out", folder / "start/model.onnx")
    program(folder / "start/model.onnx", "--train", folder / "before.csv", "--text_columns", "text", "--output_dir", trained)
    program("export", trained, "--to", "huggingface", "--out", exported)
    shutil.copy(checkpoint / "vocab.txt", exported)
    write_tokenizer(exported)
    (folder / "sentiment").mkdir()
    program("convert", exported, "--out", folder / "sentiment/model.onnx")
    shutil.copy(checkpoint / "config.json", folder / "sentiment")
    write_csv(folder / "more.csv", ["text", "label"], reviews(200, 4))
    write_csv(folder / "test.csv", ["text", "label"], reviews(60, 5))
    for left_over in ("checkpoint", "start", "trained", "exported"):
        shutil.rmtree(folder / left_over)


def write_png(path, color, draw, side=24):
    """Writes a PNG file of one color with noise."""
    rows = b"".join(b"\0" + bytes(min(255, max(0, c + draw.randint(-20, 20))) for _ in range(side) for c in color) for _ in range(side))
    chunk = lambda kind, data: struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))  # noqa: E731
    header = struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


def images(folder, program):
    """Writes photos of four kinds, and a small ConvNeXt of three classes in timm's form, whose head the page
    replaces."""
    checkpoint = folder / "convnext_tiny"
    program("create", "convnext_tiny", "--model_config", '{"dims": [4, 8, 8, 12], "depths": [1, 1, 1, 1], "num_classes": 3}', "--out",
            folder / "start.onnx")  # fmt: skip
    program("convert", folder / "start.onnx", "--out", checkpoint)
    (folder / "start.onnx").unlink()
    config = json.loads((checkpoint / "config.json").read_text())
    config["pretrained_cfg"] = {"mean": [0.485, 0.456, 0.406], "std": [0.229, 0.224, 0.225], "input_size": [3, 224, 224],
                                "interpolation": "bicubic", "crop_pct": 0.875}  # fmt: skip
    (checkpoint / "config.json").write_text(json.dumps(config))
    draw = random.Random(6)
    for name, color in COLORS.items():
        for i in range(16):
            write_png(folder / f"flowers/{name}/{i}.png", color, draw)
    write_png(folder / "new/1.png", COLORS["rose"], draw)
    write_png(folder / "new/2.png", COLORS["daisy"], draw)


def table(folder, _):
    """Writes a table of houses. Their prices depend on size, area and district."""
    draw = random.Random(7)
    districts = {"center": 120, "north": 40, "south": 0}
    rows = []
    for _ in range(240):
        district, rooms, area = draw.choice(list(districts)), draw.randint(1, 6), draw.uniform(30, 200)
        rows.append([district, rooms, f"{area:.1f}", f"{50 * rooms + 0.5 * area + districts[district] + draw.gauss(0, 5):.1f}"])
    write_csv(folder / "houses.csv", ["district", "rooms", "area", "price"], rows)
    write_csv(folder / "new.csv", ["district", "rooms", "area"], [["center", 3, 80.0], ["south", 1, 35.5]])
