"""Decides the claims of the pages about the papers again, outside of Coalmine.

    python3 docs/checks/check_claims.py

It needs NumPy and SciPy, and is written from the rules on docs/papers/thakkar-2020.md. It reads the claims and
the results beside the pages, and compares every number and verdict of the tables.
"""
import csv
import glob
import json
import math
import os
import re

import numpy
from scipy import stats

HERE = os.path.dirname(os.path.abspath(__file__))
MARGIN = {"memorized": 0.1, "beam_found": 0.1}
PERCENT = {"memorized", "beam_found", "samples_first_unknown", "samples_unknown", "recall_at_1", "search_extracted", "deanonymization_mlp_ap",
           "profiles_ap", "attributes_accuracy", "attributes_joint_accuracy", "attributes_identity_accuracy", "attributes_joint_identity_accuracy",
           "federated_recall_at_1", "federated_recall_at_5", "later_share", "later_words", "real_images_right"}
EXPOSURES = {"exposure", "fitted_exposure", "enumerated_exposure"}
COUNTED = {"memorized": "random_sampling_memorized", "beam_found": "beam_search_memorized"}


def read(folder, name):
    path = os.path.join(folder, name + ".csv")
    if not os.path.exists(path):
        return []
    with open(path, newline="") as f:
        return list(csv.DictReader(f))


def interval(values, level=0.95):
    n, mean = len(values), float(numpy.mean(values))
    if n < 2 or max(values) == min(values):
        return n, mean, None, None
    half = stats.t.ppf((1 + level) / 2, n - 1) * numpy.std(values, ddof=1) / math.sqrt(n)
    return n, mean, mean - half, mean + half


def truth(text):
    return {"true": 1.0, "false": 0.0}.get(text) if text in ("true", "false") else float(text)


def fits(line, condition):
    column, sign, value = re.match(r"(\w+)([=<>])(.*)", condition).groups()
    if sign == "=":
        return line[column] == value
    return line[column] != "" and (float(line[column]) < float(value)) == (sign == "<") and float(line[column]) != float(value)


def rarest(canaries, column):
    """The place of the rarest pair (p_u, p_e) with a canary of which the column is true."""
    def pair(c):
        users, examples = float(c["user_probability"]), float(c["example_probability"])
        return users * examples, users
    order = sorted({pair(c) for c in canaries})
    return min([order.index(pair(c)) + 1 for c in canaries if c[column] == "true"], default=len(order) + 1)


