"""Vision architectures: transformers, torchvision, timm. unprepared_models.py explains the calls."""

import functools

import torch
from unprepared_models import BATCH, hugging_face, image, image_inputs, noise, plain

V = image_inputs()
FOUR = dict(depths=[1, 1, 1, 1], hidden_sizes=[8, 16, 16, 32])
PYRAMID = dict(num_encoder_blocks=2, depths=[1, 1], sr_ratios=[2, 1], hidden_sizes=[16, 32], patch_sizes=[7, 3], strides=[4, 2], num_attention_heads=[2, 4], mlp_ratios=[2, 2])  # fmt: skip
WINDOWS = dict(embed_dim=16, depths=[2, 1], num_heads=[2, 4], window_size=4, patch_size=4)
RESNET = dict(model_type="resnet", embedding_size=8, hidden_sizes=[8, 16], depths=[1, 1], out_features=["stage2"], out_indices=[2], layer_type="basic")
NO_TIMM = dict(use_timm_backbone=False, use_pretrained_backbone=False, backbone=None, num_queries=5)

for _name, _over in {
    "vit": {},
    "deit": {},
    "dinov2": {},
    "dinov2_with_registers": {},
    "dinov3_vit": dict(num_register_tokens=2),
    "dinov3_convnext": FOUR,
    "beit": dict(use_relative_position_bias=True, use_absolute_position_embeddings=True),
    "data2vec-vision": dict(use_shared_relative_position_bias=True),
    "convnext": FOUR,
    "convnextv2": FOUR,
    "cvt": dict(embed_dim=[8, 16, 32], num_heads=[1, 2, 4], depth=[1, 1, 1]),
    "poolformer": dict(depths=[1, 1, 1, 1], hidden_sizes=[8, 16, 16, 32]),
    "pvt": dict(depths=[1, 1, 1, 1], hidden_sizes=[8, 16, 16, 32], sequence_reduction_ratios=[4, 2, 1, 1], num_attention_heads=[1, 2, 2, 4], mlp_ratios=[2, 2, 2, 2]),
    "pvt_v2": dict(depths=[1, 1, 1, 1], hidden_sizes=[8, 16, 16, 32], sr_ratios=[4, 2, 1, 1], num_attention_heads=[1, 2, 2, 4], mlp_ratios=[2, 2, 2, 2], image_size=[32, 32]),
    "mobilenet_v1": dict(depth_multiplier=0.25),
    "mobilenet_v2": dict(depth_multiplier=0.25),
    "mobilevitv2": dict(n_attn_blocks=[1, 1, 1], base_attn_unit_dims=[16, 16, 32], width_multiplier=0.5, patch_size=2, image_size=64),
    "regnet": dict(embedding_size=8, hidden_sizes=[8, 16], depths=[1, 1], groups_width=8),
    "resnet": dict(embedding_size=8, hidden_sizes=[8, 16], depths=[1, 1], layer_type="bottleneck"),
    "segformer": PYRAMID,
    "swin": WINDOWS,
    "swinv2": WINDOWS,
    "donut-swin": WINDOWS,
    "swiftformer": dict(depths=[1, 1, 1, 1], embed_dims=[8, 16, 16, 32], mlp_ratio=2),
    "vitdet": dict(use_relative_position_embeddings=True, window_block_indices=[0], window_size=2, pretrain_image_size=32),
    "vit_msn": {},
    "yolos": dict(image_size=[32, 32], num_detection_tokens=5),
    "efficientnet": dict(kernel_sizes=[3, 5], in_channels=[8, 8], out_channels=[8, 16], strides=[1, 2], num_block_repeats=[1, 1], expand_ratios=[1, 2], hidden_dim=32, width_coefficient=1.0, depth_coefficient=1.0),
    "focalnet": dict(embed_dim=16, depths=[1, 1], hidden_sizes=[16, 32], focal_levels=[2, 2], focal_windows=[3, 3], patch_size=4, use_layerscale=True),
    "bit": dict(embedding_size=16, hidden_sizes=[16, 32], depths=[1, 1], num_groups=4),
    "hiera": dict(embed_dim=8, image_size=[32, 32], patch_stride=[4, 4], depths=[1, 1], num_heads=[1, 2], num_query_pool=1, masked_unit_size=[4, 4], masked_unit_attention=[True, False]),
    "ijepa": {},
    "textnet": dict(stem_out_channels=8, hidden_sizes=[8, 8, 16, 16, 32], conv_layer_kernel_sizes=[[[3, 3]], [[3, 1]], [[1, 3]], [[3, 3]]], conv_layer_strides=[[1], [2], [2], [2]], image_size=[32, 32]),
    "swin2sr": dict(embed_dim=16, depths=[1, 1], num_heads=[2, 2], window_size=4, patch_size=1, image_size=16),
    "siglip_vision_model": {},
    "clip_vision_model": {},
    "sam_vision_model": dict(output_channels=16, mlp_dim=48, window_size=2, global_attn_indexes=[1], use_rel_pos=True, use_abs_pos=True),
    "glpn": PYRAMID,
    "aimv2_vision_model": {},
    "pixio": {},
    "mlcd_vision_model": {},
    "hgnet_v2": dict(embedding_size=8, depths=[1, 1], hidden_sizes=[16, 32], stem_channels=[3, 8, 8], stage_in_channels=[8, 16], stage_mid_channels=[8, 8], stage_out_channels=[16, 32], stage_num_blocks=[1, 1], stage_downsample=[False, True], stage_downsample_strides=[2, 2], stage_light_block=[False, True], stage_kernel_size=[3, 5], stage_numb_of_layers=[2, 2]),
}.items():  # fmt: skip
    hugging_face(_name, _name, image_inputs({"convnext": 64, "convnextv2": 64, "mobilevitv2": 64, "swin2sr": 16}.get(_name, 32)), **_over)

