"""Computes again what audit.linking and audit.update_words print.

    coalmine show RUN --nodes --json > nodes.json
    coalmine results RUN --json > results.json
    python3 docs/checks/check_linking.py STORE nodes.json results.json

STORE is the directory of the store, as HOME/store. Updates, devices and the population that is
trained on are read from it. It needs NumPy and scikit-learn, and is written from docs/method.md and
the comments of the formats. Similarities, who is followed, clusters, words and canaries must
agree to rounding. Pairs are drawn anew by NumPy, 200,000 of them, so that their AP and AUC agree
only as far as chance allows: it prints both.
"""
import base64
import collections
import json
import os
import struct
import sys

import numpy
from sklearn import metrics

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


def draw(rounds, owners, number, rng):
    """Pairs of both kinds, each with the same first update."""
    pairs = []
    eligible = [i for i in range(len(rounds)) if ((owners == owners[i]) & (rounds != rounds[i])).any() and ((owners != owners[i]) & (rounds != rounds[i])).any()]
    same = {i: numpy.flatnonzero((owners == owners[i]) & (rounds != rounds[i])) for i in eligible}
    other = {i: numpy.flatnonzero((owners != owners[i]) & (rounds != rounds[i])) for i in eligible}
    for i in rng.choice(eligible, number // 2):
        pairs += [(i, rng.choice(same[i]), 1), (i, rng.choice(other[i]), 0)]
    return numpy.array(pairs).T


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
    if len(rounds) > node["params"]["updates"]:
        print("  devices were drawn: not checked")
        return
    similar = cosines(centred(rounds, values[anonymous]))
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
    a, b, same = draw(rounds, owner, 200_000, numpy.random.default_rng(1))
    pairs = verdict["pairs"]
    # 10,000 pairs of few updates: the standard deviation of either is about 0.004.
    check.same("AP of other pairs", metrics.average_precision_score(same, similar[a, b]), pairs["ap"]["value"], 0.02)
    check.same("AUC of other pairs", metrics.roc_auc_score(same, similar[a, b]), pairs["auc"]["value"], 0.02)


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
    sys.exit(check.worst > 1)


if __name__ == "__main__":
    main()