def below_half(cells):
    """Users in the lower half of the histogram of accuracies."""
    bins = [int(n) for c in cells for n in c["prepared_users_accuracy_histogram"].split()]
    return sum(bins[:len(bins) // 2])


def kept_at_other_stages(cells):
    """The mean off the diagonal of a square of factors, by that on it."""
    square = numpy.array([[float(x) for x in row.split()] for row in cells[0]["deanonymization_stages"].split(";")])
    n = len(square)
    return (square.sum() - numpy.trace(square)) / (n * n - n) / (numpy.trace(square) / n)


def federated(measure):
    def of(cells):
        by_row = {c["row"]: float(c[measure]) for c in cells}
        return by_row["r01"] / by_row["r02"]
    return of


OF_CELLS = {"prepared_users_below_half": below_half, "kept_at_other_stages": kept_at_other_stages,
            "federated_recall_at_1": federated("recall_at_1"), "federated_recall_at_5": federated("recall_at_5")}


class Study:
    def __init__(self, folder):
        self.folder, self.pairs = folder, {}
        for path in glob.glob(os.path.join(folder, "compared*.jsonl")):
            for line in open(path):
                c = json.loads(line)
                found = {m: c["canaries"][m]["difference"] for m in c["canaries"]}
                names = tuple(re.sub(r"^thakkar-2020-", "", re.sub(r"-[0-9a-f]{8}[0-9a-f.]*/", "/", c[k])).replace("-small/", "/") for k in ("row", "to"))
                self.pairs[names] = {m: (e["n"], e["mean"], e["low"], e["high"]) for m, e in found.items()}

    def seeds(self, results, spec, measure):
        """Means by seed, without trainings that diverged; or another number of the canaries of a seed."""
        row, *conditions = spec.split()
        cells = [c for c in read(self.folder, results + "-cells") if row in ("*", c["row"])]
        lost = {c["seed"] for c in cells if float(c.get("perplexity") or 0) > 1e5}
        canaries = read(self.folder, results + "-canaries")
        other = measure.startswith("rarest_") or measure == "perplexity_against_exposure"
        lines = canaries if other or canaries and measure in canaries[0] else cells
        lines = [x for x in lines if row in ("*", x["row"]) and x["seed"] not in lost and all(fits(x, c) for c in conditions)]
        found = {}
        for line in lines:
            found.setdefault(line["seed"], []).append(line)
        if measure.startswith("rarest_"):
            return {seed: rarest(of, measure[len("rarest_"):]) for seed, of in found.items()}
        if measure in OF_CELLS:
            return {seed: OF_CELLS[measure](of) for seed, of in found.items()}
        if other:
            return {seed: self.correlation(of, [c for c in cells if c["seed"] == seed]) for seed, of in found.items()}
        means = {seed: [truth(x[measure]) for x in of if x[measure]] for seed, of in found.items()}
        return {seed: float(numpy.mean(values)) for seed, values in means.items() if values}

    def correlation(self, canaries, cells):
        perplexity = {c["row"]: float(c["perplexity"]) for c in cells}
        rows = sorted({c["row"] for c in canaries})
        exposure = [numpy.mean([float(c["fitted_exposure"]) for c in canaries if c["row"] == row]) for row in rows]
        return stats.pearsonr([perplexity[row] for row in rows], exposure)[0]

    def mean(self, results, row, measure):
        return next(m for m in read(self.folder, results + "-means") if m["row"] == row and m["measure"] == measure)

    def welch(self, results, row, to, own, other):
        a, b = self.mean(results, row, own), self.mean(results, to, other)
        (m, s, n), (l, r, k) = ((float(x["mean"]), float(x["sd"]), int(x["n"])) for x in (a, b))
        if s == r == 0:
            return n, m - l, None, None
        test = stats.ttest_ind_from_stats(m, s, n, l, r, k, equal_var=False)
        v, w = s * s / n, r * r / k
        half = stats.t.ppf(0.975, (v + w) ** 2 / (v * v / (n - 1) + w * w / (k - 1))) * (m - l) / test.statistic if m != l else \
            stats.t.ppf(0.975, (v + w) ** 2 / (v * v / (n - 1) + w * w / (k - 1))) * math.sqrt(v + w)
        return min(n, k), m - l, m - l - half, m - l + half

    def estimates(self, c):
        results, measures = c["results"], c["measures"].split()
        if read(self.folder, results + "-cells"):
            for name in measures:
                own, _, other = name.partition(":")
                a = self.seeds(results, c["row"], own)
                low, high = -1, 1
                try:
                    b = dict.fromkeys(a, float(c["to"]))
                    low, high = -float(c["to"]), 1 - float(c["to"])
                except ValueError:
                    b = self.seeds(results, c["to"], other or own)
                n, mean, *ends = interval([a[s] - b[s] for s in sorted(a) if s in b], float(c.get("level") or 0.95))
                if own in PERCENT - set(OF_CELLS) and ends[0] is not None:  # a share
                    ends = [max(ends[0], low), min(ends[1], high)]
                yield own, (n, mean, *ends)
            return
        pair = self.pairs.get((results + "/" + c["row"], results + "/" + c["to"]))
        for name in measures:
            if pair:
                yield name, pair[name]
            elif name != "exposure":
                own, _, other = COUNTED.get(name, name).partition(":")
                yield own, self.welch(results, c["row"], c["to"], own, other or own)

    def utility(self, c):
        """What recall@1, in points, and perplexity of the two rows differ by, and whether they are equal; no numbers where it does not matter."""
        row, to = c["row"].split()[0], c["to"].split()[0]
        if row == to or c["utility"] == "any" or re.fullmatch(r"[0-9.]+", c["to"]):
            return [], True
        levels = {}
        for measure in ("recall_at_1", "perplexity"):
            a, b = self.seeds(c["results"], row, measure), self.seeds(c["results"], to, measure)
            both = sorted(set(a) & set(b))
            if both:
                levels[measure] = [numpy.mean([x[s] for s in both]) for x in (a, b)]
            else:
                levels[measure] = [float(self.mean(c["results"], r, measure)["mean"]) for r in (row, to)]
        recall, perplexity = levels["recall_at_1"], levels["perplexity"]
        points, more = recall[0] - recall[1], perplexity[0] - perplexity[1]
        return [100 * points, more], min(recall) > 0 and abs(points) <= 0.01 and abs(more) <= 0.05 * perplexity[1]

    def could_fall(self, c, measure, margin):
        if measure not in EXPOSURES | set(COUNTED) | set(COUNTED.values()):
            return True  # it is no measure of memorization
        if measure in EXPOSURES and read(self.folder, c["results"] + "-cells"):
            return numpy.mean(list(self.seeds(c["results"], c["to"], measure).values())) - 1 / math.log(2) >= margin
        counted = COUNTED["beam_found" if measure == "beam_found" else "memorized"]
        return max(float(self.mean(c["results"], r, counted)["pooled_share"]) for r in (c["row"], c["to"])) >= 0.1

    def decide(self, c):
        """The verdict, the seeds, and the numbers as the page prints them."""
        if not c["results"]:
            return ("cannot tell: too few seeds" if c["seeds"] else "not measured"), c["seeds"], []
        said, numbers, least = [], [], math.inf
        for measure, (n, mean, low, high) in self.estimates(c):
            least, margin = min(least, n), float(c["margin"] or MARGIN.get(measure, 1))
            numbers += [x * (100 if measure in PERCENT else 1) for x in (mean, low, high) if x is not None]
            word = "cannot tell"
            if low is not None and c["expected"] == "no":
                if -margin < low and high < margin:
                    word = "reproduced" if self.could_fall(c, measure, margin) else "cannot tell: too little is memorized"
                elif low > margin or high < -margin:
                    word = "contradicted"
            elif low is not None and (low > 0 or high < 0):
                word = "reproduced" if (low > 0) == (c["expected"] == "more") else "contradicted"
            said.append(word)
        differences, equal = self.utility(c)
        return self.together(c, said, least, equal), str(least), numbers + differences

    @staticmethod
    def together(c, said, least, equal):
        positive, negative = "reproduced" in said, "contradicted" in said
        if c["expected"] == "no" and any(word.startswith("cannot") for word in said):
            positive = False
        if least < 3:
            return "cannot tell: too few seeds"
        if positive and negative:
            return "cannot tell: measures disagree"
        if not positive and not negative:
            return min((word for word in said if word.startswith("cannot")), key=len)
        if not equal:
            return "cannot tell: unequal utility"
        return "reproduced" if positive else "contradicted"


def printed(cell):
    """The numbers of a result, those with a sign, and half a unit of the last digit of each."""
    found = re.findall(r"(?<![0-9^e])([+-][0-9]+(?:\.([0-9]+))?(?:e([+-][0-9]+))?)", cell.split(": ")[-1])
    return [(float(x), 0.5001 * 10.0 ** (int(exponent or 0) - len(digits))) for x, digits, exponent in found]


def check(name):
    folder = os.path.join(HERE, "..", "papers", name)
    study, page = Study(folder), open(folder + ".md").read()
    total, verdicts = 0, 0
    others, table = re.search(r"<!-- claims((?: [a-z]+)*): made of results -->\n(.*?)<!-- end -->", page, re.S).groups()
    lines, claims, files = table.strip().split("\n")[2:], read(folder, "claims"), os.listdir(folder)
    if len(lines) != len(claims):
        raise SystemExit(f"{name}: {len(lines)} lines of {len(claims)} claims")
    for column, text in enumerate([""] + others.split()):
        for c, line in zip(claims, lines):
            cells = [x.strip() for x in line.split("|")]
            result, said = cells[3 + 2 * column:5 + 2 * column]
            c = dict(c, results=c["results"] + ("-" + text if text else ""))
            if text and not any(c["results"] + f"-{part}.csv" in files for part in ("cells", "means")):
                if result or said:
                    raise SystemExit(f"{name}: {c['claim']}: {said}, and no results on {text}")
                continue
            verdict, seeds, numbers = study.decide(c)
            if (verdict, seeds) != (said, cells[2]):
                raise SystemExit(f"{name}: {c['claim']}: the page says {said} of {cells[2]} seeds, and the numbers {verdict} of {seeds}")
            there = printed(result) if numbers else []
            if len(there) != len(numbers) or any(abs(x - y) > half for (x, half), y in zip(there, numbers)):
                raise SystemExit(f"{name}: {c['claim']}: {there}, and here {numbers}")
            total, verdicts = total + len(numbers), verdicts + 1
    print(f"{name}: {verdicts} verdicts and {total} numbers agree")


if __name__ == "__main__":
    for study in ("thakkar-2020", "carlini-2019", "augenstein-2020", "orekondy-2018"):
        check(study)
