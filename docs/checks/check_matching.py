"""Computes again what audit.matching, audit.attributes and audit.cross_modal print, networks included.

    coalmine show RUN --nodes --json > nodes.json
    coalmine results RUN --json > results.json
    python3 docs/checks/check_matching.py STORE nodes.json results.json [CELL]

STORE is the directory of the store, as HOME/store. Updates, devices and names of users are read
from it. It needs NumPy, scikit-learn and PyTorch, and is written from docs/method.md and
docs/random-streams.md: samples, pairs, initial weights, the order of what is learned from and
resamples are drawn anew, and the networks are trained again by PyTorch's gradients. Training goes
through thousands of steps whose sums PyTorch adds up in another order, so that scores agree to
some digits and not to all; the program prints how far every printed number is away, and the scores
of cross_modal, which are stored. It takes --double to train in float64.
"""
import argparse
import json
import math
import os
import sys

import numpy
import torch
from sklearn import metrics

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from check_linking import Nodes, columns, draw_updates, figures, interval, updates, uvarints, weights_of
from check_streams import stream

TYPE = torch.float32


class Updates:
    """All recorded updates through the view of a node, with who has sent them."""

    def __init__(self, nodes, inputs, params):
        layout, self.rounds, device, values = updates(nodes, inputs["recorded-0"])
        split = json.loads(nodes.blob(inputs["devices"], "devices"))
        self.user = numpy.array([split[d]["user"] for d in device])
        self.shadow = numpy.array([split[d]["shadow"] for d in device])
        self.set = numpy.array([split[d]["set"] for d in device])
        x = values[:, columns(layout, params.get("layers"))]
        if not params.get("raw"):
            norms = numpy.linalg.norm(x, axis=1, keepdims=True)
            x = x / numpy.where(norms > 0, norms, 1)
        self.x = x.astype(numpy.float32)

    def centred(self):
        """Each less the mean of its round."""
        x = self.x.astype(float)
        for r in set(self.rounds):
            x[self.rounds == r] -= x[self.rounds == r].mean(axis=0)
        return x.astype(numpy.float32)

    def sample(self, seed, number, most, fits):
        found = numpy.flatnonzero(fits)
        chosen = stream(seed, "sampled updates", number).permutation(len(found))[:most]
        return found[sorted(chosen)]


def apart(users, seed, network):
    """The users who say when to stop."""
    n = min(len(users), max(2, int(0.2 * len(users))))
    return {users[i] for i in stream(seed, "network validation", network).permutation(len(users))[:n]}


def dense(rng, widths):
    """The weights of layers, and biases of 0."""
    layers = []
    for i, o in zip(widths, widths[1:]):
        bound = (6 / (i + o)) ** 0.5
        w = numpy.array([bound * (2 * rng.float64() - 1) for _ in range(i * o)], dtype=numpy.float32).reshape(i, o)
        layers += [torch.tensor(w, dtype=TYPE, requires_grad=True), torch.zeros(o, dtype=TYPE, requires_grad=True)]
    return layers


def through(layers, x, last_linear=False):
    for i in range(0, len(layers), 2):
        x = x @ layers[i] + layers[i + 1]
        if not (last_linear and i + 2 == len(layers)):
            x = torch.relu(x)
    return x


