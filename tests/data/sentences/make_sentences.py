#!/usr/bin/env python3
"""Makes a small BERT as a sentence-transformers folder and as an ONNX file, and the embeddings that
sentence-transformers computes from it with every pooling. Run it in this folder.

Writes bert/ (config.json, model.safetensors, vocab.txt), hidden.onnx (only last_hidden_state, as Optimum exports it),
texts.csv and embeddings.npz. Made with torch 2.11, transformers 5.24, sentence-transformers 6.2.
"""
import os

import numpy as np
import torch
from sentence_transformers import SentenceTransformer, models
from transformers import BertConfig, BertModel, BertTokenizerFast

torch.manual_seed(0)
words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"] + "the a good bad day night film is was very of and it".split()
model = BertModel(BertConfig(vocab_size=len(words), hidden_size=16, num_hidden_layers=2, num_attention_heads=2,
                             intermediate_size=32, max_position_embeddings=32)).eval()
model.save_pretrained("bert")
with open("bert/vocab.txt", "w") as f:
    f.write("\n".join(words) + "\n")
tokenizer = BertTokenizerFast.from_pretrained("bert")
tokenizer.save_pretrained("work")
model.save_pretrained("work")
texts = ["the film is good", "a very bad night", "it was", "the good day and the bad night of it"]
with open("texts.csv", "w") as f:
    f.write("text,other,score\n")
    f.writelines(f"{a},{b},{s}\n" for a, b, s in zip(texts, texts[::-1], (0.1, 0.9, 0.5, 0.3)))
modes = {"cls": "cls", "max": "max", "mean": "mean", "mean_sqrt_len": "mean_sqrt_len_tokens",
         "weighted_mean": "weightedmean", "last": "lasttoken", "cls+mean": ("cls", "mean")}
out = {}
for name, mode in modes.items():
    parts = [models.Transformer("work", max_seq_length=32), models.Pooling(16, pooling_mode=mode)]
    out[name] = SentenceTransformer(modules=parts, device="cpu").encode(texts)
    if name == "mean":
        parts.append(models.Normalize())
        out["normalized"] = SentenceTransformer(modules=parts, device="cpu").encode(texts)
np.savez("embeddings.npz", **out)


class Hidden(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.model = model

    def forward(self, input_ids, attention_mask, token_type_ids):
        return self.model(input_ids=input_ids, attention_mask=attention_mask,
                          token_type_ids=token_type_ids).last_hidden_state


x = tokenizer(["the film", "a"], return_tensors="pt", padding=True)
names = ["input_ids", "attention_mask", "token_type_ids"]
torch.onnx.export(Hidden(), tuple(x[n] for n in names), "hidden.onnx", dynamo=False, opset_version=14, input_names=names,
                  output_names=["last_hidden_state"],
                  dynamic_axes={n: {0: "batch", 1: "length"} for n in names + ["last_hidden_state"]})
os.system("rm -r work")
