"""Audio, time series, multimodal and hand-made architectures. unprepared_models.py explains the calls."""

import torch
from torch import nn
from unprepared_models import BATCH, feature_inputs, hugging_face, image_text_inputs, mask, noise, plain, tokens, wave_inputs

W = wave_inputs()
CONV = dict(conv_dim=[16, 16], conv_stride=[5, 4], conv_kernel=[10, 3], num_conv_pos_embeddings=8, num_conv_pos_embedding_groups=4, vocab_size=32, num_feat_extract_layers=2, apply_spec_augment=False)  # fmt: skip

for _name, _over in {
    "wav2vec2": CONV, "hubert": CONV, "wavlm": dict(CONV, num_buckets=8, max_bucket_distance=16), "unispeech": CONV,
    "unispeech-sat": CONV, "data2vec-audio": dict(CONV, conv_pos_kernel_size=5, num_conv_pos_embeddings=2),
    "sew": dict(CONV, squeeze_factor=2), "wav2vec2-conformer": dict(CONV, conv_depthwise_kernel_size=5),
}.items():  # fmt: skip
    _over = {k: v for k, v in _over.items() if k != "num_feat_extract_layers"}
    hugging_face(_name, _name, W, **_over)

MEL = feature_inputs(20, 16)
hugging_face("wav2vec2-bert", "wav2vec2-bert", MEL, feature_projection_input_dim=16, conv_depthwise_kernel_size=5, apply_spec_augment=False)
hugging_face("audio-spectrogram-transformer", "audio-spectrogram-transformer", feature_inputs(32, 16, name="input_values"), max_length=32, num_mel_bins=16, patch_size=8, frequency_stride=4, time_stride=8)  # fmt: skip
hugging_face("whisper", "whisper", lambda c=None: {"input_features": noise(BATCH, 8, 32), "decoder_input_ids": tokens((BATCH, 6))}, num_mel_bins=8, max_source_positions=16, apply_spec_augment=False)  # fmt: skip
hugging_face("moonshine", "moonshine", lambda c=None: {"input_values": noise(BATCH, 2000), "decoder_input_ids": tokens((BATCH, 6))})
hugging_face("speech_to_text", "speech_to_text", lambda c=None: {"input_features": noise(BATCH, 24, 8), "decoder_input_ids": tokens((BATCH, 6))}, input_feat_per_channel=8, conv_channels=16)  # fmt: skip
hugging_face("parakeet_encoder", "parakeet_encoder", feature_inputs(32, 16), num_mel_bins=16, subsampling_conv_channels=8, conv_kernel_size=5)
hugging_face("univnet", "univnet", lambda c=None: {"input_features": noise(BATCH, 8, 8), "noise_sequence": noise(BATCH, 8, 8, seed=4)}, model_in_channels=8, model_hidden_channels=4, num_mel_bins=8, kernel_predictor_hidden_channels=8, resblock_kernel_sizes=[3], resblock_stride_sizes=[4], resblock_dilation_sizes=[[1, 3]])  # fmt: skip

SERIES = dict(prediction_length=4, context_length=12, lags_sequence=[1, 2, 3], num_time_features=1, input_size=1)


def series_inputs(config=None):
    return {
        "past_values": noise(BATCH, 15) + 3, "past_time_features": noise(BATCH, 15, 1, seed=3), "past_observed_mask": torch.ones(BATCH, 15),
        "future_values": noise(BATCH, 4, seed=4) + 3, "future_time_features": noise(BATCH, 4, 1, seed=5),
    }  # fmt: skip


for _name in ("time_series_transformer", "informer", "autoformer"):
    hugging_face(_name, _name, series_inputs, **SERIES)
