"""Computes means, intervals and differences of replicates again, outside of Coalmine.

    coalmine results RUN --format csv > DIR/cells.csv
    coalmine results RUN --format csv --rows canaries > DIR/canaries.csv
    coalmine results RUN --format csv --rows means > DIR/means.csv
    coalmine results RUN --format csv --rows differences > DIR/differences.csv
    python3 docs/checks/check_replicates.py DIR ...

It needs NumPy and SciPy, and is written from docs/method.md. Counts of canaries are counted in the
canaries, and of those that the cells' rows have alone, the cells say them.
"""
import collections
import csv
import itertools
import os
import sys

import numpy
from scipy import stats

# Counts of canaries, and the column of the canaries that says which are counted.
COUNTED = {
    "random_sampling_memorized": "memorized", "beam_search_memorized": "beam_found", "search_extracted": "search_extracted",
    "probabilistic_extractable": "probabilistic_extractable", "greedy_extractable": "greedy_extractable",
}

# Shares lie between 0 and 1. A count is at most the number of canaries, a perplexity at least 1, and no
# other measure is below 0.
SHARES = set("""attributes_accuracy attributes_identity_accuracy attributes_joint_accuracy attributes_joint_identity_accuracy
cross_modal_ap cross_modal_unseen_ap deanonymization_ap deanonymization_top1 generated_inverted linking_ap linking_followed
matching_ap matching_shadow_ap matching_unseen_ap membership_auc membership_lira_auc membership_rmia_auc membership_tpr_1
one_run_refuted profiles_ap recall_at_1 recall_at_5 samples_first_unknown samples_unknown update_words_ap
update_words_precision update_words_recall mean_average_precision memorized beam_found""".split())


def clipped(found, least, most):
    """The interval ends where the number cannot be."""
    if found["low"] is not None:
        found["low"], found["high"] = (min(most, max(least, end)) for end in (found["low"], found["high"]))
    return found


def read(folder, name):
    with open(os.path.join(folder, name), newline="") as f:
        return list(csv.DictReader(f))


def number(text):
    """A number, 1 for true and 0 for false, None for nothing."""
    return {"": None, "true": 1.0, "false": 0.0}[text] if text in ("", "true", "false") else float(text)


def estimate(values):
    n, mean, sd, low, high = len(values), numpy.mean(values), None, None, None
    if n > 1:
        sd = numpy.std(values, ddof=1) if len(set(values)) > 1 else 0.0
    if sd:
        low, high = stats.t.interval(0.95, n - 1, loc=mean, scale=sd / numpy.sqrt(n))
    return {"n": n, "mean": mean, "sd": sd, "low": low, "high": high}


def pooled(counts, sizes):
    """Korn and Graubard's interval: the canaries of a seed are a group."""
    counts, sizes = numpy.array(counts), numpy.array(sizes)
    g, of, p = len(counts), sizes.sum(), counts.sum() / sizes.sum()
    variance = g / max(1, g - 1) * ((counts - p * sizes) ** 2).sum() / of**2
    n = float(min(g, of))
    if g > 1 and of > 1:
        few = (stats.t.ppf(0.975, of - 1) / stats.t.ppf(0.975, g - 1)) ** 2
        n = max(g, few * of)  # at most as many as independent canaries
        if variance > 1e-12 * (counts**2).sum() / of**2:
            n = min(n, few * p * (1 - p) / variance)
    low = stats.beta.ppf(0.025, p * n, n - p * n + 1) if p > 0 else 0.0
    high = stats.beta.ppf(0.975, p * n + 1, n - p * n) if p < 1 else 1.0
    return {"pooled_count": int(counts.sum()), "pooled_of": int(of), "pooled_share": p, "pooled_low": low, "pooled_high": high}


def sign_test(more, fewer):
    return stats.binomtest(more, more + fewer, 0.5).pvalue if more + fewer else 1.0


