"""Attacks the membership of users again, outside of Coalmine.

    coalmine show RUN CELL --nodes --json > DIR/nodes.json
    coalmine results RUN --format json > DIR/results.json
    python3 docs/checks/check_membership.py DIR HOME/store CELL [PRIVACY_METER]

It needs NumPy, SciPy and scikit-learn, and is written from docs/method.md and
docs/random-streams.md. It begins with the losses of users, which audits/user-losses nodes have in
the store. With a clone of https://github.com/privacytrustlab/ml_privacy_meter as the last
argument it also runs the functions of that, run_loss and run_rmia of attacks.py, on the same losses.
"""
import base64
import functools
import importlib.util
import json
import math
import os
import sys

import numpy
from scipy import stats
from sklearn import feature_extraction, metrics, naive_bayes

import check_streams

CONFIDENCE = 0.95


def blob(store, node, name):
    with open(os.path.join(store, "commits", node["key"])) as f:
        record = json.load(f)["record"]
    for found in record["blobs"]:
        if found["name"] == name:
            if "inline" in found:
                return json.loads(base64.b64decode(found["inline"]))
            with open(os.path.join(store, "blobs", node["key"], found["digest"])) as f:
                return json.load(f)
    raise SystemExit(f"node {node['key']} has no blob {name}")