P = feature_inputs(32, 3, name="past_values")
hugging_face("patchtst", "patchtst", P, num_input_channels=3, context_length=32, patch_length=4, patch_stride=4)
hugging_face("patchtst_regression", "patchtst", P, cls="PatchTSTForRegression", num_input_channels=3, context_length=32, patch_length=4, patch_stride=4, num_targets=2)
hugging_face("patchtsmixer", "patchtsmixer", P, num_input_channels=3, context_length=32, patch_length=4, patch_stride=4)
hugging_face("patchtsmixer_forecast", "patchtsmixer", P, cls="PatchTSMixerForPrediction", num_input_channels=3, context_length=32, patch_length=4, patch_stride=4, prediction_length=4)  # fmt: skip
hugging_face("decision_transformer", "decision_transformer", lambda c=None: {
    "states": noise(BATCH, 5, 7), "actions": noise(BATCH, 5, 3, seed=3), "rewards": noise(BATCH, 5, 1, seed=4), "returns_to_go": noise(BATCH, 5, 1, seed=5),
    "timesteps": torch.arange(5).repeat(BATCH, 1), "attention_mask": mask((BATCH, 5), 0)}, state_dim=7, act_dim=3, max_ep_len=16)  # fmt: skip

B = image_text_inputs()
for _name in ("clip", "siglip", "altclip", "chinese_clip", "blip", "aimv2", "metaclip_2"):
    hugging_face(_name, _name, B, pick="logits_per_image")
hugging_face("clipseg", "clipseg", B, cls="CLIPSegForImageSegmentation", extract_layers=[0, 1], reduce_dim=16, decoder_num_attention_heads=2, decoder_intermediate_size=16)
hugging_face("owlvit", "owlvit", B, pick="logits_per_image")
hugging_face("git", "git", B)
hugging_face("vilt", "vilt", B, max_image_length=-1, num_images=-1)
hugging_face("visual_bert", "visual_bert", lambda c=None: {"input_ids": tokens(), "visual_embeds": noise(BATCH, 3, 16), "visual_attention_mask": torch.ones(BATCH, 3)}, visual_embedding_dim=16)  # fmt: skip
hugging_face("lxmert", "lxmert", lambda c=None: {"input_ids": tokens(), "visual_feats": noise(BATCH, 3, 16), "visual_pos": noise(BATCH, 3, 4, seed=4)}, visual_feat_dim=16, l_layers=1, x_layers=1, r_layers=1)  # fmt: skip
hugging_face("layoutlmv3", "layoutlmv3", lambda c=None: {"input_ids": tokens(), "bbox": torch.randint(0, 30, (BATCH, 10, 1)).expand(-1, -1, 4).contiguous(), "attention_mask": mask()}, visual_embed=False, max_2d_position_embeddings=64, coordinate_size=4, shape_size=8)  # fmt: skip
hugging_face("perceiver", "perceiver", lambda c=None: {"inputs": noise(BATCH, 12, 16)}, d_model=16, num_latents=4, d_latents=16, num_blocks=1, num_self_attends_per_block=1, num_self_attention_heads=2, num_cross_attention_heads=2)  # fmt: skip
hugging_face("groupvit", "groupvit", B, pick="logits_per_image", vision_config=dict(depths=[1, 1], num_group_tokens=[4, 0], num_output_groups=[4, 2]))


# --- made by hand -----------------------------------------------------------------------------------------------------


class Recurrent(nn.Module):
    def __init__(self, kind, **kw):
        super().__init__()
        self.embed = nn.Embedding(50, 12)
        self.rnn = getattr(nn, kind)(12, 8, 2, batch_first=True, **kw)
        self.out = nn.LazyLinear(5)

    def forward(self, ids):
        return self.out(self.rnn(self.embed(ids))[0])


