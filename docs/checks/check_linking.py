"""Computes again what audit.linking and audit.update_words print.

    coalmine show RUN --nodes --json > nodes.json
    coalmine results RUN --json > results.json
    python3 docs/checks/check_linking.py STORE nodes.json results.json

STORE is the directory of the store, as HOME/store. Updates, devices and the population that is
trained on are read from it. It needs NumPy and scikit-learn, and is written from docs/method.md and
the comments of the formats. Similarities, pairs with their intervals, who is followed, clusters,
words and canaries must agree to rounding.
"""
import base64
import collections
import json
import math
import os
import struct
import sys

import numpy
from sklearn import metrics

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from check_streams import stream

FIRST_WORD = 4


class Nodes:
    """What nodes have written, by their keys."""

    def __init__(self, store, nodes):
        self.store, self.by_key = store, {n["key"]: n for n in nodes}

    def blob(self, key, name):
        blob = next(b for b in self.by_key[key]["blobs"] if b["name"] == name)
        path = os.path.join(self.store, "blobs", key, blob["sha256"])
        if os.path.exists(path):
            return open(path, "rb").read()
        commit = json.load(open(os.path.join(self.store, "commits", key)))["record"]
        return base64.b64decode(next(b for b in commit["blobs"] if b["name"] == name)["inline"])

    def names(self, key):
        return [b["name"] for b in self.by_key[key]["blobs"]]


def uvarints(data, at=0):
    value = shift = 0
    for byte in data[at:]:
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            yield value
            value = shift = 0


def updates(nodes, gathered):
    """Layout, and rounds, devices and values of all updates."""
    layout, records = None, []
    shards = sorted(nodes.names(gathered), key=lambda name: int(name.split("-")[1]))
    for name in shards:
        data = nodes.blob(gathered, name)
        magic = b"coalmine updates 1\n"
        assert data.startswith(magic)
        size = next(uvarints(data, len(magic)))
        at = len(magic)
        while data[at] >= 128:
            at += 1
        at += 1
        layout = json.loads(data[at:at + size])
        half = layout.get("precision") == "float16"
        width = sum(layer["values"] for layer in layout["layers"])
        kind = numpy.dtype([("round", "<u4"), ("device", "<u4"), ("values", "<f2" if half else "<f4", (width,))])
        records.append(numpy.frombuffer(data, kind, offset=at + size))
    records = numpy.concatenate(records)
    return layout, records["round"].astype(int), records["device"].astype(int), records["values"].astype(float)


def columns(layout, names):
    """The places of layers, or of all."""
    starts = numpy.cumsum([0] + [layer["values"] for layer in layout["layers"]])
    chosen = []
    for name in names or [layer["name"] for layer in layout["layers"]]:
        for layer, start in zip(layout["layers"], starts):
            if layer["name"] == name or layer["name"].startswith(name + "."):
                chosen += range(start, start + layer["values"])
    return chosen


def population(nodes, key):
    """The words of every device, and its canaries."""
    data = nodes.blob(key, "index")
    numbers = list(uvarints(data, data.index(b"\n") + 1))
    if data.startswith(b"coalmine index 2"):
        numbers = numbers[1:]
    size, users, extents = numbers[0], numbers[1], numpy.reshape(numbers[2:], (-1, 4))
    stream = b"".join(nodes.blob(key, n) for n in sorted(nodes.names(key)) if n.startswith("train-"))
    overlay = nodes.blob(key, "overlay") if "overlay" in nodes.names(key) else b"x\n\0"
    canaries = [c["tokens"] for c in json.loads(nodes.blob(key, "canaries"))] if "canaries" in nodes.names(key) else []
    placed = list(uvarints(overlay, overlay.index(b"\n") + 1))[1:]
    at, user, example, replaced = 0, 0, -1, {}
    for i in range(0, len(placed), 3):
        if placed[i] > 0:
            user, example = user + placed[i], -1
        example += 1 + placed[i + 1]
        replaced[user, example] = placed[i + 2]
    words, held = [], []
    for user, (gap, length, examples, _) in enumerate(extents):
        at += gap
        tokens, mine, has = uvarints(stream[at:at + length]), set(), set()
        for example in range(examples):
            sentence = [next(tokens) for _ in range(next(tokens))]
            if (user, example) in replaced:
                sentence = canaries[replaced[user, example]]
                has.add(replaced[user, example])
            mine.update(w for w in sentence if w >= FIRST_WORD)
        at += length
        words.append(sorted(mine))
        held.append(has)
    return words, held, canaries


