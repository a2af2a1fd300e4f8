"""Writes recipes.json: recipes with intervals that contain their true epsilon. README.md describes the fields.

    python3 privacy/conformance/generate.py [FILE [PART...]]

It needs mpmath, NumPy and SciPy, takes some minutes for all PARTS, and is written from definitions and the theorems that METHODS
names; it shares nothing with the accountant in Go. Its output is the same on every run on one
kind of processor, and elsewhere up to rounding, within the intervals' own bounds on it.
"""
import itertools
import json
import os
import sys
from math import comb, hypot, inf

from mpmath import mpf

import exact
import losses

TOLERANCE = 0.01  # relative, above the upper bound

METHODS = {
    "gaussian": "Exact: the composition is one Gaussian mechanism, mu^2 = sum of (sensitivity / noise)^2 (Balle and Wang 2018, Theorem 8; Dong, Roth and Su 2019, Corollary 2).",
    "noiseless": "Exact: without noise the outputs tell the member whenever it takes part.",
    "mixture": "Exact: one round is a normal mixture against a normal distribution, the best test a threshold (Neyman and Pearson; that the pair dominates: Zhu, Dong and Wang 2022, Theorem 11; for groups Ganesh 2024).",
    "poisson": "Grid of losses, from both sides, for the pair that dominates and is attained, in both directions (Zhu, Dong and Wang 2022; bounds: losses.py).",
    "poisson-replaced": "Grid of losses. Lower: a contribution that turns around while all others are zero. Upper: the pair that dominates samples of the same rate (Balle, Barthe and Gaboardi 2018, Theorem 2; Zhu, Dong and Wang 2022, Theorem 11).",
    "fixed-size": "Grid of losses. Lower: one contribution against the opposite ones of all others, in both directions. Upper: the pair that dominates (Zhu, Dong and Wang 2022, Theorem 11).",
    "fixed-size-once": "Exact: one contribution against the opposite ones of all others attains the bound (Balle, Barthe and Gaboardi 2018, Theorem 9).",
    "with-replacement": "Lower: one contribution against the opposite ones of all others. Upper: Balle, Barthe and Gaboardi 2018, Theorem 10.",
    "shuffled": "Lower: one contribution against the opposite ones of all others; the test counts epochs whose largest batch passes a threshold (Chua et al. 2024). Upper: one Gaussian an epoch (parallel composition, McSherry 2009, Theorem 4).",
    "shuffled-responses": "Exact: the number of ones is a sufficient statistic; the worst of all inputs of the others.",
    "laplace": "Exact: delta = 1 - exp((epsilon - sensitivity/scale)/2), then amplification (Balle, Barthe and Gaboardi 2018, Theorems 8 and 9).",
    "laplace-grid": "Grid of losses, from both sides, for the pair around 0 and around the sensitivity (bounds: losses.py).",
    "responses": "Exact: a sum over all losses; delta is linear in exp(epsilon) between them.",
    "pure": "Exact: the worst mechanisms are randomized responses, also if chosen adaptively (Kairouz, Oh and Viswanath 2015; for budgets Rogers et al. 2016).",
    "leaking": "Exact: the worst mechanisms leak with probability delta, else are randomized responses (Kairouz, Oh and Viswanath 2015, Theorem 3.3).",
    "discrete-gaussian": "Exact: the loss is linear in the sum of the noise, whose distribution is a convolution of integers (Canonne, Kamath and Steinke 2020).",
    "skellam": "Exact: a sum over all outputs (probabilities by modified Bessel functions; Agarwal, Kairouz and Liu 2021).",
    "tree": "Exact: one Gaussian mechanism at the sensitivity of all complete nodes, by all placements of the participations (Kairouz et al. 2021, appendix D).",
    "matrix": "Exact: one Gaussian mechanism at the sensitivity of the matrix (Denisov et al. 2022; Kalinin and Lampert 2024, Theorem 2).",
    "zcdp": "Lower: the Gaussian mechanism of that rho. Upper: Canonne, Kamath and Steinke 2020, Proposition 12, at the best order (for budgets Feldman and Zrnic 2021).",
    "rdp": "Lower: the best pair of distributions on two outputs within the divergence. Upper: Canonne, Kamath and Steinke 2020, Proposition 12.",
    "gdp": "Exact: the Gaussian mechanism of that mu (Dong, Roth and Su 2019; for budgets Smith and Thakurta 2022).",
    "group-poisson": "Grid of losses, from both sides, for a binomial mixture against a normal distribution (Ganesh 2024, Theorem 3.1), in both directions.",
    "group-fixed-size": "Lower: the hypergeometric mixture of a group against the opposite contributions of all others, by a grid of losses. Upper: the pair that dominates if a sample that has any of the group moves by all that fit (Balle, Barthe and Gaboardi 2018, Theorem 2).",
}

recipes, counts = [], {}


def add(family, method, value, delta, *steps, neighbours="add-or-remove-one", tolerance=TOLERANCE, **more):
    """Adds a recipe; value is its epsilon, or bounds on it."""
    lower, upper = value if isinstance(value, tuple) else (value, value)
    counts[family] = counts.get(family, 0) + 1
    recipe = {"id": f"{family}-{counts[family]:03}", "neighbours": neighbours, "delta": delta, **more, "steps": list(steps)}
    outward = lambda x, way: None if x == inf else rounded(x, way)
    recipe.update(lower=outward(lower, -1), upper=outward(upper, 1), tolerance=tolerance, method=method)
    assert lower <= upper, recipe
    recipes.append(recipe)


