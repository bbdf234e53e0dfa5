"""Families of the part `unseen` that libraries define: transformers, timm and torchvision, made
small by their settings. They were written before the rules that they measure (see build.py).
"""

import importlib

import timm
import torch
import torchvision
import transformers as hf
from torch import nn

from torch_exporters import family

BATCH = 4


class Field(nn.Module):
    """A Hugging Face model as a function of one tensor, reduced to one field of its output."""

    def __init__(self, model, field, name, masked=False):
        super().__init__()
        self.model, self.field, self.name, self.masked = model, field, name, masked

    def forward(self, x):
        mask = {"attention_mask": torch.ones_like(x)} if self.masked else {}
        return getattr(self.model(**{self.name: x}, **mask, return_dict=True), self.field)


def words(model, masked=False):
    return Field(model, "logits", "input_ids", masked), {"input_ids": torch.randint(3, 60, (BATCH, 9))}


def pixels(model, field="logits", side=32):
    return Field(model, field, "pixel_values"), {"pixel_values": torch.randn(BATCH, 3, side, side)}


def picture(model, side=32):
    return model, {"image": torch.randn(BATCH, 3, side, side)}


SMALL = dict(vocab_size=60, hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32)
DROPLESS = dict(attention_dropout=0.0, hidden_dropout=0.0)


@family("unseen", "ts17 dynamo18")
def hf_bloom():
    return words(hf.BloomForSequenceClassification(hf.BloomConfig(vocab_size=60, hidden_size=16, n_layer=2, n_head=2, pad_token_id=0)))


@family("unseen", "ts17 dynamo18")
def hf_gpt_neox():
    return words(hf.GPTNeoXForCausalLM(hf.GPTNeoXConfig(**SMALL, max_position_embeddings=16, use_cache=False, **DROPLESS)), masked=True)


@family("unseen", "ts17")
def hf_opt():
    config = hf.OPTConfig(vocab_size=60, hidden_size=16, ffn_dim=32, num_hidden_layers=2, num_attention_heads=2, max_position_embeddings=16, word_embed_proj_dim=8)
    config.use_cache = False
    return words(hf.OPTForCausalLM(config))


@family("unseen", "ts14 dynamo18")
def hf_xlnet():
    return words(hf.XLNetForSequenceClassification(hf.XLNetConfig(vocab_size=60, d_model=16, n_layer=2, n_head=2, d_inner=32)))


@family("unseen", "ts16")
def hf_funnel():
    config = hf.FunnelConfig(vocab_size=60, block_sizes=[1, 1], d_model=16, n_head=2, d_head=8, d_inner=32, num_decoder_layers=1)
    return words(hf.FunnelForTokenClassification(config))


@family("unseen", "dynamo18 dynamo18-fresh")
def hf_fnet():
    return words(hf.FNetForMaskedLM(hf.FNetConfig(vocab_size=60, hidden_size=16, num_hidden_layers=2, intermediate_size=32, max_position_embeddings=16)))


@family("unseen", "ts14-slim dynamo18")
def hf_mobilebert():
    config = hf.MobileBertConfig(
        vocab_size=60, hidden_size=16, embedding_size=8, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32, intra_bottleneck_size=8, true_hidden_size=8
    )
    return words(hf.MobileBertForSequenceClassification(config))


@family("unseen", "ts17-sim")
def hf_convbert():
    config = hf.ConvBertConfig(**SMALL, embedding_size=16, max_position_embeddings=16, head_ratio=2)
    return words(hf.ConvBertForSequenceClassification(config))


@family("unseen", "ts14 dynamo18")
def hf_mpnet():
    return words(hf.MPNetForSequenceClassification(hf.MPNetConfig(**SMALL, max_position_embeddings=16)))


@family("unseen", "ts17")
def hf_esm():
    config = hf.EsmConfig(**SMALL, max_position_embeddings=20, position_embedding_type="rotary", pad_token_id=1, mask_token_id=2, token_dropout=False)
    return words(hf.EsmForTokenClassification(config))


@family("unseen", "ts14")
def hf_roformer():
    return words(hf.RoFormerForTokenClassification(hf.RoFormerConfig(**SMALL, embedding_size=16, max_position_embeddings=16)))


