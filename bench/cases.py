"""Cases of cpu.py: for each a model, its batches as a file for the program, and the same batches
for PyTorch.

A prepared case is a folder: model.onnx (or a path to it), train.csv or .safetensors,
batches.safetensors, case.json. head.safetensors exists if the program adds a new head to the model.
The first `warm` batches contain every shape once and are not timed on either side.
"""

import json
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file, save_file

import common

WARM = 5  # minimum number of untimed steps
LR = 1e-4
WEIGHT_DECAY = 0.01
CASES = {
    "minilm": {"what": "MiniLM-L3 on tweets, grouped by length, padded by batch", "batch": 32, "steps": 40},
    "minilm_shuffled": {"what": "MiniLM-L3 on shuffled tweets, padded by batch", "batch": 32, "steps": 40},
    "lenet": {"what": "LeNet, images 1x28x28", "batch": 64, "steps": 300},
    "mlp": {"what": "MLP 32-128-128-2", "batch": 32, "steps": 2000},
    "tabular": {"what": "MLP 233-1000-500-1", "batch": 128, "steps": 200, "loss": "bce_logits"},
    "resnet18": {"what": "ResNet-18, images 3x128x128", "batch": 8, "steps": 10},
    "resnet50": {"what": "ResNet-50, images 3x128x128", "batch": 4, "steps": 10},
    "mobilenet": {"what": "MobileNetV2, images 3x96x96", "batch": 8, "steps": 10},
    "convnext": {"what": "ConvNeXt-tiny, images 3x96x96", "batch": 8, "steps": 10},
    "unet": {"what": "U-Net of 7.76 M, images 3x128x128", "batch": 2, "steps": 10, "loss": "bce_logits"},
    "minilm_l6": {"what": "BERT of 6x384 (MiniLM-L6), 128 tokens, none of padding", "batch": 16, "steps": 6},
    "bert_base": {"what": "BERT-base, 128 tokens, none of padding", "batch": 16, "steps": 3},
    "gpt2": {"what": "GPT-2 small, 256 tokens", "batch": 4, "steps": 3},
    "lstm": {"what": "LSTM of 2x512, 64 steps", "batch": 32, "steps": 6},
}
SENTENCES = ("minilm", "minilm_shuffled")
VISION = ("lenet", "resnet18", "resnet50", "mobilenet", "convnext", "unet")
TOKENS = {"minilm_l6": (128, 30522), "bert_base": (128, 30522), "gpt2": (256, 50257)}  # length, vocabulary
SHAPES = {"lenet": (1, 28, 28), "mlp": (32,), "tabular": (233,), "mobilenet": (3, 96, 96), "convnext": (3, 96, 96), "lstm": (64, 512)}


def build_text(name, attention):
    """Returns a module of transformers that computes logits from ids (B, S)."""
    import torch
    import transformers

    class Logits(torch.nn.Module):
        def __init__(self, model):
            super().__init__()
            self.model = model

        def forward(self, x):
            # for exporters without aten::diff: with a mask, transformers does not derive sequence starts from positions
            mask = torch.ones_like(x) if name == "gpt2" and torch.onnx.is_in_onnx_export() else None
            return self.model(input_ids=x, attention_mask=mask).logits

    length, words = TOKENS[name]
    if name == "gpt2":
        config = transformers.GPT2Config(
            resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, use_cache=False, attn_implementation=attention
        )
        return Logits(transformers.GPT2LMHeadModel(config))
    shape = {"hidden_size": 384, "num_hidden_layers": 6, "intermediate_size": 1536} if name == "minilm_l6" else {}
    config = transformers.BertConfig(
        **shape,
        vocab_size=words,
        num_labels=10,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
        attn_implementation=attention,
    )
    return Logits(transformers.BertForSequenceClassification(config))


def build_net(name, attention="sdpa"):
    """Returns the model in PyTorch. The program and PyTorch both start from its weights."""
    import torch
    from torch import nn

    torch.manual_seed(1)
    if name in TOKENS:
        return build_text(name, attention)
    if name == "lstm":

        class Lstm(nn.Module):
            def __init__(self):
                super().__init__()
                self.layers = nn.LSTM(512, 512, num_layers=2, batch_first=True)
                self.head = nn.Linear(512, 10)

            def forward(self, x):
                return self.head(self.layers(x)[0][:, -1])

        return Lstm()
    if name == "lenet":
        return nn.Sequential(
            nn.Conv2d(1, 6, 5, padding=2),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(6, 16, 5),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Linear(400, 120),
            nn.ReLU(),
            nn.Linear(120, 84),
            nn.ReLU(),
            nn.Linear(84, 10),
        )
    if name == "mlp":
        return nn.Sequential(nn.Linear(32, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 2))
    if name == "tabular":
        return nn.Sequential(nn.Linear(233, 1000), nn.ReLU(), nn.Linear(1000, 500), nn.ReLU(), nn.Linear(500, 1))
    if name == "unet":
        import gpu_models

        return gpu_models.UNet()
    import torchvision

    makers = {
        "resnet18": lambda: torchvision.models.resnet18(num_classes=10),
        "resnet50": lambda: torchvision.models.resnet50(num_classes=10),
        "mobilenet": lambda: torchvision.models.mobilenet_v2(num_classes=10, dropout=0.0),
        "convnext": lambda: torchvision.models.convnext_tiny(num_classes=10, stochastic_depth_prob=0.0),
    }
    return makers[name]()