hugging_face("segformer_segmentation", "segformer", V, auto="AutoModelForSemanticSegmentation", decoder_hidden_size=16, **PYRAMID)
hugging_face("vit_classifier", "vit", V, auto="AutoModelForImageClassification")
hugging_face("upernet", "upernet", V, auto="AutoModelForSemanticSegmentation", hidden_size=16, pool_scales=[1, 2], use_auxiliary_head=False,
             backbone_config=dict(model_type="convnext", depths=[1, 1, 1, 1], hidden_sizes=[8, 16, 16, 32], out_features=["stage1", "stage2", "stage3", "stage4"], out_indices=[1, 2, 3, 4]))  # fmt: skip
hugging_face("dpt", "dpt", V, auto="AutoModelForDepthEstimation", backbone_out_indices=[0, 1, 2, 3], num_hidden_layers=4, neck_hidden_sizes=[8, 8, 16, 16], fusion_hidden_size=16, reassemble_factors=[4, 2, 1, 0.5])  # fmt: skip
hugging_face("depth_anything", "depth_anything", V, auto="AutoModelForDepthEstimation", neck_hidden_sizes=[8, 8, 16, 16], fusion_hidden_size=16, reassemble_hidden_size=32, head_hidden_size=8,
             backbone_config=dict(model_type="dinov2", num_hidden_layers=4, out_indices=[1, 2, 3, 4], out_features=["stage1", "stage2", "stage3", "stage4"], reshape_hidden_states=False))  # fmt: skip
hugging_face("superpoint", "superpoint", V, cls="SuperPointForKeypointDetection", fixed={}, pick=1, encoder_hidden_sizes=[8, 8, 16, 16], decoder_hidden_size=16, descriptor_decoder_dim=16)  # fmt: skip
for _name in ("detr", "conditional_detr", "table-transformer"):
    hugging_face(_name, _name, V, backbone_config=RESNET, **NO_TIMM)
hugging_face("detr_detection", "detr", V, auto="AutoModelForObjectDetection", pick="pred_boxes", backbone_config=RESNET, **NO_TIMM)
hugging_face("deformable_detr", "deformable_detr", V, num_feature_levels=2, backbone_config=RESNET, encoder_n_points=2, decoder_n_points=2, **NO_TIMM)
hugging_face("imagegpt", "imagegpt", lambda c=None: {"input_ids": torch.randint(5, 100, (2, 10), generator=torch.Generator().manual_seed(1))})
hugging_face("videomae", "videomae", lambda c=None: {"pixel_values": noise(BATCH, 4, 3, 16, 16)}, image_size=16, num_frames=4)
hugging_face("timesformer", "timesformer", lambda c=None: {"pixel_values": noise(BATCH, 4, 3, 16, 16)}, image_size=16, num_frames=4)
hugging_face("vivit", "vivit", lambda c=None: {"pixel_values": noise(BATCH, 4, 3, 16, 16)}, image_size=16, num_frames=4, tubelet_size=[2, 8, 8])


