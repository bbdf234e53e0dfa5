"""Command lines that fail because of data, tokenizers and checkpoints of other programs."""
import json

import proto
from kit import case, train, vocabulary
from proto import model, node, tensor, value_info

BERT = {"vocab_size": 10, "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16,
        "max_position_embeddings": 16}  # fmt: skip


def bert(f, **changes):
    f.run("create", "bert", "--model_config", json.dumps({**BERT, **changes}), "--out", "bert.onnx")


def texts(f, rows, *more, columns="text,label"):
    """Trains a small BERT on rows of a table."""
    bert(f)
    f.write("t.csv", "\n".join([columns, *rows]) + "\n")
    return ["bert.onnx", "--train", "t.csv", "--text_columns", "text", "--vocab", vocabulary(f), "--max_steps", "1", "--output_dir", "run",
            *more]  # fmt: skip


def pairs(n):
    return ["good day,pos", "bad day,neg"] * n


@case("E_DATA_COLUMN")
def _(f):
    return texts(f, pairs(2), "--label_column", "none")


@case("E_DATA_CSV")
def _(f):
    return texts(f, [*pairs(2), '"bad,neg'])


@case("E_DATA_EMPTY")
def _(f):
    return texts(f, [])


@case("E_DATA_LABEL")
def _(f):
    return texts(f, [*pairs(2), "so,"])


@case("E_DATA_LABEL_NEW")
def _(f):
    f.write("v.csv", "text,label\ngood,new\n")
    return texts(f, pairs(2), "--val", "v.csv")


@case("E_DATA_UTF8")
def _(f):
    words = texts(f, [])
    f.write("t.csv", b"text,label\ngood\xff,pos\n")
    return words


@case("E_DATA_COLUMNAR")
def _(f):
    words = texts(f, [])
    f.write("t.parquet", b"PAR1" + b"\0" * 100 + b"PAR1")
    return [w.replace("t.csv", "t.parquet") for w in words]


@case("E_DATA_GZIP")
def _(f):
    words = texts(f, [])
    f.write("t.csv.gz", b"\x1f\x8b\x08" + b"\0" * 40)
    return [w.replace("t.csv", "t.csv.gz") for w in words]


@case("E_DATA_JSON")
def _(f):
    words = texts(f, [])
    f.write("t.jsonl", '{"text": "good", "label": "pos"}\n{"text": "bad\n')
    return [w.replace("t.csv", "t.jsonl") for w in words]


@case("E_DATA_LENGTH")
def _(f):
    return texts(f, [f"{'good ' * 60},pos", *pairs(2)], "--max_seq_len", "0")


@case("E_DATA_PAIRS")
def _(f):
    f.linear()
    return ["model.onnx", "--train", f.batch(7), "--max_steps", "1", "--output_dir", "run", "--loss", "triplet", "--shuffle", "false",
            "--batch_size", "6"]  # fmt: skip


@case("E_DATA_FILE")
def _(f):
    f.linear()
    return ["model.onnx", "--train", "none.safetensors", "--loss", "cross_entropy", "--output_dir", "run"]


@case("E_SAFETENSORS")
def _(f):
    f.linear()
    f.write("batch.safetensors", b"\xff" * 100)
    return train()


@case("E_DATA_NPY")
def _(f):
    f.linear()
    f.write("batch.npz", "no zip archive, but long enough to be one")
    return ["model.onnx", "--train", "batch.npz", "--loss", "cross_entropy", "--output_dir", "run"]


@case("E_DATA_NONFINITE")
def _(f):
    f.linear()
    f.write("batch.safetensors", proto.safetensors({"x": ([2, 4], [float("nan")] * 8), "label": ([2], [0, 1])}))
    return train()


@case("E_DATA_SHAPE")
def _(f):
    f.linear()
    f.write("batch.safetensors", proto.safetensors({"x": ([2, 5], [0.0] * 10), "label": ([2], [0, 1])}))
    return train()


@case("E_VAL_SPLIT")
def _(f):
    f.linear()
    f.batch()
    return train("--val_split", "0.01")


@case("E_TOKENIZER")
def _(f):
    f.write("folder/readme.txt", "")
    return ["tokenize", "--tokenizer", "folder"]


@case("E_VOCAB")
def _(f):
    f.write("vocab.txt", "[PAD]\n\n[UNK]\n")
    return ["tokenize", "--vocab", "vocab.txt"]


