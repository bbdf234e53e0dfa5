"""Makes fill_mask/: a tiny BERT, exported by PyTorch, and the output of transformers' fill-mask pipeline for input.csv.
Run in this folder."""
import csv
import json
from pathlib import Path

import torch
import transformers

HERE = Path(__file__).parent
FOLDER = HERE / "fill_mask"
FOLDER.mkdir(exist_ok=True)
TOP_K = 4
TEXTS = ["I just went to the [MASK] and it was amazing", "never again, what a sad [MASK] week :(", "so [MASK] today", "[MASK]", "it's [MASK] past [MASK] in New York!",
         "Ünïcödé naïve [MASK] 東京 end", "She lost her phone...[MASK] find it, quoted \"[MASK]\""]

tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_file=str(HERE.parent / "data/tokenizers/word_piece.json"), mask_token="[MASK]", pad_token="[PAD]",
                                                 cls_token="[CLS]", sep_token="[SEP]", unk_token="[UNK]")
torch.manual_seed(3)
model = transformers.BertForMaskedLM(transformers.BertConfig(vocab_size=700, hidden_size=12, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16,
                                                            max_position_embeddings=64, initializer_range=0.6)).eval()


class Plain(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.model = model

    def forward(self, ids, mask, types):
        return self.model(input_ids=ids, attention_mask=mask, token_type_ids=types).logits


ids = torch.tensor([[2, 40, 41, 42, 3], [2, 43, 44, 3, 0]])
names = ["input_ids", "attention_mask", "token_type_ids"]
torch.onnx.export(Plain().eval(), (ids, (ids > 0).long(), torch.zeros_like(ids)), str(FOLDER / "model.onnx"), input_names=names, output_names=["logits"], opset_version=14,
                  dynamic_axes={n: {0: "batch", 1: "sequence"} for n in [*names, "logits"]}, dynamo=False)
with open(FOLDER / "input.csv", "w", encoding="utf-8", newline="") as f:
    writer = csv.writer(f)
    writer.writerow(["id", "text"])
    writer.writerows(enumerate(TEXTS))
fill = transformers.pipeline("fill-mask", model=model, tokenizer=tokenizer, top_k=TOP_K, device="cpu")
rows = []
for text in TEXTS:
    masks = fill(text)
    masks = masks if isinstance(masks[0], list) else [masks]
    filled = tokenizer(text)["input_ids"]
    for m in masks:
        filled[filled.index(tokenizer.mask_token_id)] = m[0]["token"]
    rows.append({"masks": masks, "filled": tokenizer.decode(filled, skip_special_tokens=True)})
(FOLDER / "golden.json").write_text(json.dumps({"top_k": TOP_K, "rows": rows}, ensure_ascii=False, indent=1), encoding="utf-8")
