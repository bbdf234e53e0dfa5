#!/usr/bin/env python3
"""Generates sample/: pictures that resemble sections of nerve tissue under an electron microscope, and their masks.

    make_sample.py [FOLDER [COUNT]]     default: sample/ beside this file, all pictures; Python's standard library only

The license of the ISBI 2012 challenge's data permits only non-commercial use, so the data is not in this repository.
Sizes, file kinds and mask values are those of the middle 256 x 256 pixels of its pictures: 8-bit gray, 255 inside of a
cell, 0 on a membrane.

A picture is a Voronoi diagram whose coordinates are bent by smooth noise. A pixel is membrane if its distances to the
two nearest centers differ little; the limit varies from place to place. Cells have brightness, texture, and
mitochondria: dark ovals that are not membrane, although a threshold of the gray value would classify them as membrane.
The seed is fixed, so that each call writes the same pixels.
"""
import math
import random
import struct
import sys
import zlib
from pathlib import Path

SIDE, SEED = 256, 2012
PARTS = {"train": range(16), "val": range(16, 20)}
CELL = 30  # mean distance of the centers, in pixels


def smooth_noise(rng, step):
    """Returns a function of (x, y) in pixels. It interpolates random numbers on a grid with this step by a cubic with
    flat ends."""
    count = SIDE // step + 3
    grid = [[rng.gauss(0, 1) for _ in range(count)] for _ in range(count)]

    def at(x, y):
        x, y = x / step, y / step
        i, j = int(x), int(y)
        u, v = x - i, y - j
        u, v = u * u * (3 - 2 * u), v * v * (3 - 2 * v)
        a, b = grid[j], grid[j + 1]
        return (a[i] * (1 - u) + a[i + 1] * u) * (1 - v) + (b[i] * (1 - u) + b[i + 1] * u) * v

    return at


def make_cells(rng):
    """Returns the centers of the cells as a dict (column, row) -> (x, y, brightness): a jittered grid. Some centers are
    left out, which makes large cells."""
    cells = {}
    for row in range(-2, SIDE // CELL + 3):
        for column in range(-2, SIDE // CELL + 3):
            x, y = ((n + rng.random()) * CELL for n in (column, row))
            gray, kept = 168 + rng.gauss(0, 13), rng.random() < 0.8
            if kept:
                cells[column, row] = (x, y, gray)
    return cells


def two_nearest(cells, x, y):
    """Returns the distances to the two nearest centers, and the brightness of the nearest center's cell."""
    column, row = math.floor(x / CELL), math.floor(y / CELL)
    first = second = 1e9
    gray = 0.0
    for j in range(row - 2, row + 3):
        for i in range(column - 2, column + 3):
            cell = cells.get((i, j))
            if cell:
                d = (x - cell[0]) ** 2 + (y - cell[1]) ** 2
                if d < first:
                    first, second, gray = d, first, cell[2]
                elif d < second:
                    second = d
    return math.sqrt(first), math.sqrt(second), gray


def make_ovals(rng, cells):
    """Returns mitochondria in a third of the cells: (x, y, half axes, cosine and sine of the angle, darkness)."""
    ovals = []
    for x, y, _ in cells.values():
        angle, long, chance = math.pi * rng.random(), 5 + 6 * rng.random(), rng.random()
        if chance < 0.35:
            ovals.append((x, y, long, 0.55 * long, math.cos(angle), math.sin(angle), 35 + 25 * rng.random()))
    return ovals


def oval_darkness(ovals, x, y):
    for cx, cy, long, short, cosine, sine, dark in ovals:
        if abs(x - cx) < long and abs(y - cy) < long:
            u = ((x - cx) * cosine + (y - cy) * sine) / long
            v = ((y - cy) * cosine - (x - cx) * sine) / short
            inside = 1 - u * u - v * v
            if inside > 0:
                return dark * (0.6 + 0.4 * math.cos(9 * u)) * min(1.0, 3 * inside)
    return 0.0


def picture(number):
    """Returns the picture's rows of gray values and the mask's rows of values."""
    rng = random.Random(SEED + number)
    cells = make_cells(rng)
    ovals = make_ovals(rng, cells)
    bend_x, bend_y, width, light, strength = (smooth_noise(rng, step) for step in (24, 24, 40, 96, 14))
    coarse, fine = smooth_noise(rng, 5), smooth_noise(rng, 2)
    image, mask = [], []
    for y in range(SIDE):
        image.append(bytearray(SIDE))
        mask.append(bytearray(SIDE))
        for x in range(SIDE):
            px, py = x + 5 * bend_x(x, y), y + 5 * bend_y(x, y)
            first, second, gray = two_nearest(cells, px, py)
            from_edge = (second - first) / 2
            limit = max(1.3, 2.0 + 0.8 * width(x, y))
            membrane = 1 / (1 + math.exp(2.2 * (from_edge - limit)))  # near 1 on the membrane, 0 far from it
            membrane *= min(1.0, max(0.3, 0.8 + 0.3 * strength(x, y)))  # faint where a membrane is cut obliquely
            value = gray + 12 * light(x, y) + 11 * coarse(x, y) + 20 * fine(x, y) - oval_darkness(ovals, px, py)
            value += membrane * (72 + 10 * coarse(y, x) - value) + rng.gauss(0, 5)
            image[-1][x] = min(255, max(0, round(value)))
            mask[-1][x] = 0 if from_edge < limit else 255
    return image, mask


def write_png(path, rows):
    chunk = lambda kind, data: struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    header = struct.pack(">IIBBBBB", len(rows[0]), len(rows), 8, 0, 0, 0, 0)
    pixels = zlib.compress(b"".join(b"\0" + row for row in rows), 9)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", pixels) + chunk(b"IEND", b""))


def main():
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parent / "sample"
    most = int(sys.argv[2]) if len(sys.argv) > 2 else SIDE
    for part, numbers in PARTS.items():
        for number in numbers[:most]:
            image, mask = picture(number)
            write_png(folder / f"{part}_image" / f"{number:02}.png", image)
            write_png(folder / f"{part}_mask" / f"{number:02}.png", mask)


if __name__ == "__main__":
    main()
