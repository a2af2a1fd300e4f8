"""Computes again what audit.deanonymization of a run says, from what the run has stored.

    python3 docs/checks/check_deanonymization.py RUN CELL [--home DIR] [--coalmine PROGRAM]

Needs NumPy and scikit-learn, and a run in a data directory. From the recorded updates and the
list of devices it makes the attacks knn and cosine anew, by docs/method.md alone, and svm by
scikit-learn, and compares their scores; from the stored scores of every attack it computes average
precision (scikit-learn), chance, factor and top-k, their intervals over users (NumPy), and the matrix of its
stages, and compares them with the results. It knows closed and open worlds, and draws again which updates are added up
(sums) or learned from (examples), by docs/random-streams.md.
"""

import argparse
import base64
import json
import pathlib
import struct
import subprocess
import sys

import numpy
from sklearn.metrics import average_precision_score
from sklearn.svm import LinearSVC

import check_streams


def nodes_of(args):
    command = [args.coalmine, "show", args.run, args.cell, "--nodes", "--json"]
    if args.home:
        command += ["--home", args.home]
    return json.loads(subprocess.run(command, check=True, capture_output=True).stdout)["nodes"]


def blob(args, node, name):
    for b in node["blobs"]:
        if b["name"] == name:
            home = pathlib.Path(args.home or ".coalmine") / "store"
            return read(home, node["key"], b["sha256"])
    raise SystemExit(f"node {node['label']} has no blob {name}")


def read(home, key, digest):
    """A blob lies in a file of its own, or, if it is small, in the commit of its node."""
    path = home / "blobs" / key / digest
    if path.exists():
        return path.read_bytes()
    record = json.loads((home / "commits" / key).read_bytes())["record"]
    return next(base64.b64decode(b["inline"]) for b in record["blobs"] if b["digest"] == digest)


MAGIC = b"coalmine updates 1\n"


def read_shard(data):
    """The layers of a shard, and its updates as (round, device, vector)."""
    assert data.startswith(MAGIC)
    at, length, shift = len(MAGIC), 0, 0
    while True:
        byte = data[at]
        at += 1
        length |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            break
    layout = json.loads(data[at:at + length])
    at += length
    values = sum(layer["values"] for layer in layout["layers"])
    kind = numpy.dtype("<f2" if layout.get("precision") == "float16" else "<f4")
    updates = []
    for start in range(at, len(data), 8 + kind.itemsize * values):
        number, device = struct.unpack("<II", data[start:start + 8])
        updates.append((number, device, numpy.frombuffer(data, kind, values, start + 8).astype(float)))
    return layout["layers"], updates


def read_updates(args, nodes, node):
    updates = []
    for source in inputs(nodes, node):
        if source["kind"] == "updates/gather":
            for i in range(len(source["metrics"]["shards"])):
                layers, some = read_shard(blob(args, source, f"updates-{i}"))
                updates += some
    return layers, updates


def inputs(nodes, node):
    by = {n["key"]: n for n in nodes}
    return [by[i["key"]] for i in node["inputs"] if i["key"] in by]


def view(params, layers, vector):
    wanted = params["view"].get("layers")
    parts, at = [], 0
    for layer in layers:
        if not wanted or any(layer["name"] == w or layer["name"].startswith(w + ".") for w in wanted):
            parts.append(vector[at:at + layer["values"]])
        at += layer["values"]
    x = numpy.concatenate(parts)
    norm = numpy.linalg.norm(x)
    return x if params["view"].get("raw") or norm == 0 else x / norm


def chosen(params, user, updates):
    """Of a shadow's updates those that are learned from."""
    n = params.get("examples") or len(updates)
    if len(updates) <= n:
        return updates
    return [updates[i] for i in check_streams.stream(params["seed"], "naming examples", user).permutation(len(updates))[:n]]