class Scales(nn.Module):
    """Weights in unusual places: scalars, placeholders for masked values, tables that resemble constants."""

    def __init__(self):
        super().__init__()
        self.temperature = nn.Parameter(torch.tensor(1.3))
        self.positions = nn.Parameter(torch.zeros(1, 10, 16))
        self.mask_token = nn.Parameter(torch.zeros(1, 1, 16))
        self.gamma = nn.Parameter(torch.ones(16))
        self.gate = nn.Parameter(torch.zeros(1))
        self.bias_table = nn.Parameter(torch.zeros(10, 10))
        self.inner = nn.Linear(16, 16)
        self.register_buffer("causal", torch.full((10, 10), -1e4).triu(1))
        angle = torch.arange(10)[:, None] / 100 ** (torch.arange(8) / 8)
        self.register_buffer("sinusoid", torch.cat([angle.sin(), angle.cos()], 1))

    def forward(self, x, hidden):
        x = torch.where(hidden[..., None], self.mask_token, x) + self.positions + self.sinusoid
        y = self.inner(x * self.gamma)
        weights = torch.softmax(y @ x.transpose(1, 2) * self.temperature.exp() + self.bias_table + self.causal, -1)
        return x + torch.tanh(self.gate) * (weights @ y)


class StateSpace(nn.Module):
    """S4D's diagonal kernel as a convolution without Fourier transforms, and an unrolled gated linear recurrence."""

    def __init__(self, d=8, n=4, length=10):
        super().__init__()
        self.A_log = nn.Parameter(torch.log(torch.arange(1.0, n + 1)).repeat(d, 1))
        self.B, self.C = nn.Parameter(torch.randn(d, n)), nn.Parameter(torch.randn(d, n))
        self.D, self.dt_bias = nn.Parameter(torch.ones(d)), nn.Parameter(torch.zeros(d))
        self.length = length
        self.proj = nn.Linear(d, 3)

    def forward(self, x):
        a = torch.exp(-torch.exp(self.A_log) * nn.functional.softplus(self.dt_bias)[:, None])
        state, out = torch.zeros(x.shape[0], *a.shape), []
        for t in range(self.length):
            state = state * a + x[:, t, :, None] * self.B
            out.append((state * self.C).sum(-1) + self.D * x[:, t])
        return self.proj(torch.stack(out, 1))


class GraphNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(6, 16), nn.Linear(16, 4)
        self.eps = nn.Parameter(torch.tensor(0.1))

    def forward(self, x, adjacency):
        h = torch.relu(self.first(x + adjacency @ x))
        return self.second((1 + self.eps) * h + adjacency @ h)


class Tabular(nn.Module):
    """FT-Transformer: a weight vector and a bias per column, and a class token before the columns."""

    def __init__(self, columns=7, d=16):
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.randn(columns, d)), nn.Parameter(torch.randn(columns, d))
        self.token = nn.Parameter(torch.randn(1, 1, d))
        self.block = nn.TransformerEncoderLayer(d, 2, 32, 0.0, batch_first=True, norm_first=True)
        self.head = nn.Linear(d, 3)

    def forward(self, x):
        tokens_ = x[..., None] * self.weight + self.bias
        h = torch.cat([self.token.expand(x.shape[0], -1, -1), tokens_], 1)
        return self.head(self.block(h)[:, 0])


