"""Makes golden data for tests/data/image_sizes_test.cc: parts of picture.png, each transformed by torchvision to the size
with the nearest aspect ratio, by Resize (of the shorter side or, with max_size, the longer), CenterCrop, ToTensor and
Normalize. Run it in this folder with torchvision and Pillow 11. Pillow 13 resizes some images by columns first, which
rounds differently."""
import math

import numpy as np
from PIL import Image
from torchvision import transforms as T
from torchvision.transforms import v2

SIZES = [(14, 14), (12, 18), (18, 12), (8, 24)]  # height, width
# top, left, height, width
BOXES = [(0, 0, 23, 31), (2, 1, 20, 21), (0, 4, 23, 12), (5, 0, 9, 31), (1, 3, 22, 10), (3, 2, 18, 28), (0, 9, 21, 14),
         (9, 0, 6, 30), (4, 4, 16, 24), (0, 0, 18, 12)]
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


def nearest(height, width):
    far = [abs(math.log(width / height) - math.log(w / h)) for h, w in SIZES]
    best = min(far)
    tied = [s for s, f in zip(SIZES, far) if f - best < 1e-12]
    return max(tied, key=lambda s: s[0] * s[1])  # for equal areas the first one


def covering(image, height, width):
    """Returns the smallest size with the image's aspect ratio that is not smaller in any dimension, rounded as in
    torchvision."""
    by_width = image.width * height <= image.height * width
    side, shorter = (width, image.width <= image.height) if by_width else (height, image.height <= image.width)
    return (T.Resize(side) if shorter else v2.Resize(None, max_size=side))(image)


def main():
    picture = Image.open("picture.png").convert("RGB")
    out = {"sizes": np.array(SIZES), "boxes": np.array(BOXES), "nearest": np.array([nearest(*b[2:]) for b in BOXES])}
    finish = T.Compose([T.ToTensor(), T.Normalize(MEAN, STD)])
    for i, (top, left, h, w) in enumerate(BOXES):
        part = picture.crop((left, top, left + w, top + h))
        height, width = nearest(h, w)
        out[f"cover {i}"] = finish(T.CenterCrop((height, width))(covering(part, height, width))).numpy()
        # "resize 16 | center_crop 14", for another size
        larger = covering(part, round(height * 16 / 14), round(width * 16 / 14))
        out[f"larger {i}"] = finish(T.CenterCrop((height, width))(larger)).numpy()
        out[f"exact {i}"] = finish(T.Resize((height, width))(part)).numpy()
    np.savez_compressed("image_sizes.npz", **out)


if __name__ == "__main__":
    main()