class PairNetwork:
    """Two towers, which may be one, the absolute difference, and a logistic unit."""

    def __init__(self, rng, first, second, shared):
        self.first = dense(rng, first)
        self.second = self.first if shared else dense(rng, second)
        self.distance = dense(rng, [first[-1], 1])
        self.parameters = self.first + ([] if shared else self.second) + self.distance

    def logits(self, a, b):
        u, v = through(self.first, torch.tensor(a, dtype=TYPE)), through(self.second, torch.tensor(b, dtype=TYPE))
        return through(self.distance, (u - v).abs(), last_linear=True)[:, 0]

    def train(self, pairs, a, b, batch, rate, squares):
        """An epoch of RMSProp; returns the mean loss."""
        total = 0
        for at in range(0, len(pairs), batch):
            some = pairs[at:at + batch]
            same = torch.tensor([float(p[2]) for p in some], dtype=TYPE)
            loss = torch.nn.functional.binary_cross_entropy_with_logits(self.logits(a[[p[0] for p in some]], b[[p[1] for p in some]]), same)
            total += loss.item() * len(some)
            for p, s, g in zip(self.parameters, squares, torch.autograd.grad(loss, self.parameters)):
                s.mul_(0.9).add_(0.1 * g * g)
                p.data -= rate * g / (s.sqrt() + 1e-8)
        return total / len(pairs)

    def score(self, pairs, a, b):
        with torch.no_grad():
            return numpy.concatenate([self.logits(a[[p[0] for p in pairs[at:at + 512]]], b[[p[1] for p in pairs[at:at + 512]]]).double().numpy() for at in range(0, len(pairs), 512)])


def ap_of(pairs, scores, weights=None):
    return metrics.average_precision_score([p[2] for p in pairs], scores, sample_weight=weights)


def learn(network, params, draw, validated, a, b):
    """Trains for all epochs; the network is that of the best one afterwards."""
    squares = [torch.zeros_like(p) for p in network.parameters]
    course, best, kept = [], 0, None
    for epoch in range(params["epochs"]):
        loss = network.train(draw(epoch), a, b, params["batch"], params["learning_rate"], squares)
        ap = ap_of(validated, network.score(validated, a, b))
        course.append((loss, ap))
        if kept is None or ap > course[best][1] + 1e-12:  # equal ones may differ in the last bit
            best, kept = epoch, [p.data.clone() for p in network.parameters]
    for p, k in zip(network.parameters, kept):
        p.data = k
    return course, best + 1


class Checker:
    def __init__(self):
        self.worst = {}

    def same(self, kind, what, got, printed):
        off = abs(got - printed)
        self.worst[kind] = max(self.worst.get(kind, 0), off)
        print(f"  {what}: {got:.6f}, printed {printed:.6f}, off by {off:.1e}")

    def course(self, course, best, learned):
        for (loss, ap), printed in list(zip(course, learned["course"]))[:3]:
            self.same("loss of the first epochs", "loss", loss, printed["loss"])
            self.same("AP of the first epochs", "AP of the validation", ap, printed["ap"])
        print(f"  best epoch: {best}, printed {learned['best']}")

    def pairs(self, kind, what, pairs, users, scores, printed, seed, number):
        """AP, AUC and their intervals; users are those of both sides of each pair."""
        for name, (value, low, high) in figures(pairs, users, scores, seed, number).items():
            self.same(kind, f"{what} {name.upper()}", value, printed[name]["value"])
            self.same(kind + ", interval", f"{what} {name} from", low, printed[name]["low"])
            self.same(kind + ", interval", f"{what} {name} to", high, printed[name]["high"])


def check_matching(check, nodes, inputs, params, verdict):
    u, seed = Updates(nodes, inputs, params), params["seed"]
    centred = u.centred()
    x = centred if params.get("centre") else u.x
    shadow = u.sample(seed, 0, params["updates"], u.shadow)
    anonymous = u.sample(seed, 1, params["updates"], ~u.shadow & (u.set != "held-out"))
    stop = apart(sorted(set(u.user[shadow])), seed, 0)
    validation = numpy.isin(u.user[shadow], list(stop))
    learned, validated = shadow[~validation], shadow[validation]
    n = params["pairs"]
    network = PairNetwork(stream(seed, "network weights", 0), [x.shape[1], params["units"], params["units"]], None, True)
    draw = lambda a, b, number: draw_updates(a, b, u.user, u.rounds, n, seed, number)
    course, best = learn(network, params, lambda epoch: draw(learned, learned, 6 + epoch), draw(validated, validated, 1), x, x)
    check.course(course, best, verdict["learned"])
    seen, unseen = anonymous[u.set[anonymous] == "seen"], anonymous[u.set[anonymous] == "unseen"]
    for number, what, a, b in ((2, "anonymous", anonymous, anonymous), (3, "shadow", shadow[u.set[shadow] == "seen"], anonymous), (4, "seen", seen, seen), (5, "unseen", unseen, unseen)):
        if what not in verdict:
            continue
        pairs = draw(a, b, number)
        first, second = [p[0] for p in pairs], [p[1] for p in pairs]
        users = numpy.stack([u.user[first], u.user[second]], axis=1)
        check.pairs("matching, network", what + " pairs, network", pairs, users, network.score(pairs, x, x), verdict[what]["network"], seed, number)
        a, b = centred[first].astype(float), centred[second].astype(float)
        norms = numpy.linalg.norm(a, axis=1) * numpy.linalg.norm(b, axis=1)
        check.pairs("matching, cosine", what + " pairs, cosine", pairs, users, (a * b).sum(axis=1) / numpy.where(norms > 0, norms, 1), verdict[what]["cosine"], seed, number)