@case("E_VOCAB_SIZE")
def _(f):
    words = texts(f, pairs(2))
    with open(f"{f.path}/vocab.txt", "a") as file:
        file.write("more\n" * 1)
    return words


@case("E_DATA_TEXT")
def _(f):
    grow = {"type": "Replace", "pattern": {"String": "a"}, "content": "a" * 10}
    vocab = {"[UNK]": 0, "a": 1}
    tokenizer = {"version": "1.0", "normalizer": {"type": "Sequence", "normalizers": [grow] * 9}, "pre_tokenizer": {"type": "Whitespace"},
                 "model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
                           "max_input_chars_per_word": 100, "vocab": vocab}}  # fmt: skip
    f.write("tokenizer.json", json.dumps(tokenizer))
    f.input = "a\n"
    return ["tokenize", "--tokenizer", "tokenizer.json"]


GPT2 = {"vocab_size": 10, "n_embd": 8, "n_layer": 1, "n_head": 2, "n_positions": 16}


def language(f, rows, *more):
    f.run("create", "gpt2", "--model_config", json.dumps(GPT2), "--out", "gpt2.onnx")
    f.write("t.jsonl", "".join(json.dumps(r) + "\n" for r in rows))
    return ["gpt2.onnx", "--train", "t.jsonl", "--task", "language", "--vocab", vocabulary(f), "--max_seq_len", "16", "--max_steps", "1",
            "--output_dir", "run", *more]  # fmt: skip


@case("E_CHAT_TEMPLATE_MISSING")
def _(f):
    return language(f, [{"messages": [{"role": "user", "content": "good"}, {"role": "assistant", "content": "day"}]}],
                    "--text_columns", "messages")  # fmt: skip


@case("E_CHAT_TEMPLATE")
def _(f):
    f.write("chat.jinja", "{% for m in messages %}")
    return language(f, [{"messages": [{"role": "user", "content": "good"}]}], "--text_columns", "messages", "--chat_template", "chat.jinja")


@case("E_DATA_CHAT")
def _(f):
    f.write("chat.jinja", "{% for m in messages %}{{ m.content }}{% endfor %}")
    return language(f, [{"messages": [{"content": "good"}]}], "--text_columns", "messages", "--chat_template", "chat.jinja")


@case("E_NOT_FINITE")
def _(f):
    ids = [value_info("input_ids", ["N", "S"], proto.INT64)]
    nodes = [node("Gather", ["e", "input_ids"], ["h"]), node("MatMul", ["h", "w"], ["logits"])]
    weights = [tensor("e", [10, 4], [float("nan")] * 40), tensor("w", [4, 10], [0.1] * 40)]
    f.write("gpt.onnx", model(nodes, ids, [value_info("logits", ["N", "S", 10])], weights))
    return ["generate", "gpt.onnx", "--prompt", "good", "--vocab", vocabulary(f), "--max_new_tokens", "1"]


@case("E_POOLING_JSON")
def _(f):
    bert(f)
    f.write("t.csv", "text\ngood day\n")
    f.write("modules.json", "no JSON")
    return ["predict", "bert.onnx", "--task", "retrieval", "--inputs", "t.csv", "--text_columns", "text", "--vocab", vocabulary(f),
            "--out", "o.npz"]  # fmt: skip


@case("E_ARCHITECTURE")
def _(f):
    return ["create", "mamba", "--out", "o.onnx"]


@case("E_CONFIG")
def _(f):
    return ["create", "bert", "--model_config", '{"hidden_size": 0}', "--out", "o.onnx"]


@case("E_CONFIG_KEY")
def _(f):
    return ["create", "bert", "--model_config", '{"hidden_sise": 8}', "--out", "o.onnx"]


@case("E_CONFIG_JSON")
def _(f):
    f.write("folder/config.json", "[]")
    return ["convert", "folder", "--model_head", "none", "--out", "o.onnx"]


@case("E_CHECKPOINT")
def _(f):
    f.write("folder/config.json", json.dumps({"model_type": "bert", **BERT}))
    return ["convert", "folder", "--model_head", "none", "--out", "o.onnx"]


@case("E_CHECKPOINT_TENSOR")
def _(f):
    f.write("folder/config.json", json.dumps({"model_type": "bert", "type_vocab_size": 2, **BERT}))
    f.write("folder/model.safetensors", proto.safetensors({"a": ([1], [1.0])}))
    return ["convert", "folder", "--model_head", "none", "--out", "o.onnx"]


