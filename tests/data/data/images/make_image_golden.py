#!/usr/bin/env python3
"""Makes golden data of image files and transforms with Pillow and torchvision. Run it in this folder.

Writes small image files of every kind, decoded.npz (their pixels by Pillow, EXIF orientation applied) and
transformed.npz (torchvision's results on picture.png, grey.png and mask.png, by the text of the pipeline).
Made with Pillow 13.0, torchvision 0.29.
"""
import struct
import zlib

import numpy as np
import torch
import torchvision.transforms as T
import torchvision.transforms.functional as F
from PIL import Image, ImageOps
from torchvision.transforms import InterpolationMode as Mode
from torchvision.transforms.autoaugment import _apply_op

rng = np.random.default_rng(7)


def picture(h, w):
    y, x = np.mgrid[0:h, 0:w]
    planes = [127 + 100 * np.sin(x / 5.0 + c) * np.cos(y / (4.0 + c)) + rng.normal(0, 15, (h, w)) for c in range(3)]
    return np.stack(planes, -1).clip(0, 255).astype(np.uint8)


H, W = 23, 31
rgb = picture(H, W)
image = Image.fromarray(rgb)
grey = image.convert("L")


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png(path, ihdr, rows):
    """Writes PNG files that Pillow does not write: other depths, interlacing."""
    with open(path, "wb") as f:
        f.write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", ihdr) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


