"""The sampler's orders from the definition in data/sampler.h, written again in Python. Run in this folder."""

import numpy as np


def philox(seed, high, low):
    v = [low & 0xFFFFFFFF, low >> 32, high & 0xFFFFFFFF, high >> 32]
    k0, k1 = seed & 0xFFFFFFFF, seed >> 32
    for _ in range(10):
        a, b = 0xD2511F53 * v[0], 0xCD9E8D57 * v[2]
        v = [b >> 32 ^ v[1] ^ k0, b & 0xFFFFFFFF, a >> 32 ^ v[3] ^ k1, a & 0xFFFFFFFF]
        k0, k1 = k0 + 0x9E3779B9 & 0xFFFFFFFF, k1 + 0xBB67AE85 & 0xFFFFFFFF
    return v


assert philox(0, 0, 0) == [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]


def shuffle(items, seed, stream, epoch):
    for i in range(len(items), 1, -1):
        r = philox(seed, stream << 32 | epoch, i)
        j = (r[0] << 32 | r[1]) * i >> 64
        items[i - 1], items[j] = items[j], items[i - 1]


def grouped(n, lengths, batch, chunk, seed, epoch):
    order = list(range(n))
    shuffle(order, seed, 0x73616D70, epoch)
    size = batch * chunk
    order = [s for c in range(0, n, size) for s in sorted(order[c:c + size], key=lambda s: -lengths[s])]
    full = list(range(n // batch))
    shuffle(full, seed, 0x62617463, epoch)
    return [s for b in full for s in order[b * batch:(b + 1) * batch]] + order[len(full) * batch:]


with open("sampler_orders.txt", "w") as f:
    for seed, epoch in ((42, 0), (42, 1), (0x123456789ABCDEF0, 7)):
        order = list(range(37))
        shuffle(order, seed, 0x73616D70, epoch)
        print("shuffled", seed, epoch, *order, file=f)
        print("grouped", seed, epoch, *grouped(37, [(i * 7) % 11 for i in range(37)], 4, 3, seed, epoch), file=f)


def drawn(labels, seed, epoch):
    """Samples with PyTorch's weights for balanced classes as torch.multinomial does: the first index whose sum of
    weights is above a uniform number."""
    weights = 1 / np.bincount(labels)[labels].astype(np.float64)
    sums = np.cumsum(weights)
    out = []
    for i in range(len(labels)):
        r = philox(seed, 0x64726177 << 32 | epoch, i)
        uniform = ((r[0] >> 5) * 2**26 + (r[1] >> 6)) / 2**53
        out.append(int(np.searchsorted(sums, uniform * sums[-1], side="right")))
    return out


def token_batches(order, lengths, tokens):
    """Returns batches as Paddle's in_tokens (ERNIE's task_reader.py): a row is added while rows * the longest
    length is at most `tokens`."""
    batches, batch = [], []
    for s in order:
        if batch and (len(batch) + 1) * max(lengths[b] for b in batch + [s]) > tokens:
            batches.append(batch)
            batch = []
        batch.append(s)
    return batches + [batch]


with open("sampler_draws.txt", "w") as f:
    for seed, epoch in ((42, 0), (42, 1), (7, 3)):
        print(seed, epoch, *drawn(np.array([0 if i % 9 else i % 2 + 1 for i in range(200)]), seed, epoch), file=f)
with open("sampler_tokens.txt", "w") as f:  # a batch a line
    lengths = [3 + i * 7 % 29 for i in range(120)]
    for tokens in (31, 64, 200):
        order = list(range(120))
        shuffle(order, 42, 0x73616D70, 0)
        for b in token_batches(order, lengths, tokens):
            print(tokens, *b, file=f)
