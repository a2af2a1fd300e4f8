"""Recomputes a one-shot audit: the cosine of every canary with the change of the model, the
normal distributions, and the estimates of epsilon with their standard errors.

    coalmine export RUN CELL -o DIR/model.safetensors
    coalmine export RUN CELL --round 0 -o DIR/initial.safetensors
    coalmine results RUN --format json > DIR/results.json
    coalmine show RUN CELL --json > DIR/experiment.json
    python3 docs/checks/check_one_shot.py DIR ...

It needs NumPy and SciPy, and is written from docs/method.md and docs/random-streams.md. Directions
are drawn again. Epsilon is found by integrating the two sums of the definition, not by formulas
for them. The largest cosines of all rounds are taken as they are: they rest on updates that are
stored nowhere.
"""
import itertools
import json
import sys

import numpy
from scipy import integrate, optimize

from check_data import read_tensors, result
from check_streams import stream

HALF = 14  # deviations to both sides that are integrated over
POINTS = 100_001


def direction(seed, canary, dimension):
    rng = stream(seed, "canary updates", canary)
    words = numpy.array([rng.uint64() for _ in range(-(-dimension // 64))], dtype="<u8")
    bits = numpy.unpackbits(words.view(numpy.uint8), bitorder="little")[:dimension]
    return numpy.where(bits == 1, 1.0, -1.0) / numpy.sqrt(dimension)


def change(directory):
    flat = [numpy.concatenate([numpy.array(values) for _, _, values in read_tensors(f"{directory}/{name}.safetensors")]) for name in ("initial", "model")]
    return flat[1] - flat[0]


def delta_at(one, other, epsilon):
    """The larger of the two divergences, by Simpson's rule between all places where their terms begin or end."""
    low, high = (pick(mean + sign * HALF * deviation for mean, deviation in (one, other)) for pick, sign in ((min, -1), (max, 1)))
    x = numpy.linspace(low, high, POINTS)
    logs = [-0.5 * ((x - mean) / deviation) ** 2 - numpy.log(deviation * numpy.sqrt(2 * numpy.pi)) for mean, deviation in (one, other)]
    return max(integrate.simpson(numpy.exp(p) * numpy.maximum(0, -numpy.expm1(numpy.minimum(0, epsilon + q - p))), x=x)
               for p, q in (logs, logs[::-1]))


def epsilon_of(one, other, delta):
    if delta_at(one, other, 0) <= delta:
        return 0.0
    high = 1.0
    while delta_at(one, other, high) > delta:
        high *= 2
    return optimize.brentq(lambda epsilon: numpy.log(max(delta_at(one, other, epsilon), 1e-300) / delta), 0, high, xtol=1e-11, rtol=1e-11)


def fit(values):
    return numpy.mean(values), numpy.std(values)


def standard_error(seen, unseen, n, m, delta):
    """By Gauss-Hermite quadrature of five points; m is 0 where the second distribution is known."""
    nodes, weights = numpy.polynomial.hermite_e.hermegauss(5)
    weights /= weights.sum()
    rule = list(zip(nodes, weights))
    shift = numpy.sqrt(seen[1] ** 2 / n + (unseen[1] ** 2 / m if m else 0))
    values, masses = [], []
    for (x, a), (y, b), (z, c) in itertools.product(rule, rule, rule if m else [(0, 1)]):
        with_ = seen[0] + x * shift, seen[1] * numpy.exp(y / numpy.sqrt(2 * n))
        without = unseen[0], unseen[1] * (numpy.exp(z / numpy.sqrt(2 * m)) if m else 1)
        values.append(epsilon_of(with_, without, delta))
        masses.append(a * b * c)
    values, masses = numpy.array(values), numpy.array(masses)
    return numpy.sqrt(max(0, masses @ values**2 - (masses @ values) ** 2))


def compare(name, estimate, seen, unseen, n, m, delta):
    mine = epsilon_of(seen, unseen, delta), standard_error(seen, unseen, n, m, delta)
    theirs = estimate["epsilon"], estimate["standard_error"]
    fits = [(a, estimate[of][key]) for of, pair in (("seen", seen), ("unseen", unseen)) for a, key in zip(pair, ("mean", "deviation"))]
    worst = max(abs(a - b) / max(abs(b), 1e-12) for a, b in itertools.chain(zip(mine, theirs), fits))
    print(f"  {name}: epsilon {theirs[0]:.4g} +- {theirs[1]:.2g}; here {mine[0]:.4g} +- {mine[1]:.2g}; relative difference at most {worst:.1e}")
    return worst < 1e-6


def check(directory):
    cell = result(directory)
    verdict = cell["audit"]["one_shot"]
    seed = json.load(open(f"{directory}/experiment.json"))["cells"][0]["experiment"]["seed"]
    v, k, u, delta = change(directory), verdict["canaries"], verdict.get("unseen", 0), verdict["delta"]
    print(f"{directory}: {k} canaries, {u} unseen directions, {len(v)} dimensions")
    good = len(v) == verdict["dimension"]
    if "final" in verdict:
        mine = numpy.array([direction(seed, j, len(v)) @ v for j in range(k)]) / numpy.linalg.norm(v)
        theirs = numpy.array([c["final_cosine"] for c in verdict["clients"][:k]])
        off = numpy.abs(mine - theirs).max()
        print(f"  cosines with the change of the model differ by at most {off:.1e}")
        good &= bool(off < 1e-6)
        good &= compare("final model", verdict["final"], fit(theirs), (0, len(v) ** -0.5), k, 0, delta)
    if "all_iterates" in verdict:
        largest = [c["largest_cosine"] for c in verdict["clients"]]
        good &= compare("all rounds", verdict["all_iterates"], fit(largest[:k]), fit(largest[k:]), k, u, delta)
    return good


if __name__ == "__main__":
    failed = [d for d in sys.argv[1:] if not check(d)]
    sys.exit(f"not the same: {', '.join(failed)}" if failed else 0)