def check_cross_modal(check, nodes, inputs, params, verdict, key):
    u, seed = Updates(nodes, inputs, params), params["seed"]
    known = json.loads(nodes.blob(inputs["vectors"], "users"))
    vectors = numpy.frombuffer(nodes.blob(inputs["vectors"], "vectors"), "<f4").reshape(len(known["users"]), known["values"]).astype(float)
    if params.get("centre"):
        vectors = vectors - vectors.mean(axis=0)
    if not params.get("raw"):
        norms = numpy.linalg.norm(vectors, axis=1, keepdims=True)
        vectors = vectors / numpy.where(norms > 0, norms, 1)
    vectors = vectors.astype(numpy.float32)
    x = u.centred() if params.get("centre") else u.x
    has = numpy.isin(u.user, known["users"])
    shadow = u.sample(seed, 4, params["updates"], u.shadow & has)
    anonymous = u.sample(seed, 5, params["updates"], ~u.shadow & (u.set != "held-out") & has)
    stop = apart(sorted(set(u.user[shadow])), seed, 4)
    validation = numpy.isin(u.user[shadow], list(stop))
    place = {user: i for i, user in enumerate(known["users"])}

    def draw(rows, number):
        rng, pairs = stream(seed, "vector pairs", number), []
        among = sorted({place[u.user[i]] for i in rows})
        while len(pairs) < params["pairs"]:
            i = rows[rng.below(len(rows))]
            own = other = place[u.user[i]]
            while other == own:
                other = among[rng.below(len(among))]
            pairs += [(i, own, 1), (i, other, 0)]
        return pairs

    network = PairNetwork(stream(seed, "network weights", 4), [x.shape[1], params["units"]], [vectors.shape[1], params["units"]], False)
    course, best = learn(network, params, lambda epoch: draw(shadow[~validation], 4 + epoch), draw(shadow[validation], 0), x, vectors)
    check.course(course, best, verdict["learned"])
    stored = json.loads(nodes.blob(key, "pairs"))
    for number, what, rows in ((1, "anonymous", anonymous), (2, "seen", anonymous[u.set[anonymous] == "seen"]), (3, "unseen", anonymous[u.set[anonymous] == "unseen"])):
        if what not in verdict:
            continue
        pairs = draw(rows, number)
        users = numpy.array([(u.user[i], known["users"][v]) for i, v, _ in pairs])
        assert (users == numpy.stack([stored[what]["users"], stored[what]["vectors"]], axis=1)).all(), "the stored pairs are others"
        assert (u.rounds[[p[0] for p in pairs]] == stored[what]["rounds"]).all(), "the stored pairs are of other rounds"
        scores, old = network.score(pairs, x, vectors), numpy.array(stored[what]["scores"])
        print(f"  {what}: scores off by {numpy.median(abs(scores - old)):.1e} in the median, {abs(scores - old).max():.1e} at most; correlation {numpy.corrcoef(scores, old)[0, 1]:.9f}")
        check.pairs("cross-modal, stored scores", what + " pairs, stored scores", pairs, users, old, verdict[what], seed, 6 + number)
        check.pairs("cross-modal, trained again", what + " pairs", pairs, users, scores, verdict[what], seed, 6 + number)


