#!/usr/bin/env python3
"""Makes a GPT-2 of two layers with random weights, its tokenizer, and golden.json: the continuations of prompts by
transformers' greedy generate(), and the probabilities of a few logits after transformers' temperature and top-k."""
import json
import os
import torch
from tokenizers import ByteLevelBPETokenizer
from transformers import GPT2Config, GPT2LMHeadModel
from transformers.generation.logits_process import TemperatureLogitsWarper, TopKLogitsWarper

here = os.path.dirname(os.path.abspath(__file__))
tokenizer = ByteLevelBPETokenizer()
tokenizer.train_from_iterator(["the cat sat on the mat and the dog sat on the cat"] * 4, vocab_size=300, special_tokens=["<|endoftext|>"], show_progress=False)
tokenizer.save_model(here)
torch.manual_seed(5)
end = tokenizer.token_to_id("<|endoftext|>")
config = GPT2Config(vocab_size=tokenizer.get_vocab_size(), n_embd=16, n_layer=2, n_head=2, n_positions=64, initializer_range=0.5,
                    bos_token_id=end, eos_token_id=end)
model = GPT2LMHeadModel(config).eval()
prompts = ["the cat", "the dog sat on", "a", "mat and the cat sat on the mat and the dog", "q7"]


def written(prompt):
    ids = torch.tensor([tokenizer.encode(prompt).ids])
    with torch.no_grad():
        return model.generate(ids, attention_mask=torch.ones_like(ids), do_sample=False, max_new_tokens=40, pad_token_id=end)[0].tolist()


# The end-of-text token gets the embedding of another token, slightly scaled up. Texts then end where that token would
# be generated.
often = written(prompts[0])[-1]
with torch.no_grad():
    model.transformer.wte.weight[end] = 1.05 * model.transformer.wte.weight[often]
model.save_pretrained(here)
texts = [{"prompt": p, "ids": written(p)} for p in prompts]
logits = torch.tensor([[0.3, -1.2, 2.1, 0.9, 1.7, -0.4]])
left = TopKLogitsWarper(3)(None, TemperatureLogitsWarper(0.7)(None, logits))
with open(os.path.join(here, "golden.json"), "w") as f:
    json.dump({"end": end, "texts": texts, "logits": logits[0].tolist(), "temperature": 0.7, "top_k": 3,
               "probabilities": torch.softmax(left, -1)[0].tolist()}, f)
    f.write("\n")
