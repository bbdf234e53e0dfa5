"""Answers a question with onnxruntime-genai, first with the base model and then with the adapter of a run
(--lora_export slots).

Makes a new folder: the original one with the run's model.onnx, which has inputs for adapters (slots).
"""

import argparse
import json
import shutil
from pathlib import Path

import numpy as np
import onnxruntime_genai as og


def answer(model, tokenizer, text, adapters=None):
    ids = tokenizer.encode(text)
    params = og.GeneratorParams(model)
    params.set_search_options(max_length=len(ids) + 32, do_sample=False)
    generator = og.Generator(model, params)
    if adapters:
        generator.set_active_adapter(adapters, "trained")
    generator.append_tokens(ids)
    while not generator.is_done():
        generator.generate_next_token()
    return tokenizer.decode(np.array(generator.get_sequence(0)[len(ids) :], np.int32)).strip()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, required=True, help="the folder that was trained")
    parser.add_argument("--run", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True, help="new folder")
    parser.add_argument("--chats", type=Path, required=True, help="JSONL; the first question of its first row is asked")
    args = parser.parse_args()
    shutil.copytree(args.folder, args.out, dirs_exist_ok=True)
    for name in ("model.onnx", "model.onnx.data", "model.onnx_adapter"):
        shutil.copy(args.run / name, args.out / name)
    with open(args.chats, encoding="utf-8") as f:
        messages = json.loads(f.readline())["messages"][:2]
    model = og.Model(str(args.out))
    tokenizer = og.Tokenizer(model)
    text = tokenizer.apply_chat_template(json.dumps(messages), add_generation_prompt=True)
    adapters = og.Adapters(model)
    adapters.load(str(args.out / "model.onnx_adapter"), "trained")
    print("without the adapter:", answer(model, tokenizer, text))
    print("with the adapter:   ", answer(model, tokenizer, text, adapters))


if __name__ == "__main__":
    main()