# --- torchvision ----------------------------------------------------------------------------------------------------


def torchvision_model(path, *args, **kw):
    def make():
        import importlib

        module, name = path.rsplit(".", 1)
        return getattr(importlib.import_module("torchvision.models." + module), name)(*args, **kw)

    return make


def one_image(size=32):
    return lambda: {"image": image(size)}



def tv_efficientnet():
    from torchvision.models.efficientnet import EfficientNet, FusedMBConvConfig, MBConvConfig

    return EfficientNet([FusedMBConvConfig(2, 3, 1, 8, 8, 1), MBConvConfig(2, 3, 2, 8, 16, 1), MBConvConfig(2, 5, 1, 16, 16, 1)], 0.0, num_classes=10, last_channel=32)


def tv_mobilenet_v3():
    from torchvision.models.mobilenetv3 import InvertedResidualConfig, MobileNetV3

    rows = [(8, 3, 8, 8, True, "RE", 2, 1), (8, 3, 16, 16, False, "RE", 2, 1), (16, 5, 32, 16, True, "HS", 1, 1)]
    return MobileNetV3([InvertedResidualConfig(*r, 1.0) for r in rows], 32, num_classes=10)


def tv_regnet():
    from torchvision.models.regnet import BlockParams, RegNet

    return RegNet(BlockParams.from_init_params(depth=4, w_0=8, w_a=8.0, w_m=2.0, group_width=8, se_ratio=0.25), num_classes=10, stem_width=8)


def tv_convnext():
    from torchvision.models.convnext import CNBlockConfig, ConvNeXt

    return ConvNeXt([CNBlockConfig(8, 16, 1), CNBlockConfig(16, None, 1)], num_classes=10)


def tv_swin(version):
    def make():
        from torchvision.models import swin_transformer as s

        kinds = {1: (s.SwinTransformerBlock, s.PatchMerging), 2: (s.SwinTransformerBlockV2, s.PatchMergingV2)}[version]
        return s.SwinTransformer([2, 2], 16, [2, 1], [2, 4], [4, 4], num_classes=10, block=kinds[0], downsample_layer=kinds[1])

    return make


def tv_video_swin():
    from torchvision.models.video.swin_transformer import SwinTransformer3d

    return SwinTransformer3d([2, 4, 4], 16, [2, 1], [2, 4], [2, 4, 4], num_classes=10)


def tv_video_resnet(kind):
    def make():
        from torchvision.models.video import resnet as r

        conv = {"r3d": r.Conv3DSimple, "r2plus1d": r.Conv2Plus1D, "mc3": r.Conv3DNoTemporal}[kind]
        model = r.VideoResNet(r.BasicBlock, [conv] * 4, [1, 1, 1, 1], r.BasicStem, num_classes=10)
        return torch.nn.Sequential(model.stem, model.layer1)

    return make


def tv_mvit():
    from torchvision.models.video.mvit import MSBlockConfig, MViT

    block = lambda cin, cout, heads, q: MSBlockConfig(heads, cin, cout, [3, 3, 3], [3, 3, 3], q, [1, 2, 2])
    return MViT((16, 16), 4, [block(16, 32, 2, []), block(32, 32, 2, [1, 2, 2])], True, True, True, True, True, num_classes=10, patch_embed_kernel=(3, 3, 3), patch_embed_stride=(2, 4, 4), patch_embed_padding=(1, 1, 1))  # fmt: skip


def tv_backbone():
    from torchvision.models.mobilenetv2 import MobileNetV2

    return MobileNetV2(width_mult=1.0, inverted_residual_setting=[[1, 8, 1, 1], [2, 16, 1, 2], [2, 16, 1, 2]]).features[:4]


def tv_segmentation(kind):
    def make():
        from torchvision.models._utils import IntermediateLayerGetter
        from torchvision.models.segmentation import deeplabv3, fcn, lraspp

        features = tv_backbone()
        if kind == "lraspp":
            return lraspp.LRASPP(IntermediateLayerGetter(features, {"1": "low", "3": "high"}), 8, 16, 5, 8)
        body = IntermediateLayerGetter(features, {"3": "out"})
        head = fcn.FCNHead(16, 5) if kind == "fcn" else deeplabv3.DeepLabHead(16, 5, (2, 4))
        return (fcn.FCN if kind == "fcn" else deeplabv3.DeepLabV3)(body, head)

    return make


