#!/usr/bin/env python3
"""Recomputes a training by DP-FTRL, from docs/privacy.md, docs/random-streams.md and the papers.

    coalmine data export RUN CELL --only cohorts -o DIR
    coalmine show RUN CELL --json > DIR/experiment.json
    coalmine results RUN --json > DIR/results.json
    for t in 0 1 2 ...: coalmine export RUN CELL --round $t -o DIR/model$t.safetensors
    python3 docs/checks/check_ftrl.py DIR

of a cell with few rounds, seeded noise, a checkpoint of every round that is kept
(training.checkpoints: {every: 1, keep: 1000}), and SGD with learning rate 1 on the server. With NumPy
and SciPy it

  draws the cohorts again, and counts who takes part how often and how closely together
  finds the sensitivity by trying every participation and every sign (of small trainings)
  computes epsilon and rho of that Gaussian
  looks for better coefficients than the recorded ones
  draws the noise of every round again, and takes it from the model: what is left of a round is a
  mean of clipped updates. The larger the noise multiplier, the more of its digits that shows
"""
import itertools
import json
import math
import sys

import numpy as np
from scipy.optimize import brentq, minimize
from scipy.special import log_ndtr

from check_data import read_tensors
from check_streams import stream


def column(m, rounds):
    """The first column of C."""
    c = np.zeros(rounds)
    if m["kind"] == "banded":
        known = m["coefficients"][:rounds]
        c[:len(known)] = known
        return c
    c[0] = 1
    for t in range(1, rounds):
        c[t] = sum(scale * decay ** (t - 1) for scale, decay in zip(m["scales"], m["decays"]))
    return c


def toeplitz(c):
    return np.array([[c[t - i] if t >= i else 0 for i in range(len(c))] for t in range(len(c))])


def tree(rounds):
    """A row for each complete node of a binary tree over the rounds, with its level and last round."""
    rows, places, size, level = [], [], 1, 0
    while size <= rounds:
        for first in range(0, rounds - size + 1, size):
            rows.append([1 if first <= t < first + size else 0 for t in range(rounds)])
            places.append((level, first + size))
        size, level = 2 * size, level + 1
    return np.array(rows, float), places


def matrix(m, rounds):
    return tree(rounds)[0] if m["kind"] == "tree" else toeplitz(column(m, rounds))


def placements(rounds, separation, times, first=0):
    """All sets of rounds that a user may take part in, the largest only."""
    if times == 0 or first >= rounds:
        yield ()
        return
    for t in range(first, min(first + separation, rounds)):
        for rest in placements(rounds, separation, times - 1, t + separation):
            yield (t,) + rest


def sensitivity(C, separation, times):
    """The largest norm of C x over all x of one user with updates of norm at most 1. It is reached
    where all are +1 or -1 times one direction if no two columns have a negative product."""
    best = 0
    for at in placements(C.shape[1], separation, times):
        for signs in itertools.product([1, -1], repeat=len(at) - 1):
            best = max(best, np.linalg.norm(C[:, list(at)] @ np.array((1,) + signs)))
    return best


def delta_of(epsilon, mu):
    """Balle and Wang 2018, theorem 8, for a Gaussian of sensitivity mu standard deviations."""
    return math.exp(log_ndtr(mu / 2 - epsilon / mu)) - math.exp(epsilon + log_ndtr(-mu / 2 - epsilon / mu))


def epsilon_of(delta, mu):
    if delta_of(0, mu) <= delta:
        return 0.0
    return brentq(lambda e: delta_of(e, mu) - delta, 0, mu * mu / 2 + 40 * mu, xtol=1e-13, rtol=1e-14)


def loss(c, separation, times):
    """The squared sensitivity by the formula of the page, times the variance of the noise on the
    last model."""
    n = len(c)
    x = np.zeros(n)
    for t in range(n):
        x[t] = 1 - np.dot(c[1:t + 1], x[:t][::-1])
    late = sum(np.concatenate([np.zeros(j * separation), c[:n - j * separation]]) for j in range(times) if j * separation < n)
    return (x @ x) * (late @ late)


def better(m, rounds, separation, times):
    """By how much of it another search lowers the loss, from the recorded coefficients and beside them."""
    if m["kind"] == "banded":
        def unpack(x):  # each coefficient a share of the one before
            return {"kind": "banded", "coefficients": list(np.cumprod(np.append(1, 1 / (1 + np.exp(-x)))))}
        known = np.array(m["coefficients"])
        at = np.clip(known[1:] / known[:-1], 1e-12, 1 - 1e-12)
        start = np.log(at / (1 - at))
    else:
        n = len(m["scales"])

        def unpack(x):
            return {"kind": "blt", "scales": list(np.exp(x[:n])), "decays": list(1 / (1 + np.exp(-x[n:])))}
        decays = np.clip(m["decays"], 1e-12, 1 - 1e-12)
        start = np.append(np.log(np.maximum(m["scales"], 1e-12)), np.log(decays / (1 - decays)))

    def value(x):
        found = unpack(x)
        if found["kind"] == "blt" and sum(found["scales"]) > 1:
            return 1e9
        return loss(column(found, rounds), separation, times)
    here = loss(column(m, rounds), separation, times)
    options = {"maxiter": 4000, "maxfev": 4000, "xatol": 1e-9, "fatol": 1e-14}
    return max(1 - minimize(value, start + aside, method="Nelder-Mead", options=options).fun / here for aside in (0, 0.1, -0.1))


