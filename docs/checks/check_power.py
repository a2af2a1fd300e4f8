"""Recomputes the power of audits.

    coalmine power FILE --json --time=false > power.json
    python3 docs/checks/check_power.py power.json [AUDIT.FIELD=VALUE ...]

    coalmine results RUN --format json > results.json
    python3 docs/checks/check_power.py --real results.json [neighbours.limit=EPSILON neighbours.part=RATIO]

With --real the first half of the cells, which differ in the seed alone, gives the size of a leak: the share of
memorized canaries, and the mean AUC of the loss. The power for it stands beside the share of finds in the
other half. For one_run and many_runs with vectors, all of which take part, the leak is
epsilon_proved, and all cells count. For neighbours the trainings are right, a find is an epsilon above neighbours.limit, and all cells count.

It needs SciPy, and is written from docs/method/power.md. What a statement depends on beside its sizes is
given by hand: one_run.delta, one_run.confidence, one_shot.delta, neighbours.parameters,
neighbours.intervals, neighbours.false_alarm, neighbours.part (the noise multiplier with the epsilon of audit.fail_if.neighbours_epsilon
over the claimed one, by coalmine account calibrate), deanonymization.confidence, deanonymization.attacks,
many_runs.delta, attributes.values, pairs.pairs, and exposure.most for exposures that no references limit. Guesses of one_run are an eighth
each, without halvings, about text. Of statements with a gate only that of neighbours is computed.
"""
import json
import math
import sys

import numpy as np
from scipy import optimize, special, stats

from check_one_run import refutes

GIVEN = {
    "one_run.delta": 1e-5, "one_run.confidence": 0.95, "one_shot.delta": 1e-5, "many_runs.delta": 1e-5, "neighbours.parameters": 0, "neighbours.false_alarm": 1e-4,
    "deanonymization.confidence": 0.95, "deanonymization.attacks": 4, "exposure.most": 64,
    "neighbours.part": 0.0, "neighbours.intervals": 8, "neighbours.limit": 0.0, "attributes.values": 2, "pairs.pairs": 1000,
}
PAIRS = ("matching", "linking", "cross_modal")
SIMULATED = {"one_run": 400, "one_shot": 100, "many_runs": 100} | {name: 100 for name in PAIRS}
TRIALS, FEWER = 1000, 50
rng = np.random.default_rng(1)


def delta_of(mu, epsilon):
    """The hockey-stick divergence of N(mu, 1) from N(0, 1)."""
    if mu == 0:
        return 0.0
    return stats.norm.cdf(mu / 2 - epsilon / mu) - math.exp(epsilon + stats.norm.logcdf(-mu / 2 - epsilon / mu))


def shift(epsilon, delta):
    return optimize.brentq(lambda mu: delta_of(mu, epsilon) - delta, 1e-9, 1e3, xtol=1e-14)


def count(q, n, references=None):
    def chance(m):  # of random sampling; other audits have far more sequences
        return math.prod((n - i) / (references + 1 + i) for i in range(m)) if references else 0.0
    m = next((m for m in range(1, n + 1) if min(1, chance(m)) <= 0.05), n + 1)
    return stats.binom.sf(m - 1, n, q)


def exposure(bits, n, references=None):
    above = math.log2(n / 0.05)
    most = math.log2(references) if references else GIVEN["exposure.most"]
    if above >= most:
        return 0.0
    p = min(1, 2 ** (bits - above))
    return -math.expm1(n * math.log1p(-p)) if p < 1 else 1.0


def one_run_p(m, r, v, epsilon, delta):
    x = stats.binom(r, 1 / (1 + math.exp(-epsilon)))
    below = np.cumsum(x.pmf(np.arange(v - 1, -1, -1))) / np.arange(1, v + 1) if v else np.zeros(1)
    return min(1, x.sf(v - 1) + 2 * m * delta * below.max())


