#!/usr/bin/env python3
"""Makes checkpoints of small models as transformers and timm save them, and the outputs of these models, for
tests/run/build_test.cc.

Each folder has config.json, model.safetensors and golden.safetensors (in/NAME, out/NAME). draw() replaces transformers'
small weights, and configurations have other epsilons, bases and activations than the defaults. Otherwise a wrong constant
could change outputs by less than the rounding of fp32. Arguments select models by name. Models of timm and torchvision in
their real sizes are stored as names and shapes (state_dicts.json) and as their outputs (state_dicts.safetensors) for the
weights of filled(), a formula.
Made with torch 2.15.0, torchvision 0.29.2, transformers 5.23.0, timm 1.0.31."""

import json
import pathlib
import sys

import numpy as np
import timm
import torch
import torchvision
import transformers as t
from safetensors.torch import save_file

t.logging.set_verbosity_error()
HERE = pathlib.Path(__file__).parent
TEXT = dict(hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32, vocab_size=60,
            max_position_embeddings=24, num_labels=3, layer_norm_eps=1e-3)
LLAMA = dict(TEXT, num_key_value_heads=1, rms_norm_eps=1e-3)
LLAMA3 = dict(rope_type="llama3", rope_theta=500000.0, factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
              original_max_position_embeddings=16)
IMAGE = dict(hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32, image_size=12,
             patch_size=4, num_labels=3, layer_norm_eps=1e-3)
DEBERTA = dict(TEXT, relative_attention=True, position_buckets=4, pos_att_type=["p2c", "c2p"])
CLIP = dict(projection_dim=8, text_config=dict(hidden_size=16, num_hidden_layers=2, num_attention_heads=2, vocab_size=60,
                                               intermediate_size=32, max_position_embeddings=24, eos_token_id=3,
                                               layer_norm_eps=1e-3),
            vision_config=dict(hidden_size=12, num_hidden_layers=2, num_attention_heads=2, intermediate_size=24,
                               image_size=12, patch_size=4, layer_norm_eps=2e-3, hidden_act="gelu"))
MODERN = dict(TEXT, norm_eps=1e-3, num_hidden_layers=4, local_attention=4, pad_token_id=0, cls_token_id=1, sep_token_id=2, bos_token_id=1,
              eos_token_id=2)
ROTARY = {"full_attention": dict(rope_type="default", rope_theta=40000.0),
          "sliding_attention": dict(rope_type="default", rope_theta=500.0)}
