"""Tiny random models of architectures that no zoo contains: functions shared by the tables of
unprepared_text.py, unprepared_vision.py and unprepared_audio_multimodal.py. A model is a module that takes
tensors and returns one floating tensor, and its named inputs.
"""

import inspect

import torch

BATCH, LENGTH, VOCAB, SIZE = 2, 10, 100, 32

ARCHITECTURES = {}  # name -> function that returns (module, {input name: tensor})

# Names of sizes in Hugging Face configurations. A size is set if the configuration has a number of that name.
TINY = {
    **dict.fromkeys(("vocab_size", "text_vocab_size", "entity_vocab_size"), VOCAB),
    **dict.fromkeys(
        "hidden_size d_model n_embd dim embed_dim emb_dim projection_dim text_embed_dim embedding_size word_embed_proj_dim "
        "hidden_channels encoder_hidden_size decoder_hidden_size rnn_size attention_hidden_size output_dim lru_width entity_emb_size".split(),
        32,
    ),
    **dict.fromkeys(
        "num_hidden_layers num_layers n_layer n_layers encoder_layers decoder_layers num_encoder_layers num_decoder_layers "
        "encoder_num_hidden_layers decoder_num_hidden_layers".split(),
        2,
    ),
    **dict.fromkeys(
        "num_attention_heads n_head n_heads num_heads encoder_attention_heads decoder_attention_heads num_encoder_attention_heads "
        "num_decoder_attention_heads".split(),
        4,
    ),
    **dict.fromkeys(("num_key_value_heads", "num_kv_heads", "multi_query_group_num"), 2),
    **dict.fromkeys(("head_dim", "d_kv", "attention_head_size"), 8),
    **dict.fromkeys(
        "intermediate_size ffn_dim d_ff encoder_ffn_dim decoder_ffn_dim n_inner hidden_dim ffn_hidden_size dim_feedforward "
        "moe_intermediate_size shared_expert_intermediate_size block_ff_dim".split(),
        48,
    ),
    **dict.fromkeys("max_position_embeddings n_positions n_ctx max_source_positions max_target_positions seq_length".split(), 64),
    **dict.fromkeys(("num_experts", "num_local_experts", "n_routed_experts", "num_routed_experts"), 4),
    **dict.fromkeys(("num_experts_per_tok", "experts_per_token"), 2),
    "image_size": SIZE,
    "patch_size": 8,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "decoder_start_token_id": 1,
    "use_cache": False,
    "rotary_dim": 8,
    "window_size": 4,
}


def is_count(value):
    return isinstance(value, int) and not isinstance(value, bool)


def tiny_fields(fields, over):
    """Returns overrides of a configuration's fields: sizes by name, also in sub-configurations, then the table's
    own."""
    out = {}
    for key, value in fields.items():
        if isinstance(value, dict) and key.endswith("_config") and ("model_type" in value or isinstance(over.get(key), dict)):
            out[key] = {**value, **tiny_fields(value, over.get(key) or {})}
        elif key in TINY and (value is None and "token_id" in key or is_count(value) or isinstance(value, bool) and key == "use_cache"):
            out[key] = TINY[key]
    for key, value in over.items():
        if not (isinstance(value, dict) and isinstance(out.get(key), dict)):
            out[key] = value
    return out


def tiny_config(model_type, **over):
    from transformers import CONFIG_MAPPING

    kind = CONFIG_MAPPING[model_type]
    return kind(**tiny_fields(kind().to_dict(), over))


def first_float(out):
    """Returns the first floating tensor in a model's result."""
    if isinstance(out, torch.Tensor):
        return out if out.is_floating_point() else None
    parts = out.values() if isinstance(out, dict) else out if isinstance(out, (tuple, list)) else []
    for part in parts:
        found = first_float(part)
        if found is not None:
            return found
    return None


class OneOutput(torch.nn.Module):
    """A model with positional inputs and one output tensor: `pick` of its result, or the first floating one."""

    def __init__(self, model, names, fixed=None, pick=None):
        super().__init__()
        self.model, self.names, self.fixed, self.pick = model, list(names), fixed or {}, pick

    def forward(self, *args):
        if self.names and self.names[0] is None:
            out = self.model(*args, **self.fixed)
        else:
            out = self.model(**dict(zip(self.names, args)), **self.fixed)
        if callable(self.pick):
            return self.pick(out)
        return first_float(out[self.pick] if self.pick is not None else out)


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def tokens(shape=(BATCH, LENGTH), seed=1, low=5, high=VOCAB):
    """Returns token ids above the special ones, because PyTorch stops gradients at an embedding's padding_idx, which no
    file records."""
    return torch.randint(low, high, shape, generator=generator(seed))


def mask(shape=(BATCH, LENGTH), padded=2):
    out = torch.ones(shape, dtype=torch.int64)
    if padded:
        out[1:, -padded:] = 0
    return out


def noise(*shape, seed=2):
    return torch.randn(*shape, generator=generator(seed))


def image(size=SIZE, channels=3, batch=BATCH):
    return noise(batch, channels, size, size)


def add(name, make):
    if name in ARCHITECTURES:
        raise ValueError(f"{name} is already in the table")
    ARCHITECTURES[name] = make


def hugging_face(name, model_type, inputs, auto="AutoModel", cls=None, fixed=None, pick=None, attention=None, **over):
    """Adds a model of transformers; `inputs` is a function of the module's configuration that returns its named tensors."""

    def make():
        import transformers

        config = tiny_config(model_type, **over)
        config._experts_implementation = "eager"  # the grouped product has no ONNX form
        keep = {} if attention is None else {"attn_implementation": attention}
        if cls:
            kind = getattr(transformers, cls)
            model = kind._from_config(config, **keep) if hasattr(kind, "_from_config") else kind(config)
        else:
            model = getattr(transformers, auto).from_config(config, **keep)
        given = inputs(config)
        accepted = inspect.signature(model.forward).parameters
        given = {k: v for k, v in given.items() if k in accepted}
        return OneOutput(model, given, fixed, pick), given

    add(name, make)


def plain(name, make_model, inputs, pick=None, fixed=None):
    """Adds a module with positional inputs."""

    def make():
        given = inputs()
        return OneOutput(make_model(), [None] * len(given), fixed, pick), given

    add(name, make)


def load_tables():
    import unprepared_audio_multimodal  # noqa: F401
    import unprepared_text  # noqa: F401
    import unprepared_vision  # noqa: F401

    return ARCHITECTURES


# --- inputs ---------------------------------------------------------------------------------------------------------


def text_inputs(config=None):
    return {"input_ids": tokens(), "attention_mask": mask()}


def decoder_inputs(config=None):
    return {"input_ids": tokens(), "attention_mask": mask(padded=0)}


def ids_only(config=None):
    return {"input_ids": tokens()}


def seq2seq_inputs(config=None):
    return {"input_ids": tokens(), "attention_mask": mask(), "decoder_input_ids": tokens((BATCH, 6), seed=3)}


def image_inputs(size=SIZE, channels=3):
    return lambda config=None: {"pixel_values": image(size, channels)}


def image_text_inputs(size=SIZE):
    return lambda config=None: {"input_ids": tokens(), "pixel_values": image(size), "attention_mask": mask()}


def wave_inputs(samples=800):
    return lambda config=None: {"input_values": noise(BATCH, samples)}


def feature_inputs(*shape, name="input_features"):
    return lambda config=None: {name: noise(BATCH, *shape)}