def one_run(epsilon, m, original, by_curve=False, guesses=None):
    """With a trade-off curve the bound is above 0 if equal distributions are refuted."""
    delta, level = GIVEN["one_run.delta"], 1 - GIVEN["one_run.confidence"]
    k = guesses or -(-(-(-original // 8)) * m // original)
    mu, found, critical = shift(epsilon, delta), 0, None
    right = list(range(2 * k + 1))
    def refuted(v):
        return refutes(m, 2 * k, v, level, lambda y: y) if by_curve else one_run_p(m, 2 * k, v, 0, delta) <= level
    critical = next((v for v in right if refuted(v)), 2 * k + 1)
    for _ in range(TRIALS):
        coins = rng.integers(2, size=m)
        order = np.argsort(rng.standard_normal(m) + mu * coins)
        found += coins[order[-k:]].sum() + (1 - coins[order[:k]]).sum() >= critical
    return found / TRIALS


def many_runs(epsilon, runs, by_curve=False):
    """Half of the runs choose a threshold and a direction, the others have the rates of right and wrong recognitions."""
    delta, mu, found = GIVEN["many_runs.delta"], shift(epsilon, GIVEN["many_runs.delta"]), 0
    def value(right, of, wrong, others):
        low = np.where(right > 0, stats.beta.ppf(0.025, np.maximum(right, 1), of - right + 1), 0)
        high = np.where(wrong < others, stats.beta.ppf(0.975, wrong + 1, np.maximum(others - wrong, 1)), 1)
        with np.errstate(divide="ignore", invalid="ignore"):
            x = stats.norm.ppf(low) - stats.norm.ppf(high) if by_curve else np.log((low - delta) / high)
        return np.nan_to_num(x, nan=0, neginf=0, posinf=0)
    def rates(scores, heads, threshold, below):
        side = (scores[None, :] > threshold[:, None]) != below
        kind = heads != below
        return (side & kind).sum(1), kind.sum(), (side & ~kind).sum(1), (~kind).sum()
    for _ in range(TRIALS):
        heads = rng.integers(2, size=runs) == 1
        scores = rng.standard_normal(runs) + mu * heads
        first = np.arange(runs) % 2 == 0
        thresholds = np.sort(scores[first])
        thresholds[:-1] += np.diff(thresholds) / 2
        best = [(value(*rates(scores[first], heads[first], thresholds, below)), below) for below in (False, True)]
        chosen, below = max(((v[i], thresholds[i:i + 1]), b) for v, b in best for i in [int(v.argmax())])
        found += value(*rates(scores[~first], heads[~first], chosen[1], below))[0] > 0
    return found / TRIALS


def mass(low, high, mean, deviation):
    a, b = (low - mean) / deviation, (high - mean) / deviation
    return stats.norm.cdf(b) - stats.norm.cdf(a) if a <= 0 else stats.norm.sf(a) - stats.norm.sf(b)


def divergence(p, q, epsilon):
    """The hockey-stick divergence of the normal distribution p from q."""
    (m1, s1), (m2, s2) = p, q  # ax^2 + bx + c > 0 where the density of p is more than e^epsilon times that of q
    a, b = 0.5 / s2 ** 2 - 0.5 / s1 ** 2, m1 / s1 ** 2 - m2 / s2 ** 2
    c = 0.5 * (m2 / s2) ** 2 - 0.5 * (m1 / s1) ** 2 + math.log(s2 / s1) - epsilon
    roots = sorted(r.real for r in np.roots([a, b, c]) if abs(r.imag) < 1e-12)
    if len(roots) < 2:
        parts = [(-math.inf, math.inf)] if a > 0 else []
    else:
        parts = [(-math.inf, roots[0]), (roots[1], math.inf)] if a > 0 else [tuple(roots)]
    return sum(mass(*part, *p) - math.exp(epsilon) * mass(*part, *q) for part in parts)


def epsilon_of(p, q, delta):
    excess = lambda epsilon: max(divergence(p, q, epsilon), divergence(q, p, epsilon)) - delta
    if excess(0) <= 0:
        return 0.0
    high = 1.0
    while excess(high) > 0:
        high *= 2
    return optimize.brentq(excess, 0, high, xtol=1e-9)


def one_shot(epsilon, n):
    """By the final model, in units in which unseen directions are N(0, 1)."""
    delta, mu, found = GIVEN["one_shot.delta"], shift(epsilon, GIVEN["one_shot.delta"]), 0
    nodes, weights = np.polynomial.hermite_e.hermegauss(5)
    weights /= weights.sum()
    for _ in range(FEWER):
        x = mu + rng.standard_normal(n)
        m, s = x.mean(), x.std()
        values = np.array([[epsilon_of((m + a * s / math.sqrt(n), s * math.exp(b / math.sqrt(2 * n))), (0, 1), delta) for b in nodes] for a in nodes])
        mean, squares = weights @ values @ weights, weights @ values ** 2 @ weights
        found += epsilon_of((m, s), (0, 1), delta) > 1.645 * math.sqrt(max(0, squares - mean ** 2))
    return found / FEWER


def owen(z):
    return special.owens_t(z, 1 / math.sqrt(3))


def auc(a, m, n, limit=0.5):
    z = stats.norm.ppf(a)
    v = a - 2 * owen(z) - a * a
    w = lambda k: (k * v / (k + 1) + k * a * a / (k + 1) ** 2) / (k + 2)
    shrink = m * n / ((m + 1) * (n + 1))
    low = shrink * a - stats.norm.ppf(0.975) * math.sqrt(w(m) + w(n))
    return stats.norm.cdf((low - limit) / (shrink * math.sqrt(v * (1 / m + 1 / n))))


def tpr(a, m, n, rate=0.01):
    tail = 0.0125
    first = next((k for k in range(n) if stats.binom.cdf(k, n, rate) > tail), 0)
    fewest = next((k for k in range(1, m + 1) if stats.beta.ppf(tail, k, m - k + 1) > rate), m + 1)
    if first == 0 or fewest > m:
        return 0.0
    u = stats.beta.ppf((np.arange(400) + 0.5) / 400, first, n - first + 1)
    p = stats.norm.cdf(math.sqrt(2) * stats.norm.ppf(a) + stats.norm.ppf(u))
    return float(np.mean(stats.binom.sf(fewest - 1, m, p)))


def neighbours(f, rounds, part=0.0):
    columns = min(GIVEN["neighbours.parameters"], max(1, 2 ** 20 // rounds))
    v = columns * rounds
    most = max(stats.chi2.ppf(GIVEN["neighbours.false_alarm"] / 18, v), part ** 2 * stats.chi2.ppf(0.025 / GIVEN["neighbours.intervals"], v))
    return stats.chi2.cdf(most / f ** 2, v)


def attributes(s, users):
    c = 1 / GIVEN["attributes.values"]
    if users < math.ceil(math.log(0.025) / math.log(c)):
        return 0.0
    a = s + (1 - s) * c
    variance = a * (1 - a) + c * (1 - c)
    mean = (users * (a - c) - 1) / (users + 1)
    spread = (users * (variance + (a - c) ** 2) + 1) / (users + 1) - mean ** 2
    return stats.norm.cdf((mean - stats.norm.ppf(0.975) * math.sqrt(spread / (users + 2))) / (math.sqrt(variance * users) / (users + 1)))


def precision(order, same, weights, count):
    """The average precision of each row of weights, of which those of other pairs are scaled to the pairs' share."""
    w = weights[:, order]
    of_same, of_others = w * same[order], w * ~same[order]
    ratio = (count[1] / of_others.sum(1) * of_same.sum(1) / count[0])[:, None]
    found, others = of_same.cumsum(1), of_others.cumsum(1)
    return (of_same * found / np.maximum(found + ratio * others, 1e-300)).sum(1) / of_same.sum(1)


def pairs(auc, users, resamples=1000):
    """Half of the pairs are of one user, whose scores are higher. The unseen user's pairs stand at the bad ends."""
    n, found = min(GIVEN["pairs.pairs"], 10 * users, 400), 0
    for _ in range(SIMULATED["matching"]):
        a, same = rng.integers(users, size=n), np.arange(n) % 2 == 1
        b = np.where(same, a, (a + 1 + rng.integers(max(1, users - 1), size=n)) % users)
        scores = rng.standard_normal(n) + same * math.sqrt(2) * stats.norm.ppf(auc)
        names, number = np.unique(np.concatenate([a, b]), return_inverse=True)
        a, b, u = number[:n], number[n:], len(names)
        own = len(set(a[same]))
        x = rng.dirichlet(np.ones(u + 1), size=resamples)
        weights = np.where(same, x[:, a], x[:, a] * x[:, b] * u)
        unseen = x[:, u:] / own
        count = (same.sum(), n - same.sum())
        weights = np.hstack([weights, unseen * count[1] * 2 / own, unseen * count[0]])  # others first, its own last
        order = np.concatenate([[n], np.argsort(-scores), [n + 1]])
        low = np.quantile(precision(order, np.concatenate([same, [False, True]]), weights, count), 0.025)
        found += low > 0.5 and own >= 6
    return found / SIMULATED["matching"]


def deanonymization(s, users):
    tail = (1 - GIVEN["deanonymization.confidence"]) / GIVEN["deanonymization.attacks"]
    k = next((k for k in range(1, users + 1) if stats.beta.ppf(tail, k, users - k + 1) > 1 / users), users + 1)
    return stats.binom.sf(k - 1, users, s)


def one(statement, leak, sizes):
    name = (statement["audit"] + " " + statement.get("statement", "")).strip()
    if name in ("random_sampling", "beam_search", "search", "enumeration", "probabilistic_extraction"):
        return count(leak, *sizes)
    if statement["audit"] == "one_run":
        return one_run(leak, sizes[0], statement["by"][0]["n"], name != "one_run")
    if statement["audit"] == "many_runs":
        return many_runs(leak, sizes[0], name != "many_runs")
    if name in PAIRS:
        return pairs(leak, *sizes)
    known = {"one_shot": one_shot, "exposure": exposure, "natural": exposure, "attributes": attributes, "membership auc": auc, "membership tpr": tpr, "deanonymization": deanonymization}
    if name == "neighbours" and GIVEN["neighbours.parameters"]:
        return neighbours(leak, *sizes, GIVEN["neighbours.part"] if statement.get("gate") else 0.0)
    return known[name](leak, *sizes) if name in known else None


def beside(name, leak, powers, found):
    n = len(found)
    print(f"{name} {leak:.4f}: power {np.mean(powers):.3f}, found {sum(found)} of {n}, {sum(found) / n:.3f}; standard error of the power {math.sqrt(np.mean(powers) * (1 - np.mean(powers)) / n):.3f}")


def real(path, given=()):
    take(given)
    with open(path) as file:
        cells = [c["audit"] | {"epsilon_proved": c["privacy"]["epsilon_proved"]} if "privacy" in c else c["audit"] for c in json.load(file)["cells"] if c["state"] == "done"]
    first, last = cells[:len(cells) // 2], cells[len(cells) // 2:]
    if "random_sampling" in cells[0]:
        of = lambda c: c["random_sampling"]
        q = sum(of(c)["memorized"] for c in first) / sum(of(c)["of"] for c in first)
        beside("random_sampling: q", q, [count(q, of(c)["of"], of(c)["references"]) for c in last], [of(c)["memorized"] >= 1 for c in last])
    if "membership" in cells[0]:
        loss = lambda c: next(a for a in c["membership"]["attacks"] if a["attack"] == "loss")["members"]["auc"]
        a = np.mean([loss(c)["value"] for c in first])
        beside("membership: AUC", a, [auc(a, c["membership"]["members"], c["membership"]["held_out"]) for c in last], [loss(c)["low"] > 0.5 for c in last])

    if "one_run" in cells[0]:
        # all vectors take part surely: the leak is the epsilon that each cell's training is proved for
        leak, v = cells[0]["epsilon_proved"], cells[0]["one_run"]
        beside("one_run: epsilon", leak, [one_run(leak, v["canaries"], v["canaries"], guesses=v["k_plus"])], [c["one_run"]["epsilon_lower"] > 0 for c in cells])
    if "many_runs" in cells[0]:
        leak, runs = cells[0]["epsilon_proved"], cells[0]["many_runs"]["runs"]
        beside("many_runs: epsilon", leak, [many_runs(leak, runs)], [c["many_runs"]["epsilon_lower"] > 0 for c in cells])
        curve = [(c["many_runs"].get("trade_off") or {"epsilon_lower": 0})["epsilon_lower"] > 0 for c in cells]
        beside("many_runs trade_off: epsilon", leak, [many_runs(leak, runs, True)], curve)
    if "neighbours" in cells[0]:  # right trainings, whose limit takes neighbours.part times their noise
        limit, v = GIVEN["neighbours.limit"], cells[0]["neighbours"]
        GIVEN["neighbours.parameters"] = v["noise"]["values"] // v["repeats"]
        GIVEN["neighbours.intervals"] = v["noise"]["parts"]
        beside("neighbours: f", 1, [neighbours(1, v["repeats"], GIVEN["neighbours.part"])], [c["neighbours"]["epsilon_low"] > limit for c in cells])


def take(given):
    for pair in given:
        key, value = pair.split("=")
        GIVEN[key] = type(GIVEN[key])(float(value))


def main(path, given):
    take(given)
    with open(path) as file:
        powers = json.load(file)["powers"]
    for s in powers:
        if s.get("gate", "neighbours_epsilon") != "neighbours_epsilon":
            continue
        numbers, worst, points, deviations = [v["n"] for v in s["by"]], 0.0, 0, 0.0
        for at, v in enumerate(s["by"]):
            for point in v["points"]:
                sizes = numbers[:at] + [point["n"]] + numbers[at + 1:]
                p = one(s, s["leak"]["value"], sizes[:-1])
                if p is None:
                    continue
                p = -math.expm1(sizes[-1] * math.log1p(-p)) if p < 1 else 1.0
                points += 1
                worst = max(worst, abs(p - point["power"]))
                if s["audit"] in SIMULATED:
                    trials = {"one_run": TRIALS, "many_runs": TRIALS, "one_shot": FEWER}.get(s["audit"], SIMULATED[s["audit"]])
                    error = math.sqrt(max(p * (1 - p), 0.002) * (1 / trials + 1 / SIMULATED[s["audit"]]))
                    deviations = max(deviations, abs(p - point["power"]) / error)
        text = f"at most {deviations:.1f} standard errors" if s["audit"] in SIMULATED else f"at most {worst:.1e}"
        print(f"{s['audit']} {s.get('statement', '')}: {points} probabilities differ by {text}" if points else f"{s['audit']}: not computed")


if __name__ == "__main__":
    real(sys.argv[2], sys.argv[3:]) if sys.argv[1] == "--real" else main(sys.argv[1], sys.argv[2:])
