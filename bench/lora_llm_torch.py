"""PyTorch and PEFT's part of lora_llm.py: the model from the int4 folder's dequantized weights, the token ids and
labels of conversations, and LoRA steps. Run as a program, it trains and writes losses and times as JSON.
"""

import argparse
import json
import os
import resource
import time
from pathlib import Path

import numpy as np

os.environ.setdefault("HF_HUB_OFFLINE", "1")
MAPS = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]


def dequantized(folder):
    """Returns the weights of the MatMulNBits nodes as {node name: float32 [N, K]}; symmetric 4 bits, low bits first."""
    import onnx
    from onnx import helper, numpy_helper

    model = onnx.load(Path(folder) / "model.onnx")
    stored = {i.name: i for i in model.graph.initializer}
    out = {}
    for node in model.graph.node:
        if node.op_type != "MatMulNBits":
            continue
        a = {x.name: helper.get_attribute_value(x) for x in node.attribute}
        if a["bits"] != 4 or a["K"] % a["block_size"] or len([i for i in node.input if i]) != 3:
            raise SystemExit(f"{node.name}: only symmetric weights of 4 bits in whole blocks are read here")
        packed, scales = (numpy_helper.to_array(stored[i]) for i in node.input[1:3])
        packed = packed.reshape(a["N"], -1, a["block_size"] // 2)
        numbers = np.stack([packed & 15, packed >> 4], -1).reshape(*packed.shape[:2], a["block_size"])
        weight = (numbers.astype(np.float32) - 8) * scales.reshape(a["N"], -1, 1)
        out[node.name] = weight.reshape(a["N"], a["K"])
    return out


def load_model(checkpoint, folder):
    """Returns the checkpoint's model with the weights of the folder."""
    import torch
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(checkpoint, dtype=torch.float32)
    c, state, weights = model.config, model.state_dict(), dequantized(folder)
    head = c.hidden_size // c.num_attention_heads
    kv = c.num_key_value_heads * head
    new = {}
    for name, w in weights.items():
        parts = name.split("/")
        if parts[1] == "lm_head":
            new["lm_head.weight"] = new["model.embed_tokens.weight"] = w
            continue
        layer, block, projection = parts[2], parts[3].replace("attn", "self_attn"), parts[4]
        split = [(projection, w)]
        if projection == "qkv_proj":
            split = list(zip(MAPS[:3], np.split(w, [c.hidden_size, c.hidden_size + kv])))
        for to, part in split:
            new[f"model.{layer}.{block}.{to}.weight"] = part
    for name, w in new.items():
        state[name].copy_(torch.from_numpy(np.ascontiguousarray(w)))
    return model


def batches(checkpoint, chats, longest, size, steps):
    """Returns (ids, mask, labels) of each batch in the order of the file. Labels are the tokens of the assistant's
    answers, and -100 elsewhere."""
    import torch
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(checkpoint)
    rows = []
    for line in Path(chats).read_text(encoding="utf-8").splitlines():
        messages = json.loads(line)["messages"]
        write = lambda m, prompt: tokenizer.apply_chat_template(m, tokenize=False, add_generation_prompt=prompt)
        spans = [
            (len(write(messages[:i], True)), len(write(messages[: i + 1], False)))
            for i, m in enumerate(messages)
            if m["role"] == "assistant"
        ]
        coded = tokenizer(write(messages, False), add_special_tokens=False, return_offsets_mapping=True)
        ids = coded["input_ids"][:longest]
        inside = [any(a < hi and b > lo for lo, hi in spans) for a, b in coded["offset_mapping"][:longest]]
        if any(inside):
            rows.append((ids, [t if i else -100 for t, i in zip(ids, inside)]))
    out = []
    for at in range(0, size * steps, size):
        some = rows[at : at + size]
        length = max(len(ids) for ids, _ in some)
        fill = lambda values, pad: torch.tensor([v + [pad] * (length - len(v)) for v in values])
        ids, labels = fill([r[0] for r in some], 0), fill([r[1] for r in some], -100)
        out.append((ids, fill([[1] * len(r[0]) for r in some], 0), labels))
    return out


def write_adapter(args):
    """Returns PEFT's initial adapter (B is zero), from which both programs start."""
    import torch
    from peft import LoraConfig, get_peft_model

    torch.manual_seed(1)
    config = LoraConfig(r=args.rank, lora_alpha=2 * args.rank, target_modules=MAPS, task_type="CAUSAL_LM")
    get_peft_model(load_model(args.checkpoint, args.folder), config).save_pretrained(args.adapter)


def train(args):
    import torch
    from peft import PeftModel

    torch.set_num_threads(1)
    model = load_model(args.checkpoint, args.folder)
    if args.precision == "bf16":
        model = model.to(torch.bfloat16)  # converts the frozen weights; PEFT keeps the adapter in fp32
    model = PeftModel.from_pretrained(model, args.adapter, is_trainable=True)
    model.train()
    trained = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=args.lr, weight_decay=0)
    losses, cpu, wall, tokens = [], [], [], []
    for ids, mask, labels in batches(args.checkpoint, args.chats, args.longest, args.batch, args.steps):
        begun, cpu_begun = time.monotonic(), time.process_time()
        with torch.autocast("cpu", torch.bfloat16, enabled=args.precision == "bf16"):
            loss = model(input_ids=ids, attention_mask=mask, labels=labels).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(trained, 1.0)
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
        tokens.append(int(mask.sum()))
        cpu.append(time.process_time() - cpu_begun)
        wall.append(time.monotonic() - begun)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    result = {"losses": losses, "tokens": tokens, "cpu_seconds": cpu, "seconds": wall, "peak": peak}
    args.out.write_text(json.dumps(result))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["adapter", "train"])
    for name in ("folder", "checkpoint", "chats", "adapter", "out"):
        parser.add_argument("--" + name, type=Path)
    parser.add_argument("--precision", default="fp32", choices=["fp32", "bf16"])
    for name, value in (("rank", 8), ("longest", 256), ("batch", 4), ("steps", 20)):
        parser.add_argument("--" + name, type=int, default=value)
    parser.add_argument("--lr", type=float, default=1e-4)
    args = parser.parse_args()
    (write_adapter if args.what == "adapter" else train)(args)


if __name__ == "__main__":
    main()