class DetectionHeads(torch.nn.Module):
    """A dense detector without its postprocessing, which has no gradient."""

    def __init__(self, kind):
        super().__init__()
        from torchvision.models.detection import fcos, retinanet, ssd
        from torchvision.ops import FeaturePyramidNetwork

        self.kind, self.body = kind, tv_backbone()
        self.pyramid = FeaturePyramidNetwork([8, 16], 32)
        if kind == "ssd":
            self.head = ssd.SSDHead([32, 32], [2, 2], 4)
        elif kind == "fcos":
            self.head = fcos.FCOSHead(32, 1, 4, 1)
        else:
            self.head = retinanet.RetinaNetHead(32, 2, 4)

    def forward(self, x):
        low = self.body[:2](x)
        features = list(self.pyramid({"0": low, "1": self.body[2:](low)}).values())
        out = self.head(features)
        return torch.cat([v.flatten(1) for v in out.values()], 1)


class RegionHeads(torch.nn.Module):
    """The second stage of Faster and Mask R-CNN, and Keypoint R-CNN's head, on given boxes."""

    def __init__(self, kind):
        super().__init__()
        from torchvision.models.detection import faster_rcnn, keypoint_rcnn, mask_rcnn
        from torchvision.ops import RoIAlign

        self.kind, self.body = kind, tv_backbone()
        self.align = RoIAlign(4, 0.25, 2)
        if kind == "faster":
            self.head = torch.nn.Sequential(faster_rcnn.TwoMLPHead(16 * 16, 32), faster_rcnn.FastRCNNPredictor(32, 4))
        elif kind == "mask":
            self.head = torch.nn.Sequential(mask_rcnn.MaskRCNNHeads(16, (16,), 1), mask_rcnn.MaskRCNNPredictor(16, 8, 4))
        else:
            self.head = torch.nn.Sequential(keypoint_rcnn.KeypointRCNNHeads(16, (16,)), keypoint_rcnn.KeypointRCNNPredictor(16, 3))

    def forward(self, x, boxes):
        out = self.head(self.align(self.body(x), boxes))
        return torch.cat(out, 1) if isinstance(out, tuple) else out


def boxes_inputs():
    boxes = torch.tensor([[0, 1.0, 2.0, 20.5, 17.25], [1, 4.0, 3.5, 30.0, 28.0], [1, 0.5, 9.0, 12.0, 22.0]])
    return {"image": image(), "boxes": boxes}


def add_torchvision():
    from torchvision.models.densenet import DenseNet
    from torchvision.models.resnet import BasicBlock, Bottleneck, ResNet

    class Narrow(ResNet):
        """ResNet's stem and its first two stages, because the others have millions of parameters."""

        def _forward_impl(self, x):
            x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
            return self.avgpool(self.layer2(self.layer1(x))).flatten(1)

    def narrow(block, **kw):
        def make():
            model = Narrow(block, [1, 1, 1, 1], **kw)
            model.layer3 = model.layer4 = model.fc = torch.nn.Identity()
            return model

        return make

    plain("tv_resnet", narrow(BasicBlock), one_image())
    plain("tv_resnext", narrow(Bottleneck, groups=8, width_per_group=4), one_image())
    plain("tv_wide_resnet", narrow(Bottleneck, width_per_group=96), one_image())
    plain("tv_densenet", lambda: DenseNet(4, (2, 2), 8, num_classes=10), one_image())
    plain("tv_squeezenet", torchvision_model("squeezenet.squeezenet1_1", num_classes=10), one_image(48))
    plain("tv_shufflenet", torchvision_model("shufflenetv2.ShuffleNetV2", [1, 2, 1], [8, 8, 16, 16, 32], 10), one_image())
    plain("tv_mnasnet", torchvision_model("mnasnet.MNASNet", 0.1, 10), one_image())
    plain("tv_mobilenet_v2", torchvision_model("mobilenetv2.MobileNetV2", 10, 0.1), one_image())
    plain("tv_efficientnet", tv_efficientnet, one_image())
    plain("tv_mobilenet_v3", tv_mobilenet_v3, one_image())
    plain("tv_regnet", tv_regnet, one_image())
    plain("tv_convnext", tv_convnext, one_image())
    plain("tv_swin", tv_swin(1), one_image())
    plain("tv_swin_v2", tv_swin(2), one_image())
    plain("tv_vit", torchvision_model("vision_transformer.VisionTransformer", 32, 8, 2, 4, 32, 64, num_classes=10), one_image())
    plain("tv_maxvit", torchvision_model("maxvit.MaxVit", (32, 32), 8, 4, [8, 16], [1, 1], 8, 0.0, num_classes=10), one_image())
    plain("tv_video_swin", tv_video_swin, lambda: {"video": noise(BATCH, 3, 4, 16, 16)})
    plain("tv_mvit", tv_mvit, lambda: {"video": noise(BATCH, 3, 4, 16, 16)})
    for kind in ("r3d", "r2plus1d", "mc3"):
        plain(f"tv_{kind}", tv_video_resnet(kind), lambda: {"video": noise(BATCH, 3, 4, 12, 12)})
    for kind in ("fcn", "deeplabv3", "lraspp"):
        plain(f"tv_{kind}", tv_segmentation(kind), one_image(), pick="out")
    for kind in ("retinanet", "fcos", "ssd"):
        plain(f"tv_{kind}_heads", functools.partial(DetectionHeads, kind), one_image())
    for kind in ("faster", "mask", "keypoint"):
        plain(f"tv_{kind}_rcnn_heads", functools.partial(RegionHeads, kind), boxes_inputs)