def centred(rounds, values):
    rows = values / numpy.maximum(numpy.linalg.norm(values, axis=1, keepdims=True), 1e-300)
    for r in set(rounds):
        rows[rounds == r] -= rows[rounds == r].mean(axis=0)
    return rows


def cosines(rows):
    norms = numpy.linalg.norm(rows, axis=1)
    norms[norms < 1e-7] = numpy.inf
    return rows @ rows.T / numpy.outer(norms, norms)


def draw_updates(a, b, user, rounds, n, seed, number):
    """Pairs of rows of a and of b: of one user and of two, of two rounds."""
    rng, mine = stream(seed, "update pairs", number), {}
    for i in b:
        mine.setdefault(user[i], []).append(i)
    anchors = []
    for i in a:
        own = sum(rounds[j] != rounds[i] for j in mine.get(user[i], []))
        if own and (rounds[b] != rounds[i]).sum() > own:
            anchors.append(i)
    pairs = []
    while anchors and len(pairs) < n:
        i = anchors[rng.below(len(anchors))]
        own = mine[user[i]]
        j = own[rng.below(len(own))]
        while rounds[j] == rounds[i]:
            j = own[rng.below(len(own))]
        k = b[rng.below(len(b))]
        while user[k] == user[i] or rounds[k] == rounds[i]:
            k = b[rng.below(len(b))]
        pairs += [(i, j, 1), (i, k, 0)]
    return pairs


def weights_of(rng, n):
    """Weights of n users and of an unseen one."""
    drawn = numpy.array([-math.log(1 - rng.float64()) for _ in range(n + 1)])
    return drawn / drawn.sum()


def interval(lows, highs):
    return numpy.quantile(lows, 0.025), numpy.quantile(highs, 0.975)


def figures(pairs, users, scores, seed, number):
    """AP and AUC of pairs (first, second, same), each with the ends of its interval over users; users are those of both sides of each pair."""
    same = numpy.array([p[2] for p in pairs])
    everyone = sorted(set(users.flatten()))
    at, rng = numpy.searchsorted(everyone, users), stream(seed, "pair bootstrap", number)
    n, own = len(everyone), len(set(users[same == 1][:, 0]))
    # The pairs of the unseen user rank above and below all others, one label at each end.
    labels, ahead, behind, ends = numpy.append(same, [1, 0]), max(scores) + 1, min(scores) - 1, ([], [])
    orders = [ranking(numpy.append(scores, pair)) for pair in ((behind, ahead), (ahead, behind))]
    for _ in range(1000):
        w = weights_of(rng, n)
        weights = numpy.where(same == 1, w[at[:, 0]], w[at[:, 0]] * w[at[:, 1]] * n)
        weights = numpy.append(weights, [w[n] * (same == 1).sum() / own, w[n] * (same == 0).sum() / own * 2 / own])
        for label in (0, 1):
            weights[labels == label] *= (same == label).sum() / weights[labels == label].sum()
        for values, order in zip(ends, orders):
            values.append(ranked(labels, weights, *order))
    lows, highs = numpy.array(ends)
    values = {"ap": metrics.average_precision_score(same, scores), "auc": metrics.roc_auc_score(same, scores)}
    return {name: (value, *interval(lows[:, i], highs[:, i])) for i, (name, value) in enumerate(values.items())}


def ranking(scores):
    """The order of falling scores, and the place of the last of each tie in it."""
    order = numpy.argsort(-scores, kind="stable")
    return order, numpy.append(numpy.flatnonzero(numpy.diff(scores[order])), len(order) - 1)


