"""Writes losses.json: losses and gradients by PyTorch in fp64, for every kind and parameter. Needs torch and TRL (1.16),
whose KTOTrainer computes the cases of kto."""
import json
import math
import os

import torch
import torch.nn.functional as F

torch.manual_seed(7)
torch.set_default_dtype(torch.float64)
cases = []


def number(x):
    return x if math.isfinite(x) else None


def case(name, spec, outputs, label, loss, teacher=None, rows=None, second=None):
    """Makes a case. outputs: list of tensors; loss: function of leaves that require gradients -> scalar."""
    leaves = [o.detach().clone().requires_grad_(True) for o in outputs]
    value = loss(*leaves)
    grads = torch.autograd.grad(value, leaves, allow_unused=True) if value.requires_grad else [None] * len(leaves)
    grads = [torch.zeros_like(x) if g is None else g for g, x in zip(grads, leaves)]

    def tensor(t):
        return dict(dims=list(t.shape), float=t.is_floating_point(), data=[number(float(v)) for v in t.reshape(-1).tolist()])

    cases.append(dict(name=name, spec=spec, outputs=[tensor(o) for o in outputs], rows=rows or (outputs[0].shape[0] if outputs[0].dim() else 1),
                      label=None if label is None else tensor(label), teacher=None if teacher is None else tensor(teacher),
                      loss=float(value.detach()), grads=[tensor(g) for g in grads], **({} if second is None else {"second": tensor(second)})))


def ids(shape, classes, ignore=None, share=0.3):
    y = torch.randint(0, classes, shape)
    if ignore is not None:
        y[torch.rand(shape) < share] = ignore
    return y


def entropy():
    x, y = torch.randn(7, 5) * 3, ids((7,), 5)
    w = torch.tensor([1.0, 2.0, 0.5, 0.0, 3.0])
    case("plain", dict(kind="cross_entropy"), [x], y, lambda a: F.cross_entropy(a, y))
    case("large logits", dict(kind="cross_entropy"), [x * 300], y, lambda a: F.cross_entropy(a, y))
    z = ids((7,), 5, -100)
    case("ignored", dict(kind="cross_entropy"), [x], z, lambda a: F.cross_entropy(a, z))
    z2 = ids((7,), 5, 2)
    case("ignore_index 2", dict(kind="cross_entropy", ignore_index=2), [x], z2, lambda a: F.cross_entropy(a, z2, ignore_index=2))
    for smoothing in (0.0, 0.1):
        s = dict(kind="cross_entropy", label_smoothing=smoothing)
        case(f"smoothing {smoothing}", s, [x], z, lambda a: F.cross_entropy(a, z, label_smoothing=smoothing))
        case(f"weights, smoothing {smoothing}", dict(s, class_weights=w.tolist()), [x], z,
             lambda a: F.cross_entropy(a, z, weight=w, label_smoothing=smoothing))
    none = torch.full((4,), -100)
    for s in (dict(), dict(label_smoothing=0.1), dict(class_weights=w.tolist())):
        case(f"all ignored {s}", dict(kind="cross_entropy", **s), [x[:4]], none, lambda a: (a * 0).sum())
    tokens, tags = torch.randn(3, 6, 4), ids((3, 6), 4, -100)
    case("tokens", dict(kind="cross_entropy", class_weights=[1.0, 2.0, 3.0, 4.0]), [tokens], tags,
         lambda a: F.cross_entropy(a.transpose(1, 2), tags, weight=torch.tensor([1.0, 2, 3, 4])))
    image, mask = torch.randn(2, 3, 4, 5), ids((2, 4, 5), 3, 255)
    for kind in ("cross_entropy", "cross_entropy_nchw"):
        case(f"{kind} of images", dict(kind=kind, ignore_index=255, label_smoothing=0.2), [image], mask,
             lambda a: F.cross_entropy(a, mask, ignore_index=255, label_smoothing=0.2))
    lm, words = torch.randn(2, 5, 6), ids((2, 5), 6, -100)
    case("masked_lm", dict(kind="masked_lm"), [lm], words, lambda a: F.cross_entropy(a.reshape(-1, 6), words.reshape(-1)))
    case("causal_lm", dict(kind="causal_lm"), [lm], words, lambda a: F.cross_entropy(a[:, :-1].reshape(-1, 6), words[:, 1:].reshape(-1)))
    case("causal_lm smoothing", dict(kind="causal_lm", label_smoothing=0.1, class_weights=[1.0, 2, 3, 4, 5, 6]), [lm], words,
         lambda a: F.cross_entropy(a[:, :-1].reshape(-1, 6), words[:, 1:].reshape(-1), weight=torch.arange(1.0, 7), label_smoothing=0.1))
    start, end, span = torch.randn(4, 6), torch.randn(4, 6), torch.tensor([[0, 2], [3, 3], [-100, 5], [1, -100]])
    case("qa_span", dict(kind="qa_span"), [start, end], span,
         lambda a, b: (F.cross_entropy(a, span[:, 0]) + F.cross_entropy(b, span[:, 1])) / 2)
    p = torch.rand(6, 3) + 0.1
    y3 = ids((6,), 3)
    case("nll_probs", dict(kind="nll_probs"), [p], y3, lambda a: F.nll_loss(a.log(), y3))
    case("empty", dict(kind="cross_entropy"), [torch.randn(0, 5)], torch.zeros(0, dtype=torch.int64), lambda a: a.sum() * 0)