def index(data):
    """Offset, length and examples of each user in a stream."""
    numbers = list(uvarints(data, data.index(b"\n") + 1))
    if data.startswith(b"coalmine index 2"):
        numbers = numbers[1:]
    at, extents = 0, []
    for gap, length, examples, _ in numpy.reshape(numbers[2:], (-1, 4)).tolist():
        extents.append((at + gap, length, examples))
        at += gap + length
    return extents


def values_of(nodes, inputs, params):
    """The number of each divided user's value, -1 without one."""
    from fnmatch import fnmatchcase
    names = json.loads(nodes.blob(inputs["corpus"], "users"))
    source, divided = index(nodes.blob(inputs["parts"], "train-index")), index(nodes.blob(inputs["population"], "index"))
    values = []
    for offset, length, examples in divided:
        owner = next((i for i, (o, n, _) in enumerate(source) if n and o <= offset and offset + length <= o + n), None) if examples else None
        fits = [v for v, value in enumerate(params["values"]) if owner is not None and any(fnmatchcase(names[owner], pattern) for pattern in value["users"])]
        values.append(fits[0] if fits else -1)
    return numpy.array(values)


def check_attributes(check, nodes, inputs, params, verdict):
    u, seed = Updates(nodes, inputs, params), params["seed"]
    value = values_of(nodes, inputs, params)[u.user]
    shadow = u.sample(seed, 2, params["updates"], u.shadow & (value >= 0))
    anonymous = u.sample(seed, 3, params["updates"], ~u.shadow & (u.set != "held-out") & (value >= 0))
    named = sorted(set(u.user[shadow][u.set[shadow] == "seen"]))
    identity = numpy.array([named.index(user) if s == "seen" and user in named else -1 for user, s in zip(u.user, u.set)])
    order = stream(seed, "network validation", 1).permutation(len(shadow))
    part = (len(order) + 9) // 10
    validated, learned = shadow[order[:part]], shadow[order[part:]]
    labels, classes = [value, identity], [len(params["values"]), len(named)]

    def accuracy(what, right, of, printed):
        if printed is None:
            return
        rows = anonymous[u.set[anonymous] == of]
        users = list(dict.fromkeys(u.user[rows]))
        hits = numpy.array([right[rows][u.user[rows] == user].sum() for user in users])
        of = numpy.array([(u.user[rows] == user).sum() for user in users])
        check.same("attributes, accuracy", what, hits.sum() / of.sum(), printed["accuracy"])
        rng, lows, highs = stream(seed, "attribute interval"), [], []
        for _ in range(1000):
            w, n = weights_of(rng, len(users)), len(users)
            below = w[:n] @ of + w[n] * of.mean()
            lows.append(w[:n] @ hits / below)
            highs.append((w[:n] @ hits + w[n] * of.mean()) / below)
        low, high = interval(lows, highs)
        check.same("attributes, interval", what + " from", low, printed["low"])
        check.same("attributes, interval", what + " to", high, printed["high"])

    most = numpy.argmax(numpy.bincount(value[learned], minlength=classes[0]))
    for of, name in (("seen", "seen"), ("unseen", "unseen")):
        accuracy(f"majority, {name}", value == most, of, verdict["majority"].get(name))
    guesses = {}
    for number, name, on in ((1, "attribute", [0]), (2, "identity", [1]), (3, "joint", [0, 1])):
        rng = stream(seed, "network weights", number)
        trunk = dense(rng, [u.x.shape[1], params["units"]])
        heads = [dense(rng, [params["units"], classes[task]]) for task in on]
        every = trunk + [p for h in heads for p in h]
        velocity = [torch.zeros_like(p) for p in every]

        def logits(rows):
            hidden = through(trunk, torch.tensor(u.x[rows], dtype=TYPE))
            return [through(h, hidden, last_linear=True) for h in heads]

        def loss_of(rows):
            # A label of -1 adds nothing, and the mean is over all of the batch.
            return sum(torch.nn.functional.cross_entropy(y, torch.tensor(labels[task][rows]), ignore_index=-1, reduction="sum") / len(rows) for y, task in zip(logits(rows), on))

        step, epochs, best, best_loss, kept = 0, 0, 0, float("inf"), None
        while epochs < params["epochs"] and epochs - best < 10:
            rows = stream(seed, "network order", number, epochs).shuffle(list(learned))
            for at in range(0, len(rows), params["batch"]):
                gradients = torch.autograd.grad(loss_of(rows[at:at + params["batch"]]), every)
                rate = params["learning_rate"] / (1 + 1e-6 * step)
                for p, v, g in zip(every, velocity, gradients):
                    v.mul_(0.9).add_(g)
                    p.data -= rate * v
                step += 1
            epochs += 1
            with torch.no_grad():
                loss = sum(loss_of(validated[at:at + params["batch"]]).item() * len(validated[at:at + params["batch"]]) for at in range(0, len(validated), params["batch"])) / len(validated)
            if kept is None or loss < best_loss:
                best, best_loss, kept = epochs, loss, [p.data.clone() for p in every]
        for p, k in zip(every, kept):
            p.data = k
        print(f"  {name}: epoch {best} of {epochs}, printed {verdict[name]['best']} of {verdict[name]['epochs']}")
        with torch.no_grad():
            for task, y in zip(on, logits(numpy.arange(len(u.x)))):
                guess = y.argmax(dim=1).numpy()
                guesses[name, task] = guess
                if task == 0:
                    accuracy(f"{name}: attribute", guess == value, "seen", verdict[name].get("attribute"))
                    accuracy(f"{name}: attribute of unseen users", guess == value, "unseen", verdict[name].get("unseen"))
                else:
                    accuracy(f"{name}: identity", guess == identity, "seen", verdict[name].get("identity"))
    whose = dict(zip(u.user, value))
    accuracy("attribute by identity", numpy.array([whose[named[g]] for g in guesses["identity", 1]]) == value, "seen", verdict["by_identity"])


