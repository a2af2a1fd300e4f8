"""Recomputes epsilon_proved of finished cells by a grid of privacy losses.

    coalmine account RUN --json > account.json
    python3 docs/checks/check_proved.py account.json ...

It needs numpy and scipy, and is written from docs/privacy.md (the pair of Zhu, Dong and Wang
2022, Theorem 11, for cohorts of fixed size) and Koskela, Jalko and Honkela 2020. Losses are
rounded up and down: the true epsilon of the pair lies between the two results.
"""
import json
import sys

import numpy as np
from scipy import fft
from scipy.optimize import brentq
from scipy.stats import norm


def losses(rate, sigma, edges):
    """The mass of the pair's loss in each interval between edges, which are multiples of a width, 0 among them."""
    with np.errstate(divide="ignore", invalid="ignore"):
        # x where log((1-rate) + rate p(x)/q(x)) is the edge, for q normal around 0 and p around 1
        inner = (np.exp(np.abs(edges)) - 1 + rate) / rate
        x = np.where(inner > 0, sigma**2 * np.log(np.maximum(inner, 1e-300)) + 0.5, -np.inf)
    under_q = norm.sf(x / sigma)
    under_mixture = (1 - rate) * under_q + rate * norm.sf((x - 1) / sigma)
    above = np.where(edges >= 0, under_mixture, 0)  # P(loss > edge)
    below = np.where(edges <= 0, under_q, 0)        # P(loss < edge)
    zero = np.searchsorted(edges, 0)
    mass = np.concatenate([np.diff(below[: zero + 1]), -np.diff(above[zero:])])
    return mass, 1 - under_mixture[zero] - under_q[zero], above[-1], zero


def epsilon(rate, sigma, rounds, delta, width, up, span):
    """Losses of a number of rounds, each rounded up or down to a multiple of width."""
    half = int(span / width)
    edges = np.arange(-half, half + 1) * width
    mass, at_zero, beyond, zero = losses(rate, sigma, edges)
    grid = np.zeros(2 * half + 1)
    grid[1:] += mass if up else 0
    grid[:-1] += 0 if up else mass
    grid[zero] += at_zero
    n = fft.next_fast_len(2 * half + 1)
    padded = np.zeros(n)
    padded[:half + 1], padded[n - half:] = grid[half:], grid[:half]
    total = np.maximum(fft.irfft(fft.rfft(padded) ** rounds, n), 0)
    loss = np.where(np.arange(n) <= half, np.arange(n), np.arange(n) - n) * width
    infinite = rounds * beyond if up else 0

    def excess(e):
        return infinite + np.sum(total[loss > e] * -np.expm1(e - loss[loss > e])) - delta
    return brentq(excess, 0, span, xtol=1e-12)


def bounds(cost, width):
    z, rate = cost["noise_multiplier"], cost["cohort"] / cost["population"]
    span = 4 * cost["epsilon_proved"] + 20
    return [epsilon(rate, z / 2, cost["rounds"], cost["delta"], width, up, span) for up in (False, True)]


def check(path):
    right = True
    for training in json.load(open(path))["trainings"]:
        for cost in training["scales"]:
            if cost["sampling"] != "fixed-size" or cost["accountant_proved"] != "pld":
                sys.exit(f"{path}: {cost['sampling']} sampling by {cost['accountant_proved']} is not recomputed here")
            # The error of a grid is proportional to its width: two widths extrapolate to none.
            coarse, fine = (np.mean(bounds(cost, w)) for w in (2e-5, 1e-5))
            low, high = bounds(cost, 1e-5)
            mine = 2 * fine - coarse
            off = abs(mine - cost["epsilon_proved"]) / mine
            right &= bool(low <= cost["epsilon_proved"] <= high * (1 + 1e-4)) and off < 1e-4
            print(f"{path}: printed {cost['epsilon_proved']:.8g}, here {mine:.8g}, in [{low:.6g}, {high:.6g}], off by {off:.1e}")
    return right


if __name__ == "__main__":
    failed = [path for path in sys.argv[1:] if not check(path)]
    sys.exit(f"not the same: {', '.join(failed)}" if failed else 0)