def binary():
    x, y = torch.randn(6, 4) * 4, torch.rand(6, 4)
    hard = (y > 0.5).double()
    w = torch.tensor([1.0, 3.0, 0.5, 2.0])
    case("soft", dict(kind="bce_logits"), [x], y, lambda a: F.binary_cross_entropy_with_logits(a, y))
    case("large", dict(kind="bce_logits"), [x * 100], hard, lambda a: F.binary_cross_entropy_with_logits(a, hard))
    case("pos_weight", dict(kind="bce_logits", pos_weight=w.tolist()), [x], hard, lambda a: F.binary_cross_entropy_with_logits(a, hard, pos_weight=w))
    case("one pos_weight", dict(kind="bce_logits", pos_weight=2.5), [x], y,
         lambda a: F.binary_cross_entropy_with_logits(a, y, pos_weight=torch.tensor(2.5)))
    im, m = torch.randn(2, 3, 4, 4), ids((2, 3, 4, 4), 2)
    case("pos_weight of channels", dict(kind="bce_logits", pos_weight=[1.0, 2.0, 3.0]), [im], m,
         lambda a: F.binary_cross_entropy_with_logits(a, m.double(), pos_weight=torch.tensor([1.0, 2, 3]).reshape(3, 1, 1)))
    column, flat = torch.randn(5, 1), ids((5,), 2)
    case("label [B] of [B, 1]", dict(kind="bce_logits"), [column], flat, lambda a: F.binary_cross_entropy_with_logits(a.reshape(-1), flat.double()))
    part = torch.tensor([1, 0, -100, 1, -100])
    keep = part != -100
    case("ignored places", dict(kind="bce_logits", pos_weight=2.0), [column], part,
         lambda a: F.binary_cross_entropy_with_logits(a.reshape(-1)[keep], part[keep].double(), pos_weight=torch.tensor(2.0)))
    case("all ignored", dict(kind="bce_logits"), [column], torch.full((5,), -100), lambda a: (a * 0).sum())

    def focal(a, y, gamma, alpha):  # Lin et al. 2017 with torch.nn.functional's cross-entropy
        p = torch.sigmoid(a)
        pt = p * y + (1 - p) * (1 - y)
        l = F.binary_cross_entropy_with_logits(a, y, reduction="none") * (1 - pt) ** gamma
        return ((alpha * y + (1 - alpha) * (1 - y)) * l if alpha >= 0 else l).mean()

    for gamma, alpha in ((2, 0.25), (0, 0.25), (1.5, -1), (1, 0.6)):
        case(f"focal {gamma} {alpha}", dict(kind="focal", gamma=gamma, alpha=alpha), [x], hard, lambda a: focal(a, hard, gamma, alpha))
    logits, cls = torch.randn(7, 5) * 2, ids((7,), 5, -100)
    cw = torch.tensor([1.0, 2.0, 0.5, 1.5, 3.0])

    def focal_classes(a, gamma, w):
        ok = cls != -100
        lp = F.log_softmax(a[ok], -1).gather(1, cls[ok, None])[:, 0]
        return -(w[cls[ok]] * (1 - lp.exp()) ** gamma * lp).sum() / w[cls[ok]].sum()

    for gamma in (2, 0, 0.5, 3):
        case(f"focal of classes {gamma}", dict(kind="focal", gamma=gamma), [logits], cls, lambda a: focal_classes(a, gamma, torch.ones(5)))
    case("focal of weighted classes", dict(kind="focal", class_weights=cw.tolist()), [logits], cls, lambda a: focal_classes(a, 2, cw))
    case("focal 0 is cross-entropy", dict(kind="focal", gamma=0, class_weights=cw.tolist()), [logits], cls, lambda a: F.cross_entropy(a, cls, weight=cw))