def main():
    global TYPE
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("store")
    parser.add_argument("nodes")
    parser.add_argument("results")
    parser.add_argument("cell", nargs="?")
    parser.add_argument("--double", action="store_true")
    args = parser.parse_args()
    if args.double:
        TYPE = torch.float64
    listed = json.load(open(args.nodes))["nodes"]
    nodes, check = Nodes(args.store, listed), Checker()
    cells = {c["cell"]: c for c in json.load(open(args.results))["cells"]}
    for n in listed:
        name = {"audits/matching": "matching", "audits/attributes": "attributes", "audits/cross-modal": "cross_modal"}.get(n["kind"])
        if name is None or not n["committed"] or args.cell and args.cell not in n["cells"]:
            continue
        inputs = {i["name"]: i["key"] for i in n["inputs"]}
        cell = n["cells"][0]
        print(cell, name, flush=True)
        verdict = cells[cell]["audit"][name]
        if name == "matching":
            check_matching(check, nodes, inputs, n["params"], verdict)
        elif name == "attributes":
            check_attributes(check, nodes, inputs, n["params"], verdict)
        else:
            check_cross_modal(check, nodes, inputs, n["params"], verdict, n["key"])
    exact = {"matching, cosine": 1e-6, "matching, cosine, interval": 1e-6, "cross-modal, stored scores": 1e-9, "cross-modal, stored scores, interval": 1e-9}
    wrong = False
    for kind, off in sorted(check.worst.items()):
        bad = off > exact.get(kind, 0.02)
        wrong |= bool(bad)
        print(f"{kind}: off by {off:.1e} at most" + ("   WRONG" if bad else ""))
    if not check.worst:
        sys.exit("nothing to check: no node of audit.matching, audit.attributes or audit.cross_modal has run")
    sys.exit(wrong)


if __name__ == "__main__":
    main()