def export_net(name, path, sample):
    import torch

    net = build_net(name, "eager")
    torch.onnx.export(
        net.eval() if name in TOKENS else net.train(),  # batch normalization with batch statistics
        (torch.from_numpy(sample),),
        str(path),
        dynamo=False,
        training=torch.onnx.TrainingMode.EVAL if name in TOKENS else torch.onnx.TrainingMode.TRAINING,
        do_constant_folding=False,
        opset_version=17,
        input_names=["x"],
        output_names=["logits"],
        dynamic_axes={"x": {0: "batch"}, "logits": {0: "batch"}},
    )


def new_head(binary, case, folder):
    """Writes head.safetensors: the head that the program adds to the sentence model, exported after one step with a
    learning rate of 0."""
    from onnx import load, numpy_helper

    out = folder / "head"
    words = [case["model"], *case["flags"], "--batch_size", 1, "--limit_train", 1, "--max_steps", 1, "--lr", 0]
    common.run_ours(binary, *words, "--weight_decay", 0, "--no_verify_export", "--output_dir", out, "--overwrite", "--quiet")
    tensors = {t.name: numpy_helper.to_array(t) for t in load(str(out / "model.onnx")).graph.initializer}
    weight, bias = tensors["classifier.weight"], tensors["classifier.bias"]
    save_file({"weight": np.ascontiguousarray(weight if weight.shape[0] == len(bias) else weight.T), "bias": bias.copy()}, str(folder / "head.safetensors"))


def prepare(name, folder, steps, minilm, binary=None):
    """Writes the case's folder and returns the contents of case.json. binary: the program whose new head PyTorch starts
    with."""
    size = CASES[name]["batch"]
    steps = steps or CASES[name]["steps"]
    case = {"name": name, "batch": size, "loss": CASES[name].get("loss", "cross_entropy")}
    if name in SENTENCES:
        batches, case["warm"] = tweet_batches(folder, size, steps, grouped=name == "minilm")
        case["model"] = str(minilm)
        case["flags"] = [
            "--train",
            str(folder / "train.csv"),
            "--vocab",
            str(common.TWEETS / "vocab.txt"),
            "--text_columns",
            "text",
            "--label_column",
            "sentiment",
            "--max_seq_len",
            str(common.MAX_LEN),
            "--pad_to_multiple",
            str(common.PAD_TO),
            "--dropout",
            "0",
        ]
        if binary:
            new_head(binary, case, folder)
    else:
        case["warm"] = 2 if name in TOKENS else max(WARM, steps // 20)
        count = steps + case["warm"]
        rng = np.random.default_rng(0)
        shape = SHAPES.get(name, (3, 128, 128))
        if name in TOKENS:
            shape = TOKENS[name][:1]
            x = rng.integers(0, TOKENS[name][1], (count * size, *shape))
        else:
            x = rng.random((count * size, *shape), np.float32)
        if case["loss"] == "bce_logits":
            y = rng.integers(0, 2, (count * size, *((1, *shape[1:]) if name == "unet" else (1,)))).astype(np.float32)
        elif name == "gpt2":
            y = np.roll(x, -1, axis=1)  # the label is the next token
        else:
            y = rng.integers(0, 2 if name == "mlp" else 10, count * size)
        save_file({"x": x, "label": y}, str(folder / "train.safetensors"))
        batches = [{"x": x[i : i + size], "label": y[i : i + size]} for i in range(0, len(x), size)]
        export_net(name, folder / "model.onnx", x[:size])
        case["model"] = str(folder / "model.onnx")
        case["flags"] = ["--train", str(folder / "train.safetensors"), "--loss", case["loss"]]
    if name in TOKENS:
        case["flags"] += ["--dropout", "0"]
    if name in VISION:
        case["flags"] += ["--batchnorm", "train"]  # as PyTorch trains
    case["rows"] = [len(b["label"]) for b in batches]
    case["tokens"] = [int(b["mask"].sum()) if "mask" in b else 0 for b in batches]
    case["shapes"] = sorted({b["ids" if "ids" in b else "x"].shape for b in batches})
    save_file({f"{i}.{k}": v for i, b in enumerate(batches) for k, v in b.items()}, str(folder / "batches.safetensors"))
    (folder / "case.json").write_text(json.dumps(case))
    return case


def tweet_batches(folder, size, steps, grouped):
    """Returns the first `steps` batches of an epoch, of rows with similar length or in random order. One batch of each
    length comes before them."""
    rows = common.read_tweets(common.TWEETS / "train.csv")
    ids = common.tokenize([t for t, _ in rows])
    labels = sorted({label for _, label in rows})
    rng = np.random.default_rng(0)
    if grouped:
        order = common.grouped_batches([len(t) for t in ids], size, rng)
    else:
        order = np.split(rng.permutation(len(ids)), range(size, len(ids), size))
    timed = [b for b in order if len(b) == size][:steps]
    first = {}
    for batch in timed:
        first.setdefault(common.pad([ids[i] for i in batch])[0].shape[1], batch)
    warm = [first[n] for n in sorted(first, reverse=True)]
    while len(warm) < WARM:
        warm.append(timed[len(warm) % len(timed)])
    batches = []
    for rows_of in warm + timed:
        padded, mask = common.pad([ids[i] for i in rows_of])
        label = np.array([labels.index(rows[i][1]) for i in rows_of])
        batches.append({"ids": padded, "mask": mask, "label": label})
    common.write_tweets(folder / "train.csv", [rows[i] for batch in warm + timed for i in batch])
    return batches, len(warm)


def load_batches(folder):
    tensors = load_file(str(Path(folder) / "batches.safetensors"))
    count = 1 + max(int(k.split(".")[0]) for k in tensors)
    batches = [{} for _ in range(count)]
    for key, value in tensors.items():
        index, name = key.split(".")
        batches[int(index)][name] = value
    return batches