def numbers():
    x, y = torch.randn(6, 3) * 2, torch.randn(6, 3)
    case("mse", dict(kind="mse"), [x], y, lambda a: F.mse_loss(a, y))
    case("mse [B] of [B, 1]", dict(kind="mse"), [x[:, :1]], y[:, 0], lambda a: F.mse_loss(a[:, 0], y[:, 0]))
    case("l1", dict(kind="l1"), [x], y, lambda a: F.l1_loss(a, y))
    for delta in (1.0, 0.3, 5.0):
        case(f"huber {delta}", dict(kind="huber", delta=delta), [x], y, lambda a: F.huber_loss(a, y, delta=delta))
    case("log_cosh", dict(kind="log_cosh"), [x], y, lambda a: torch.log(torch.cosh(a - y)).mean())
    case("log_cosh far off", dict(kind="log_cosh"), [x * 1e3], y, lambda a: ((a - y).abs() - math.log(2)).mean())
    case("empty mse", dict(kind="mse"), [torch.randn(0, 3)], torch.randn(0, 3), lambda a: a.sum() * 0)
    v = torch.rand(6) + 0.5
    case("rmspe", dict(kind="rmspe"), [x[:, 0]], v, lambda a: torch.sqrt((((v - a) / v) ** 2).mean()))
    v0 = v.clone()
    v0[2] = 0
    ok = v0 != 0
    case("rmspe leaves out 0", dict(kind="rmspe"), [x[:, :1]], v0, lambda a: torch.sqrt((((v0[ok] - a[ok, 0]) / v0[ok]) ** 2).mean()))
    case("rmspe_exp", dict(kind="rmspe_exp"), [x[:, 0] * 0.3], v, lambda a: torch.sqrt(((1 - torch.exp(a - v)) ** 2).mean()))
    q = torch.softmax(torch.randn(6, 3), -1)
    q[0] = torch.tensor([0.0, 1.0, 0.0])
    case("kl", dict(kind="kl"), [x], q, lambda a: F.kl_div(F.log_softmax(a, -1), q, reduction="batchmean"))
    t = torch.randn(6, 3) * 2
    for temperature in (1.0, 3.0):
        case(f"distill {temperature}", dict(kind="distill", temperature=temperature), [x], None,
             lambda a: temperature ** 2 * F.kl_div(F.log_softmax(a / temperature, -1), F.softmax(t / temperature, -1), reduction="batchmean"), teacher=t)
    xs, ts, tags = torch.randn(2, 4, 3), torch.randn(2, 4, 3), ids((2, 4), 3, -100)
    case("distill tokens", dict(kind="distill"), [xs], None,
         lambda a: F.kl_div(F.log_softmax(a, -1), F.softmax(ts, -1), reduction="none").sum(-1).mean(), teacher=ts)
    m = tags != -100
    case("distill valid tokens", dict(kind="distill", label="label", temperature=2.0), [xs], tags,
         lambda a: 4 * F.kl_div(F.log_softmax(a / 2, -1), F.softmax(ts / 2, -1), reduction="none").sum(-1)[m].mean(), teacher=ts)


