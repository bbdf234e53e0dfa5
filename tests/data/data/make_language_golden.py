#!/usr/bin/env python3
"""Makes golden data for language_test.cc: texts and conversations as transformers, tokenizers and TRL convert them.

  pip install transformers==5.23.0 jinja2==3.1.6 tokenizers==0.23.3 pyarrow; pip download --no-deps trl==1.16.0
  make_language_golden.py TRL_FOLDER OUT_FOLDER      # TRL_FOLDER: the unpacked wheel

chat.json has the chat templates that TRL publishes (Apache-2.0; trl/chat_templates): the original of each model and, if
TRL has one, a variant with {% generation %} around answers. It also has texts, ids and assistant masks by
apply_chat_template. The mask of a variant is also used for its original, if both write the same text and the variant's
block contains everything after the generation prompt (this is not so for Qwen 2.5 and DeepSeek). "last" is the completion
by TRL if the last message is the completion: the text after the longest prefix that it shares with the prompt. A token
belongs to it by its characters.
packing.json has run_clm's windows and TRL's packed datasets, by tokenizers' truncation and the code of trl.data_utils.
"""
import ast
import json
import os
import pathlib
import random
import sys
from collections import defaultdict, deque

import numpy as np
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

TRL, OUT = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
SPECIALS = {
    "qwen2_5": dict(eos_token="<|im_end|>"),
    "qwen3": dict(eos_token="<|im_end|>"),
    "qwen3_instruct_2507": dict(eos_token="<|im_end|>"),
    "llama3": dict(bos_token="<|begin_of_text|>", eos_token="<|eot_id|>"),
    "phi3_5": dict(bos_token="<s>", eos_token="<|endoftext|>"),
    "gemma": dict(bos_token="<bos>", eos_token="<eos>"),
    "gemma3": dict(bos_token="<bos>", eos_token="<eos>"),
    "deepseek_r1_distill": dict(bos_token="<｜begin▁of▁sentence｜>", eos_token="<｜end▁of▁sentence｜>"),
    "deepseekv3": dict(bos_token="<｜begin▁of▁sentence｜>", eos_token="<｜end▁of▁sentence｜>"),
    "glm4moe": dict(eos_token="<|endoftext|>"),
    "lfm2": dict(bos_token="<|startoftext|>", eos_token="<|im_end|>"),
}
ADDED = ["<|im_start|>", "<|im_end|>", "<|endoftext|>", "<|begin_of_text|>", "<|eot_id|>", "<|start_header_id|>", "<|end_header_id|>",
         "<s>", "<|end|>", "<|user|>", "<|assistant|>", "<|system|>", "<bos>", "<eos>", "<start_of_turn>", "<end_of_turn>",
         "<｜begin▁of▁sentence｜>", "<｜end▁of▁sentence｜>", "<｜User｜>", "<｜Assistant｜>", "<think>", "</think>",
         "<BOS_TOKEN>", "<|START_OF_TURN_TOKEN|>", "<|END_OF_TURN_TOKEN|>", "<|startoftext|>", "[gMASK]", "<sop>"]
USER, ASSISTANT, SYSTEM = "user", "assistant", "system"


def chat(*turns):
    return [{"role": r, "content": c} for r, c in turns]


CHATS = [
    chat((USER, "What is 2+2?"), (ASSISTANT, "It is 4.")),
    chat((USER, "Hi"), (ASSISTANT, "Hello!"), (USER, "Größer als π? \U0001f914"), (ASSISTANT, "Ja — 4 > 3,14 \U0001f680")),
    chat((USER, "  spaces \n"), (ASSISTANT, "line\n\nline two  "), (USER, "and\ttab"), (ASSISTANT, "ok"), (USER, "日本語?"), (ASSISTANT, "はい")),
    chat((SYSTEM, "Be brief, \"quote\" & <tag>."), (USER, "Why?"), (ASSISTANT, "Because.")),
    chat((SYSTEM, "You help."), (USER, "a"), (ASSISTANT, "<think>\nhmm\n</think>\n\nb"), (USER, "c"), (ASSISTANT, "<think>\nagain\n</think>\n\nd")),
    chat((USER, "Say the same twice"), (ASSISTANT, "same"), (USER, "same"), (ASSISTANT, "same")),
]


def train_tokenizer():
    tok = Tokenizer(models.BPE())
    tok.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tok.decoder = decoders.ByteLevel()
    texts = [m["content"] for c in CHATS for m in c] + ["the quick brown fox jumps over the lazy dog and the cat"] * 3
    tok.train_from_iterator(texts, trainers.BpeTrainer(vocab_size=330, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), special_tokens=[]))
    tok.add_special_tokens(ADDED)
    tok.save(str(OUT / "tokenizer.json"))