def added_up(params, number, updates):
    """What of a round's anonymous updates is visible: themselves, or sums, in the order in which they are whole."""
    m, n = params.get("sums") or 1, len(updates)
    if m == 1:
        return updates
    order = check_streams.stream(params["seed"], "secure sums", number).permutation(n)
    groups = [order[i::max(1, n // m)] for i in range(max(1, n // m))]
    return [sum(updates[at] for at in sorted(group)) for group in sorted(groups, key=max)]


def scores_anew(params, scored, layers, updates, devices):
    """The scores of svm, knn or cosine, by their definitions."""
    classes = {user: i for i, user in enumerate(scored["classes"])}
    rows, labels, seen, own = [], [], {}, {}
    for number, device, vector in updates:
        d = devices[device]
        learn = params["learn"]["from"] <= number <= params["learn"]["to"]
        if d["set"] == "held-out":
            if learn:
                rows.append(view(params, layers, vector))
                labels.append(len(classes))
        elif d["shadow"]:
            if learn and d["user"] in classes:
                own.setdefault(d["user"], []).append(view(params, layers, vector))
        elif params["try"]["from"] <= number <= params["try"]["to"]:
            seen.setdefault(number, []).append(vector)
    for user, of in own.items():
        of = chosen(params, user, of)
        rows += of
        labels += len(of) * [classes[user]]
    tried = [view(params, layers, x) for number, of in sorted(seen.items()) for x in added_up(params, number, of)]
    rows, labels, tried = numpy.array(rows), numpy.array(labels), numpy.array(tried)
    columns = len(classes) + bool(scored.get("unseen"))
    if params["attack"] == "cosine":
        means = numpy.array([rows[labels == c].mean(0) for c in range(columns)])
        means /= numpy.maximum(numpy.linalg.norm(means, axis=1, keepdims=True), 1e-300)
        return tried @ means.T / numpy.maximum(numpy.linalg.norm(tried, axis=1, keepdims=True), 1e-300)
    if params["attack"] == "svm":
        f = LinearSVC(tol=1e-6, max_iter=100_000).fit(rows, labels).decision_function(tried)
        return f if columns > 2 else numpy.stack([-f, f], axis=1)
    distances = (tried ** 2).sum(1)[:, None] + (rows ** 2).sum(1)[None] - 2 * tried @ rows.T
    nearest = numpy.argsort(distances, axis=1, kind="stable")[:, :10]
    scores = numpy.zeros((len(tried), columns))
    for i, near in enumerate(nearest):
        for j in near:
            scores[i, labels[j]] += 1 / len(near)
    return scores


def precisions_of(column, has):
    """The AP of each owner's items under one score; has is [items, owners], of 0 and 1."""
    order = numpy.argsort(-column, kind="stable")
    last = numpy.append(numpy.flatnonzero(numpy.diff(column[order])), len(order) - 1)
    found = has[order].cumsum(0)[last]
    steps = numpy.diff(found, axis=0, prepend=0)
    return (steps * found / (last + 1)[:, None]).sum(0) / found[-1]


def measure(scores, scored):
    users = [set(item["users"]) for item in scored["items"]]
    owners = sorted(set().union(*users))
    has = numpy.array([[o in u for o in owners] for u in users], dtype=float)
    own, chance = [], []
    for column, user in enumerate(scored["classes"]):
        if user in owners:
            at = owners.index(user)
            own.append(average_precision_score(has[:, at], scores[:, column]))
            all_of = precisions_of(scores[:, column], has)
            assert abs(all_of[at] - own[-1]) < 1e-12
            chance.append(all_of.mean())
    result = {"own": numpy.array(own), "chances": numpy.array(chance), "ap": numpy.mean(own), "chance": numpy.mean(chance), "factor": numpy.mean(own) / numpy.mean(chance)}
    order = numpy.argsort(-scores, axis=1, kind="stable")
    for k in (1, 5):
        hits, of = 0, 0
        for i, u in enumerate(users):
            relevant = {scored["classes"].index(x) for x in u if x in scored["classes"]}
            if scored.get("unseen") and any(x not in scored["classes"] and x not in scored.get("untaught", []) for x in u):
                relevant.add(len(scored["classes"]))
            if relevant:
                of += 1
                hits += bool(relevant & set(order[i, :k]))
        result[f"top{k}"] = hits / of
    return result


def resampled(seed, values, worst, best, below=None):
    """The two ends of a mean of users' values, or of its ratio to a mean of others, in 2,000 resamples."""
    stream, lows, highs = check_streams.stream(seed, "user bootstrap"), [], []
    for _ in range(2000):
        w = -numpy.log([1 - stream.float64() for _ in range(len(values) + 1)])
        w /= w.sum()
        under = 1 if below is None else w[:-1] @ below + w[-1] * below.mean()
        lows.append((w[:-1] @ values + w[-1] * worst) / under)
        highs.append((w[:-1] @ values + w[-1] * best) / under)
    return lows, highs


def intervals_off(params, verdict, outcome, again):
    """How far the intervals of an attack are off."""
    tail = (1 - params["confidence"]) / 2
    lows, highs = resampled(params["seed"], again["own"], 0, 1)
    factors_low, factors_high = resampled(params["seed"], again["own"], 0, 1, again["chances"])
    said = [outcome["ap_interval"]["low"], outcome["ap_interval"]["high"], outcome["factor_interval"]["low"], outcome["factor_interval"]["high"], outcome["factor_at_least"]]
    mine = [numpy.quantile(lows, tail), numpy.quantile(highs, 1 - tail), numpy.quantile(factors_low, tail), numpy.quantile(factors_high, 1 - tail),
            numpy.quantile(factors_low, 2 * tail / len(verdict["attacks"]))]
    return max(abs(a - b) for a, b in zip(said, mine))


def difference_off(params, verdict, own):
    """How far the interval of the best attack's AP less the cosine's is off."""
    d = verdict.get("above_baseline")
    if not d:
        return 0.0
    lows, highs = resampled(params["seed"], own[d["attack"]] - own["cosine"], -1, 1)
    tail = (1 - params["confidence"]) / 2
    return max(abs(numpy.quantile(lows, tail) - d["interval"]["low"]), abs(numpy.quantile(highs, 1 - tail) - d["interval"]["high"]))


def scores_of(args, node):
    """What an attack was tried on, and its scores."""
    scored = json.loads(blob(args, node, "scored"))
    data = blob(args, node, "scores")
    header = 10 + struct.unpack("<H", data[8:10])[0]
    return scored, numpy.frombuffer(data, "<f4", offset=header).reshape(len(scored["items"]), -1).astype(float)


def matrix_off(args, node_named, attack, verdict, matrix):
    """How far the matrix of the stages is off, made anew from the scores of each stage's attack."""
    off = 0.0
    for stage, row in enumerate(matrix):
        scored, scores = scores_of(args, node_named(f"attack-{attack}-stage-{stage}"))
        for said, tried in zip(row, verdict["stages"]):
            these = [i for i, item in enumerate(scored["items"]) if tried["from"] <= item["round"] <= tried["to"]]
            again = measure(scores[these], {**scored, "items": [scored["items"][i] for i in these]})
            off = max(off, abs(again["factor"] - said["factor"]), abs(again["ap"] - said["ap"]))
    return off


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("run")
    parser.add_argument("cell")
    parser.add_argument("--home")
    parser.add_argument("--coalmine", default="coalmine")
    args = parser.parse_args()
    nodes = nodes_of(args)
    summary = next(n for n in nodes if n["kind"] == "audits/deanonymization")
    verdict = json.loads(blob(args, summary, "verdict"))
    by = {n["key"]: n for n in nodes}
    worst, own = 0.0, {}

    def named(name):
        return next(by[x["key"]] for x in summary["inputs"] if x["name"] == name)

    for i, outcome in enumerate(verdict["attacks"]):
        node = named(f"attack-{i}")
        scored, scores = scores_of(args, node)
        if not outcome["users"]:
            print(f"{outcome['attack']:7}  could name nobody")
            continue
        again = measure(scores, scored)
        ends = intervals_off(summary["params"], verdict, outcome, again)
        own[outcome["attack"]] = again.pop("own")
        again.pop("chances")
        said = {k: outcome[k] if not k.startswith("top") else outcome[k]["share"] for k in again}
        off = max(abs(again[k] - said[k]) for k in again)
        line = f"{outcome['attack']:7}" + "".join(f"  {k} {said[k]:.6f}" for k in again) + f"   off by {off:.1e}; intervals off by {ends:.1e}"
        off = max(off, ends)
        if outcome["attack"] in ("svm", "knn", "cosine"):
            devices = json.loads(blob(args, next(n for n in inputs(nodes, node) if n["kind"].startswith("devices/")), "devices"))
            layers, updates = read_updates(args, nodes, node)
            anew = scores_anew(node["params"], scored, layers, updates, devices)
            differ, near = numpy.abs(anew - scores), 5e-3 if outcome["attack"] == "svm" else 1e-4
            line += f"; scores made anew differ by {differ.max():.1e} at most, {(differ > near).sum()} of {differ.size} by more than {near:g}"
            line += f"; AP of these {measure(anew, scored)['ap']:.6f}"
            off = max(off, 0.0 if (differ > near).mean() < 1e-3 else 1.0)
        if outcome.get("matrix"):
            matrix = matrix_off(args, named, i, verdict, outcome["matrix"])
            line += f"; the matrix of its stages off by {matrix:.1e}"
            off = max(off, matrix)
        print(line)
        worst = max(worst, off)
    above = difference_off(summary["params"], verdict, own)
    print(f"the interval of the best attack above the cosine off by {above:.1e}")
    worst = max(worst, above)
    if worst > 1e-9:
        sys.exit("the results are not those of the definitions")


if __name__ == "__main__":
    main()
