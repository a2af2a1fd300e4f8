"""Recomputes a replay of neighbours: p-values, the interval of the noise multiplier, and the verdict.

    coalmine results RUN --format json > results.json
    python3 docs/checks/check_neighbours.py results.json

It needs SciPy, and is written from docs/method/privacy-audits.md.
"""
import json
import math
import sys

from scipy import stats

CHI = {"noise", "noise with and without the member", "noise of parts", "noise of elements", "noise along random directions", "noise along the move"}
SIGNS = {"repeated elements", "successive rounds", "repeated noise", "neighbouring elements", "noise shared by parts"}
TWO_SIDED, UPPER = SIGNS | {"cohort sizes", "cohorts in common"}, {"equal cohort sizes", "participations"}
TOLERANCE = 1e-3


def divergence(p, q):
    return sum(a * math.log(a / b) for a, b in ((p, q), (1 - p, 1 - q)) if a > 0)


def p_value(test, audit):
    name, x, f, q = test["name"], test["statistic"], test.get("freedom", 0), test.get("rate", 0)
    if name in CHI:
        p = stats.chi2.cdf(x, f)
    elif name == "mean along the move":
        p = min(1, 2 * math.exp(-x * x / 2))
    elif name in TWO_SIDED and f:
        p = min(1, 2 * math.exp(-f * divergence(x / f, q)))
    elif name in UPPER and f:
        p = math.exp(-f * divergence(x / f, q)) if x > q * f else 1
    elif name == "sensitivity":
        p = float(x <= audit["claimed_sensitivity"] + TOLERANCE)
    elif name == "members outside the cohort":
        p = float(x <= TOLERANCE)
    else:  # exact: nothing to compute
        return test["p"]
    return min(1.0, p * max(1, test["tests"]))


def differs(a, b):
    return abs(a - b) / max(abs(a), abs(b), 1e-250)


def check(name, audit):
    worst = max(differs(p_value(t, audit), t["p"]) for t in audit["tests"])
    noise = audit["noise"]
    unit = audit["claimed_noise_multiplier"] / max(1, audit["sensitivity"] / audit["claimed_sensitivity"])
    side = 0.025 / noise["parts"]
    for key, quantile in (("measured", noise["values"]), ("low", stats.chi2.ppf(1 - side, noise["values"])), ("high", stats.chi2.ppf(side, noise["values"]))):
        worst = max(worst, differs(unit * math.sqrt(noise["squares"] / quantile), noise[key]))
    p = min(1, len(audit["tests"]) * min(t["p"] for t in audit["tests"]))
    worst = max(worst, differs(p, audit["p"]))
    same = (p <= audit["false_alarm"]) == audit["refuted"]
    print(f"{name}: {len(audit['tests'])} tests, p {audit['p']:.3g}, noise multiplier {noise['measured']:.4g}; relative difference at most {worst:.1e}{'' if same else ', another verdict'}")
    return worst < 1e-8 and same


if __name__ == "__main__":
    cells = json.load(open(sys.argv[1]))["cells"]
    found = [(c["cell"], c["audit"]["neighbours"]) for c in cells if "neighbours" in c.get("audit", {})]
    sys.exit(None if found and all([check(*f) for f in found]) else "not the same, or nothing to check")