def files():
    image.save("picture.png")
    grey.save("grey.png")
    alpha = Image.fromarray(rng.integers(0, 256, (H, W), dtype=np.uint8))
    rgba = image.copy()
    rgba.putalpha(alpha)
    rgba.save("alpha.png")
    la = grey.copy()
    la.putalpha(alpha)
    la.save("grey_alpha.png")
    palette = image.quantize(11)
    palette.save("palette.png")
    palette.save("palette_transparent.png", transparency=3)
    grey.point(lambda v: 255 * (v > 127)).convert("1").save("bits.png")
    wide = rgb.astype(">u2") * 257 // 256 + 7
    png("deep.png", struct.pack(">IIBBBBB", W, H, 16, 2, 0, 0, 0),
        b"".join(b"\0" + wide[y].astype(">u2").tobytes() for y in range(H)))
    quarter = np.asarray(grey)[:, :28] // 64  # 2 bits
    packed = (quarter[:, 0::4] << 6 | quarter[:, 1::4] << 4 | quarter[:, 2::4] << 2 | quarter[:, 3::4]).astype(np.uint8)
    png("two_bits.png", struct.pack(">IIBBBBB", 28, H, 2, 0, 0, 0, 0), b"".join(b"\0" + packed[y].tobytes() for y in range(H)))
    passes = [(0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2)]
    data = b"".join(b"\0" + rgb[y, x0::dx].tobytes() for x0, y0, dx, dy in passes for y in range(y0, H, dy)
                    if rgb[y, x0::dx].size)
    png("interlaced.png", struct.pack(">IIBBBBB", W, H, 8, 2, 0, 0, 1), data)
    mask = (np.asarray(grey) // 60).astype(np.uint8)
    mask[:3, :5] = 255
    Image.fromarray(mask).save("mask.png")
    indexed = Image.fromarray(mask % 7, "P")
    indexed.putpalette([v for i in range(7) for v in (i * 30, 255 - i * 30, i * 10)])
    indexed.save("mask_indexed.png", bits=4)

    image.save("picture.jpg", quality=92)
    image.save("progressive.jpg", quality=80, progressive=True)
    image.save("full_colour.jpg", quality=95, subsampling=0)
    grey.save("grey.jpg", quality=90)
    image.convert("CMYK").save("inks.jpg", quality=95)
    for o in range(1, 9):
        exif = Image.Exif()
        exif[0x0112] = o
        image.save(f"turned_{o}.jpg", quality=95, exif=exif)
    image.save("lossless.webp", lossless=True)
    rgba.save("alpha.webp", lossless=True, exact=True)
    image.save("lossy.webp", quality=85)
    exif = Image.Exif()
    exif[0x0112] = 6
    image.save("turned.webp", lossless=True, exif=exif)
    image.save("turned.png", exif=exif)
    image.save("picture.ppm")
    grey.save("grey.pgm")
    with open("ten.pgm", "w") as f:  # the largest value is 10, in decimals, with comments
        f.write(f"P2 # plain\n{W} {H}\n# most\n10\n" + " ".join(str(v % 11) for v in np.asarray(grey).ravel()))
    with open("plain.ppm", "w") as f:
        f.write(f"P3\n{W} {H}\n255\n" + "\n".join(str(v) for v in rgb.ravel()))


DECODED = ["picture.png", "grey.png", "alpha.png", "grey_alpha.png", "palette.png", "palette_transparent.png", "bits.png",
           "deep.png", "two_bits.png", "interlaced.png", "picture.jpg", "progressive.jpg", "full_colour.jpg", "grey.jpg",
           "inks.jpg", "lossless.webp", "alpha.webp", "lossy.webp", "turned.webp", "turned.png", "picture.ppm", "grey.pgm",
           "ten.pgm", "plain.ppm"] + [f"turned_{o}.jpg" for o in range(1, 9)]

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
MODES = {"nearest": Mode.NEAREST, "bilinear": Mode.BILINEAR, "bicubic": Mode.BICUBIC, "box": Mode.BOX,
         "hamming": Mode.HAMMING, "lanczos": Mode.LANCZOS}


def pipelines():
    """Returns a dict: text of the pipeline -> torchvision's transform, for pipelines without random numbers."""
    out = {"none": T.ToTensor(), "to_float": T.Compose([T.PILToTensor(), T.ConvertImageDtype(torch.uint8),
                                                        lambda t: t.float()])}
    for name, mode in MODES.items():
        for h, w in ((11, 17), (40, 47), (23, 12), (9, 31), (64, 64)):
            out[f"resize {h},{w} interpolation={name}"] = T.Resize((h, w), mode)
        for side in (10, 32):
            out[f"resize {side} interpolation={name}"] = T.Resize(side, mode)
    for size in ((10, 10), (11, 14), (23, 31), (30, 20), (40, 45), (23, 40)):
        out[f"center_crop {size[0]},{size[1]}"] = T.CenterCrop(size)
    out["horizontal_flip 1"] = T.RandomHorizontalFlip(1)
    out["vertical_flip p=1"] = T.RandomVerticalFlip(1)
    out["random_crop 31,39 padding=4 fill=9"] = T.Pad(4, fill=9)
    out["normalize imagenet"] = T.Compose([T.ToTensor(), T.Normalize(MEAN, STD)])
    out["normalize mean=0.5 std=0.25"] = T.Compose([T.ToTensor(), T.Normalize(0.5, 0.25)])
    out["resize 26 | center_crop 22 | normalize imagenet"] = T.Compose(
        [T.Resize(26), T.CenterCrop(22), T.ToTensor(), T.Normalize(MEAN, STD)])
    return out


OPERATIONS = {
    "ShearX": [0.3, -0.25, 0.99], "ShearY": [0.2, -0.3], "TranslateX": [4.7, -9.0], "TranslateY": [3.0, -2.9],
    "Rotate": [30.0, -17.3, 90.0, 135.0, 180.0], "Brightness": [0.4, -0.6, 0.99], "Color": [0.5, -0.9],
    "Contrast": [0.3, -0.77], "Sharpness": [0.8, -0.5], "Posterize": [8, 5, 2], "Solarize": [255.0, 127.5, 0.0],
    "AutoContrast": [0.0], "Equalize": [0.0], "Identity": [0.0]}


def transformed():
    out = {}
    for text, t in pipelines().items():
        for which, source in (("picture", image), ("grey", grey)):
            if which == "grey" and "imagenet" in text:
                continue
            made = t(source)
            out[f"{which}: {text}"] = made.numpy() if torch.is_tensor(made) else np.asarray(made)  # floats, or bytes
    # a part of the picture, brought to a size: top, left, height, width -> height, width
    for box in ((2, 3, 15, 20, 12, 12), (0, 0, 23, 31, 30, 9), (7, 11, 5, 6, 16, 24)):
        text = "crop " + " ".join(map(str, box))
        out[f"picture: {text}"] = np.asarray(F.resized_crop(image, *box[:4], size=list(box[4:])))
    for which, source in (("picture", image), ("grey", grey)):
        for operation, magnitudes in OPERATIONS.items():
            for m in magnitudes:
                out[f"{which}: {operation} {m}"] = np.asarray(_apply_op(source, operation, m, Mode.NEAREST, None))
    for h in (-0.5, -0.11, 0.25, 0.4999):
        out[f"picture: Hue {h}"] = np.asarray(F.adjust_hue(image, h))
    mask = Image.open("mask.png")
    for h, w in ((11, 17), (40, 47), (23, 12), (9, 31)):
        out[f"mask: resize {h},{w}"] = np.asarray(F.resize(mask, [h, w], Mode.NEAREST))
    return out


def main():
    files()
    np.savez_compressed("decoded.npz", **{n: np.asarray(ImageOps.exif_transpose(Image.open(n)).convert(
        "L" if Image.open(n).mode in ("1", "L", "LA") else "RGB")) for n in DECODED},
        **{n: np.asarray(Image.open(n)) for n in ("mask.png", "mask_indexed.png")},
        as_grey=np.asarray(image.convert("L")))
    np.savez_compressed("transformed.npz", **transformed())


if __name__ == "__main__":
    main()