def ranked(labels, weights, order, last):
    """AP and AUC of weighted items, as scikit-learn's, in a thousandth of a second."""
    same = numpy.cumsum((weights * labels)[order])[last]
    others = numpy.cumsum((weights * (1 - labels))[order])[last]
    more, wrong = numpy.diff(same, prepend=0), numpy.diff(others, prepend=0)
    return (more * same / (same + others)).sum() / same[-1], (wrong * (same - more / 2)).sum() / (same[-1] * others[-1])


def clusters(similar, rounds, count):
    """Average linkage, the plain way; updates of one round stay apart."""
    groups = [[i] for i in range(len(rounds))]
    means = similar.copy()
    means[rounds[:, None] == rounds[None, :]] = -numpy.inf
    sizes, alive = numpy.ones(len(rounds)), numpy.ones(len(rounds), bool)
    while alive.sum() > count:
        a, b = numpy.unravel_index(numpy.argmax(means), means.shape)
        if not numpy.isfinite(means[a, b]):
            break
        merged = (sizes[a] * means[a] + sizes[b] * means[b]) / (sizes[a] + sizes[b])
        means[a], means[:, a] = merged, merged
        means[a, a] = -numpy.inf
        means[b], means[:, b] = -numpy.inf, -numpy.inf
        sizes[a] += sizes[b]
        groups[a], alive[b] = groups[a] + groups[b], False
    labels = numpy.zeros(len(rounds), int)
    for label, group in enumerate(g for g, a in zip(groups, alive) if a):
        labels[group] = label
    return labels


class Checker:
    def __init__(self):
        self.worst = 0

    def same(self, what, got, printed, tolerance):
        difference = abs(got - printed)
        self.worst = max(self.worst, difference / tolerance)
        print(f"  {what}: {got:.9g}, printed {printed:.9g}" + ("" if difference <= tolerance else "   WRONG"))


def check_linking(check, nodes, node, verdict):
    layout, rounds, device, values = updates(nodes, node["recorded"])
    anonymous = nodes_of(nodes, node, device)
    values = values[:, columns(layout, node["params"].get("layers"))]
    rounds, owner = rounds[anonymous], device[anonymous]
    rows, room, chosen = centred(rounds, values[anonymous]), node["params"]["updates"], []
    for d in stream(node["params"]["seed"], "linked devices").permutation(max(owner) + 1):
        if 0 < (n := (owner == d).sum()) <= room:
            room, chosen = room - n, chosen + [d]
    linked = numpy.isin(owner, chosen)
    rounds, owner, similar = rounds[linked], owner[linked], cosines(rows[linked])
    check.same("updates", len(rounds), verdict["updates"], 0.5)
    followed = of = chance = 0
    for i in range(len(rounds)):
        earlier = numpy.flatnonzero(rounds < rounds[i])
        own = (owner[earlier] == owner[i]).sum()
        if own:
            of += 1
            chance += own / len(earlier)
            followed += owner[earlier[numpy.argmax(similar[i, earlier])]] == owner[i]
    check.same("followed", followed, verdict["next"]["followed"], 0.5)
    check.same("by chance", chance / of, verdict["next"]["chance"], 1e-12)
    labels = clusters(similar, rounds, len(set(owner)))
    check.same("adjusted Rand index", metrics.adjusted_rand_score(owner, labels), verdict["clusters"]["adjusted_rand_index"], 1e-9)
    everyone = numpy.arange(len(rounds))
    pairs = draw_updates(everyone, everyone, owner, rounds, node["params"]["pairs"], node["params"]["seed"], 0)
    first, second = [p[0] for p in pairs], [p[1] for p in pairs]
    found = figures(pairs, owner[numpy.array([first, second])].T, similar[first, second], node["params"]["seed"], 0)
    for name, numbers in found.items():
        for end, number in zip(("value", "low", "high"), numbers):
            check.same(f"{name} {end}", number, verdict["pairs"][name][end], 1e-5)


