"""Computes the bounds of one-run and many-run audits again, outside of Coalmine.

    coalmine results RUN --format json > DIR/results.json
    coalmine show RUN --nodes --json > DIR/nodes.json
    python3 docs/checks/check_one_run.py DIR ...

It needs NumPy and SciPy, and is written from docs/privacy.md and docs/method.md: the right guesses from scores and
coins, theorem 5.2 of Steinke, Nasr and Jagielski 2023 by the binomial distribution, and algorithm
3 of Mahloujifar, Melis and Chaudhuri 2024, or the bound of independent canaries, by trade-off curves of loss distributions,
which it puts on a grid and composes by a Fourier transform. Population, cohort and rounds are those of the
training's own account, so that cells without noise have the first bound alone. Ceilings are computed of trainings
whose rounds are not random samples; estimates by the closed form of the Gaussian mechanism, their standard errors
by differences; many-run audits by SciPy's exact intervals of shares.
"""
import json
import math
import os
import sys

import numpy
from scipy import optimize, stats

SHARES = [0.95, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.15, 0.1, 0.05, 0.02, 0.01, 3e-3, 1e-3, 3e-4, 1e-4, 1e-5, 1e-6, 1e-7, 1e-8, 1e-9]
GRID = 1 << 17
FINEST = 100  # the largest epsilon whose losses the grid is fine enough for


def right(units, plus, minus):
    """How many guesses are right: in for the highest scores, out for the lowest."""
    ranked = sorted(range(len(units)), key=lambda i: -units[i]["score"])  # ties by their place
    return sum(units[i]["included"] for i in ranked[:plus]) + sum(not units[i]["included"] for i in ranked[len(ranked) - minus:])


def choices(plus, minus, count):
    out = [(plus, minus)]
    while len(out) < count:
        plus, minus = (plus + 1) // 2, (minus + 1) // 2
        out.append((plus, minus))
    return out


def theorem52(units, guesses, correct, delta, level):
    """The largest epsilon with a p-value of at most the level."""
    def p(epsilon):
        q = 1 / (1 + math.exp(-epsilon))
        tail = stats.binom.sf(correct - 1, guesses, q)
        i = numpy.arange(1, correct + 1)
        below = numpy.cumsum(numpy.nan_to_num(stats.binom.pmf(correct - i, guesses, q)))
        return tail + 2 * units * delta * max(below / i, default=0)
    return 0 if p(0) > level else optimize.brentq(lambda e: p(e) - level, 0, 50, xtol=1e-13)


def refutes(units, guesses, correct, level, wrong_at):
    """Whether the probability of at least that many right guesses is below the level."""
    right_sum, wrong_sum = level * correct / units, level * (guesses - correct) / units
    for n in range(correct - 1, -1, -1):
        if right_sum + wrong_sum > guesses / units:
            return True
        demanded = wrong_at(right_sum)
        if demanded <= wrong_sum:
            break
        right_sum += (demanded - wrong_sum) * n / (guesses - n)
        wrong_sum = demanded
    return right_sum + wrong_sum > guesses / units


class Losses:
    """The losses of all rounds together, of each direction."""

    def __init__(self, sampling, relation, rate, sigma, rounds):
        self.mu = None
        if sampling not in ("fixed-size", "poisson"):
            self.mu = math.sqrt(rounds) / sigma
            return
        top = 12 * math.sqrt(rounds) * rate / sigma + 3 + 40 / sigma**2 * rate
        edges = numpy.linspace(-top, top, GRID + 1)
        self.values = (edges[:-1] + edges[1:]) / 2
        above = [self.masses(edges, rate, sigma, mixed) for mixed in (True, False)]
        if relation == "replace-one":
            middle = GRID // 2
            one = numpy.where(numpy.arange(GRID) >= middle, above[0], above[1][::-1])
            one[middle] += 1 - one.sum()
            self.all = [one]
        else:
            self.all = [above[0], above[1][::-1]]
        self.width = edges[1] - edges[0]
        self.all = [self.composed(m, rounds) for m in self.all]

    @staticmethod
    def masses(edges, rate, sigma, mixed):
        """Of the loss log(1 - rate + rate exp((2x-1)/(2 sigma^2))), x around 0 or a mixture with 1."""
        inside = numpy.expm1(numpy.minimum(edges, 700)) > -rate
        x = numpy.full(len(edges), -numpy.inf)
        x[inside] = sigma**2 * numpy.log1p(numpy.expm1(numpy.minimum(edges[inside], 700)) / rate) + 0.5
        x[-1] = numpy.inf
        cdf = stats.norm.cdf(x / sigma)
        if mixed:
            cdf = (1 - rate) * cdf + rate * stats.norm.cdf((x - 1) / sigma)
        return numpy.diff(cdf)

    def composed(self, masses, rounds):
        """Masses of the sum on the same grid, whose values are odd multiples of half a width."""
        masses = self.centred(masses)
        spectrum = numpy.fft.rfft(numpy.fft.ifftshift(masses)) ** rounds
        return numpy.maximum(numpy.fft.fftshift(numpy.fft.irfft(spectrum, GRID)), 0)

    def centred(self, masses):
        """Moves values to multiples of the width, half of each mass to either side."""
        out = masses / 2
        out[1:] += masses[:-1] / 2
        return out

    def delta(self, epsilon):
        if self.mu is not None:
            m = self.mu
            return stats.norm.cdf(m / 2 - epsilon / m) - math.exp(epsilon) * stats.norm.cdf(-m / 2 - epsilon / m)
        values = self.values - self.width / 2
        over = values > epsilon
        return max((m[over] * -numpy.expm1(epsilon - values[over])).sum() for m in self.all)

    def epsilon(self, delta):
        if self.delta(0) <= delta:
            return 0
        high = 1.0
        while self.delta(high) > delta:
            high *= 2
        return optimize.brentq(lambda e: self.delta(e) - delta, 0, high, xtol=1e-9)

    def wrong_at(self):
        """The share of the others that are taken for a member's where the share y is recognized."""
        apart = self.delta(0)
        guarantees = [(0, apart)] + [(self.epsilon(s * apart), s * apart) for s in SHARES]
        return lambda y: max(0, max(max(math.exp(-e) * (y - d), 1 - d - math.exp(min(e, 700)) * (1 - y)) for e, d in guarantees))