@family("unseen", "ts17")
def hf_xglm():
    config = hf.XGLMConfig(vocab_size=60, d_model=16, ffn_dim=32, num_layers=2, attention_heads=2, max_position_embeddings=16, use_cache=False)
    return words(hf.XGLMForCausalLM(config))


@family("unseen", "ts17 dynamo18")
def hf_gemma2():
    config = hf.Gemma2Config(**SMALL, num_key_value_heads=1, head_dim=8, max_position_embeddings=16, use_cache=False, attn_implementation="eager")
    return words(hf.Gemma2ForCausalLM(config), masked=True)


@family("unseen", "ts17 dynamo18")
def hf_wavlm():
    config = hf.WavLMConfig(
        **SMALL, conv_dim=(8, 8), conv_stride=(4, 2), conv_kernel=(8, 3), num_conv_pos_embeddings=8, num_conv_pos_embedding_groups=2, num_buckets=8, classifier_proj_size=8
    )
    return Field(hf.WavLMForSequenceClassification(config), "logits", "input_values"), {"input_values": torch.randn(BATCH, 320)}


@family("unseen", "ts17 dynamo18")
def hf_audio_spectrogram():
    config = hf.ASTConfig(
        hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32, max_length=24, num_mel_bins=16, patch_size=8, frequency_stride=8, time_stride=8
    )
    return Field(hf.ASTForAudioClassification(config), "logits", "input_values"), {"input_values": torch.randn(BATCH, 24, 16)}


@family("unseen", "ts17 dynamo18")
def hf_whisper_encoder():
    config = hf.WhisperConfig(
        vocab_size=60, num_mel_bins=10, d_model=16, encoder_layers=2, encoder_attention_heads=2, encoder_ffn_dim=32, decoder_layers=1, decoder_attention_heads=2,
        decoder_ffn_dim=32, max_source_positions=12, max_target_positions=12, pad_token_id=0, bos_token_id=1, eos_token_id=2, decoder_start_token_id=1, classifier_proj_size=8,
    )  # fmt: skip
    return Field(hf.WhisperForAudioClassification(config), "logits", "input_features"), {"input_features": torch.randn(BATCH, 10, 24)}


@family("unseen", "ts14 dynamo18")
def hf_segformer():
    config = hf.SegformerConfig(
        num_encoder_blocks=2, depths=[1, 1], sr_ratios=[2, 1], hidden_sizes=[8, 16], patch_sizes=[7, 3], strides=[4, 2], num_attention_heads=[1, 2], mlp_ratios=[2, 2], decoder_hidden_size=12
    )
    return pixels(hf.SegformerForSemanticSegmentation(config))


@family("unseen", "ts17 ts14-slim")
def hf_beit():
    config = hf.BeitConfig(**SMALL, image_size=32, patch_size=8, use_relative_position_bias=True, use_absolute_position_embeddings=False)
    return pixels(hf.BeitForImageClassification(config))


@family("unseen", "ts14")
def hf_mobilevit():
    config = hf.MobileViTConfig(
        image_size=32, patch_size=2, hidden_sizes=[16, 16, 16], neck_hidden_sizes=[8, 8, 8, 12, 12, 12, 24], num_attention_heads=2, mlp_ratio=2.0, expand_ratio=2.0
    )
    return pixels(hf.MobileViTForImageClassification(config), side=64)


@family("unseen", "dynamo18 ts17")
def hf_dinov2():
    return pixels(hf.Dinov2ForImageClassification(hf.Dinov2Config(hidden_size=16, num_hidden_layers=2, num_attention_heads=2, image_size=28, patch_size=7, mlp_ratio=2)), side=28)


@family("unseen", "ts17")
def hf_mae_encoder():
    config = hf.ViTMSNConfig(hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32, image_size=32, patch_size=8)
    return pixels(hf.ViTMSNForImageClassification(config))


@family("unseen", "ts17 dynamo18")
def hf_patch_tst():
    config = hf.PatchTSTConfig(num_input_channels=2, context_length=32, patch_length=8, patch_stride=8, d_model=16, num_attention_heads=2, num_hidden_layers=2, ffn_dim=32, prediction_length=4)
    return Field(hf.PatchTSTForPrediction(config), "prediction_outputs", "past_values"), {"past_values": torch.randn(BATCH, 32, 2)}