TABLE = "size,city,price\n1.5,a,2\n2.5,b,3\n0.5,a,1\n3.5,b,4\n"


@case("E_RAW_ROWS")
def _(f):
    f.write("t.csv", TABLE)
    f.run("create", "mlp", "--model_config", '{"inputs": 1, "outputs": 1}', "--out", "mlp.onnx")
    f.run("mlp.onnx", "--train", "t.csv", "--target", "price", "--continuous", "size", "--feature_scaling", "quantiles", "--task", "regression",
          "--max_steps", "1", "--output_dir", "run")  # fmt: skip
    return ["export", "run", "--export_raw_rows", "--out", "o.onnx"]


def table(f, rows, *more, columns="size,city,price", inputs=1):
    f.write("t.csv", "\n".join([columns, *rows]) + "\n")
    f.run("create", "mlp", "--model_config", json.dumps({"inputs": inputs, "outputs": 1}), "--out", "mlp.onnx")
    return ["mlp.onnx", "--train", "t.csv", "--target", "price", "--task", "regression", "--max_steps", "1", "--output_dir", "run", *more]


@case("E_DATA_NUMBER")
def _(f):
    return table(f, ["1.5,a,2", "large,b,3"], "--continuous", "size")


@case("E_FEATURE_WIDTH")
def _(f):
    return table(f, ["1.5,a,2", "2.5,b,3"], "--continuous", "size", inputs=3)


@case("E_JOIN")
def _(f):
    f.write("o.csv", "city,area\na,1\na,2\n")
    return table(f, ["1.5,a,2", "2.5,b,3"], "--continuous", "area", "--join", "o.csv:city")


@case("E_DATA_TOKEN_RANGE")
def _(f):
    bert(f)
    ids = {"input_ids": ([2, 4], [99] * 8), "attention_mask": ([2, 4], [1] * 8), "token_type_ids": ([2, 4], [0] * 8), "label": ([2], [0, 1])}
    return ["bert.onnx", "--train", f.write("batch.safetensors", proto.safetensors(ids)), "--max_steps", "1", "--output_dir", "run"]


@case("E_DATA_INPUT")
def _(f):
    words = texts(f, pairs(2))
    ids = [value_info("input_ids", ["N", "S"], proto.INT64), value_info("bbox", ["N", "S"], proto.INT64)]
    nodes = [node("Gather", ["e", "input_ids"], ["h"]), node("Gather", ["e", "bbox"], ["b"]), node("Add", ["h", "b"], ["y"])]
    f.write("bert.onnx", model(nodes, ids, [value_info("y", ["N", "S", 2])], [tensor("e", [10, 2], [0.1] * 20)]))
    return [*words, "--output", "y"]


@case("E_DATA_LINE")
def _(f):
    words = texts(f, [])
    f.write("t.txt", "good " * 4_000_000 + "\n")
    return [w.replace("t.csv", "t.txt") for w in words]


@case("E_DATA_GROUPS")
def _(f):
    f.write("v.csv", "text,label,id\n" + "".join(f"good,{'pos' if i % 2 else 'neg'},{i}\n" for i in range(1001)))
    return texts(f, pairs(2), "--val", "v.csv", "--eval_group_by", "id")


@case("E_LABELS")
def _(f):
    return texts(f, pairs(2), "--labels", "pos,pos")


@case("E_TASK")
def _(f):
    bert(f)
    return ["generate", "bert.onnx", "--prompt", "good", "--max_new_tokens", "2", "--vocab", vocabulary(f)]


@case("E_NUM_LABELS")
def _(f):
    return texts(f, ["good,a", "bad,b", "so,c"])


@case("E_SEQ_LEN")
def _(f):
    return texts(f, pairs(2), "--text_columns", "label", "--max_seq_len", "2")


@case("E_TEXT_COLUMNS")
def _(f):
    return language(f, [{"a": "good", "b": "day", "c": "so"}], "--text_columns", "a,b,c")


@case("E_PAIRS")
def _(f):
    return texts(f, ["good,bad"] * 4, "--text_columns", "label", "--loss", "triplet")


@case("E_PACKING")
def _(f):
    return language(f, [{"text": "good day"}], "--text_columns", "text", "--max_seq_len", "0", "--packing", "wrapped")


@case("E_MASK_TOKEN")
def _(f):
    words = language(f, [{"text": "good day"}], "--text_columns", "text", "--loss", "masked_lm")
    f.write("vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[GAP]\ngood\nbad\nso\nday\nis\n")
    return words