def rounded(x, way):
    """A float of 13 digits on the given side of x."""
    x = mpf(x)
    near = float(f"{float(x):.12e}")
    while (mpf(near) - x) * way < 0:
        near = float(f"{near * (1 + way * 1e-12):.12e}")
    return near


def step(mechanism, rounds=1, sampling=None, **fields):
    return {"mechanism": mechanism, **fields, **({"sampling": sampling} if sampling else {}), "rounds": rounds}


def gaussian(noise, clip=1.0, rounds=1, sampling=None, **more):
    return step("gaussian", rounds, sampling, noise=noise, clip=clip, **more)


def sample(kind, population, size):
    return {"kind": kind, "population": population, "size": size}


SENSITIVITY = {"add-or-remove-one": 1, "zero-out-one": 1, "replace-one": 2}
RELATIONS = list(SENSITIVITY)


def mu(relation, *steps):
    """That of Gaussian steps without sampling."""
    squares = sum(mpf(s["rounds"]) * (SENSITIVITY[relation] * mpf(s["clip"]) / mpf(s["noise"])) ** 2 for s in steps)
    return mp_sqrt(squares)


def mp_sqrt(x):
    return mpf(x) ** mpf("0.5")


def plain(family, delta, *steps, neighbours, **more):
    add(family, "gaussian", exact.gaussian(mu(neighbours, *steps), delta), delta, *steps, neighbours=neighbours, **more)


def gaussians():
    n = 0
    for noise in (0.05, 0.3, 0.8, 1.0, 3.0, 10.0, 1000.0):
        for delta in (0.1, 1e-3, 1e-6, 1e-10, 1e-100, 1e-300):
            plain("gaussian", delta, gaussian(noise), neighbours=RELATIONS[n % 3])
            plain("gaussian", delta, gaussian(noise * 2, 2.5), neighbours=RELATIONS[(n + 1) % 3])
            n += 1
    for noise in (0.01, 1.0, 50.0):  # the least positive float
        for relation in RELATIONS[:2]:
            plain("gaussian-extreme", 5e-324, gaussian(noise), neighbours=relation)
    for noise, clip, delta in ((1e-150, 1e-150, 1e-5), (3e150, 1e150, 1e-9), (1e-3, 1e-6, 1e-5), (1e-6, 1.0, 1e-5), (1e-30, 1.0, 1e-5), (1e-100, 1.0, 1e-6),
                               (1e6, 1.0, 1e-9), (1e12, 1.0, 1e-15), (1e100, 1.0, 1e-110), (1.0, 1e6, 1e-5), (2.0, 1.0, 0.999), (0.1, 1.0, 0.5), (1e4, 1.0, 1e-5)):
        plain("gaussian-extreme", delta, gaussian(noise, clip), neighbours="add-or-remove-one" if clip != 1e150 else "replace-one")
    for noise, rounds, delta in ((1.0, 2, 1e-5), (1.0, 100, 1e-5), (50.0, 10_000, 1e-6), (1000.0, 1_000_000, 1e-7), (1.0, 1_000_000, 1e-7), (30.0, 1000, 1e-12),
                                 (5.0, 7, 1e-300), (100.0, 3, 1e-3), (8.83, 12, 1e-6), (0.02, 5, 1e-5)):
        for relation in RELATIONS[:2]:
            plain("gaussian-composed", delta, gaussian(noise, rounds=rounds), neighbours=relation)
    for i in range(12):
        steps = [gaussian([2.0, 5.5, 13.0, 40.0][(i + j) % 4], [1.0, 0.5, 3.0][(i * j) % 3], [1, 30, 400][(i + j) % 3]) for j in range(2 + i % 4)]
        plain("gaussian-heterogeneous", [1e-5, 1e-8, 1e-2][i % 3], *steps, neighbours=RELATIONS[i % 3])
    for relation in RELATIONS:
        add("noiseless", "noiseless", inf, 1e-5, gaussian(0.0, rounds=3), neighbours=relation)
        add("noiseless", "gaussian", mpf(0), 1e-5, gaussian(1.0, rounds=0), neighbours=relation)
    add("noiseless", "noiseless", inf, 1e-5, gaussian(0.0, sampling=sample("poisson", 1000, 10)))


ONCE = [(1000, 10, 1.0, 1e-5), (1000, 10, 1.0, 1e-3), (100, 50, 2.0, 1e-6), (100, 99, 0.7, 1e-5), (10**6, 1, 1.0, 1e-9), (10**6, 1, 0.3, 1e-12), (10**9, 1, 1.0, 1e-20),
        (1000, 1, 0.5, 1e-100), (1000, 1, 0.5, 1e-300), (50, 5, 20.0, 1e-5), (50, 5, 300.0, 1e-3), (60_000, 150, 1.3, 1e-5), (1000, 10, 0.05, 1e-5), (10**12, 1, 1.0, 1e-14), (4, 1, 1.0, 5e-324)]