def dealt(e, users):
    """The cohorts of all rounds, as sampling: separated draws them."""
    t = e["training"]
    apart, size = t["separation"], t["cohort"]
    order, rounds = stream(e["seed"], "cohort", 0).permutation(users), []
    for number in range(1, t["rounds"] + 1):
        group, turn = (number - 1) % apart, (number - 1) // apart
        members = order[group * users // apart:(group + 1) * users // apart]
        whole = len(members) // size
        began = number - turn % whole * apart
        places = stream(e["seed"], "cohort", began).permutation(len(members))
        mine = places[turn % whole * size:(turn % whole + 1) * size]
        rounds.append(sorted(members[p] for p in mine))
    return rounds


def participation(cohorts):
    """The most that anybody takes part, and the least rounds between."""
    last, times, least = {}, {}, math.inf
    for number, users in enumerate(cohorts):
        for user in users:
            if user in last:
                least = min(least, number - last[user])
            last[user], times[user] = number, times.get(user, 0) + 1
    return max(times.values()), least


def noises(e, size):
    """What each round's noise is, in standard deviations: y of C y = z."""
    m, rounds = e["training"]["privacy"]["mechanism"], e["training"]["rounds"]
    z = np.array([normals(e["seed"], size, t) for t in range(1, rounds + 1)])
    if m["kind"] != "tree":
        return np.linalg.solve(toeplitz(column(m, rounds)), z)
    # The best estimate of all prefix sums is that of least squares over the nodes below them.
    C, places = tree(rounds)
    z = np.array([z[last - 1] if level == 0 else normals(e["seed"], size, last, level) for level, last in places])
    sums = np.zeros((rounds + 1, size))
    for t in range(1, rounds + 1):
        first = 0
        for bit in reversed(range(t.bit_length())):
            if t >> bit & 1:
                inside = [i for i, (level, last) in enumerate(places) if first + 2**level <= last <= first + 2**bit and level <= bit]
                below = C[inside][:, first:first + 2**bit]
                sums[t] += np.ones(2**bit) @ np.linalg.lstsq(below, z[inside], rcond=None)[0]
                first += 2**bit
    return np.diff(sums, axis=0)


def normals(seed, size, *indices):
    draw = stream(seed, "noise", *indices)
    return [draw.normal() for _ in range(size)]


def flat(directory, number):
    return np.concatenate([np.array(values) for _, _, values in read_tensors(f"{directory}/model{number}.safetensors")])


def left_of_rounds(directory, e):
    """The norms of the rounds' changes with their noise and without, in clip norms."""
    t = e["training"]
    models = [flat(directory, number) for number in range(t["rounds"] + 1)]
    changes = np.diff(np.array(models), axis=0)
    noise = noises(e, len(models[0])) * t["privacy"]["noise_multiplier"] * t["privacy"]["clip"] / t["cohort"]
    norms = np.linalg.norm([changes, changes - noise], axis=2) / t["privacy"]["clip"]
    return norms, models


def check(directory):
    cell = json.load(open(f"{directory}/experiment.json"))["cells"][0]
    e = cell["experiment"]
    t = e["training"]
    m, z, apart, rounds = t["privacy"]["mechanism"], t["privacy"]["noise_multiplier"], t["separation"], t["rounds"]
    report = next(c for c in json.load(open(f"{directory}/results.json"))["cells"] if c["cell"] == cell["name"])["privacy"]
    times, wrong = report["participations"], []

    def expect(what, holds, detail):
        print(f"{what}: {detail}")
        if not holds:
            wrong.append(what)

    cohorts = [row["users"] for row in map(json.loads, open(f"{directory}/cohorts.jsonl"))]
    most, least = participation(cohorts)
    bound = math.ceil(math.ceil(rounds / apart) / (report["population"] // apart // t["cohort"]))
    expect("cohorts", cohorts == dealt(e, report["population"]), f"{len(cohorts)} drawn again")
    expect("participation", most <= times == bound and least >= apart,
           f"{most} times of {times} at most, {least} rounds apart at least, {apart} asked for")
    found, printed = sensitivity(matrix(m, rounds), apart, times), report["sensitivity"]
    off = printed / found - 1
    expect("sensitivity", off > -1e-9 and (m["kind"] == "tree" or off < 1e-9), f"{found:.12g} by trying all, {printed:.12g} printed, {off:.1e} above")
    epsilon, rho = epsilon_of(report["delta"], printed / z), printed**2 / 2 / z**2
    off = max(abs(report["epsilon_proved"] / epsilon - 1), abs(report["rho"] / rho - 1))
    expect("epsilon, rho", off < 1e-8, f"{epsilon:.10g} and {rho:.10g}, {off:.1e} off")
    if m["kind"] != "tree":
        gain = better(m, rounds, apart, times)
        expect("coefficients", gain < 1e-6, f"another search lowers the loss by {gain:.1e} of it")
    (with_noise, without), models = left_of_rounds(directory, e)
    precision = max(np.abs(models[-1]).max(), 1) * 2**-22 * math.sqrt(len(models[0])) / t["privacy"]["clip"]
    expect("noise", without.max() <= 1 + precision < with_noise.min(), f"a round moves the model by {with_noise.min():.4g} to "
           f"{with_noise.max():.4g} clip norms, and by {without.min():.4g} to {without.max():.4g} without its noise")
    return wrong


if __name__ == "__main__":
    failed = [name for directory in sys.argv[1:] for name in check(directory)]
    sys.exit(f"not as recomputed: {', '.join(failed)}" if failed else 0)