def masks():
    def dice(p, g, ok, s):  # [B, C, P]
        p, g = p * ok, g * ok
        d = (2 * (p * g).sum(-1) + s) / (p.sum(-1) + g.sum(-1) + s)
        used = ok.reshape(ok.shape[0], -1).any(-1)
        return (1 - d).mean(1)[used].mean() if used.any() else (p * 0).sum()

    x, y = torch.randn(3, 4, 2, 5), ids((3, 2, 5), 4, -100)
    y[1] = -100
    one = lambda y, c: F.one_hot(y.clamp(min=0), c).double().flatten(1, -2).transpose(1, 2)
    ok = (y != -100).flatten(1)[:, None]
    multi = lambda a, s=1e-5: dice(torch.softmax(a, 1).flatten(2), one(y, 4), ok, s)
    case("dice", dict(kind="dice"), [x], y, multi)
    case("dice smooth 1", dict(kind="dice", smooth=1.0), [x], y, lambda a: multi(a, 1.0))
    case("dice_ce", dict(kind="dice_ce"), [x], y, lambda a: multi(a) + F.cross_entropy(a, y))
    w = torch.tensor([1.0, 2.0, 3.0, 0.5])
    case("dice_ce of weighted classes", dict(kind="dice_ce", class_weights=w.tolist(), weight=0.5), [x], y,
         lambda a: 0.5 * (multi(a) + F.cross_entropy(a, y, weight=w)))
    case("dice all ignored", dict(kind="dice"), [x], torch.full_like(y, -100), lambda a: (a * 0).sum())
    b, g = torch.randn(3, 1, 4, 4), ids((3, 4, 4), 2)
    all_ok = torch.ones(3, 1, 16, dtype=torch.bool)
    single = lambda a: dice(torch.sigmoid(a).flatten(2), g.double().flatten(1)[:, None], all_ok, 1e-5)
    case("dice of one class", dict(kind="dice"), [b], g, single)
    case("dice_ce of one class", dict(kind="dice_ce", pos_weight=2.0), [b], g,
         lambda a: single(a) + F.binary_cross_entropy_with_logits(a[:, 0], g.double(), pos_weight=torch.tensor(2.0)))


def embeddings():
    e = torch.randn(8, 5)
    sign = torch.tensor([1, -1, -1, 1])
    for margin in (None, 0.3):
        s = dict(kind="cosine") if margin is None else dict(kind="cosine", margin=margin)
        case(f"cosine of pairs {margin}", s, [e], sign, lambda a: F.cosine_embedding_loss(a[0::2], a[1::2], sign, margin=margin or 0.0))
    target = torch.randn(8, 5)
    case("cosine of a target", dict(kind="cosine"), [e], target, lambda a: F.cosine_embedding_loss(a, target, torch.ones(8)))
    score = torch.rand(4)
    case("cosine_mse", dict(kind="cosine_mse"), [e], score, lambda a: F.mse_loss(F.cosine_similarity(a[0::2], a[1::2]), score))
    t = torch.randn(9, 5)
    case("triplet", dict(kind="triplet"), [t], None, lambda a: F.triplet_margin_loss(a[0::3], a[1::3], a[2::3]))
    case("triplet of three outputs", dict(kind="triplet", margin=0.5), [t[0:3], t[3:6], t[6:9]], None,
         lambda a, p, n: F.triplet_margin_loss(a, p, n, margin=0.5))

    def ranking(a, p, n=None, scale=20.0):  # sentence-transformers' MultipleNegativesRankingLoss
        c = p if n is None else torch.cat([p, n])
        return F.cross_entropy(scale * F.cosine_similarity(a[:, None], c[None], dim=-1), torch.arange(len(a)))

    case("multiple_negatives", dict(kind="multiple_negatives"), [e], None, lambda a: ranking(a[0::2], a[1::2]))
    case("multiple_negatives scale 5", dict(kind="multiple_negatives", scale=5.0), [e[:4], e[4:]], None, lambda a, p: ranking(a, p, scale=5.0))
    case("multiple_negatives with negatives", dict(kind="multiple_negatives"), [t[0:3], t[3:6], t[6:9]], None, ranking)
    case("model", dict(kind="model"), [torch.tensor(1.75)], None, lambda a: a * 1, rows=6)