def last_answer(case, tok):
    begin = len(os.path.commonprefix([case["prompt"], case["text"]]))
    places = tok(case["text"], add_special_tokens=False, return_offsets_mapping=True)["offset_mapping"]
    return begin, [int(b > begin) for _, b in places]


def mask_of(out):
    return [int(x) for x in out["assistant_masks"]]


def chats():
    cases, templates = [], {}
    for name, specials in SPECIALS.items():
        for variant in (name, name + "_training"):
            path = TRL / "chat_templates" / (variant + ".jinja")
            if not path.exists():
                continue
            source = path.read_text()
            templates[variant] = {"source": source, "specials": specials}
            tok = PreTrainedTokenizerFast(tokenizer_file=str(OUT / "tokenizer.json"), chat_template=source, **specials)
            for i, messages in enumerate(CHATS):
                try:
                    text = tok.apply_chat_template(messages, tokenize=False)
                except Exception as e:  # the template's own refusal
                    cases.append({"template": variant, "chat": i, "refused": str(e)})
                    continue
                case = {"template": variant, "chat": i, "text": text, "ids": tok(text, add_special_tokens=False)["input_ids"],
                        "prompt": tok.apply_chat_template(messages[:-1], tokenize=False, add_generation_prompt=True)}
                begin, case["last"] = last_answer(case, tok)
                if variant.endswith("_training"):
                    out = tok.apply_chat_template(messages, tokenize=True, return_dict=True, return_assistant_tokens_mask=True)
                    assert list(out["input_ids"]) == case["ids"]
                    case["mask"] = mask_of(out)
                    original = templates[name]["source"]  # the texts are equal, so the answers are, too
                    same = tok.apply_chat_template(messages, chat_template=original, tokenize=False) == text
                    if same and case["mask"][case["last"].index(1):] == case["last"][case["last"].index(1):] and not case["mask"][case["last"].index(1) - 1]:
                        for other in cases:
                            if other["template"] == name and other["chat"] == i:
                                other["mask"] = case["mask"]
                cases.append(case)
    (OUT / "chat.json").write_text(json.dumps({"templates": templates, "chats": CHATS, "cases": cases}, ensure_ascii=False, indent=0))
    print(len(templates), "templates,", len(cases), "cases,", sum("mask" in c for c in cases), "masks,", sum("refused" in c for c in cases), "refused")


def trl_code(*names):
    """Functions and classes of trl.data_utils, whose other imports are not needed."""
    import pyarrow as pa
    import pyarrow.compute as pc
    tree = ast.parse((TRL / "data_utils.py").read_text())
    body = [n for n in tree.body if getattr(n, "name", "") in names]
    from typing import Literal
    scope = dict(pyarrow=pa, pa=pa, pc=pc, np=np, defaultdict=defaultdict, deque=deque, Literal=Literal)
    exec(compile(ast.Module(body, []), "trl", "exec"), scope)
    return scope, pa


def packing():
    scope, pa = trl_code("_SegmentTree", "_pack_bfd", "_pack_wrapped", "_check_if_columns_can_be_packed")
    rng = random.Random(1)
    texts = [[rng.randrange(100) for _ in range(n)] for n in [5, 1, 16, 7, 7, 3, 9, 12, 2, 2, 4, 16, 8, 8, 1, 6, 11, 5, 10, 13]]
    table = pa.table({"input_ids": pa.array(texts)})
    bfd = scope["_pack_bfd"](table, 16)
    out = {"texts": texts, "length": 16, "bfd": bfd["input_ids"].to_pylist(), "bfd_lengths": bfd["seq_lengths"].to_pylist(),
           "wrapped": scope["_pack_wrapped"](table, 16)["input_ids"].to_pylist()}
    tok = Tokenizer.from_file(str(OUT / "tokenizer.json"))
    text = " ".join(m["content"] for c in CHATS for m in c)
    out["text"], out["windows"] = text, {}
    for stride in (0, 3):
        tok.enable_truncation(20, stride=stride)
        e = tok.encode(text, add_special_tokens=False)
        out["windows"][str(stride)] = [e.ids] + [o.ids for o in e.overflowing]
    (OUT / "packing.json").write_text(json.dumps(out, ensure_ascii=False))


train_tokenizer()
chats()
packing()
