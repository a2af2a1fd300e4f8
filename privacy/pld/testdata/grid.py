"""Recomputes grid.csv: epsilon of the pair that dominates samples of fixed size, by a grid of losses.

    python3 grid.py < grid.csv

It needs NumPy and SciPy, works in the long doubles of the machine (64 bits on x86-64), and shares nothing
with package pld but what its comment says of the pair. The losses of a round, tilted, are spread over a ring
of cells such that the first eight moments of each are kept (by Lagrange's polynomials); rounds are composed by a fast
Fourier transform; and epsilon is interpolated between cells. Where losses far above epsilon allow
no tilt, sums with one of them have a closed form, and the others are on the grid. Nothing is bounded: cells are
halved until two epsilons, each extrapolated from two grids (a kink costs the square of a cell), are
within AGREE of each other. The 200 recipes are random, but for the sixteen corners they begin with. A recipe that does not get there with MOST cells has "none". The epsilon that
stands there is where the search starts.
"""
import csv
import sys

import numpy as np
from scipy import fft, signal, special

LD = np.longdouble
AGREE, MOST = 2e-7, 1 << 23
LEFT_OUT = 36  # the log of what is left out of delta, or folded in
MOST_EXCESS = 27  # the log of how many times delta may be added up and cancel
NODES, WEIGHTS = np.polynomial.legendre.leggauss(20)
NODES, WEIGHTS = NODES.astype(LD), WEIGHTS.astype(LD)


class Round:
    """The pair that dominates samples of fixed size: rate q, sigma relative to what replacing moves the sum by."""

    def __init__(self, q, sigma, rounds):
        self.q, self.sigma, self.rounds = LD(q), LD(sigma), rounds
        # The probability of loss 0; erf in double is good to 1e-16 of itself.
        self.atom = (1 - self.q) * LD(special.erf(1 / (2 * sigma) / np.sqrt(2)))

    def ratio(self, loss):
        """The log ratio of the outputs whose loss is given."""
        return np.log1p(np.expm1(loss) / self.q)

    def points(self, top, step):
        """Losses and masses of a Gauss-Legendre rule over losses up to top, in panels of ten steps and less."""
        edges = [self.ratio(np.arange(0, top + 10 * step, 10 * step, dtype=LD))]
        widest = min(LD(1), 1 / self.sigma) / 2
        count = np.ceil(np.diff(edges[0]) / widest).astype(int)
        fine = np.repeat(np.diff(edges[0]) / count, count)
        begin = np.repeat(edges[0][:-1], count) + fine * (np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count))
        r = (begin + fine / 2)[:, None] + fine[:, None] / 2 * NODES
        density = self.sigma / np.sqrt(2 * LD(np.pi)) * np.exp(-((self.sigma * r + 1 / (2 * self.sigma)) ** 2) / 2)
        mass = density * fine[:, None] / 2 * WEIGHTS
        loss = np.log1p(self.q * np.expm1(r))
        loss, mass = loss.ravel(), mass.ravel()
        return np.concatenate([loss, -loss]), np.concatenate([mass * np.exp(loss), mass])

    def moment(self, tilt, points):
        """The log of the mean of exp(tilt x sum)."""
        loss, mass = points
        return self.rounds * np.log(self.atom + np.sum(mass * np.exp(tilt * loss)))


class Setting:
    """Where losses are cut, a tilt, and half a window in which little is left out: those that need the fewest cells."""

    def __init__(self, one, epsilon, delta):
        # The largest loss that matters leaves less than e^-LEFT_OUT of delta beyond it.
        reach = np.sqrt(2 * (LEFT_OUT - np.log(delta) + np.log(one.rounds)))
        largest = np.log1p(one.q * np.expm1((reach + 1 / (2 * one.sigma)) / one.sigma))
        loss, mass = one.points(largest, min(largest, epsilon) / 20)
        self.cells, self.small = np.inf, np.log(delta) - LEFT_OUT
        for cut in [largest] + [f * epsilon for f in (100, 30, 10) if f * epsilon < largest]:
            self.high = High(one, loss, mass, cut)
            if self.high.missed(one, loss, mass, cut - epsilon) < np.exp(self.small + 18):
                self.choose(one, epsilon, delta, cut, (loss[loss <= cut], mass[loss <= cut]))
        if self.cells == np.inf:
            raise ValueError("no tilt will do")
        self.high = High(one, loss, mass, self.cut)
        self.largest = min(self.cut, epsilon + self.half)

    def choose(self, one, epsilon, delta, cut, points):
        """The best tilt for losses up to a cut, if it is better than what there is."""
        for tilt in epsilon**-1 * LD(2) ** np.arange(-6, 14, 0.5):
            moment = one.moment(tilt, points)
            if not moment - tilt * epsilon - np.log(delta) < MOST_EXCESS:
                continue
            larger = [(one.moment(tilt * f, points) - tilt * f * epsilon - self.small) / (tilt * (f - 1)) for f in (1.2, 1.5, 2, 3, 5, 9)]
            half = max(-self.small / tilt, min(larger), epsilon)
            cells = 2 * half / min(epsilon / 500, LD("0.02") / tilt)
            if cells < self.cells:
                self.cells, self.cut, self.tilt, self.half = cells, cut, tilt, half


