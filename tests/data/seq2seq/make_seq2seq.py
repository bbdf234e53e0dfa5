#!/usr/bin/env python3
"""Makes a tiny T5, its tokenizer, rows of text, and transformers' results for them: batches of DataCollatorForSeq2Seq,
the loss of each batch, and the tokens of greedy generate().

    python3 make_seq2seq.py        (torch, transformers, tokenizers, onnx)"""
import json

import torch
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors, trainers, decoders
from transformers import DataCollatorForSeq2Seq, PreTrainedTokenizerFast, T5Config, T5ForConditionalGeneration

PREFIX = "turn around: "
WORDS = "the cat sat on a mat and then ran to see what good day it was".split()
rows = []
for i in range(24):
    words = [WORDS[(7 * i + 3 * k * k + k) % len(WORDS)] for k in range(2 + i % 6)]
    rows.append((" ".join(words), " ".join(reversed(words)) + ("!" if i % 3 == 0 else "")))
with open("rows.tsv", "w") as f:
    f.write("source\ttarget\n" + "".join(f"{a}\t{b}\n" for a, b in rows))

tokenizer = Tokenizer(models.Unigram())
tokenizer.normalizer = normalizers.NFKC()
tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
tokenizer.decoder = decoders.Metaspace()
trainer = trainers.UnigramTrainer(vocab_size=80, special_tokens=["<pad>", "</s>", "<unk>"], unk_token="<unk>", show_progress=False)
tokenizer.train_from_iterator([a for r in rows for a in r] + [PREFIX], trainer)
tokenizer.post_processor = processors.TemplateProcessing(single="$A </s>", pair="$A </s> $B </s>", special_tokens=[("</s>", 1)])
tokenizer.save("tokenizer.json")
fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token="<pad>", eos_token="</s>", unk_token="<unk>")

torch.manual_seed(3)
config = T5Config(vocab_size=len(fast), d_model=16, d_kv=8, d_ff=32, num_layers=1, num_heads=2, decoder_start_token_id=0,
                  pad_token_id=0, eos_token_id=1, dropout_rate=0.0)
model = T5ForConditionalGeneration(config).eval()
json.dump({"model_type": "t5", "decoder_start_token_id": 0, "pad_token_id": 0, "eos_token_id": 1}, open("config.json", "w"))

def features_of(some):
    out = []
    for a, b in some:
        f = fast(PREFIX + a, truncation=True, max_length=24)
        f["labels"] = fast(b, truncation=True, max_length=16)["input_ids"]
        out.append({k: f[k] for k in ("input_ids", "attention_mask", "labels")})
    return out


collate = DataCollatorForSeq2Seq(fast, model=model, pad_to_multiple_of=8, return_tensors="pt")
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
for _ in range(60):  # so that the generated text ends, and depends on the source text
    optimizer.zero_grad()
    model(**collate(features_of(rows))).loss.backward()
    optimizer.step()
golden = {"prefix": PREFIX, "batches": [], "generated": []}
for begin in (0, 8, 16):
    batch = collate(features_of(rows[begin:begin + 8]))
    with torch.no_grad():
        loss = model.double()(**batch).loss.item()
    golden["batches"].append({"loss": loss, **{k: v.tolist() for k, v in batch.items()}})
model.float()
for a, _ in rows[:8]:
    ids = fast(PREFIX + a, return_tensors="pt")
    written = model.generate(**{k: ids[k] for k in ("input_ids", "attention_mask")}, max_new_tokens=10, num_beams=1, do_sample=False)
    golden["generated"].append({"source": a, "ids": written[0].tolist(), "text": fast.decode(written[0], skip_special_tokens=True)})
json.dump(golden, open("golden.json", "w"))


class Whole(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.model = model

    def forward(self, input_ids, attention_mask, decoder_input_ids):
        return self.model(input_ids=input_ids, attention_mask=attention_mask, decoder_input_ids=decoder_input_ids, use_cache=False).logits


batch = golden["batches"][0]
args = tuple(torch.tensor(batch[k]) for k in ("input_ids", "attention_mask", "decoder_input_ids"))
torch.onnx.export(Whole(), args, "model.onnx", input_names=["input_ids", "attention_mask", "decoder_input_ids"], output_names=["logits"],
                  opset_version=17, dynamo=False,
                  dynamic_axes={"input_ids": {0: "batch", 1: "sequence"}, "attention_mask": {0: "batch", 1: "sequence"},
                                "decoder_input_ids": {0: "batch", 1: "target"}, "logits": {0: "batch", 1: "target"}})
