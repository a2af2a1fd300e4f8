"""Recomputes what finished cells cost in privacy, as they are, at each scale and together.

    coalmine account RUN --scale 10,100 --json > account.json
    python3 docs/checks/check_account.py account.json ...

It needs mpmath, and is written from Wang, Balle and Kasiviswanathan 2019 (Theorem 27),
Mironov 2017 (Propositions 1 and 3), Canonne, Kamath and Steinke 2020 (Proposition 12) and
docs/privacy.md. Cohorts are of fixed size. An epsilon that an order above 64 gave is left out.
"""
import json
import sys
from functools import cache

from mpmath import binomial, exp, inf, log, mp, mpf, sqrt

mp.dps = 160  # central moments of high orders cancel
PAPERS = [mpf(a) for a in range(2, 65)]
PROVED = sorted({mpf(a) / 100 for a in (101, 102, 105)} | {mpf(a) / 10 for a in range(11, 110)} | set(PAPERS))


@cache
def moment(order, sigma):
    """The bound 4 E|p/q - 1|^order on a term, for whole orders from 2."""
    def central(even):
        return sum((-1) ** i * binomial(even, i) * exp(mpf(i) * (i - 1) / (2 * sigma**2)) for i in range(even + 1))
    return 4 * sqrt(central(order // 2 * 2) * central((order + 1) // 2 * 2))


@cache
def scaled_divergence(order, rate, sigma):
    """(order - 1) x the divergence of a round at a whole order, by Theorem 27."""
    total = mpf(1)
    for i in range(2, order + 1):
        term = min(moment(i, sigma), 2 * exp(mpf(i) * (i - 1) / (2 * sigma**2)))
        total += rate**i * binomial(order, i) * term
    return log(total)


def divergence(order, rate, sigma):
    """Of a round; between whole orders (order - 1) x divergence is interpolated."""
    low = int(order)
    at = [scaled_divergence(a, rate, sigma) if a > 1 else mpf(0) for a in (low, low + 1 if order > low else low)]
    return min((at[0] + (order - low) * (at[1] - at[0])) / (order - 1), order / (2 * sigma**2))


def epsilon(trainings, sensitivity, orders, delta, conversion):
    """Of all trainings together: their divergences are added up order by order."""
    best = inf
    for a in orders:
        r = sum(t["rounds"] * divergence(a, mpf(t["cohort"]) / t["population"], mpf(t["noise_multiplier"]) / sensitivity) for t in trainings)
        if conversion == "improved":
            e = max(mpf(0), r + log(1 - 1 / a) - log(delta * a) / (a - 1))
        else:
            e = r - log(delta) / (a - 1)
        best = min(best, e)
    return best


def scaled(first, cost):
    """Whether a scale has the simulation's rounds, and as much noise on the mean update."""
    k = cost["scale"]
    noise = abs(cost["noise_multiplier"] - k * first["noise_multiplier"]) <= 1e-12 * cost["noise_multiplier"]
    share = abs(cost["population"] - cost["of_users"] * first["population"] / first["of_users"]) <= 0.5
    return noise and share and cost["cohort"] == k * first["cohort"] and cost["rounds"] == first["rounds"]


def off(cost, trainings):
    """How far each epsilon is off, relatively."""
    delta, conversion = mpf(cost["delta"]), cost["conversion"]
    for name, order, sensitivity, orders in (("epsilon", "order", 1, PAPERS), ("epsilon_renyi", "order_proved", 2, PROVED)):
        if cost[order] <= 64:
            mine = epsilon(trainings, sensitivity, orders, delta, conversion)
            yield abs(cost[name] - mine) / mine


def check(path):
    answer, found, wrong = json.load(open(path)), [], 0
    for training in answer["trainings"]:
        for cost in training["scales"]:
            if cost["sampling"] != "fixed-size":
                sys.exit(f"{path}: {cost['sampling']} sampling is not recomputed here")
            found += off(cost, [cost])
            wrong += not scaled(training["scales"][0], cost)
    for i, together in enumerate(answer.get("together", [])):
        costs = [t["scales"][i] for t in answer["trainings"]]
        found += off(together, costs)
        wrong += together["delta"] != min(c["delta"] for c in costs) or together["scale"] != costs[0]["scale"]
    print(f"{path}: {len(found)} epsilons, off by at most {float(max(found)):.1e}, relatively; {wrong} of another scale than they say")
    return max(found) < 1e-9 and not wrong


if __name__ == "__main__":
    failed = [path for path in sys.argv[1:] if not check(path)]
    sys.exit(f"not the same: {', '.join(failed)}" if failed else 0)