class Nerf(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("bands", 2.0 ** torch.arange(4))
        self.net = nn.Sequential(nn.Linear(24, 16), nn.Softplus(), nn.Linear(16, 4))

    def forward(self, x):
        a = (x[..., None] * self.bands).flatten(1)
        return self.net(torch.cat([a.sin(), a.cos()], 1))


class WeightNorm(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.utils.parametrizations.weight_norm(nn.Conv1d(4, 8, 3, padding=1))
        self.linear = nn.utils.parametrizations.spectral_norm(nn.Linear(8, 5))
        self.slope = nn.PReLU(8)

    def forward(self, x):
        return self.linear(self.slope(self.conv(x)).transpose(1, 2))


class Unet1d(nn.Module):
    def __init__(self):
        super().__init__()
        self.down = nn.Conv1d(2, 8, 4, 2, 1)
        self.norm = nn.GroupNorm(2, 8)
        self.time = nn.Linear(8, 8)
        self.up = nn.ConvTranspose1d(8, 2, 4, 2, 1)
        self.register_buffer("frequencies", torch.exp(-torch.arange(4) * 0.7))

    def forward(self, x, t):
        angle = t[:, None] * self.frequencies
        h = self.norm(self.down(x)) + self.time(torch.cat([angle.sin(), angle.cos()], -1))[..., None]
        return x + self.up(nn.functional.silu(h))


class VectorQuantiser(nn.Module):
    def __init__(self):
        super().__init__()
        self.encode, self.decode = nn.Linear(6, 8), nn.Linear(8, 6)
        self.codebook = nn.Embedding(16, 8)

    def forward(self, x):
        h = self.encode(x)
        distance = (h[..., None, :] - self.codebook.weight).square().sum(-1)
        return self.decode(self.codebook(distance.argmin(-1)) + h)


class Mixture(nn.Module):
    """Mixture of experts with stacked weights; every expert runs on every token."""

    def __init__(self):
        super().__init__()
        self.router = nn.Linear(8, 4, bias=False)
        self.w1, self.w2 = nn.Parameter(torch.randn(4, 8, 16) * 0.3), nn.Parameter(torch.randn(4, 16, 8) * 0.3)

    def forward(self, x):
        gates = self.router(x).softmax(-1)
        h = torch.einsum("btd,edh->beth", x, self.w1).relu()
        return torch.einsum("beth,ehd,bte->btd", h, self.w2, gates) + x


class Kan(nn.Module):
    """A Kolmogorov-Arnold layer with radial bases: the grid is constant, the coefficients are weights."""

    def __init__(self):
        super().__init__()
        self.register_buffer("grid", torch.linspace(-2, 2, 6))
        self.coefficients = nn.Parameter(torch.randn(5, 6, 3) * 0.2)
        self.base = nn.Linear(5, 3)

    def forward(self, x):
        basis = torch.exp(-((x[..., None] - self.grid) * 1.25).square())
        return torch.einsum("big,igo->bo", basis, self.coefficients) + self.base(nn.functional.silu(x))


def add_by_hand():
    ids = lambda: {"ids": torch.randint(0, 50, (BATCH, 7), generator=torch.Generator().manual_seed(1))}
    for kind, kw in (("LSTM", {}), ("GRU", dict(bidirectional=True)), ("RNN", dict(nonlinearity="relu"))):

        def make(kind=kind, kw=kw):
            model = Recurrent(kind, **kw)
            model(torch.zeros(1, 2, dtype=torch.int64))
            return model

        plain("hand_" + kind.lower(), make, ids)
    plain("hand_scales", Scales, lambda: {"x": noise(BATCH, 10, 16), "hidden": torch.rand(BATCH, 10, generator=torch.Generator().manual_seed(3)) < 0.3})
    plain("hand_state_space", StateSpace, lambda: {"x": noise(BATCH, 10, 8)})
    plain("hand_graph", GraphNet, lambda: {"x": noise(5, 6), "adjacency": noise(5, 5, seed=4).abs()})
    plain("hand_tabular", Tabular, lambda: {"x": noise(BATCH, 7)})
    plain("hand_nerf", Nerf, lambda: {"x": noise(6, 3)})
    plain("hand_weight_norm", WeightNorm, lambda: {"x": noise(BATCH, 4, 9)})
    plain("hand_unet1d", Unet1d, lambda: {"x": noise(BATCH, 2, 8), "t": torch.tensor([0.3, 2.0])})
    plain("hand_vq", VectorQuantiser, lambda: {"x": noise(BATCH, 5, 6)})
    plain("hand_mixture", Mixture, lambda: {"x": noise(BATCH, 5, 8)})
    plain("hand_kan", Kan, lambda: {"x": noise(4, 5)})
    plain("hand_transformer", lambda: nn.Transformer(16, 2, 1, 1, 32, 0.0, batch_first=True), lambda: {"src": noise(BATCH, 6, 16), "tgt": noise(BATCH, 4, 16, seed=5)})


add_by_hand()
