"""Round trip: MiniLM as a Hugging Face checkpoint -> `convert` -> training -> `export --to
huggingface` -> transformers.

transformers' save_pretrained writes the checkpoint from the quickstart's weights with a new head. The checkpoint is
trained on the quickstart's tweets in fp32 and bf16. transformers must then load the folder without missing, unexpected
or reshaped tensors, and its logits on tweets must equal those of the run's model.onnx in onnxruntime (1e-5 of the
largest logit). Exits with 1 if not.
"""

import argparse
import json
import tempfile
from pathlib import Path

import common
import numpy as np
import torch_minilm

TOLERANCE = 1e-5


def save_checkpoint(binary, path, folder):
    """Saves a BertForSequenceClassification with the file's encoder and a random pooler and head."""
    import torch
    from transformers import BertForSequenceClassification

    torch.manual_seed(0)
    bert = torch_minilm.load_bert(binary, path)
    bert.config.num_labels = 3
    model = BertForSequenceClassification(bert.config)
    model.bert.load_state_dict(bert.state_dict(), strict=False)
    model.save_pretrained(folder)


def load_checked(folder):
    from transformers import BertForSequenceClassification

    model, told = BertForSequenceClassification.from_pretrained(folder, output_loading_info=True)
    wrong = {k: sorted(map(str, v)) for k, v in told.items() if v}
    if wrong:
        raise SystemExit(f"transformers does not take {folder} as it is: {wrong}")
    return model.eval()


def difference(model, path, tokens):
    """Returns the difference between transformers' and onnxruntime's logits, relative to the largest logit."""
    import onnxruntime
    import torch

    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    worst = largest = 0.0
    for at in range(0, len(tokens), 32):
        ids, mask = common.pad(tokens[at : at + 32])
        feed = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
        want = session.run(["logits"], {i.name: feed[i.name] for i in session.get_inputs()})[0]
        with torch.no_grad():
            got = model(torch.from_numpy(ids), torch.from_numpy(mask)).logits.numpy()
        worst, largest = max(worst, float(np.abs(got - want).max())), max(largest, float(np.abs(want).max()))
    return worst / largest


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--binary")
    parser.add_argument("--model", help="the ONNX file; default: what cmake/fetch_minilm.sh fetches")
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--rows", type=int, default=256, help="tweets that are compared")
    args = parser.parse_args()
    binary, minilm = common.find_binary(args.binary), common.find_minilm(args.model)
    tokens = common.tokenize([t for t, _ in common.read_tweets(common.TWEETS / "dev.csv", args.rows)])
    worst = {}
    with tempfile.TemporaryDirectory(prefix="amp-roundtrip-") as scratch:
        work = Path(scratch)
        save_checkpoint(binary, minilm, work / "checkpoint")
        common.run_ours(binary, "convert", work / "checkpoint", "--out", work / "start" / "model.onnx")
        worst["converted"] = difference(load_checked(work / "checkpoint"), work / "start" / "model.onnx", tokens)
        for precision in ("fp32", "bf16"):
            run, back = work / precision, work / f"{precision}-back"
            common.run_ours(
                binary, work / "start" / "model.onnx", "--train", common.TWEETS / "train.csv", "--val", common.TWEETS / "dev.csv",
                "--limit_val", 200, "--vocab", common.TWEETS / "vocab.txt", "--text_columns", "text", "--label_column", "sentiment",
                "--max_steps", args.steps, "--batch_size", 16, "--lr", 1e-4, f"--use_{precision.replace('fp32', 'fp16=false')}",
                "--output_dir", run, "--quiet")  # fmt: skip
            common.run_ours(binary, "export", run, "--to", "huggingface", "--out", back)
            model = load_checked(back)
            worst[precision] = difference(model, run / "model.onnx", tokens)
            moved = difference(model, work / "start" / "model.onnx", tokens)
            if moved < 100 * TOLERANCE:
                raise SystemExit(f"{precision}: training changed nothing ({moved})")
            run_json = json.loads((run / "run.json").read_text())
            print(precision, run_json["steps"], run_json["final_metrics"]["accuracy"], f"moved the logits by {moved:.2f}")
    print(json.dumps({"largest difference of a logit, of the largest logit": worst}))
    if max(worst.values()) > TOLERANCE:
        raise SystemExit("transformers computes other logits than the model that was exported")


if __name__ == "__main__":
    main()