def wrong_at(privacy, noise):
    """The curve of the training with another noise multiplier."""
    sensitivity = 2 if privacy["neighbouring"] == "replace-one" else 1
    rate = privacy["cohort"] / privacy["population"]
    return Losses(privacy["sampling"], privacy["neighbouring"], rate, noise / sensitivity, rounds_of(privacy)).wrong_at()


def rounds_of(privacy):
    """The rounds in which a member takes part; all, if they are random samples."""
    if privacy["sampling"] == "shuffled":  # once an epoch
        return math.ceil(privacy["rounds"] / (privacy["population"] // privacy["cohort"]))
    return privacy["participations"] if privacy["sampling"] == "separated" else privacy["rounds"]


def independent_p(units, guesses, correct, wrong_at):
    """The chance of at least that number of right guesses about canaries that do not hide each other."""
    def accuracy(share):
        y = optimize.brentq(lambda y: y + wrong_at(y) - share, 0, share, xtol=1e-14)
        return y / share
    if guesses == units:
        return stats.binom.sf(correct - 1, guesses, accuracy(1.0))
    share = stats.beta(guesses + 1, units - guesses)
    nodes, weights = numpy.polynomial.legendre.leggauss(200)
    low, high = share.ppf(1e-12), share.isf(1e-12)
    at = low + (high - low) * (nodes + 1) / 2
    tails = [stats.binom.sf(correct - 1, guesses, accuracy(s)) for s in at]
    return float((weights * share.pdf(at) * tails).sum() * (high - low) / 2)


def p_value(outcomes, curve):
    def any_refutes(log_level):
        return any(refutes(*o, math.exp(log_level), curve) for o in outcomes)
    low, high = -700.0, -1e-12
    if not any_refutes(high):
        return 1
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (low, middle) if any_refutes(middle) else (middle, high)
    return min(1, len(outcomes) * math.exp(high))


def gaussian_epsilon(mu, delta):
    if mu <= 0:
        return 0
    def over(e):
        return stats.norm.cdf(mu / 2 - e / mu) - math.exp(e) * stats.norm.cdf(-mu / 2 - e / mu) - delta
    return 0 if over(0) <= 0 else optimize.brentq(over, 0, 200, xtol=1e-13)


def check_estimate(v):
    e = v.get("estimate")
    if not e:
        return
    groups = [numpy.array([u["score"] for u in v["units"] if u["included"] == side]) for side in (True, False)]
    n, k = map(len, groups)
    pooled = math.sqrt(sum(((g - g.mean()) ** 2).sum() for g in groups) / (n + k - 2))
    shift = (groups[0].mean() - groups[1].mean()) / pooled
    epsilon = gaussian_epsilon(shift, v["delta"])
    step = 1e-5
    slope = (gaussian_epsilon(shift + step, v["delta"]) - gaussian_epsilon(shift - step, v["delta"])) / (2 * step)
    error = slope * math.sqrt(1 / n + 1 / k + shift**2 / (2 * (n + k - 2)))
    print(f"  estimate {e['epsilon']:.9g} (standard error {e['standard_error']:.7g}), here {epsilon:.9g} ({error:.7g})")
    assert abs(epsilon - e["epsilon"]) <= 1e-7 and abs(error - e["standard_error"]) <= 1e-4 * error


def shift_of(privacy):
    """The mu of a training whose rounds are not random samples: of an epoch for shuffled batches, else of a user's rounds."""
    unit = {"shuffled": 2, "separated": 1}.get(privacy["sampling"])
    return unit and unit * math.sqrt(rounds_of(privacy)) / privacy["noise_multiplier"]


def exact_shift(outcomes, level, independent):
    """The largest shift of a Gaussian mechanism that some outcome refutes, by its curve itself."""
    def refuted(mu):
        curve = lambda y: stats.norm.cdf(stats.norm.ppf(y) - mu)
        return any(independent_p(*o, curve) <= level if independent else refutes(*o, level, curve) for o in outcomes)
    low, high = 0.0, 40.0
    while high - low > 1e-9:
        middle = (low + high) / 2
        low, high = (middle, high) if refuted(middle) else (low, middle)
    return low


def refuted_at(outcome, mu, trade_off, level):
    """Whether an outcome refutes a Gaussian mechanism of a shift, by its curve between the shares of SHARES."""
    curve = Losses("none", "", 1, 1 / mu, 1).wrong_at()
    return independent_p(*outcome, curve) <= level if trade_off.get("independent") else refutes(*outcome, level, curve)


def check_ceilings(v, privacy, guesses, level):
    mechanism = privacy and privacy["noise_multiplier"] and shift_of(privacy)
    if not mechanism or privacy.get("mechanism"):
        return
    z, m = privacy["noise_multiplier"], v["canaries"]
    shifts = {"mechanism": mechanism, "text": mechanism / math.sqrt(2),
              "text-last-model": min(1, privacy["cohort"] / privacy["population"]) * math.sqrt(privacy["rounds"]) / z}
    for c in v.get("ceilings", []):
        mu = shifts[c["attacker"]]
        curve = lambda y: stats.norm.cdf(stats.norm.ppf(y) - mu)
        share = guesses / m
        y = optimize.brentq(lambda y: y + curve(y) - share, 0, min(share, 1 - 1e-16), xtol=1e-14)
        correct = math.floor(guesses * y / share)
        bound = theorem52(m, guesses, correct, v["delta"], level)
        print(f"  ceiling of {c['attacker']}: {c['correct']} right, {c['epsilon_lower']:.9g}; here {guesses * y / share:.6g}, {bound:.9g}")
        by_curve = c.get("trade_off_epsilon_lower")
        if by_curve:  # the noise multiplier with this epsilon is refuted by as many right guesses, one 0.6% smaller is not
            mu = optimize.brentq(lambda m: stats.norm.cdf(m / 2 - by_curve / m) - math.exp(by_curve) * stats.norm.cdf(-m / 2 - by_curve / m) - v["delta"], 1e-6, 40, xtol=1e-14)
            held = [refuted_at((m, guesses, c["correct"]), mu / f, v["trade_off"], level) for f in (1.001, 0.994)]
            print(f"  by the trade-off curve {by_curve:.7g}: its noise multiplier is refuted {held[0]}, 0.6% below {held[1]}")
            assert held == [True, False]
        assert abs(correct - c["correct"]) <= 1 and abs(theorem52(m, guesses, c["correct"], v["delta"], level) - c["epsilon_lower"]) <= 1e-9


def check_many_runs(v, privacy):
    """The rules from the trainings that choose, the bounds from the others."""
    level = 1 - v["confidence"]
    halves = [[(t["score"], t["included"]) for t in v["trainings"] if t.get("chooses", False) == side] for side in (True, False)]
    def rates(runs, threshold, below):
        side = [(s > threshold) != below for s, _ in runs]
        kind = [i != below for _, i in runs]
        return sum(a and b for a, b in zip(side, kind)), sum(kind), sum(a and not b for a, b in zip(side, kind)), len(kind) - sum(kind)
    def ends(right, of, wrong, others):
        low = stats.beta.ppf(level / 2, right, of - right + 1) if right else 0.0
        high = stats.beta.ppf(1 - level / 2, wrong + 1, others - wrong) if wrong < others else 1.0
        return low, high
    def epsilon(*r):
        low, high = ends(*r)
        return max(0, math.log((low - v["delta"]) / high)) if low > v["delta"] else 0
    def shift(*r):
        low, high = ends(*r)
        return max(0, stats.norm.ppf(low) - stats.norm.ppf(high)) if low and high < 1 else 0
    def agreed(value, told, counts):
        """The rule of the audit, if none has a larger value: a rule and its mirror may differ by rounding alone."""
        scores = sorted({s for s, _ in halves[0]})
        rules = [((a + b) / 2, below) for a, b in zip(scores, scores[1:] + scores[-1:]) for below in (False, True)]
        rule = told["threshold"], told.get("below", False)
        assert value(*rates(halves[0], *rule)) >= max(value(*rates(halves[0], *r)) for r in rules) - 1e-9
        assert rates(halves[1], *rule) == tuple(counts[k] for k in ("right", "of", "wrong", "others"))
        return rule
    rule = agreed(epsilon, v["rule"], v["rates"])
    bound = epsilon(*rates(halves[1], *rule))
    print(f"  many runs: epsilon_lower {v['epsilon_lower']:.9g}, here {bound:.9g}")
    assert abs(bound - v["epsilon_lower"]) <= 1e-9
    t = v.get("trade_off")
    if not t:
        return
    rule = agreed(shift, t["rule"], t["rates"])
    mechanism = privacy and privacy["noise_multiplier"] and shift_of(privacy)
    if mechanism and t["noise_multiplier_refuted"]:
        z = mechanism * privacy["noise_multiplier"] / shift(*rates(halves[1], *rule))
        proved = gaussian_epsilon(mechanism * privacy["noise_multiplier"] / t["noise_multiplier_refuted"], v["delta"])
        print(f"  noise multiplier {t['noise_multiplier_refuted']:.6g}, refuted from {z:.6g} on; epsilon {t['epsilon_lower']:.8g}, here {proved:.8g}")
        assert z * (1 - 1e-3) <= t["noise_multiplier_refuted"] <= z * 1.01 and abs(proved - t["epsilon_lower"]) <= 1e-4 * proved


def check(directory):
    with open(os.path.join(directory, "results.json")) as f:
        cells = json.load(f)["cells"]
    for cell in cells:
        if cell.get("audit", {}).get("many_runs"):
            print(f"{cell['cell']}:")
            check_many_runs(cell["audit"]["many_runs"], cell.get("privacy"))
    cells = [c for c in cells if c.get("audit", {}).get("one_run")]
    with open(os.path.join(directory, "nodes.json")) as f:
        params = [n["params"] for n in json.load(f)["nodes"] if n["kind"] == "audits/one-run"]
    for cell in cells:
        v = cell["audit"]["one_run"]
        m, count = v["canaries"], v.get("choices", 1)
        plus, minus = sum(u["guess"] == "in" for u in v["units"]), sum(u["guess"] == "out" for u in v["units"])
        assert (plus, minus) in [(p["k_plus"], p["k_minus"]) for p in params]
        level = (1 - v["confidence"]) / count
        tried = [(m, a + b, right(v["units"], a, b)) for a, b in choices(plus, minus, count)]
        bound = max(theorem52(*o, v["delta"], level) for o in tried)
        print(f"{cell['cell']}: epsilon_lower {v['epsilon_lower']:.9g}, here {bound:.9g}")
        assert (m, v["k_plus"] + v["k_minus"], v["correct"]) in tried
        assert abs(bound - v["epsilon_lower"]) <= 1e-9 * max(1, bound)
        t, privacy = v.get("trade_off"), cell.get("privacy")
        check_estimate(v)
        check_ceilings(v, privacy, plus + minus, level)
        if not t or not privacy or privacy["noise_multiplier"] == 0 or privacy.get("mechanism") or privacy["epsilon_proved"] > FINEST:
            continue
        independent = t.get("independent", False)
        claimed = wrong_at(privacy, privacy["noise_multiplier"])
        p = min(1, len(tried) * min(independent_p(*o, claimed) for o in tried)) if independent else p_value(tried, claimed)
        print(f"  p-value {t['p_value']:.6g}, here {p:.6g}")
        assert abs(p - t["p_value"]) <= 5e-3 * t["p_value"] and t["refuted"] == (p <= 1 - v["confidence"])
        z = t["noise_multiplier_refuted"]
        if z is None:
            continue
        held = []
        for f in (1.001, 0.994):
            curve = wrong_at(privacy, z * f)
            held.append(any(independent_p(*o, curve) <= level if independent else refutes(*o, level, curve) for o in tried))
        print(f"  noise multiplier {z:.6g}: refuted a thousandth above it {held[0]}, 0.6% below it {held[1]}")
        assert held == [True, False]
        if shift_of(privacy):
            mu = shift_of(privacy | {"noise_multiplier": z})
            proved = gaussian_epsilon(mu, v["delta"])
            exact = gaussian_epsilon(exact_shift(tried, level, independent), v["delta"])
            print(f"  its epsilon {t['epsilon_lower']:.10g}, here {proved:.10g}; by the exact curve {exact:.6g} is refuted")
            assert abs(proved - t["epsilon_lower"]) <= 1e-9 * proved and proved <= exact * (1 + 1e-9)


if __name__ == "__main__":
    for name in sys.argv[1:]:
        check(name)
