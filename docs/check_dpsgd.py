#!/usr/bin/env python3
"""Recomputes what DP-SGD claims, from `coalmine results RUN --format json` on standard input:

  account     the epsilons of the cells, from the theorems
  exposures   whether the exposures of canaries that were inserted once differ from those of
              canaries that were not inserted: Mann-Whitney's test, two-sided

Standard library of Python only. docs/privacy.md and docs/method.md have the definitions.
"""
import json
import math
import sys


def simpson(f, low, high, n=4000):
    """The integral of f, and f is a logarithm: log of the integral of exp(f)."""
    step = (high - low) / n
    values = [f(low + i * step) + math.log(1 if i in (0, n) else 4 if i % 2 else 2) for i in range(n + 1)]
    top = max(values)
    return top + math.log(sum(math.exp(v - top) for v in values) * step / 3)


def poisson_rdp(rate, sigma, order):
    """Mironov, Talwar and Zhang 2019, section 3: the mean of (mixture/normal)^order under
    the normal distribution, its logarithm over order - 1."""
    def integrand(x):
        shifted = (2 * x - 1) / (2 * sigma * sigma)
        low, high = sorted([math.log1p(-rate), math.log(rate) + shifted])
        ratio = high + math.log1p(math.exp(low - high))
        return order * ratio - x * x / (2 * sigma * sigma) - math.log(sigma * math.sqrt(2 * math.pi))
    return simpson(integrand, -12 * sigma, order + 12 * sigma) / (order - 1)


def epsilon(p):
    """The best conversion over orders: classic is Mironov 2017, Proposition 3; improved is
    Canonne, Kamath and Steinke 2020, Proposition 12."""
    best = math.inf
    for order in [1 + x / 10 for x in range(1, 100)] + list(range(11, 65)):
        if p["sampling"] == "poisson":
            rdp = p["rounds"] * poisson_rdp(p["sampling_rate"], p["noise_multiplier"], order)
        else:  # shuffled: replacing a record moves the sum of a batch by 2C, once an epoch
            epochs = -(-p["rounds"] // (p["population"] // p["cohort"]))
            rdp = epochs * order / (2 * (p["noise_multiplier"] / 2) ** 2)
        bound = rdp - math.log(p["delta"]) / (order - 1)
        if p["conversion"] == "improved":
            bound = rdp + math.log1p(-1 / order) - math.log(p["delta"] * order) / (order - 1)
        best = min(best, bound)
    return max(0, best)


def account(cells):
    for c in cells:
        p = c.get("privacy")
        if p and p["sampling"] in ("poisson", "shuffled") and p["noise_multiplier"] > 0:
            mine, its = epsilon(p), p["epsilon_proved"]
            print(f"{c['label']}: {p['rounds']} steps, epsilon {mine:.9g} here, {its:.9g} there, apart by {abs(mine / its - 1):.1e}")


def mann_whitney(x, y):
    """The two-sided p-value, by the normal approximation with ties."""
    pooled, n, m = sorted(x + y), len(x), len(y)
    rank, ties, i = {}, 0, 0
    while i < len(pooled):
        j = i
        while j < len(pooled) and pooled[j] == pooled[i]:
            j += 1
        rank[pooled[i]], ties, i = (i + j + 1) / 2, ties + (j - i) ** 3 - (j - i), j
    u = sum(rank[v] for v in x) - n * (n + 1) / 2
    total = n + m
    deviation = math.sqrt(n * m / 12 * (total + 1 - ties / (total * (total - 1))))
    return math.erfc(abs(u - n * m / 2) / deviation / math.sqrt(2))


def exposures(cells):
    for c in cells:
        a = c["audit"]
        out = [one["exact_exposure"] for one in a["controls"] + a["never_inserted"]]
        for times in sorted({one["insertions"] for one in a["canaries"]}):
            seen = [one["exact_exposure"] for one in a["canaries"] if one["insertions"] == times]
            if len(seen) < 5:
                continue
            print(f"{c['label']}: {len(seen)} canaries inserted {times} times have a mean exposure of {sum(seen) / len(seen):.2f} bits"
                  f" (largest {max(seen):.2f}), {len(out)} that were not {sum(out) / len(out):.2f}; p = {mann_whitney(seen, out):.2g}")


if __name__ == "__main__":
    if sys.argv[1:] not in (["account"], ["exposures"]):
        sys.exit(__doc__)
    {"account": account, "exposures": exposures}[sys.argv[1]](json.load(sys.stdin)["cells"])