def probabilities():
    x, soft = torch.randn(7, 5) * 3, torch.softmax(torch.randn(7, 5), 1)
    w = torch.tensor([1.0, 2.0, 0.5, 0.0, 3.0])
    for smoothing in (0.0, 0.1):
        s = dict(kind="cross_entropy", label_smoothing=smoothing)
        case(f"probabilities, smoothing {smoothing}", s, [x], soft, lambda a: F.cross_entropy(a, soft, label_smoothing=smoothing))
        case(f"probabilities, weights, smoothing {smoothing}", dict(s, class_weights=w.tolist()), [x], soft,
             lambda a: F.cross_entropy(a, soft, weight=w, label_smoothing=smoothing))


def ordinal():
    x, y = torch.randn(7, 4) * 2, ids((7,), 5)
    w = torch.tensor([0.5, 1.0, 2.0, 0.0])

    def coral(logits, labels, importance=None):  # coral_loss of coral-pytorch 1.4, with its levels_from_labelbatch
        levels = (labels[:, None] > torch.arange(logits.shape[1])).double()
        term = F.logsigmoid(logits) * levels + (F.logsigmoid(logits) - logits) * (1 - levels)
        if importance is not None:
            term = term * importance
        return -term.sum(1).mean()

    case("plain", dict(kind="coral"), [x], y, lambda a: coral(a, y))
    case("large logits", dict(kind="coral"), [x * 100], y, lambda a: coral(a, y))
    case("importance weights", dict(kind="coral", importance_weights=w.tolist()), [x], y, lambda a: coral(a, y, w))
    z = ids((7,), 5, -100)
    case("ignored", dict(kind="coral"), [x], z, lambda a: coral(a[z >= 0], z[z >= 0]))
    two = ids((7,), 2)
    case("two classes", dict(kind="coral", ignore_index=9), [x[:, :1]], two, lambda a: coral(a, two))


def preferences():
    """Pairs of answers (rows 2i: preferred, 2i + 1: rejected), by the formulas of TRL's DPOTrainer (sigmoid loss with
    label_smoothing), ORPOTrainer and CPOTrainer (simpo, cpo_alpha 0). The first term of ORPO counts the labels."""
    own, other = torch.randn(10, 5, 7), torch.randn(10, 5, 7)
    words = ids((10, 5), 7, -100)
    words[:, 3] = torch.arange(10) % 7  # each answer has a label

    def logps(x, mean):
        y, valid = words[:, 1:].clamp(min=0), words[:, 1:] != -100
        p = x[:, :-1].log_softmax(-1).gather(-1, y[..., None]).squeeze(-1) * valid
        return p.sum(-1) / (valid.sum(-1) if mean else 1)

    def smoothed(u, e):
        return (-(1 - e) * F.logsigmoid(u) - e * F.logsigmoid(-u)).mean()

    def dpo(x, beta=0.1, e=0.0):
        delta = logps(x, False) - logps(other, False)
        return smoothed(beta * (delta[0::2] - delta[1::2]), e)

    def simpo(x, beta=2.0, gamma=0.5, e=0.0):
        p = logps(x, True)
        return smoothed(beta * (p[0::2] - p[1::2] - gamma / beta), e)

    def orpo(x, beta=0.1):
        p = logps(x, True)
        odds = (p[0::2] - p[1::2]) - (torch.log1p(-torch.exp(p[0::2])) - torch.log1p(-torch.exp(p[1::2])))
        nll = F.cross_entropy(x[0::2, :-1].reshape(-1, 7), words[0::2, 1:].reshape(-1))
        return nll - (beta * F.logsigmoid(odds)).mean()

    case("dpo", dict(kind="dpo"), [own], words, dpo, teacher=other)
    case("dpo smoothed", dict(kind="dpo", beta=0.5, label_smoothing=0.2), [own], words, lambda a: dpo(a, 0.5, 0.2), teacher=other)
    case("orpo", dict(kind="orpo"), [own], words, orpo)
    case("orpo beta 2", dict(kind="orpo", beta=2.0), [own], words, lambda a: orpo(a, 2.0))
    case("simpo", dict(kind="simpo"), [own], words, simpo)
    case("simpo smoothed", dict(kind="simpo", beta=1.5, gamma=1.0, label_smoothing=0.1), [own], words,
         lambda a: simpo(a, 1.5, 1.0, 0.1))


