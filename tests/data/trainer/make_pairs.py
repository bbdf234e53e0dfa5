"""Writes pairs.json: training of an encoder on pairs of texts in PyTorch, for tests/tools/pairs_test.cc.

The encoder is tanh(E[ids] W), averaged over the tokens that are not padding. It is trained in double precision by four
steps of SGD on batches of two pairs, in the order of the file. whole_windows: two steps on all four pairs, as with
--gradient_cache and two accumulated batches. Ids are those of [CLS] words [SEP] in the vocabulary below.
"""
import json
import torch

VOCAB = "[PAD] [UNK] [CLS] [SEP] [MASK] red green blue car tree sky runs".split()
PAIRS = [("red car", "the car runs"), ("green tree", "tree"), ("blue sky", "sky blue runs red"), ("car", "red red tree")]
SCORES = [0.9, 0.4, 0.7, 0.1]
HARD = ["green", "blue sky", "tree runs", "sky"]


def values(n, step, scale):  # without a pattern, because a sinusoid would be recognized as a table of positions
    i = torch.arange(1, n + 1)
    return (((i * i * 31 + i * step) % 97).double() / 97 - 0.5).mul(scale).float().double()


def encode(texts):
    rows = [[2] + [VOCAB.index(w) if w in VOCAB else 1 for w in t.split()] + [3] for t in texts]
    n = max(map(len, rows))
    ids = torch.tensor([r + [0] * (n - len(r)) for r in rows])
    mask = torch.tensor([[1.0] * len(r) + [0.0] * (n - len(r)) for r in rows], dtype=torch.float64)
    return ids, mask


def embed(e, w, texts):
    ids, mask = encode(texts)
    h = torch.tanh(e[ids] @ w)
    return (h * mask[..., None]).sum(1) / mask.sum(1, keepdim=True)


def loss_of(kind, e, w, rows):
    a, b = embed(e, w, [PAIRS[i][0] for i in rows]), embed(e, w, [PAIRS[i][1] for i in rows])
    cos = torch.nn.functional.cosine_similarity
    if kind == "cosine_mse":
        return ((cos(a, b) - torch.tensor([SCORES[i] for i in rows], dtype=torch.float64)) ** 2).mean()
    candidates = b if kind == "multiple_negatives" else torch.cat([b, embed(e, w, [HARD[i] for i in rows])])
    scores = 20 * cos(a[:, None], candidates[None], dim=-1)
    return torch.nn.functional.cross_entropy(scores, torch.arange(len(rows)))


out = {}
for name in ["multiple_negatives", "cosine_mse", "hard_negatives", "whole_windows"]:
    kind = "multiple_negatives" if name == "whole_windows" else name
    e, w = values(48, 17, 1).reshape(12, 4).requires_grad_(), values(16, 29, 1.6).reshape(4, 4).requires_grad_()
    optimizer = torch.optim.SGD([e, w], lr=0.05)
    before = loss_of(kind, e, w, range(4)).item()
    steps = []
    for rows in [[0, 1, 2, 3]] * 2 if name == "whole_windows" else [[0, 1], [2, 3]] * 2:
        optimizer.zero_grad()
        loss = loss_of(kind, e, w, rows)
        loss.backward()
        optimizer.step()
        steps.append(loss.item())
    out[name] = {"before": before, "steps": steps, "after": loss_of(kind, e, w, range(4)).item(), "e": e.flatten().tolist()}
    with torch.no_grad():
        a, b = embed(e, w, [p[0] for p in PAIRS]), embed(e, w, [p[1] for p in PAIRS])
        c = torch.nn.functional.cosine_similarity(a[:, None], b[None], dim=-1)
        rank = (c > c.diag()[:, None]).sum(1) + 1
        out[name]["accuracy"] = (rank == 1).double().mean().item()
        out[name]["mrr"] = (1 / rank.double()).mean().item()
        x, y = c.diag(), torch.tensor(SCORES, dtype=torch.float64)
        out[name]["pearson"] = torch.corrcoef(torch.stack([x, y]))[0, 1].item()
json.dump(out, open(__file__.replace("make_pairs.py", "pairs.json"), "w"))