def nodes_of(nodes, node, device):
    """Which updates are anonymous."""
    if "devices" not in node:
        return numpy.ones(len(device), bool)
    split = json.loads(nodes.blob(node["devices"], "devices"))
    return numpy.array([not split[d]["shadow"] for d in device])


def check_words(check, nodes, node, verdict):
    layout, rounds, device, values = updates(nodes, node["recorded"])
    anonymous = nodes_of(nodes, node, device)
    words, held, canaries = population(nodes, node["population"])
    values = values[:, columns(layout, [node["params"]["layer"]])]
    size = next(l["values"] for l in layout["layers"] if l["name"] == "output.bias")
    from scipy import stats
    noise, rows = node["params"].get("noise", 0), values.shape[1] // size
    if rows == 1:
        threshold = noise * stats.norm.ppf(1 - 1 / size)
    else:
        threshold = noise ** 2 * stats.chi2.ppf(1 - 1 / size, rows)
    precision, recall, ap, baseline, right, found, counts = [], [], [], [], [], set(), collections.Counter()
    sent = [i for i in numpy.flatnonzero(anonymous) if words[device[i]]]
    holders = collections.Counter(w for d in {device[i] for i in sent} for w in set(words[d]))
    frequency = numpy.array([holders[w] for w in range(FIRST_WORD, size)])
    for i in sent:
        scores = values[i] if rows == 1 else (values[i].reshape(size, rows) ** 2).sum(axis=1)
        mine = words[device[i]]
        named = {w for w in range(FIRST_WORD, size) if scores[w] > threshold}
        hits = len(named.intersection(mine))
        precision.append(hits / len(named) if named else 0)
        recall.append(hits / len(mine))
        right.append(hits)
        baseline.append(metrics.average_precision_score(numpy.isin(numpy.arange(FIRST_WORD, size), mine), frequency))
        ap.append(metrics.average_precision_score(numpy.isin(numpy.arange(FIRST_WORD, size), mine), scores[FIRST_WORD:].astype(numpy.float32)))
        for c, tokens in enumerate(canaries):
            whole = named.issuperset(w for w in tokens if w >= FIRST_WORD)
            counts[c in held[device[i]], whole] += 1
            if whole and c in held[device[i]]:
                found.add(c)
    check.same("recall", numpy.mean(recall), verdict["recall"], 1e-9)
    check.same("precision", numpy.mean(precision), verdict["precision"], 1e-9)
    check.same("hits", numpy.mean(right), verdict["hits"], 1e-9)
    check.same("AP", numpy.mean(ap), verdict["ap"], 1e-6)
    check.same("AP by frequency", numpy.mean(baseline), verdict["baseline_ap"], 1e-9)
    if "canaries" in verdict:
        check.same("canaries of holders", counts[True, True], verdict["canaries"]["held"]["named"], 0.5)
        check.same("updates of holders", counts[True, True] + counts[True, False], verdict["canaries"]["held"]["of"], 0.5)
        check.same("canaries of others", counts[False, True], verdict["canaries"]["others"]["named"], 0.5)
        check.same("canaries found", len(found), verdict["canaries"]["found"], 0.5)


def main():
    store, listed, results = sys.argv[1:]
    all_nodes = json.load(open(listed))["nodes"]
    nodes, check = Nodes(store, all_nodes), Checker()
    cells = {c["cell"]: c for c in json.load(open(results))["cells"]}
    for n in all_nodes:
        name = {"audits/linking": "linking", "audits/update-words": "update_words"}.get(n["kind"])
        if name is None or not n["committed"]:
            continue
        inputs = {i["name"]: i["key"] for i in n["inputs"]}
        node = {"params": n["params"], "recorded": inputs["recorded-0"], **{k: inputs[k] for k in ("devices", "population") if k in inputs}}
        cell = n["cells"][0]
        print(cell, name)
        (check_linking if name == "linking" else check_words)(check, nodes, node, cells[cell]["audit"][name])
    print("largest difference, in tolerances: %.3g" % check.worst)
    sys.exit(bool(check.worst > 1))


if __name__ == "__main__":
    main()