@family("unseen", "ts17 dynamo18")
def hf_patch_mixer():
    config = hf.PatchTSMixerConfig(num_input_channels=2, context_length=32, patch_length=8, patch_stride=8, d_model=16, num_layers=2, expansion_factor=2, prediction_length=4)
    return Field(hf.PatchTSMixerForPrediction(config), "prediction_outputs", "past_values"), {"past_values": torch.randn(BATCH, 32, 2)}


class PromptEncoder(nn.Module):
    """Segment Anything's prompt encoder: random Fourier positions that are not trained."""

    def __init__(self):
        super().__init__()
        config = hf.SamPromptEncoderConfig(hidden_size=16, image_size=32, patch_size=8, mask_input_channels=4)
        whole = hf.SamConfig(prompt_encoder_config=config.to_dict(), vision_config=dict(num_pos_feats=8))
        self.encoder = hf.models.sam.modeling_sam.SamPromptEncoder(whole)
        self.head = nn.Linear(16, 3)

    def forward(self, points, labels):
        return self.head(self.encoder(points[:, None], labels[:, None], None, None)[0])


@family("unseen", "ts17 dynamo18")
def hf_sam_prompts():
    return PromptEncoder(), {"points": 32 * torch.rand(BATCH, 3, 2), "labels": torch.randint(0, 2, (BATCH, 3))}


@family("unseen", "ts17")
def hf_perceiver_vision():
    config = hf.PerceiverConfig(num_latents=6, d_latents=16, d_model=20, num_blocks=1, num_self_attends_per_block=1, num_self_attention_heads=2, num_cross_attention_heads=1, image_size=8, num_labels=4)
    model = hf.PerceiverModel(
        config,
        decoder=hf.models.perceiver.modeling_perceiver.PerceiverClassificationDecoder(
            config, num_channels=16, trainable_position_encoding_kwargs=dict(num_channels=16, index_dims=1), use_query_residual=True
        ),
    )
    return Field(model, "logits", "inputs"), {"inputs": torch.randn(BATCH, 12, 20)}


@family("unseen", "ts14 dynamo18")
def timm_xcit():
    return picture(timm.models.xcit.Xcit(img_size=32, patch_size=8, embed_dim=16, depth=1, cls_attn_layers=1, num_heads=2, eta=1.0, num_classes=4))


@family("unseen", "ts14")
def timm_cait():
    return picture(timm.models.cait.Cait(img_size=32, patch_size=8, embed_dim=16, depth=2, num_heads=2, depth_token_only=1, num_classes=4))


@family("unseen", "ts17")
def timm_nfnet():
    cfg = timm.models.nfnet.NfCfg(depths=(1, 1), channels=(16, 24), stem_type="3x3", stem_chs=8, group_size=8, bottle_ratio=0.5, attn_layer="se", attn_kwargs=dict(rd_divisor=4), extra_conv=True, gamma_in_act=True)
    return picture(timm.models.nfnet.NormFreeNet(cfg, num_classes=4))


@family("unseen", "dynamo18")
def timm_eva_rope():
    return picture(timm.models.eva.Eva(img_size=32, patch_size=8, embed_dim=16, depth=2, num_heads=2, use_rot_pos_emb=True, swiglu_mlp=True, mlp_ratio=2, num_classes=4))


@family("unseen", "ts14 dynamo18")
def timm_resmlp():
    model = timm.models.mlp_mixer.MlpMixer(
        img_size=32, patch_size=8, embed_dim=16, num_blocks=2, mlp_ratio=2, block_layer=timm.models.mlp_mixer.ResBlock, norm_layer=timm.models.mlp_mixer.Affine, num_classes=4
    )
    return picture(model)


@family("unseen", "ts14 dynamo18")
def timm_blur_resnet():
    model = timm.models.resnet.ResNet(timm.models.resnet.BasicBlock, [1, 1, 1, 1], channels=[8, 8, 16, 16], num_classes=4, aa_layer=timm.layers.BlurPool2d)
    return picture(model)


@family("unseen", "ts17-sim")
def timm_lcnet():
    return picture(timm.create_model("lcnet_035", num_classes=4))