MODELS = {
    "bert_classifier": lambda: t.BertForSequenceClassification(t.BertConfig(**TEXT)),
    "bert_base": lambda: t.BertModel(t.BertConfig(**TEXT)),
    "bert_mlm": lambda: t.BertForMaskedLM(t.BertConfig(**TEXT)),
    "bert_qa": lambda: t.BertForQuestionAnswering(t.BertConfig(**dict(TEXT, num_labels=2), hidden_act="relu")),
    "roberta_tokens": lambda: t.RobertaForTokenClassification(t.RobertaConfig(**TEXT, type_vocab_size=1)),
    "roberta_mlm": lambda: t.RobertaForMaskedLM(t.RobertaConfig(**TEXT, type_vocab_size=1)),
    "xlm_roberta_classifier": lambda: t.XLMRobertaForSequenceClassification(
        t.XLMRobertaConfig(**TEXT, type_vocab_size=1)),
    "electra_classifier": lambda: t.ElectraForSequenceClassification(t.ElectraConfig(**TEXT, embedding_size=8)),
    "distilbert_classifier": lambda: t.DistilBertForSequenceClassification(t.DistilBertConfig(
        dim=16, n_layers=2, n_heads=2, hidden_dim=32, vocab_size=60, max_position_embeddings=24, num_labels=3)),
    "gpt2_lm": lambda: t.GPT2LMHeadModel(t.GPT2Config(
        n_embd=16, n_layer=2, n_head=2, n_inner=24, vocab_size=60, n_positions=24, layer_norm_epsilon=1e-3)),
    "llama_lm": lambda: t.LlamaForCausalLM(t.LlamaConfig(
        **LLAMA, tie_word_embeddings=True, attention_bias=True, mlp_bias=True)),
    "llama3_lm": lambda: t.LlamaForCausalLM(t.LlamaConfig(**LLAMA, rope_parameters=LLAMA3)),
    "qwen2_lm": lambda: t.Qwen2ForCausalLM(t.Qwen2Config(
        **LLAMA, rope_parameters=dict(rope_type="default", rope_theta=1e6))),
    "qwen3_lm": lambda: t.Qwen3ForCausalLM(t.Qwen3Config(**LLAMA, head_dim=8)),
    "albert_classifier": lambda: t.AlbertForSequenceClassification(t.AlbertConfig(**TEXT, embedding_size=8)),
    "albert_groups_mlm": lambda: t.AlbertForMaskedLM(t.AlbertConfig(
        **dict(TEXT, num_hidden_layers=4), embedding_size=8, num_hidden_groups=2, inner_group_num=2)),
    "convnext_classifier": lambda: t.ConvNextForImageClassification(t.ConvNextConfig(
        hidden_sizes=[4, 8, 8, 12], depths=[1, 1, 2, 1], image_size=32, num_labels=3, layer_norm_eps=1e-3)),
    "convnext_base": lambda: t.ConvNextModel(t.ConvNextConfig(
        hidden_sizes=[4, 8], depths=[1, 1], num_stages=2, image_size=16, layer_norm_eps=1e-3)),
    "clip": lambda: t.CLIPModel(t.CLIPConfig(**CLIP)),
    "clip_old_end": lambda: t.CLIPModel(t.CLIPConfig(**dict(CLIP, text_config=dict(CLIP["text_config"], eos_token_id=2)))),
    "clip_classifier": lambda: t.CLIPForImageClassification(t.CLIPConfig(**CLIP, num_labels=3)),
    "deberta_v3_classifier": lambda: t.DebertaV2ForSequenceClassification(t.DebertaV2Config(
        **DEBERTA, share_att_key=True, position_biased_input=False, norm_rel_ebd="layer_norm", type_vocab_size=0)),
    "deberta_v2_mlm": lambda: t.DebertaV2ForMaskedLM(t.DebertaV2Config(**DEBERTA, type_vocab_size=2)),
    "deberta_qa": lambda: t.DebertaV2ForQuestionAnswering(t.DebertaV2Config(
        **dict(DEBERTA, num_labels=2, position_buckets=-1, pos_att_type=["c2p"], max_relative_positions=5))),
    "modernbert_classifier": lambda: t.ModernBertForSequenceClassification(t.ModernBertConfig(
        **MODERN, classifier_pooling="mean", norm_bias=True)),
    "modernbert_mlm": lambda: t.ModernBertForMaskedLM(t.ModernBertConfig(**MODERN, rope_parameters=ROTARY)),
    "modernbert_tokens": lambda: t.ModernBertForTokenClassification(t.ModernBertConfig(**MODERN, attention_bias=True)),
    "vit_classifier": lambda: t.ViTForImageClassification(t.ViTConfig(**IMAGE)),
}


def draw(model):
    """Returns weights as large as trained weights: a layer's outputs are about as large as its inputs, and attention is
    not uniform."""
    with torch.no_grad():
        for module in model.modules():
            for p in module.parameters(recurse=False):
                if p.ndim > 1:
                    fan_in = p.shape[0] if isinstance(module, t.pytorch_utils.Conv1D) else p[0].numel()
                    p.copy_(torch.randn_like(p) * fan_in**-0.5)
                elif p.ndim == 1:  # around the 0 of biases and the 1 of norms
                    p.add_(0.3 * torch.randn_like(p))


def batch_of(model):
    c = model.config
    if c.model_type in ("vit", "convnext"):
        return {"pixel_values": torch.randn(2, 3, c.image_size, c.image_size)}
    if isinstance(model, t.CLIPForImageClassification):
        return {"pixel_values": torch.randn(2, 3, 12, 12)}
    if isinstance(model, t.CLIPModel):
        ids, mask = torch.randint(5, 59, (2, 7)), torch.ones(2, 7, dtype=torch.int64)
        end = 59 if c.text_config.eos_token_id == 2 else c.text_config.eos_token_id
        ids[0, 6], ids[1, 4:], mask[1, 5:] = end, end, 0
        return {"input_ids": ids, "attention_mask": mask, "pixel_values": torch.randn(3, 3, 12, 12)}
    ids = torch.randint(5, c.vocab_size, (2, 7))
    mask = torch.ones(2, 7, dtype=torch.int64)
    mask[1, 5:] = 0
    if c.model_type not in ("gpt2", "llama", "qwen2", "qwen3"):
        ids[1, 5:] = c.pad_token_id
    batch = {"input_ids": ids, "attention_mask": mask}
    if c.model_type in ("bert", "electra", "albert") or c.model_type == "deberta-v2" and c.type_vocab_size > 0:
        batch["token_type_ids"] = torch.randint(0, 2, (2, 7))
    return batch


def save_golden(folder, batch, outputs):
    tensors = {f"in/{k}": v for k, v in batch.items()} | {f"out/{k}": v for k, v in outputs.items()}
    save_file({k: v.contiguous() for k, v in tensors.items()}, folder / "golden.safetensors")