class Study:
    def __init__(self, folder):
        self.cells = {(c["row"], int(c["seed"])): c for c in read(folder, "cells.csv") if c["status"] == "done"}
        self.canaries = collections.defaultdict(dict)
        canaries = read(folder, "canaries.csv")
        self.columns = set(canaries[0]) if canaries else set()
        for c in canaries:
            if c["of"] == "canaries" and c["role"] == "inserted":
                self.canaries[c["row"], int(c["seed"])][c["format"], c["words"]] = c

    def seeds(self, row):
        return sorted(seed for r, seed in self.cells if r == row)

    def measure(self, row, seed, name):
        column = COUNTED.get(name)
        if column is None:
            return number(self.cells[row, seed][name])
        values = [number(c[column]) for c in self.canaries[row, seed].values()]
        return None if None in values else float(sum(values))

    def range(self, row, name):
        """The least and the greatest value that a measure of a row can have."""
        if name in SHARES:
            return 0.0, 1.0
        if name in COUNTED:
            return 0.0, numpy.mean([len(self.canaries[row, seed]) for seed in self.seeds(row)])
        return (1.0 if name == "perplexity" else 0.0), numpy.inf

    def mean(self, row, name):
        values = [self.measure(row, seed, name) for seed in self.seeds(row)]
        values = [v for v in values if v is not None]
        found = clipped(estimate(values), *self.range(row, name))
        if name in COUNTED:
            shares = pooled(values, [len(self.canaries[row, seed]) for seed in self.seeds(row)])
            found.update(shares)
            if found["n"] > 1:  # the interval of the mean count is that of the share
                size = shares["pooled_of"] / found["n"]
                found.update(low=shares["pooled_low"] * size, high=shares["pooled_high"] * size)
        return found

    def difference(self, row, to, name):
        both = [(self.measure(row, s, name), self.measure(to, s, name)) for s in self.seeds(row) if (to, s) in self.cells]
        (least, most), (other_least, other_most) = self.range(row, name), self.range(to, name)
        return clipped(estimate([a - b for a, b in both if a is not None and b is not None]), least - other_most, most - other_least)

    def pairing(self, row, to, column):
        means, signs, censored = [], [], []
        for seed in self.seeds(row):
            own, others = self.canaries[row, seed], self.canaries.get((to, seed), {})
            pairs = [(number(c[column]), number(others[key][column])) for key, c in own.items() if key in others]
            pairs = [a - b for a, b in pairs if a is not None and b is not None]
            if column + "_censored" in self.columns:
                limits = [(c[column + "_censored"], others[key][column + "_censored"]) for key, c in own.items() if key in others]
                censored += [limit for limit in limits if "" not in limit]
            if pairs:
                means.append(numpy.mean(pairs))
                signs += [numpy.sign(p) for p in pairs]
        more, fewer = signs.count(1), signs.count(-1)
        most = 1.0 if column in SHARES else numpy.inf
        return dict(clipped(estimate(means), -most, most), canaries=len(signs), more=more, fewer=fewer, p=sign_test(more, fewer),
                    censored=sum("true" in limit for limit in censored) if censored else None)


def worst(line, found):
    """How far the numbers of a line are from those found, relative to what is larger."""
    most = 0.0
    for name, mine in found.items():
        printed = number(line[name])
        if (printed is None) != (mine is None):
            raise SystemExit(f"{name} is {line[name]!r}, and here {mine}: {line}")
        if mine is not None:
            most = max(most, abs(printed - mine) / max(abs(printed), abs(mine), 1e-3))
    return most


def check(folder):
    study, most, numbers = Study(folder), 0.0, 0
    means, differences = read(folder, "means.csv"), read(folder, "differences.csv")
    for line in means:
        most, numbers = max(most, worst(line, study.mean(line["row"], line["measure"]))), numbers + 1
    for line in differences:
        find = study.pairing if line["of"] == "canary" else study.difference
        most, numbers = max(most, worst(line, find(line["row"], line["to"], line["measure"]))), numbers + 1
    level = {(line["row"], line["measure"]): number(line["mean"]) for line in means}
    points = {(line["row"], line["to"]): (number(line["mean"]), line["utility_matched"]) for line in differences if line["measure"] == "recall_at_1"}
    for (row, to), (point, matched) in points.items():
        recalls, perplexities = ([level.get((r, measure)) for r in (row, to)] for measure in ("recall_at_1", "perplexity"))
        alike = abs(point) <= 0.01 and min(recalls) > 0
        alike = alike and None not in perplexities and abs(perplexities[0] - perplexities[1]) <= 0.05 * perplexities[1]
        if alike != (matched == "true"):
            raise SystemExit(f"{row} less {to}: recall@1 differs by {point}, of {recalls}, at perplexities of {perplexities}, and utility_matched is {matched}")
    rows = len(set(itertools.chain.from_iterable((line["row"],) for line in means)))
    print(f"{folder}: {rows} rows, {len(points)} comparisons, {numbers} lines: to a relative {most:.1e}")
    if not numbers or most > 1e-8:
        raise SystemExit("they do not agree")


if __name__ == "__main__":
    for folder in sys.argv[1:]:
        check(folder)
