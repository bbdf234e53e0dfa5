#!/usr/bin/env python3
"""Makes golden data of GIF, BMP and TIFF files with Pillow. Run it in this folder.

Writes small files of many forms. Forms that Pillow cannot write are written byte by byte here. decoded_kinds.npz has
their pixels as Pillow decodes them: the first frame, with the orientation applied; palettes, inks and alpha as RGB; the
upper half of 16-bit gray.
Made with Pillow 13.0.
"""
import struct

import numpy as np
from PIL import Image, ImageOps

rng = np.random.default_rng(11)
H, W = 13, 18
y, x = np.mgrid[0:H, 0:W]
rgb = np.stack([127 + 100 * np.sin(x / 3.0 + c) * np.cos(y / (2.0 + c)) + rng.normal(0, 9, (H, W)) for c in range(3)], -1)
rgb = rgb.clip(0, 255).astype(np.uint8)
image = Image.fromarray(rgb)
grey = image.convert("L")
palette = image.quantize(11)
alpha = Image.fromarray(rng.integers(0, 256, (H, W), dtype=np.uint8))
rgba = image.copy()
rgba.putalpha(alpha)
written = []


def save(im, name, **more):
    im.save(name, **more)
    written.append(name)


def put(name, data):
    with open(name, "wb") as f:
        f.write(data)
    written.append(name)


def tiff(name, samples, photometric, order="<", planar=False, tile=None, extra=None, bits=8, more=()):
    """Writes an uncompressed TIFF file. samples: (H, W, C) of uint8 or uint16."""
    h, w, c = samples.shape
    dtype = np.dtype(order + ("u2" if bits == 16 else "u1"))
    planes = [samples[:, :, i:i + 1] for i in range(c)] if planar else [samples]
    chunks = []
    for p in planes:
        if tile:
            for y0 in range(0, h, tile):
                for x0 in range(0, w, tile):
                    part = np.zeros((tile, tile, p.shape[2]), samples.dtype)
                    cut = p[y0:y0 + tile, x0:x0 + tile]
                    part[:cut.shape[0], :cut.shape[1]] = cut
                    chunks.append(part.astype(dtype).tobytes())
        else:
            chunks += [p[y0:y0 + 5].astype(dtype).tobytes() for y0 in range(0, h, 5)]
    body, offsets = b"", []
    for chunk in chunks:
        offsets.append(8 + len(body))
        body += chunk + b"\0" * (len(chunk) % 2)
    tags = [(256, 3, [w]), (257, 3, [h]), (258, 3, [bits] * c), (259, 3, [1]), (262, 3, [photometric]), (277, 3, [c]),
            (284, 3, [2 if planar else 1])] + list(more)
    tags += [(322, 3, [tile]), (323, 3, [tile]), (324, 4, offsets), (325, 4, [len(k) for k in chunks])] if tile else [
        (273, 4, offsets), (278, 3, [5]), (279, 4, [len(k) for k in chunks])]
    if extra is not None:
        tags.append((338, 3, [extra]))
    tags.sort()
    at = 8 + len(body)
    directory, far = struct.pack(order + "H", len(tags)), b""
    behind = at + 2 + 12 * len(tags) + 4
    for tag, kind, values in tags:
        raw = struct.pack(order + str(len(values)) + ("H" if kind == 3 else "I"), *values)
        directory += struct.pack(order + "HHI", tag, kind, len(values))
        if len(raw) > 4:
            directory += struct.pack(order + "I", behind + len(far))
            far += raw + b"\0" * (len(raw) % 2)
        else:
            directory += raw.ljust(4, b"\0")
    head = (b"II*\0" if order == "<" else b"MM\0*") + struct.pack(order + "I", at)
    put(name, head + body + directory + b"\0\0\0\0" + far)