def once():
    for population, size, noise, delta in ONCE:
        rate = mpf(size) / population
        how = gaussian(noise, sampling=sample("poisson", population, size))
        add("poisson-once", "mixture", exact.mixture(noise, [0, 1], [1 - rate, rate], delta), delta, how)
        how = gaussian(noise, 0.5, sampling=sample("fixed-size", population, size))
        add("fixed-size-once", "fixed-size-once", exact.mixture(noise, [0, 1], [1 - rate, rate], delta), delta, how, neighbours="replace-one")
    for population, size, noise, delta in ((1000, 10, 1.0, 1e-5), (100, 20, 3.0, 1e-5), (100, 100, 2.0, 1e-3), (10_000, 100, 1.0, 1e-6), (1000, 30, 0.6, 1e-6), (50, 5, 10.0, 1e-9),
                                           (10**6, 50, 1.5, 1e-8), (20, 3, 4.0, 1e-2), (500, 60, 5.0, 1e-50), (2, 2, 3.0, 1e-5)):
        how = gaussian(noise, sampling=sample("with-replacement", population, size))
        add("with-replacement", "with-replacement", exact.with_replacement(noise, population, size, delta), delta, how, neighbours="replace-one")


def sampled(sigma, population, size):
    rate = size / population
    return losses.Normals(sigma, [0, 1], [1 - rate, rate]) if rate < 1 else losses.Normals(sigma, [0, 1], [0, 1])


def both(pairs):
    return [pairs, [(losses.Reversed(p), n) for p, n in pairs]]


POISSON = [(60_000, 150, 1.3, 6000, 1e-5), (1000, 10, 1.0, 1000, 1e-5), (1000, 10, 1.0, 10_000, 1e-8), (1000, 1, 0.5, 1000, 1e-6), (10, 1, 1.0, 10, 1e-12), (10, 5, 5.0, 100, 1e-5),
           (25, 1, 1.5, 2250, 1e-5), (100, 1, 2.5, 50, 1e-5), (5, 1, 0.5, 3, 1e-5), (392_000, 5000, 1.0, 784, 1e-7), (392_000, 5000, 1.0, 7840, 1e-7), (10_000, 64, 1.0, 781, 1e-6),
           (100_000, 100, 1.0, 30_000, 1e-7), (50_000, 256, 0.8, 3000, 1e-5), (1000, 100, 4.0, 300, 1e-6), (1000, 500, 10.0, 1000, 1e-5), (1000, 1, 2.0, 100_000, 1e-6), (10_000, 1, 1.0, 1_000_000, 1e-7),
           (1000, 1, 1.0, 1_000_000, 1e-6), (100_000, 1, 1.0, 1_000_000, 1e-9), (100, 1, 1.0, 100, 1e-3), (100, 1, 1.0, 100, 1e-20), (100, 1, 1.0, 100, 1e-50), (20, 1, 0.7, 20, 1e-6),
           (2, 1, 1.0, 2, 1e-5), (2, 1, 3.0, 20, 1e-9), (100, 99, 2.0, 50, 1e-5), (1000, 1, 0.3, 50, 1e-6), (1000, 20, 20.0, 10_000, 1e-5), (10_000, 30, 0.6, 500, 1e-6),
           (8, 1, 100.0, 1000, 1e-4), (200, 1, 0.9, 40, 1e-2), (500, 10, 1.1, 2500, 1e-5), (2_000_000, 1000, 0.5, 1000, 5e-9), (500_000, 1000, 1.0, 1000, 2e-8), (1000, 1, 5.0, 1_000_000, 1e-5)]