class Audit:
    """The scores of all users under the audited model and the reference models."""

    def __init__(self, folder, store):
        with open(os.path.join(folder, "nodes.json")) as f:
            nodes = {n["key"]: n for n in json.load(f)["nodes"]}
        [node] = [n for n in nodes.values() if n["kind"] == "audits/membership"]
        params, inputs = node["params"], {i["name"]: nodes[i["key"]] for i in node["inputs"]}
        shares, references, self.seed = params["shares"], params.get("references", 0), params.get("seed", 0)

        def losses(prefix):
            return sum((blob(store, inputs[f"{prefix}part-{i}"], "losses") for i in range(shares)), [])

        users = losses("")
        self.params = params
        first_held_out = next(u for u, x in enumerate(users) if not x.get("member", False))
        self.kept = [u for u, x in enumerate(users) if x["targets"]]
        self.member = numpy.array([users[u].get("member", False) for u in self.kept])
        self.sharer = numpy.array([users[u].get("replaced", 0) > 0 for u in self.kept])
        self.aside = [first_held_out <= u < first_held_out + params.get("prefix_users", 0) for u in self.kept]
        assert self.aside == [users[u].get("aside", False) for u in self.kept]
        self.target = self.scores(users)
        self.losses = [users[u] for u in self.kept]
        texts = blob(store, inputs["texts"], "texts")
        self.texts = [texts[u] for u in self.kept]
        self.references = numpy.array([self.scores(losses(f"reference-{m}-")) for m in range(references)])
        self.drawn = numpy.array([self.users_of(params["seed"], m, len(users)) for m in range(references)])

    def scores(self, users):
        return numpy.array([-users[u]["loss"] / users[u]["targets"] for u in self.kept])

    def users_of(self, seed, model, n):
        order = check_streams.stream(seed, "reference users", model // 2).permutation(n)
        half = set(order[: n // 2] if model % 2 == 0 else order[n // 2 :])
        return [u in half for u in self.kept]

    def blind(self):
        """The log-likelihood ratios of naive Bayes classifiers by scikit-learn, each of the users of the other folds."""
        features = [dict(zip(t["words"][::2], t["words"][1::2])) for t in self.texts]
        features = [{str(w): n for w, n in f.items()} | {f"length {sum(f.values()).bit_length()}": 1} for f in features]
        matrix = feature_extraction.DictVectorizer().fit_transform(features)
        fold = numpy.zeros(len(self.kept), int)
        for side in (True, False):
            fold[self.member == side] = numpy.arange((self.member == side).sum()) % 10
        scores = numpy.zeros(len(self.kept))
        for k in range(10):
            classifier = naive_bayes.MultinomialNB(alpha=1, fit_prior=False).fit(matrix[fold != k], self.member[fold != k])
            logs = classifier.predict_joint_log_proba(matrix[fold == k])
            scores[fold == k] = logs[:, 1] - logs[:, 0]
        return scores

    def attacks(self):
        yield "loss", self.target
        yield "zlib", numpy.array([-u["loss"] / t["compressed"] for u, t in zip(self.losses, self.texts)])
        if all(u.get("by_token") for u in self.losses):
            yield "min-k", numpy.array([u["min_k"] for u in self.losses])
            if not any(u.get("log_probs_alone") for u in self.losses):
                yield "min-k-plus-plus", numpy.array([u["min_k_plus_plus"] for u in self.losses])
                yield "curvature", numpy.array([u["curvature"] for u in self.losses])
        if self.params.get("prefix_users"):
            yield "recall", numpy.array([numpy.nan if self.aside[i] else u["prefixed"] / u["loss"] for i, u in enumerate(self.losses)])
        if self.params.get("neighbour_texts"):
            yield "neighbours", numpy.array([(u["neighbours"] - u["loss"]) / u["targets"] for u in self.losses])
        if not len(self.references):
            return
        inside, outside = numpy.ma.masked_array(self.references, ~self.drawn), numpy.ma.masked_array(self.references, self.drawn)
        fits = []
        for values in (inside, outside):
            mean = values.mean(axis=0)
            variance = ((values - mean) ** 2).sum() / (values.count() - len(self.kept))
            fits.append((mean.filled(), numpy.sqrt(variance)))
        (mean_in, s_in), (mean_out, s_out) = fits
        yield "lira", stats.norm.logpdf(self.target, mean_in, s_in) - stats.norm.logpdf(self.target, mean_out, s_out)
        yield "lira-offline", (self.target - mean_out) / s_out
        yield "rmia", self.rmia(numpy.exp(self.references).mean(axis=0))
        yield "rmia-offline", self.rmia(numpy.ma.exp(outside).mean(axis=0).filled())

    def rmia(self, mean):
        ratio = numpy.exp(self.target) / mean
        lower = ratio[:, None] > ratio[None, ~self.member]
        return lower.sum(axis=1) / numpy.where(self.member, (~self.member).sum(), (~self.member).sum() - 1)


def clopper_pearson(count, of, tail):
    return (stats.beta.ppf(tail, count, of - count + 1) if count > 0 else 0.0, stats.beta.ppf(1 - tail, count + 1, of - count) if count < of else 1.0)


@functools.cache
def weights(seed, members, held_out):
    """A thousand draws of weights of the members and of the held-out users, each with one of nobody."""
    rng = check_streams.stream(seed, "member interval")

    def of(n):
        drawn = numpy.array([-math.log(1 - rng.float64()) for _ in range(n + 1)])
        return drawn / drawn.sum()

    return [(of(members), of(held_out)) for _ in range(1000)]


def area(members, held_out, seed):
    kernel = numpy.sort(members)[:, None] - numpy.sort(held_out)
    kernel = (kernel > 0) + 0.5 * (kernel == 0)
    lows, highs = [], []
    for a, b in weights(seed, len(members), len(held_out)):
        low = a[:-1] @ kernel @ b[:-1]
        lows.append(low)
        highs.append(low + 1 - (1 - a[-1]) * (1 - b[-1]))
    return kernel.mean(), numpy.quantile(lows, 0.025), numpy.quantile(highs, 0.975)


def rate(members, held_out, share):
    """The most that a threshold finds which lets at most the share of the held-out users pass."""
    false, true, _ = metrics.roc_curve([1] * len(members) + [0] * len(held_out), numpy.concatenate([members, held_out]), drop_intermediate=False)
    return round(true[false <= share + 1e-12].max() * len(members))


class Differences:
    def __init__(self):
        self.most, self.compared = 0.0, 0

    def compare(self, what, got, want):
        apart = abs(got - want) / max(abs(want), 1e-300) if got != want else 0.0
        self.most, self.compared = max(self.most, apart), self.compared + 1
        if apart > 1e-8:
            raise SystemExit(f"{what}: {got} here, {want} by Coalmine")


def rate_interval(members, held_out, share):
    """Half of what the confidence leaves is for the threshold, half for the count above it."""
    tail, n, of = (1 - CONFIDENCE) / 4, len(held_out), len(members)
    fewest, most = (int(stats.binom.ppf(p, n, share)) for p in (tail, 1 - tail))
    above = lambda passing: int((members > numpy.sort(held_out)[n - 1 - passing]).sum())
    return clopper_pearson(above(fewest - 1), of, tail)[0] if fewest else 0.0, clopper_pearson(above(most), of, tail)[1]


def check_group(found, what, scores, members, held_out, seed, differences):
    inside, outside = scores[members], scores[held_out]
    for name, value in zip(("value", "low", "high"), area(inside, outside, seed)):
        differences.compare(f"{what}: AUC {name}", value, found["auc"][name])
    differences.compare(f"{what}: AUC of scikit-learn", metrics.roc_auc_score([1] * len(inside) + [0] * len(outside), numpy.concatenate([inside, outside])), found["auc"]["value"])
    p = stats.mannwhitneyu(inside, outside, use_continuity=False, method="asymptotic").pvalue
    if len(inside) * len(outside) > 10_000:  # small samples have an exact one
        differences.compare(f"{what}: p", p, found["p"])
    for r in found["rates"]:
        if len(outside) < r["needed"]:
            assert "true_positives" not in r, r
            continue
        count = rate(inside, outside, r["false_positives"])
        differences.compare(f"{what}: found", count, r["true_positives"]["count"])
        for name, value in zip(("low", "high"), rate_interval(inside, outside, r["false_positives"])):
            differences.compare(f"{what}: rate {name}", value, r["true_positives"][name])


def delong(a, b, members, held_out):
    """The difference of two areas of the same users, with its interval."""
    def placements(scores):
        kernel = scores[members][:, None] - scores[held_out]
        kernel = (kernel > 0) + 0.5 * (kernel == 0)
        return kernel.mean(axis=1), kernel.mean(axis=0)

    (a_in, a_out), (b_in, b_out) = placements(a), placements(b)
    m, n = members.sum(), held_out.sum()
    half = stats.t.ppf((1 + CONFIDENCE) / 2, min(m, n) - 1) * math.sqrt((a_in - b_in).var(ddof=1) / m + (a_out - b_out).var(ddof=1) / n)
    value = a_in.mean() - b_in.mean()
    return value, max(-1, value - half), min(1, value + half)


def check(audit, verdict):
    differences = Differences()
    blind, unmarked = audit.blind(), audit.member & ~audit.sharer
    check_group(verdict["blind"]["members"], "blind of members", blind, unmarked, ~audit.member, audit.seed, differences)
    found = {o["attack"]: o for o in verdict["attacks"]}
    for attack, scores in audit.attacks():
        outcome, held_out = found.pop(attack), ~audit.member & ~numpy.isnan(scores)
        for name, value in zip(("value", "low", "high"), delong(scores, blind, unmarked, held_out)):
            differences.compare(f"{attack} over blind: {name}", value, outcome["over_blind"][name])
        for name, members in (("members", audit.member & ~audit.sharer), ("sharers", audit.member & audit.sharer)):
            given = members.any() and (name != "sharers" or attack != "zlib")  # zlib tells the lengths of sharers' texts
            assert given == (name in outcome), (attack, name)
            if given:
                check_group(outcome[name], f"{attack} of {name}", scores, members, held_out, audit.seed, differences)
    assert not found, f"attacks that are not known here: {list(found)}"
    print(f"{differences.compared} numbers of {len(audit.kept)} users and {len(audit.references)} reference models: the largest relative difference is {differences.most:.1e}")


def privacy_meter(audit, folder):
    """Its AUC of the loss, and of RMIA with models that a user is out of, a = 1."""
    spec = importlib.util.spec_from_file_location("attacks", os.path.join(folder, "attacks.py"))
    meter = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(meter)
    members = audit.member & ~audit.sharer
    chosen, own = members | ~audit.member, dict(audit.attacks())

    def compare(what, theirs, ours):
        a, b = (metrics.roc_auc_score(members[chosen], s[chosen]) for s in (theirs, ours))
        print(f"Privacy Meter, {what}: AUC {a:.12f}, ours {b:.12f}, {abs(a - b):.1e} apart")

    # Its signals of the loss attack are losses.
    compare("run_loss", meter.run_loss(-audit.target), own["loss"])
    if not len(audit.references):
        return
    # The target and its pair stand first; of the pair nothing is used.
    signals = numpy.exp(numpy.vstack([audit.target, audit.target, audit.references])).T
    drawn = numpy.vstack([audit.member, ~audit.member, audit.drawn]).T
    # Of population data it takes the highest signals, as all models are "out"; here only half are.
    half = len(audit.references) // 2
    out = numpy.where(audit.drawn, 0.0, numpy.exp(audit.references))
    population = numpy.vstack([numpy.exp(audit.target)[None]] * 2 + [out]).T[~audit.member]
    theirs = meter.run_rmia(0, signals, population, drawn, half, 1.0)
    compare("run_rmia, a = 1", theirs, own["rmia-offline"])
    # It has a held-out user itself among the population, which ties the user with members.
    compare("the same of ours with the user itself", theirs, numpy.round(numpy.where(audit.member, 1.0, 1 - 1 / (~audit.member).sum()) * own["rmia-offline"], 12))


def main(folder, store, cell, meter=None):
    audit = Audit(folder, store)
    with open(os.path.join(folder, "results.json")) as f:
        [found] = [c for c in json.load(f)["cells"] if c["cell"] == cell]
    check(audit, found["audit"]["membership"])
    if meter:
        privacy_meter(audit, meter)


if __name__ == "__main__":
    if len(sys.argv) < 4:
        raise SystemExit(__doc__)
    main(*sys.argv[1:])