add_torchvision()


# --- timm -----------------------------------------------------------------------------------------------------------


def timm_model(name, **kw):
    def make():
        import timm

        return timm.create_model(name, pretrained=False, num_classes=10, **kw)

    return make


SMALL = dict(img_size=32, patch_size=8, embed_dim=32, depth=2, num_heads=4)
for _name in "byobnet convnext efficientnet_evos efficientnet_gn efficientnet_ln mambaout nfnet resnet vit vit2 vit3 vit4 vit_relpos".split():
    _size = {"byobnet": 64, "mambaout": 64}.get(_name, 0)
    if "vit" in _name and not _size:
        plain(f"timm_{_name}", timm_model("test_" + _name, img_size=32), one_image(32))
    else:
        plain(f"timm_{_name}", timm_model("test_" + _name), one_image(_size or 64))
for _name, _kw in {
    "eva02_tiny_patch14_224": SMALL,
    "cait_xxs24_224": SMALL,
    "xcit_nano_12_p8_224": SMALL,
    "mixer_s32_224": dict(img_size=64, embed_dim=32, num_blocks=2),
    "resmlp_12_224": dict(img_size=32, embed_dim=32, num_blocks=2),
    "deit3_small_patch16_224": SMALL,
    "beitv2_base_patch16_224": SMALL,
    "visformer_tiny": dict(img_size=64, init_channels=8, embed_dim=32, depth=[1, 1, 1], num_heads=4),
    "twins_svt_small": dict(img_size=64, embed_dims=(16, 32, 32, 32), num_heads=(2, 2, 2, 2), depths=(1, 1, 1, 1), mlp_ratios=(2, 2, 2, 2)),
    "edgenext_xx_small": dict(dims=(8, 16, 32, 32), depths=(1, 1, 1, 1), heads=(4, 4, 4, 4)),
    "davit_tiny": dict(embed_dims=(8, 16, 32, 32), depths=(1, 1, 1, 1), num_heads=(1, 2, 4, 4), num_groups=(1, 2, 4, 4), img_size=64, window_size=2),
    "efficientformerv2_s0": dict(img_size=64, embed_dims=(8, 16, 16, 32), depths=(1, 1, 2, 2)),
    "tiny_vit_5m_224": dict(img_size=64, embed_dims=(16, 16, 32, 32), depths=(1, 1, 1, 1), num_heads=(1, 2, 2, 2), window_sizes=(4, 4, 4, 2)),
    "sequencer2d_s": dict(layers=(1, 1, 1, 1), embed_dims=(16, 16, 16, 16), hidden_sizes=(4, 4, 4, 4), img_size=56),
}.items():  # fmt: skip
    plain("timm_" + _name.split("_")[0], timm_model(_name, **_kw), one_image(_kw.get("img_size", 64)))