def filled(name, shape):
    """Returns weights that a test can compute with the same bits: murmur3's finalizer of position and name, as doubles
    in [0, 1)."""
    h = np.uint32(2166136261)  # FNV-1a
    for byte in name.encode():
        h = np.uint32((int(h) ^ byte) * 16777619 & 0xFFFFFFFF)
    n = int(np.prod(shape))
    x = np.arange(n, dtype=np.uint32) * np.uint32(2654435761) + h
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35), (16, 1)):
        x = (x ^ (x >> np.uint32(shift))) * np.uint32(factor)
    u = x.astype(np.float64) / 2**32
    if n > shape[0]:
        w = (2 * u - 1) * np.sqrt(3 * shape[0] / n)  # variance 1 / fan in
    elif name.endswith(("bias", "running_mean")):
        w = 0.2 * (u - 0.5)
    else:
        w = 0.5 + u
    return torch.from_numpy(w.astype(np.float32).reshape(shape))


class Drawn:
    """Models of `create` that no library contains, written in PyTorch: the nets of bench/recipes_torch_jobs.py, and an
    MLP."""

    def __init__(self):
        sys.path.insert(0, str(HERE.parents[2] / "bench"))
        import recipes_torch_jobs as jobs

        image, ids = torch.linspace(-1, 1, 2 * 28 * 28).cos().reshape(2, 1, 28, 28), torch.tensor([[0, 3], [4, 1], [2, 2]])
        numbers = torch.linspace(-2, 2, 9).reshape(3, 3)
        lenet = dict(channels=[3, 5], kernels=[3, 5], padding=[0, 0], hidden=[7], activation="relu")
        table = dict(categories=[5, 4], continuous=3, hidden=[8, 6], embedding_dropout=0.5, dropout=0.25)
        mlp = torch.nn.Module()
        mlp.layers = torch.nn.ModuleList(torch.nn.ModuleDict({"linear": torch.nn.Linear(a, b)}) for a, b in ((3, 8), (8, 6)))
        mlp.out = torch.nn.Linear(6, 2)
        mlp.forward = lambda x: mlp.out(mlp.layers[1]["linear"](mlp.layers[0]["linear"](x).relu()).relu())
        self.models = {
            "lenet": (jobs.LeNet(lenet), lenet, {"image": image}, "logits"),
            "unet": (jobs.UNet(1, 3, 4, 2), dict(in_chans=1, num_classes=3, width=4, depth=2), {"image": image[:, :, :, :24]}, "logits"),
            "tabular": (jobs.Tabular(table), table, {"categorical": ids, "continuous": numbers}, "output"),
            "mlp": (mlp, dict(inputs=3, hidden=[8, 6]), {"features": numbers}, "logits"),
        }


def state_dicts():
    """Returns {key: {config: config.json, shapes: of the tensors}}, and tensors KEY/in/NAME and KEY/out/NAME."""
    image = torch.linspace(-1.5, 1.5, 2 * 3 * 32 * 32).cos().reshape(2, 3, 32, 32)
    cases = {}
    for name in ("resnet18", "resnet50", "convnext_tiny"):
        config, inputs = dict(num_classes=3, image_size=32), {"pixel_values": image}
        cases[f"torchvision/{name}"] = getattr(torchvision.models, name)(num_classes=3), config, inputs, "logits"
        cases[f"timm/{name}"] = timm.create_model(name, num_classes=3), config, inputs, "logits"
    cases |= {f"torch/{name}": case for name, case in Drawn().models.items()}
    described, tensors = {}, {}
    for key, (model, config, inputs, output) in cases.items():
        model.eval()
        state = {k: v for k, v in model.state_dict().items() if not k.endswith("num_batches_tracked")}
        model.load_state_dict({k: filled(k, v.shape) for k, v in state.items()}, strict=False)
        described[key] = {"config": {"architecture": key.split("/")[1]} | config, "shapes": {k: list(v.shape) for k, v in state.items()}}
        with torch.no_grad():
            out = model(*inputs.values())
        tensors |= {f"{key}/in/{k}": v.contiguous() for k, v in inputs.items()}
        tensors[f"{key}/out/{output}"] = out[:, None] if output == "output" else out
    save_file({k: v.contiguous().clone() for k, v in tensors.items()}, HERE / "state_dicts.safetensors")
    (HERE / "state_dicts.json").write_text(json.dumps(described) + "\n")


def main():
    for name, make in MODELS.items():
        if sys.argv[1:] and name not in sys.argv[1:]:
            continue
        torch.manual_seed(0)
        model = make().eval()
        draw(model)
        model.save_pretrained(HERE / name)
        (HERE / name / "generation_config.json").unlink(missing_ok=True)
        batch = batch_of(model)
        with torch.no_grad():
            out = model(**batch)
        save_golden(HERE / name, batch, {k: v for k, v in out.items() if isinstance(v, torch.Tensor)})
    if not sys.argv[1:] or "state_dicts" in sys.argv[1:]:
        state_dicts()


if __name__ == "__main__":
    main()