def bmp(name, bits, rows, compression=0, colors=b"", masks=b"", top_down=False, core=False):
    if core:
        info = struct.pack("<IHHHH", 12, W, H, 1, bits)
    else:
        info = struct.pack("<IiiHHIIiiII", 40, W, -H if top_down else H, 1, bits, compression, len(rows), 2835, 2835,
                           len(colors) // 4, 0)
    start = 14 + len(info) + len(masks) + len(colors)
    put(name, b"BM" + struct.pack("<IHHI", start + len(rows), 0, 0, start) + info + masks + colors + rows)


def padded(row):
    return row + b"\0" * (-len(row) % 4)


def gifs():
    save(palette, "picture.gif")
    save(grey, "grey.gif")
    save(palette, "interlaced.gif", interlace=1)
    save(palette, "transparent.gif", transparency=3)
    save(palette, "animated.gif", save_all=True, append_images=[palette.transpose(Image.ROTATE_180)], duration=50)
    data = bytearray(open("picture.gif", "rb").read())
    data[6:10] = struct.pack("<HH", W + 7, H + 4)  # the canvas is larger than the picture
    at = data.index(b"\x2c", 13 + 3 * 2 ** ((data[10] & 7) + 1))
    data[at + 1:at + 5] = struct.pack("<HH", 4, 2)
    put("offset.gif", bytes(data))


def bmps():
    save(image, "picture.bmp")
    save(grey, "grey.bmp")
    save(palette, "palette.bmp")
    save(grey.point(lambda v: 255 * (v > 127)).convert("1"), "bits.bmp")
    save(rgba, "alpha.bmp")
    bgr = rgb[:, :, ::-1]
    bmp("top_down.bmp", 24, b"".join(padded(bgr[r].tobytes()) for r in range(H)), top_down=True)
    bmp("core.bmp", 24, b"".join(padded(bgr[H - 1 - r].tobytes()) for r in range(H)), core=True)
    wide = rgb.astype(np.uint16)
    five = (wide[:, :, 0] >> 3) << 10 | (wide[:, :, 1] >> 3) << 5 | wide[:, :, 2] >> 3
    six = (wide[:, :, 0] >> 3) << 11 | (wide[:, :, 1] >> 2) << 5 | wide[:, :, 2] >> 3
    bmp("five_bits.bmp", 16, b"".join(padded(five[H - 1 - r].tobytes()) for r in range(H)))
    bmp("six_bits.bmp", 16, b"".join(padded(six[H - 1 - r].tobytes()) for r in range(H)), compression=3,
        masks=struct.pack("<III", 0xf800, 0x7e0, 0x1f))
    index = np.asarray(palette)
    colors = b"".join(bytes(palette.getpalette()[3 * i:3 * i + 3][::-1]) + b"\0" for i in range(11))
    rows = b""
    for r in range(H - 1, -1, -1):
        line = index[r]
        rows += bytes([0, 5]) + line[:5].tobytes() + b"\0" + b"".join(bytes([1, v]) for v in line[5:]) + b"\0\0"
    bmp("runs.bmp", 8, rows[:-2] + b"\0\1", compression=1, colors=colors)


def tiffs():
    deep = (rgb.astype(np.uint16) << 8) + rng.integers(0, 256, rgb.shape, dtype=np.uint16)
    tiff("picture.tif", rgb, 2)
    tiff("big_endian.tif", rgb, 2, order=">")
    tiff("planes.tif", rgb, 2, planar=True)
    tiff("tiles.tif", rgb, 2, tile=16)
    tiff("tiled_planes.tif", rgb, 2, tile=16, planar=True)
    tiff("deep.tif", deep, 2, bits=16)
    tiff("deep_grey.tif", deep[:, :, :1], 1, bits=16, order=">")
    tiff("alpha.tif", np.asarray(rgba), 2, extra=2)
    tiff("premultiplied.tif", np.asarray(rgba), 2, extra=1)
    tiff("turned.tif", rgb, 2, more=[(274, 3, [6])])
    tiff("white_is_zero.tif", np.asarray(grey)[:, :, None], 0)
    for kind in ("tiff_lzw", "tiff_deflate", "packbits"):
        save(image, f"{kind.replace('tiff_', '')}.tif", compression=kind)
    save(image, "jpeg.tif", compression="jpeg", quality=95)
    save(palette, "palette.tif", compression="tiff_lzw")
    save(grey, "grey.tiff")
    save(grey.point(lambda v: 255 * (v > 127)).convert("1"), "fax.tif", compression="group4")
    save(image.convert("CMYK"), "inks.tif")
    save(image, "pages.tif", save_all=True, append_images=[image.transpose(Image.ROTATE_180)])


gifs()
bmps()
tiffs()
out = {}
for name in written:
    with Image.open(name) as opened:
        if name.endswith(".gif"):  # decoded as colors, also if all colors are gray
            pixels = np.asarray(opened.convert("RGB"))
        elif opened.mode.startswith("I;16"):
            pixels = (np.asarray(opened) >> 8).astype(np.uint8)
        else:
            turned = ImageOps.exif_transpose(opened)
            pixels = np.asarray(turned.convert("L" if turned.mode in ("1", "L") else "RGB"))
        if name.endswith(".bmp") and pixels.ndim == 2:
            pixels = np.stack([pixels] * 3, -1)  # gray levels of a bitmap are a palette, so the image has colors
        out[name] = pixels
np.savez_compressed("decoded_kinds.npz", **out)
print({k: v.shape for k, v in out.items()})