def kto():
    """Rows 2i: answers; 2i + 1: other answers after the same prompts. The loss is KTOTrainer._compute_loss of TRL, whose
    models are replaced by the given logits."""
    import collections
    import types

    from trl.trainer.kto_trainer import KTOTrainer

    def answers(label):  # the logits after this call are those of the labels: -100 marks prompts and padding
        valid = label != -100
        return label.clamp(min=0), valid

    def trl(x, reference, label, marks, beta=0.1, desirable_weight=1.0, undesirable_weight=1.0):
        ids, valid = answers(label)

        def model(logits):
            def forward(labels=None, **_):
                y = labels[:, 1:]
                rows = logits[1::2] if torch.equal(labels, label[1::2]) else logits[0::2]
                logp = rows[:, :-1].log_softmax(-1).gather(-1, y.clamp(min=0)[..., None]).squeeze(-1)
                zero = torch.zeros(y.shape)
                return types.SimpleNamespace(log_probs=torch.where(y != -100, logp, zero), entropy=zero, mean_logits=zero)
            forward.training = True
            return forward

        accelerator = types.SimpleNamespace(device="cpu", gather_for_metrics=lambda t: t)
        trainer = types.SimpleNamespace(
            model=model(x), ref_model=model(reference), accelerator=accelerator, calculate_KL=True, aux_loss_enabled=False,
            precompute_ref_logps=False, loss_type="kto", beta=beta, desirable_weight=desirable_weight,
            undesirable_weight=undesirable_weight, _metrics={"train": collections.defaultdict(list)}, _total_train_tokens=0,
            _tp_size=1, args=types.SimpleNamespace(gradient_checkpointing_kwargs=None))
        trainer._compute_kl_logps = lambda m, b: KTOTrainer._compute_kl_logps(trainer, m, b)
        batch = dict(input_ids=ids[0::2], attention_mask=valid[0::2].long(), completion_mask=valid[0::2].long(),
                     KL_input_ids=ids[1::2], KL_attention_mask=valid[1::2].long(), KL_completion_mask=valid[1::2].long(),
                     label=marks.bool())
        import trl.trainer.kto_trainer as module
        module.disable_gradient_checkpointing = lambda *_: __import__("contextlib").nullcontext()
        module.is_peft_model = lambda *_: False
        loss = KTOTrainer._compute_loss(trainer, trainer.model, batch, False)
        z0.append(trainer._metrics["train"]["kl"][0])
        return loss

    other, own = torch.randn(12, 5, 7), torch.randn(12, 5, 7)
    label = ids((12, 5), 7, -100)
    label[:, 3] = torch.arange(12) % 7
    marks = torch.tensor([1, 0, 1, 1, 0, 0])

    def add(name, x=own, y=other, labels=label, m=marks, **given):
        case(name, dict(kind="kto", **given), [x], labels, lambda a: trl(a, y, labels, m, **given), teacher=y, second=m)

    z0 = []
    add("kto")
    add("kto weights", beta=0.5, desirable_weight=1.33, undesirable_weight=0.7)
    add("kto where z0 is 0", other, own, beta=0.3)
    higher = other.clone()
    higher[1::2] = -3 * own[1::2]
    add("kto where z0 is large", own * 3, higher, beta=0.2)
    add("kto of desirable answers", m=torch.ones(6, dtype=torch.int64))
    add("kto of undesirable answers", m=torch.zeros(6, dtype=torch.int64))
    bare = label.clone()
    bare[5] = -100  # an answer that the other prompt leaves no room for
    add("kto with a row without labels", labels=bare)
    add("kto of one answer", own[:2], other[:2], label[:2], torch.tensor([1]))
    assert [z > 0 for z in z0] == [True, True, False, True, True, True, True, True], z0


if __name__ == "__main__":
    for make in (entropy, binary, numbers, masks, embeddings, probabilities, ordinal, preferences, kto):
        make()
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "losses.json"), "w") as f:
        f.write("[\n" + ",\n".join(json.dumps(c, separators=(",", ":")) for c in cases) + "\n]\n")
    print(len(cases), "cases")