def composed():
    for population, size, noise, rounds, delta in POISSON:
        value = losses.epsilon(both([(sampled(noise, population, size), rounds)]), delta, most=1 << (20 if rounds > 100_000 else 18))
        add("poisson", "poisson", value, delta, gaussian(noise, rounds=rounds, sampling=sample("poisson", population, size)))
    for i in range(12):
        parts = [POISSON[(5 * i + j) % 17] for j in range(2 + i % 2)]
        parts = [(n, m, z * 1.25, max(1, t // (4 + 3 * j)), 0) for j, (n, m, z, t, _) in enumerate(parts)]
        if i % 3 == 0:
            parts.append((1, 1, 4.0 + i, 2, 0))
        delta = [1e-5, 1e-7, 1e-9][i % 3]
        value = losses.epsilon(both([(sampled(z, n, m), t) for n, m, z, t, _ in parts]), delta)
        add("poisson-heterogeneous", "poisson", value, delta, *[gaussian(z, rounds=t, sampling=sample("poisson", n, m)) for n, m, z, t, _ in parts])


def replaced(parts, delta):
    """Bounds for samples of fixed size: parts are (population, size, noise, rounds), the last at half the noise."""
    under = [(sampled(z / 2, n, m), t) for n, m, z, t in parts]
    over = [(losses.Replacing(z / 2, m / n) if m < n else sampled(z / 2, n, m), t) for n, m, z, t in parts]
    return losses.epsilon(both(under), delta)[0], losses.epsilon([over], delta)[1]


def fixed():
    for population, size, noise, rounds, delta in POISSON[:2] + POISSON[3:16] + POISSON[19:21] + POISSON[23:26] + POISSON[28:35]:
        rounds = min(rounds, 20_000)
        how = gaussian(2 * noise, rounds=rounds, sampling=sample("fixed-size", population, size))
        add("fixed-size", "fixed-size", replaced([(population, size, 2 * noise, rounds)], delta), delta, how, neighbours="replace-one")
    for i in range(8):
        parts = [(n, m, 2.5 * z, max(1, t // 10)) for n, m, z, t, _ in (POISSON[(4 * i + j) % 15] for j in range(2))]
        extra = [(7.0 + i, 2)] if i % 2 else []
        delta = [1e-5, 1e-8][i % 2]
        value = replaced(parts + [(1, 1, z, t) for z, t in extra], delta)
        steps = [gaussian(z, rounds=t, sampling=sample("fixed-size", n, m)) for n, m, z, t in parts] + [gaussian(z, rounds=t) for z, t in extra]
        add("fixed-size-heterogeneous", "fixed-size", value, delta, *steps, neighbours="replace-one")
    for population, size, noise, rounds, delta in ((1000, 10, 2.0, 500, 1e-5), (100, 10, 4.0, 50, 1e-6), (60_000, 150, 2.6, 1000, 1e-5), (10, 5, 8.0, 20, 1e-5), (1000, 1, 1.2, 200, 1e-6)):
        rate = size / population
        turned = losses.Between(noise, rate)  # from the clip norm to its negative, which is 2 apart
        lower = losses.epsilon([[(turned, rounds)]], delta)[0]
        upper = losses.epsilon([[(losses.Replacing(noise / 2, rate), rounds)]], delta)[1]
        how = gaussian(noise, rounds=rounds, sampling=sample("poisson", population, size))
        add("poisson-replaced", "poisson-replaced", (lower, upper), delta, how, neighbours="replace-one")


def shuffles():
    for population, size, noise, epochs, delta in ((10_000, 64, 2.0, 5, 1e-6), (1000, 10, 4.0, 1, 1e-5), (1000, 100, 6.0, 10, 1e-5), (60_000, 600, 3.0, 3, 1e-6), (100, 100, 8.0, 4, 1e-5),
                                                   (50, 5, 1.0, 1, 1e-3), (50, 5, 1.0, 1, 1e-9), (4096, 64, 20.0, 100, 1e-5)):
        batches = population // size
        upper = exact.gaussian(mp_sqrt(epochs) * 2 / mpf(noise), delta)
        lower = exact.shuffled_lower(mpf(2) / mpf(noise), batches, epochs, delta) if batches > 1 else upper
        how = lambda kind: gaussian(noise, rounds=epochs * batches, sampling=sample(kind, population, size))
        add("shuffled", "shuffled", (lower, upper), delta, how("shuffled"), neighbours="replace-one")
        add("fixed-order", "gaussian", upper, delta, how("fixed-order"), neighbours="replace-one")
    for truth, users, delta in ((0.75, 20, 1e-3), (0.75, 60, 1e-5), (0.9, 60, 1e-4), (0.6, 40, 1e-6), (0.731, 30, 1e-9), (0.99, 30, 1e-3)):
        how = step("randomized-response", categories=2, truth=truth, sampling={"kind": "shuffled-responses", "population": users})
        add("shuffled-responses", "shuffled-responses", exact.shuffled_responses(truth, users, delta), delta, how, neighbours="replace-one")


def laplaces():
    for scale, delta in ((1.0, 1e-5), (1.0, 0.0), (0.1, 1e-3), (10.0, 1e-2), (1e6, 1e-9), (1e-3, 1e-300), (2.0, 0.25)):
        how = step("laplace", noise=scale, clip=1.0)
        add("laplace", "laplace", max(mpf(0), 1 / mpf(scale) + 2 * exact.log1p(-mpf(delta))), delta, how)
    for scale, population, size, delta in ((1.0, 100, 1, 1e-5), (0.5, 10, 1, 1e-6), (0.2, 1000, 1, 1e-9), (3.0, 2, 1, 1e-2)):
        rate = mpf(size) / population
        whole = 1 / mpf(scale) + 2 * exact.log1p(-mpf(delta) / rate)
        how = step("laplace", noise=scale, clip=1.0, sampling=sample("poisson", population, size))
        add("laplace-sampled", "laplace", max(mpf(0), exact.sampled(whole, rate)), delta, how)
    for scale, population, size, rounds, delta in ((10.0, 1, 1, 100, 1e-5), (1.0, 1, 1, 3, 1e-3), (2.0, 1, 1, 20, 1e-9), (50.0, 1, 1, 1000, 1e-6), (5.0, 1, 1, 30, 1e-12),
                                                   (1.0, 10, 1, 100, 1e-5), (0.5, 5, 1, 3, 1e-6), (2.0, 100, 1, 1000, 1e-6), (0.3, 1000, 1, 100, 1e-5)):
        pair = losses.Laplaces(scale, size / population)
        how = step("laplace", rounds, noise=scale, clip=1.0, **({"sampling": sample("poisson", population, size)} if population > 1 else {}))
        add("laplace-composed", "laplace-grid", losses.epsilon(both([(pair, rounds)]), delta), delta, how)


def discrete():
    replace = {"neighbours": "replace-one"}
    for truth, count, rounds, delta in ((0.75, 2, 1, 0.0), (0.75, 2, 1, 1e-2), (0.55, 2, 100, 1e-5), (0.52, 2, 1000, 1e-6), (0.9, 2, 10, 1e-9), (0.5, 4, 1, 1e-3), (0.5, 10, 20, 1e-5),
                                        (0.12, 10, 60, 1e-6), (0.999, 2, 3, 1e-300), (0.501, 2, 2000, 1e-5), (0.3, 3, 1, 0.25), (0.34, 3, 100, 1e-8)):
        if count == 2:
            atoms = exact.response(exact.log(mpf(truth) / (1 - mpf(truth))), rounds)
        else:
            atoms = exact.composed((exact.categories(truth, count), rounds))
        add("randomized-response", "responses", exact.of_losses(atoms, delta), delta, step("randomized-response", rounds, categories=count, truth=truth), **replace)
    for parts, delta in (([(0.6, 2, 20), (0.55, 2, 30)], 1e-5), ([(0.7, 2, 5), (0.4, 4, 6), (0.52, 2, 40)], 1e-6), ([(0.9, 2, 1), (0.51, 2, 200)], 1e-9), ([(0.75, 2, 2), (0.8, 2, 2), (0.85, 2, 2)], 1e-3)):
        atoms = exact.composed(*[(exact.categories(t, c), n) for t, c, n in parts])
        add("randomized-response-heterogeneous", "responses", exact.of_losses(atoms, delta), delta, *[step("randomized-response", n, categories=c, truth=t) for t, c, n in parts], **replace)
    for noise, clip, rounds, delta in ((1.0, 1, 1, 1e-5), (0.5, 1, 1, 1e-6), (4.0, 3, 1, 1e-5), (10.0, 1, 1, 1e-9), (0.2, 1, 1, 1e-12), (2.0, 1, 10, 1e-5), (5.0, 2, 30, 1e-6), (1.0, 1, 50, 1e-3), (8.0, 1, 16, 1e-10)):
        add("discrete-gaussian", "discrete-gaussian", exact.discrete_gaussians(noise, clip, rounds, delta), delta, step("discrete-gaussian", rounds, noise=noise, clip=clip))
    for noise, clip, delta in ((1.0, 1, 1e-5), (3.0, 1, 1e-6), (3.0, 2, 1e-3), (10.0, 1, 1e-9), (20.0, 5, 1e-5), (0.5, 1, 1e-2)):
        atoms = exact.shifted(exact.lattice("skellam", noise, int(30 * noise) + 40), clip)
        add("skellam", "skellam", exact.of_losses(atoms, delta), delta, step("skellam", noise=noise, clip=clip))


def correlated():
    for noise, rounds, times, separation, delta in ((7.0, 1600, 1, 1, 1e-6), (1.13, 1600, 1, 1, 1e-6), (8.83, 1600, 1, 1, 1e-6), (2.0, 1, 1, 1, 1e-5), (3.0, 7, 1, 1, 1e-5), (3.0, 8, 1, 1, 1e-5), (50.0, 1 << 16, 1, 1, 1e-10),
                                                    (10.0, 9, 3, 3, 1e-5), (10.0, 7, 3, 2, 1e-5), (20.0, 24, 6, 3, 1e-6), (12.0, 32, 4, 8, 1e-5), (9.0, 40, 3, 10, 1e-8), (7.0, 8, 8, 1, 1e-3), (40.0, 50, 3, 15, 1e-300),
                                                    (15.0, 64, 2, 20, 1e-6), (5.0, 100, 2, 50, 1e-6), (4.0, 30, 2, 1, 0.01)):
        # with one participation the first round is in as many complete nodes as any
        squares = exact.tree_squares(rounds, times, separation) if times > 1 else rounds.bit_length()
        how = step("matrix-gaussian", rounds, noise=noise, clip=1.0, matrix={"kind": "tree"}, participations=times, separation=separation)
        add("tree", "tree", exact.gaussian(mp_sqrt(squares) / mpf(noise), delta), delta, how, neighbours="zero-out-one")
    columns = [{"kind": "toeplitz", "coefficients": [1.0, 0.5, 0.25]}, {"kind": "toeplitz", "coefficients": [1.0, 0.5, 0.375, 0.3125, 0.2734375, 0.24609375, 0.2255859375, 0.20947265625]},
               {"kind": "toeplitz", "coefficients": [1.0]}, {"kind": "blt", "scales": [0.25], "decays": [0.9]}, {"kind": "blt", "scales": [0.01228532416, 0.187839374], "decays": [0.9999528893, 0.9857068658]},
               {"kind": "blt", "scales": [0.3, 0.1, 0.05], "decays": [0.5, 0.9, 0.99]}]
    shapes = [(2.0, 40, 1, 1, 1e-6), (6.0, 100, 5, 20, 1e-6), (15.0, 500, 10, 50, 1e-8), (4.0, 50, 50, 1, 1e-5), (3.0, 1000, 2, 400, 1e-300)]
    for i, matrix in enumerate(columns):
        for noise, rounds, times, separation, delta in shapes:
            column = [mpf(c) for c in matrix["coefficients"]] if matrix["kind"] == "toeplitz" else exact.blt_column(matrix["scales"], matrix["decays"], rounds)
            squares = exact.toeplitz_squares(column, rounds, times, separation)
            how = step("matrix-gaussian", rounds, noise=noise, clip=1.0, matrix=matrix, participations=times, separation=separation)
            add(["banded", "blt"][i > 2], "matrix", exact.gaussian(mp_sqrt(squares) / mpf(noise), delta), delta, how, neighbours="zero-out-one")


def conversions():
    for epsilon, times, delta in ((1.0, 1, 1e-5), (0.1, 100, 1e-5), (0.01, 10_000, 1e-6), (2.0, 5, 1e-9), (0.5, 30, 0.0), (1e-4, 1000, 1e-9), (50.0, 2, 1e-12)):
        how = step("guarantee", times, epsilon=epsilon)
        add("pure-dp", "pure", exact.of_losses(exact.response(epsilon, times), delta), delta, how)
    for epsilon, leak, times, delta in ((1.0, 1e-6, 1, 1e-5), (0.1, 1e-8, 100, 1e-5), (0.5, 1e-5, 10, 1e-3), (0.2, 1e-7, 50, 4.9e-6), (1.0, 1e-5, 2, 1e-5)):
        atoms = exact.leaking(exact.response(epsilon, times), 1 - (1 - mpf(leak)) ** times)
        add("approximate-dp", "leaking", exact.of_losses(atoms, delta), delta, step("guarantee", times, epsilon=epsilon, delta=leak))
    for rho, delta in ((0.5, 1e-5), (0.81, 1e-10), (0.01, 1e-6), (10.0, 1e-6), (1e-4, 1e-9), (100.0, 1e-300)):
        add("zcdp", "zcdp", (exact.gaussian(mp_sqrt(2 * mpf(rho)), delta), exact.concentrated(rho, delta)), delta, step("guarantee", rho=rho))
    for value, times, delta in ((1.0, 1, 1e-5), (0.3, 1, 1e-9), (0.1, 400, 1e-5), (5.0, 1, 1e-300), (20.0, 2, 1e-3)):
        add("gdp", "gdp", exact.gaussian(mpf(value) * mp_sqrt(times), delta), delta, step("guarantee", times, mu=value))
    for order, divergence, delta in ((2.0, 0.1, 1e-5), (8.0, 1.0, 1e-5), (32.0, 1.1, 1e-5), (64.0, 0.5, 1e-9), (1.5, 0.2, 1e-3), (20.0, 1.0, 1e-6), (256.0, 5.0, 1e-100)):
        add("rdp", "rdp", exact.renyi(order, mpf(divergence), delta), delta, step("guarantee", order=order, divergence=divergence))
    for loss, p, times, delta in (([1.0, -1.0], [0.7, 0.3], 1, 1e-3), ([2.0, 0.0, -1.0], [0.1, 0.6, 0.3], 5, 1e-4), ([0.5, -0.5], [0.6224, 0.3776], 60, 1e-6), ([3.0, 0.1, -0.2], [0.001, 0.66, 0.339], 20, 1e-5), ([0.0], [1.0], 10, 0.0)):
        atoms = exact.composed(([(mpf(a), mpf(b)) for a, b in zip(loss, p)], times))
        add("loss-distribution", "responses", exact.of_losses(atoms, delta), delta, step("guarantee", times, losses=loss, probabilities=p))
    for rho, delta in ((0.5, 1e-5), (0.02, 1e-8), (4.0, 1e-6)):
        add("adaptive-budget", "gdp", exact.gaussian(mp_sqrt(2 * mpf(rho)), delta), delta, {"mechanism": "adaptive", "of": "gaussian", "budget": {"rho": rho}})
        add("adaptive-budget", "zcdp", (exact.gaussian(mp_sqrt(2 * mpf(rho)), delta), exact.concentrated(rho, delta)), delta, {"mechanism": "adaptive", "of": "guarantee", "budget": {"rho": rho}})
        add("adaptive-budget", "pure", exact.of_losses(exact.response(rho), delta), delta, {"mechanism": "adaptive", "of": "guarantee", "budget": {"epsilon": rho}})
    for noise, count_noise, population, size, rounds, delta, relation in (
            (1.05, 5.0, 1, 1, 3, 1e-5, "add-or-remove-one"), (2.0, 20.0, 1, 1, 100, 1e-6, "replace-one"), (1.3, 3.0, 1000, 10, 500, 1e-5, "add-or-remove-one"), (1.0, 50.0, 5000, 100, 200, 1e-7, "add-or-remove-one"),
            (2.1, 4.0, 500, 20, 100, 1e-5, "replace-one")):
        total = 1 / hypot(1 / noise, 1 / (2 * count_noise))
        how = gaussian(noise, 1.0, rounds, sample("poisson" if relation == "add-or-remove-one" else "fixed-size", population, size) if population > 1 else None, count_noise=count_noise)
        if population == 1:
            value = exact.gaussian(SENSITIVITY[relation] * mp_sqrt(rounds * (1 / mpf(noise) ** 2 + 1 / (2 * mpf(count_noise)) ** 2)), delta)
        elif relation == "replace-one":
            value = replaced([(population, size, total, rounds)], delta)
        else:
            value = losses.epsilon(both([(sampled(total, population, size), rounds)]), delta)
        add("adaptive-clipping", "gaussian" if population == 1 else "poisson" if relation != "replace-one" else "fixed-size", value, delta, how, neighbours=relation)


def groups():
    for noise, rounds, group, delta, relation in ((1.0, 1, 2, 1e-5, "replace-one"), (10.0, 20, 3, 1e-6, "replace-one"), (30.0, 5, 10, 1e-8, "add-or-remove-one"), (4.0, 1, 4, 1e-300, "add-or-remove-one"), (100.0, 1000, 2, 1e-5, "replace-one")):
        how = gaussian(noise, rounds=rounds)
        add("group-gaussian", "gaussian", exact.gaussian(group * mu(relation, how), delta), delta, how, neighbours=relation, group=group)
    for scale, group, delta in ((5.0, 3, 1e-5), (1.0, 10, 0.0)):
        add("group-laplace", "laplace", max(mpf(0), group / mpf(scale) + 2 * exact.log1p(-mpf(delta))), delta, step("laplace", noise=scale, clip=1.0), group=group)
    for population, size, noise, rounds, group, delta in ((1000, 10, 1.0, 1, 3, 1e-5), (1000, 10, 2.0, 100, 2, 1e-5), (100, 10, 5.0, 50, 4, 1e-6), (60_000, 150, 1.3, 1000, 3, 1e-5), (10, 5, 8.0, 10, 2, 1e-5), (2000, 1, 1.0, 2000, 5, 1e-7)):
        rate = size / population
        pair = losses.Normals(noise, range(group + 1), [comb(group, j) * rate**j * (1 - rate) ** (group - j) for j in range(group + 1)])
        how = gaussian(noise, rounds=rounds, sampling=sample("poisson", population, size))
        add("group-poisson", "group-poisson", losses.epsilon(both([(pair, rounds)]), delta), delta, how, group=group)
    for population, size, noise, rounds, group, delta in ((1000, 10, 4.0, 1, 3, 1e-5), (100, 10, 8.0, 20, 2, 1e-6), (2593, 100, 10.0, 100, 4, 1e-5), (10, 5, 20.0, 5, 2, 1e-4)):
        chosen = [comb(group, j) * comb(population - group, size - j) / comb(population, size) for j in range(group + 1)]
        pair = losses.Normals(noise, [2 * j for j in range(group + 1)], chosen)
        lower = losses.epsilon(both([(pair, rounds)]), delta)[0]
        upper = losses.epsilon([[(losses.Replacing(noise / 2 / group, 1 - chosen[0]), rounds)]], delta)[1]
        how = gaussian(noise, rounds=rounds, sampling=sample("fixed-size", population, size))
        add("group-fixed-size", "group-fixed-size", (lower, upper), delta, how, neighbours="replace-one", group=group)


OPACUS, GDP, TF = "Opacus, opacus/tests/accountants_test.py", "Bu et al. 2020", "TensorFlow Privacy"
FOURIER, GOOGLE = "PLD-Accountant, examples/simple_usage_example.py", "dp_accounting 0.6.0, RdpAccountant with replace-one (computed from its formula; issue 378)"

# Printed for Poisson samples: population, size, noise, rounds, delta, and who prints which epsilon.
PRINTED = [
    (25, 1, 1.5, 2249, 1e-5, {f"{OPACUS}, GaussianAccountant (less than)": 6.6, f"{OPACUS}, PRVAccountant": 6.777395712150674}),
    (25, 1, 1.5, 2250, 1e-5, {f"{OPACUS}, RDPAccountant": 7.32911117143}),
    (25, 1, 1.3232421875, 2250, 1e-5, {f"{OPACUS}, noise for epsilon 8 by GaussianAccountant": 8.0}),
    (25, 1, 1.34765625, 2250, 1e-5, {f"{OPACUS}, noise for epsilon 8 by PRVAccountant": 8.0}),
    (5, 1, 3.0, 50, 1 / 48_000, {"Opacus, issue 643, gdp": 1.83, "Opacus, issue 643, rdp": 2.16}),
    (60_000, 256, 1.3, 3515, 1e-5, {f"{GDP}, Deep-Learning-with-GDP-Tensorflow, README, compute_epsP": 0.8345, f"{GDP}, Deep-Learning-with-GDP-Tensorflow, README, moments accountant": 1.1912}),
    (60_000, 256, 1.06, 4687, 1e-5, {f"{GDP}, figure 4, top": 1.34}),
    (60_000, 256, 0.638, 16_406, 1e-5, {f"{GDP}, figure 4, bottom": 8.68}),
    (60_000, 256, 1.12, 14_062, 1e-5, {f"{TF}, tutorials/README.md, if batches were Poisson samples": 2.92}),
    (60_000, 256, 0.6, 7031, 1e-5, {f"{TF}, tutorials/README.md, if batches were Poisson samples": 9.74}),
    (60_000, 150, 1.3, 6000, 1e-5, {f"{TF}, compute_dp_sgd_privacy": 0.7242234026109595}),
    (100_000, 105, 1.0, 1, 1e-3, {f"{TF}, issue 166 (suspected to be too small)": 0.0}),
    (100, 1, 4.0, 10_000, 4.243484012034273e-06, {FOURIER: 1.0}),
]


def published():
    for population, size, noise, rounds, delta, by in PRINTED:
        if rounds == 1:
            rate = mpf(size) / population
            value = exact.mixture(noise, [0, 1], [1 - rate, rate], delta)
        else:
            value = losses.epsilon(both([(sampled(noise, population, size), rounds)]), delta)
        add("published", "mixture" if rounds == 1 else "poisson", value, delta, gaussian(noise, rounds=rounds, sampling=sample("poisson", population, size)), published=by)
    for rounds, version in ((10_000, "with 1e4 compositions"), (1000, "after refactoring, with 1000 compositions")):
        turned = losses.epsilon([[(losses.Between(4.0, 0.01), rounds)]], 1e-5)[0]
        upper = losses.epsilon([[(losses.Replacing(2.0, 0.01), rounds)]], 1e-5)[1]
        add("published", "poisson-replaced", (turned, upper), 1e-5, gaussian(4.0, rounds=rounds, sampling=sample("poisson", 100, 1)),
            neighbours="replace-one", published={f"{FOURIER}, {version}": 1.9931200626285734})
    for population, size, noise, rounds, delta, by in (
            (392_000, 5000, 1.0, 7840, 1e-7, {"Thakkar et al. 2020, section 4.3": 18.8}), (392_000, 5000, 1.0, 784, 1e-7, {"Thakkar et al. 2020, section 4.3": 5.6}),
            (250_000, 1000, 1.0, 1000, 4e-8, {"Augenstein et al. 2020": 2.38}), (1_250_000, 1000, 1.0, 1000, 8e-9, {"Augenstein et al. 2020": 1.48}), (342_477, 5000, 1.0, 2000, 2.92e-6, {"Augenstein et al. 2020": 9.22}),
            (10_000, 100, 1.0, 1000, 1e-5, {GOOGLE: 3.576111482}), (342_477, 1000, 1.0, 1600, 1e-6, {GOOGLE: 1.523873178})):
        how = gaussian(noise, rounds=rounds, sampling=sample("fixed-size", population, size))
        add("published", "fixed-size", replaced([(population, size, noise, rounds)], delta), delta, how, neighbours="replace-one", published=by)
    for epsilon in (1.0, 10.0, 50.0):  # the noise of Dwork and Roth 2014, Theorem A.1, which is for an epsilon below 1
        noise = float(exact.sqrt(2 * exact.log(mpf(1.25) / mpf(1e-5))) / epsilon)
        plain("published", 1e-5, gaussian(noise), neighbours="add-or-remove-one", published={"Flower 1.9, LocalDpMod: noise for this epsilon": epsilon})


def write(path):
    with open(path, "w") as f:
        f.write('{\n"version": 1,\n"methods": ' + json.dumps(METHODS, indent=1) + ',\n"recipes": [\n')
        f.write(",\n".join(json.dumps(r) for r in recipes) + "\n]\n}\n")


def checked():
    """Compares the computations with each other and with printed values."""
    for rounds, noise, delta in ((1, 2.0, 1e-5), (100, 1.0, 1e-5), (5000, 50.0, 1e-9), (7, 3.0, 1e-60), (20, 0.5, 1e-3), (1000, 1000.0, 1e-4)):
        lower, upper = losses.epsilon(both([(sampled(noise, 1, 1), rounds)]), delta)
        assert lower <= exact.gaussian(mp_sqrt(rounds) / mpf(noise), delta) <= upper <= lower * 1.002, (rounds, noise, delta)
    for population, size, noise, delta in ONCE[:4]:
        rate = mpf(size) / population
        lower, upper = losses.epsilon(both([(sampled(noise, population, size), 1)]), delta)
        assert lower <= exact.mixture(noise, [0, 1], [1 - rate, rate], delta) <= upper, (population, size, noise, delta)
    for times, between, rounds, squares in ((1, 7, 8, 4), (3, 3, 9, 11), (3, 2, 7, 9)):  # TensorFlow Privacy's tests
        assert exact.tree_squares(rounds, times, between + 1) == squares
    column = [mpf(c) for c in (1, 0.5, 0.25, 0.125)]
    placed = [[sum(column[i - c] if 0 <= i - c < 4 else 0 for c in chosen) for i in range(9)] for chosen in itertools.combinations(range(9), 3) if min(b - a for a, b in zip(chosen, chosen[1:])) >= 2]
    assert exact.toeplitz_squares(column, 9, 3, 2) == max(sum(x * x for x in row) for row in placed)
    assert abs(exact.gaussian(1, 1e-5) - mpf("4.37717809568")) < 1e-11  # Balle and Wang 2018


PARTS = {part.__name__: part for part in (gaussians, once, discrete, correlated, conversions, shuffles, laplaces, groups, composed, fixed, published)}

if __name__ == "__main__":
    checked()
    for name in sys.argv[2:] or PARTS:
        PARTS[name]()
    write(sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.path.dirname(os.path.abspath(__file__)), "recipes.json"))