@family("unseen", "ts16 dynamo18")
def timm_poolformer():
    return picture(timm.models.metaformer.MetaFormer(depths=(1, 1), dims=(8, 16), token_mixers=timm.models.metaformer.Pooling, layer_scale_init_values=0.1, num_classes=4))


@family("unseen", "ts17")
def timm_focalnet():
    return picture(timm.models.focalnet.FocalNet(embed_dim=8, depths=(1, 1), focal_levels=(2, 2), focal_windows=(3, 3), num_classes=4))


@family("unseen", "ts17-fresh")
def timm_repvit():
    return picture(timm.models.repvit.RepVit(embed_dim=(8, 16), depth=(1, 1), num_classes=4))


@family("unseen", "ts17 dynamo18")
def torchvision_mvit():
    block = torchvision.models.video.mvit.MSBlockConfig
    setting = [
        block(num_heads=1, input_channels=8, output_channels=8, kernel_q=[3, 3, 3], kernel_kv=[3, 3, 3], stride_q=[1, 1, 1], stride_kv=[1, 2, 2]),
        block(num_heads=2, input_channels=8, output_channels=16, kernel_q=[3, 3, 3], kernel_kv=[3, 3, 3], stride_q=[1, 2, 2], stride_kv=[1, 2, 2]),
    ]
    model = torchvision.models.video.MViT(
        spatial_size=(16, 16), temporal_size=4, block_setting=setting, residual_pool=True, residual_with_cls_embed=False, rel_pos_embed=True, proj_after_attn=True, num_classes=4,
        patch_embed_kernel=(3, 7, 7), patch_embed_stride=(2, 4, 4), patch_embed_padding=(1, 3, 3),
    )  # fmt: skip
    return model, {"clip": torch.randn(BATCH, 3, 4, 16, 16)}


@family("unseen", "ts17")
def torchvision_maxvit():
    model = torchvision.models.MaxVit(input_size=(32, 32), stem_channels=8, partition_size=4, block_channels=[8, 16], block_layers=[1, 1], head_dim=8, stochastic_depth_prob=0.0, num_classes=4)
    return picture(model)


@family("unseen", "ts14 dynamo18")
def torchvision_convnext():
    block = torchvision.models.convnext.CNBlockConfig
    return picture(torchvision.models.ConvNeXt([block(8, 16, 1), block(16, None, 2)], stochastic_depth_prob=0.0, layer_scale=0.5, num_classes=4))


class DetectionHead(nn.Module):
    """RetinaNet's heads over a pyramid of two levels."""

    def __init__(self):
        super().__init__()
        self.body = nn.ModuleList([nn.Conv2d(3, 8, 3, 4, 1), nn.Conv2d(8, 12, 3, 2, 1)])
        self.fpn = torchvision.ops.FeaturePyramidNetwork([8, 12], 8)
        self.classify = torchvision.models.detection.retinanet.RetinaNetClassificationHead(8, 3, 4)
        self.regress = torchvision.models.detection.retinanet.RetinaNetRegressionHead(8, 3)

    def forward(self, x):
        a = self.body[0](x).relu()
        levels = list(self.fpn({"0": a, "1": self.body[1](a).relu()}).values())
        return torch.cat([self.classify(levels), self.regress(levels)], -1)


@family("unseen", "ts14 dynamo18")
def torchvision_retina_heads():
    return picture(DetectionHead())


@family("unseen", "ts17")
def torchvision_s3d_units():
    unit = importlib.import_module("torchvision.models.video.s3d")
    return nn.Sequential(unit.TemporalSeparableConv(3, 8, 3, 1, 1, nn.BatchNorm3d), unit.SepInceptionBlock3D(8, 4, 4, 6, 2, 4, 4, nn.BatchNorm3d), nn.AdaptiveAvgPool3d(1), nn.Flatten(), nn.Linear(18, 4)), {
        "clip": torch.randn(BATCH, 3, 4, 8, 8)
    }


@family("unseen", "ts17")
def torchvision_context_encoder():
    model = torchvision.models.optical_flow.raft
    return nn.Sequential(
        model.FeatureEncoder(block=model.ResidualBlock, layers=(8, 8, 12, 16, 20), norm_layer=nn.InstanceNorm2d),
        model.FlowHead(in_channels=20, hidden_size=12),
    ), {"image": torch.randn(BATCH, 3, 32, 32)}