class High:
    """What sums with a loss above a cut add to delta, all of them as if they were above epsilon: the mean of
    1 - exp(epsilon - sum), since exp(-sum) has the mean 1."""

    def __init__(self, one, loss, mass, cut):
        high = loss > cut
        self.mass = -np.expm1(one.rounds * np.log1p(-np.sum(mass[high])))
        self.inverse = -np.expm1(one.rounds * np.log1p(-np.sum(mass[high] * np.exp(-loss[high]))))

    def delta(self, epsilon):
        return self.mass - np.exp(epsilon) * self.inverse if self.mass > 0 else 0

    def missed(self, one, loss, mass, far):
        """About the chance that the others of such a sum take so much off."""
        return self.mass * one.rounds * np.sum(mass[loss < -far / 3])


LAGRANGE = np.array([np.prod([k - j for j in range(8) if j != k]) for k in range(8)], dtype=LD)


def spread(cells, loss, mass, step):
    """Adds masses to a ring of cells, with the first eight moments kept."""
    at = loss / step
    first = np.floor(at).astype(np.int64) - 3
    x = at - first
    for k in range(8):
        weight = np.ones_like(x)
        for j in range(8):
            if j != k:
                weight *= x - j
        np.add.at(cells, (first + k) % len(cells), mass * weight / LAGRANGE[k])


def on_cells(sums, step):
    """The mean of (1 - exp(epsilon - sum))+ at all cells but the last, of a density that is linear between cells."""
    above = np.cumsum(sums[::-1])[::-1][1:]
    discounted = signal.lfilter([LD(1)], [LD(1), -np.exp(-step)], sums[::-1])[::-1][1:]
    within = -np.expm1(-step) / step
    at = step / 6 - step**2 / 24 + step**3 / 120 if step < 1e-3 else (1 - 2 * (1 - within) / step) / 2
    return above - within**2 * discounted + at * sums[:-1]


def epsilon_on(one, s, epsilon, delta, n):
    """Epsilon on a grid of n cells."""
    step = 2 * s.half / n
    loss, mass = one.points(s.largest, step)
    cells = np.zeros(n, dtype=LD)
    spread(cells, loss, mass * np.exp(s.tilt * loss), step)
    rest = fft.rfft(cells)
    ratio = rest / one.atom
    log1p = (np.log1p(ratio.real * (2 + ratio.real) + ratio.imag**2) / 2 + 1j * np.arctan2(ratio.imag, 1 + ratio.real)).astype(np.clongdouble)
    whole = log1p[0].real * one.rounds
    power = log1p * one.rounds
    if whole < 5:  # without the sums in which every loss is 0, which would hide the others
        transform = (np.expm1(power.real) * np.cos(power.imag) - 2 * np.sin(power.imag / 2) ** 2) + 1j * np.exp(power.real) * np.sin(power.imag)
        log_unit = one.rounds * np.log(one.atom)
    else:
        transform = np.exp(power - whole)
        log_unit = one.rounds * np.log(one.atom) + whole
    sums = fft.irfft(transform, n)
    # Epsilon is near the middle of the window, the cells above it are those of losses up to its upper end.
    middle = int(epsilon / step)
    k = np.arange(max(0, middle - 1000), middle + n // 2)
    values = k * step
    sums = sums[k % n] * np.exp(log_unit - s.tilt * values)
    found = on_cells(sums, step) + s.high.delta(values[:-1])
    log_delta = np.log(np.maximum(found, LD("1e-4000")))
    want = np.log(delta)
    if log_delta[0] <= want:
        if k[0] == 0:
            return LD(0)
        raise ValueError("epsilon is far below where the search starts")
    i = max(int(np.argmax(log_delta <= want)), 3)
    near = slice(i - 3, i + 3)
    # Where log_delta falls through what is wanted, by the polynomial of values through six of them.
    x, y, root = log_delta[near] - want, values[near], LD(0)
    for a in range(6):
        root += y[a] * np.prod([x[b] / (x[b] - x[a]) for b in range(6) if b != a])
    return root


def epsilon(q, sigma, rounds, delta, start):
    """The smallest epsilon at delta, or None."""
    one = Round(q, sigma, rounds)
    delta = LD(delta)
    # Delta at 0 is at most that of one round, times the rounds.
    if rounds * q * special.erf(1 / (2 * sigma) / np.sqrt(2)) <= delta:
        return LD(0)
    try:
        s = Setting(one, LD(start), delta)
    except ValueError:
        return None
    n = 1 << int(np.ceil(np.log2(float(s.cells))))
    plain, found = [], []
    while n <= MOST:
        plain.append(epsilon_on(one, s, LD(start), delta, n))
        if len(plain) > 1:
            found.append(plain[-1] + (plain[-1] - plain[-2]) / 3)
        if len(found) > 1 and abs(found[-1] - found[-2]) <= AGREE * found[-1]:
            return found[-1]
        n *= 2
    return None


def main():
    print("rate,sigma,rounds,delta,epsilon", flush=True)
    for row in csv.DictReader(sys.stdin):
        rate, sigma, rounds, delta, start = row["rate"], row["sigma"], row["rounds"], row["delta"], float(row["epsilon"])
        found = epsilon(float(rate), float(sigma), int(rounds), float(delta), start)
        print(rate, sigma, rounds, delta, "none" if found is None else repr(float(found)), sep=",", flush=True)


if __name__ == "__main__":
    np.seterr(over="ignore")  # of moments at tilts that will not do
    main()
