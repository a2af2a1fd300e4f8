"""Bounds on epsilon of composed mechanisms by privacy loss distributions on a grid.

A pair of outputs has probabilities P and Q; the loss of an output is log(P/Q). Compositions add losses, and

    delta(epsilon) = E over P of (1 - exp(epsilon - loss))+          (Sommer, Meiser and Mohammadi 2019)

Upper bound. An output with a loss between the grid points a and a + h moves to a or to a + h so that both P and Q
keep their mass (Doroshenko et al. 2022, "Connect the Dots"): the pair on the grid dominates. Losses above the grid
become infinite; losses below it become the least loss of the grid.

Lower bound, from the same grid. Given the outputs, every loss moves independently by at most h, on average by a bias
from 0 to the b of bias(h). So the sum on the grid is at most S + rounds x b + N, S the true sum and N of mean 0 and
subgaussian with variance rounds h^2/4 (Hoeffding's lemma). With f(s) = (1 - exp(epsilon - s))+,

    E f(s + N) - f(s) <= excess(s - epsilon)

for an excess that falls like exp(-(s - epsilon)^2 / 2 Var N); its mean over s uses the distribution of the sum on
the grid, widened by a deviation that N exceeds with negligible probability. That is subtracted.

The sums are a circular convolution of tilted probabilities by Fourier transforms of 64-bit precision. The bounds
account for mass outside of the window (Chernoff's inequality), for rounding of the transform (Higham 2002, Theorem
24.2), and for a relative error of CELL in the probabilities of a round.
"""
import numpy as np
from scipy import fft, optimize, special

CELL = 1e-13  # relative error of the probability of a cell, generously
UNIT = 2.0**-64
NODES, WEIGHTS = np.polynomial.legendre.leggauss(6)


def normal(low, high):
    """The probability of an interval under the standard normal distribution, to a small relative error: by quadrature
    if it is narrow, else by the difference of tails on the side where they are small."""
    with np.errstate(invalid="ignore", over="ignore"):
        width = high - low
        narrow = width * (1 + np.maximum(abs(low), abs(high))) < 0.5
        upper = low > 0
        above, below = np.where(upper, -low, high), np.where(upper, -high, low)
        out = np.maximum(special.ndtr(above) - special.ndtr(below), 0)
    x = low[narrow, None] + width[narrow, None] * (NODES + 1) / 2
    out[narrow] = (np.exp(-x * x / 2) @ WEIGHTS) * width[narrow] / 2 / np.sqrt(2 * np.pi)
    return out


class Normals:
    """A normal mixture around non-negative centres against the normal distribution around 0: the mixture has a member
    (or a group) that is taken out. Weights add up to 1."""

    def __init__(self, sigma, centres, weights):
        self.sigma, self.centres, self.weights = sigma, np.asarray(centres, float), np.asarray(weights, float)

    def loss(self, x):
        exponents = self.centres * (2 * x[..., None] - self.centres) / 2 / self.sigma**2
        return special.logsumexp(exponents, b=self.weights, axis=-1)

    def output(self, losses):
        """The output of each loss, by bisection; -inf below all losses."""
        still = self.weights[self.centres == 0].sum()
        least = np.log(still) if still else -np.inf
        if len(self.centres) == 2 and self.centres[0] == 0:  # closed form
            q, c = self.weights[1], self.centres[1]
            with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
                y = np.where(losses > 1, losses + np.log1p((q - 1) * np.exp(-losses)), np.log(np.expm1(losses) + q)) - np.log(q)
                return np.where(losses <= least, -np.inf, y * self.sigma**2 / c + c / 2)
        low, high = np.full(losses.shape, -60.0 * self.sigma), np.full(losses.shape, 60 * self.sigma + self.centres[-1])
        for _ in range(70):
            middle = (low + high) / 2
            below = self.loss(middle) < losses
            low, high = np.where(below, middle, low), np.where(below, high, middle)
        x = (low + high) / 2
        return np.where(losses == -np.inf, -np.inf, np.where(losses == np.inf, np.inf, x))

    def cells(self, edges):
        x = self.output(edges)
        q = normal(x[:-1] / self.sigma, x[1:] / self.sigma)
        p = sum(w * normal((x[:-1] - c) / self.sigma, (x[1:] - c) / self.sigma) for w, c in zip(self.weights, self.centres))
        return p, q


class Between:
    """A member of a Poisson sample whose contribution turns around: mixtures of weight q around 1 and around -1."""

    def __init__(self, sigma, rate):
        self.sigma, self.rate = sigma, rate

    def loss(self, x):
        s, q = self.sigma, self.rate
        side = lambda y: np.logaddexp(np.log1p(-q), np.log(q) + (2 * y - 1) / 2 / s**2)
        return side(x) - side(-x)

    def cells(self, edges):
        s, q = self.sigma, self.rate
        low, high = np.full(edges.shape, -45 * s - 1), np.full(edges.shape, 45 * s + 1)
        for _ in range(70):
            middle = (low + high) / 2
            below = self.loss(middle) < edges
            low, high = np.where(below, middle, low), np.where(below, high, middle)
        x = np.where(edges == -np.inf, -np.inf, np.where(edges == np.inf, np.inf, (low + high) / 2))
        mass = lambda c: normal((x[:-1] - c) / s, (x[1:] - c) / s)
        return (1 - q) * mass(0) + q * mass(1), (1 - q) * mass(0) + q * mass(-1)


class Laplaces:
    """Laplace noise of scale b around 1 with probability q, else around 0, against around 0."""

    def __init__(self, scale, rate):
        self.scale, self.rate = scale, rate

    def cells(self, edges):
        b, q = self.scale, self.rate
        with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
            whole = np.where(edges <= np.log1p(-q) if q < 1 else False, -np.inf, np.log((np.expm1(edges) + q) / q))
        place = np.clip((whole * b + 1) / 2, 0, 1)  # output between the centres
        a, z = place[:-1], place[1:]
        base = -np.exp(-a / b) * np.expm1((a - z) / b) / 2
        moved = -np.exp((z - 1) / b) * np.expm1((a - z) / b) / 2
        left, right = (edges[:-1] < -self.top()[0]) & (edges[1:] >= -self.top()[0]), (edges[:-1] < self.top()[1]) & (edges[1:] >= self.top()[1])
        base = base + left * 0.5 + right * np.exp(-1 / b) / 2
        moved = moved + left * np.exp(-1 / b) / 2 + right * 0.5
        return (1 - q) * base + q * moved, base

    def top(self):
        """The least loss, negated, and the largest."""
        q, b = self.rate, self.scale
        return -np.log1p(q * np.expm1(-1 / b)), np.log1p(q * np.expm1(1 / b))


class Reversed:
    """The same pair in the other direction: Q against P."""

    def __init__(self, pair):
        self.pair = pair

    def cells(self, edges):
        p, q = self.pair.cells(-edges[::-1])
        return q[::-1], p[::-1]


class Replacing:
    """The pair that dominates samples of fixed size under replacement (Zhu, Dong and Wang 2022, Theorem 11)."""

    def __init__(self, sigma, rate):
        self.taken = Normals(sigma, [0, 1], [1 - rate, rate])
        self.rest = (1 - rate) * (2 * special.ndtr(0.5 / sigma) - 1)

    def cells(self, edges):
        up = self.taken.cells(np.maximum(edges, 0))
        down = Reversed(self.taken).cells(np.minimum(edges, 0))
        zero = self.rest * ((edges[:-1] <= 0) & (edges[1:] > 0))
        return up[0] + down[0] + zero, up[1] + down[1] + zero


def bias(h):
    """The largest mean by which a loss rises when it moves to the grid."""
    top = -np.expm1(-h)
    at = np.log(h / top)
    return max(0.0, h * -np.expm1(-at) / top - at)


class Round:
    """A round on the grid of spacing h, from its least to its largest loss, with the mass beyond."""

    def __init__(self, pair, h, low, high):
        self.first = int(np.floor(low / h))
        inner = h * np.arange(self.first, int(np.ceil(high / h)) + 1)
        p, q = pair.cells(np.concatenate([[-np.inf], inner, [np.inf]]))
        self.below, self.above = p[0], p[-1]
        p, q, ratio = p[1:-1], q[1:-1], -np.expm1(-h)
        with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
            share = np.where(p > 0, -np.expm1(np.log(q) + inner[:-1] - np.log(p)) / ratio, 0)  # of P's mass that goes up
        up = p * np.clip(np.nan_to_num(share), 0, 1)
        self.mass = np.zeros(len(inner))
        self.mass[:-1] += p - up
        self.mass[1:] += up
        self.mass[0] += self.below
        self.losses = inner

    def moment(self, tilt):
        there = self.mass > 0
        exponents = tilt * self.losses[there]
        top = np.max(exponents)
        return top + np.log(np.sum(self.mass[there] * np.exp(exponents - top)))


def span(pair, tail):
    """Losses between which all but tail of P lies on each side."""
    grid = np.concatenate([-np.logspace(4, -9, 600), [0], np.logspace(-9, 4, 600)])
    p, _ = pair.cells(np.concatenate([[-np.inf], grid, [np.inf]]))
    below, above = np.cumsum(p), np.cumsum(p[::-1])[::-1]
    low = grid[max(0, np.searchsorted(below, tail) - 1)]
    high = grid[min(len(grid) - 1, len(grid) - np.searchsorted(above[::-1], tail))]
    return low, high


class Sum:
    """The sum of the losses of rounds: a list of (pair, times)."""

    def __init__(self, rounds, delta, accuracy, most):
        times = sum(n for _, n in rounds)
        tail = 1e-6 * delta / times
        spans = [span(pair, tail) for pair, _ in rounds]
        rough = max(1e-7, max(b - a for a, b in spans) / 4000)
        coarse = [Round(pair, rough, *s) for (pair, _), s in zip(rounds, spans)]
        log_moment = lambda t, of: sum(n * r.moment(t) for r, (_, n) in zip(of, rounds))
        # (1 - exp(-x))+ is at most exp(tx) t^t / (1+t)^(1+t)
        chernoff = lambda e: self.saddle(lambda t: log_moment(t, coarse) - t * e - t * np.log1p(1 / t) - np.log1p(t))
        # the epsilon of Chernoff's bound, and the tilt there
        low, high = 0.0, max(1e-6, sum(s[1] * n for s, (_, n) in zip(spans, rounds)))
        for _ in range(60):
            middle = (low + high) / 2
            low, high = (middle, high) if chernoff(middle)[1] > np.log(delta) else (low, middle)
        self.tilt = chernoff(high)[0]
        guess = max(high, 1e-9)
        variance = self.spread(lambda t: log_moment(t, coarse))
        window = max(26 * np.sqrt(variance), 100 / self.tilt)
        deviation = np.sqrt(2 * np.log(1e4 / delta))
        h = np.sqrt(accuracy * guess / (times * (0.125 + deviation * (self.tilt + 1) / 2)))
        h = max(h, window / most, max(b - a for a, b in spans) / (4 * most))
        self.h, self.times, self.delta = h, times, delta
        self.rounds = [Round(pair, h, *s) for (pair, _), s in zip(rounds, spans)]
        # what is left out at both ends
        self.escaped = sum(n * r.above for r, (_, n) in zip(self.rounds, rounds))
        self.raised = sum(n * r.below for r, (_, n) in zip(self.rounds, rounds))
        self.log_moment = lambda t: log_moment(t, self.rounds)
        self.guess = guess
        self.compose(rounds, window, guess)

    @staticmethod
    def saddle(f):
        found = optimize.minimize_scalar(lambda y: f(np.exp(y)), bounds=(np.log(1e-3), np.log(1e5)), method="bounded")
        return np.exp(found.x), found.fun

    def spread(self, log_moment):
        d = 1e-3 * self.tilt
        return max(1e-18, (log_moment(self.tilt + d) - 2 * log_moment(self.tilt) + log_moment(self.tilt - d)) / d**2)

    def compose(self, rounds, window, guess):
        t, h = self.tilt, self.h
        d = 1e-4 * t
        mean = (self.log_moment(t + d) - self.log_moment(t - d)) / (2 * d)
        window = max(window, 2.2 * abs(mean - guess), 64 * h)
        size = fft.next_fast_len(int(np.ceil(window / h)), real=True)
        first = int(round(mean / h)) - size // 2  # grid index of the window's start
        total, norm, offset = np.ones(size // 2 + 1, np.clongdouble), 0.0, 0
        for r, (_, n) in zip(self.rounds, rounds):
            tilted = np.exp(np.where(r.mass > 0, np.longdouble(t) * r.losses - r.moment(t), -np.inf)) * r.mass
            folded = np.zeros(size, np.longdouble)
            np.add.at(folded, np.arange(len(tilted)) % size, tilted)
            total *= fft.rfft(folded) ** n if n > 1 else fft.rfft(folded)
            norm += n * float(np.sqrt(np.sum(folded**2)))
            offset += n * r.first
        density = fft.irfft(total, size)
        places = (np.arange(size) + offset - first) % size
        self.density = np.empty(size, np.longdouble)
        self.density[places] = density
        self.losses = h * (first + np.arange(size))
        self.rounding = 4 * np.log2(size) * UNIT * norm + self.times * 8 * UNIT * h / np.sqrt(self.spread(self.log_moment))
        half = h * size / 2 - 2 * h
        self.outside = 0.0
        for sign in (1, -1):
            shift = lambda y: self.log_moment(t + sign * y) - self.log_moment(t) - y * (sign * mean + half)
            self.outside += np.exp(min(0.0, optimize.minimize_scalar(lambda v: shift(np.exp(v)), bounds=(np.log(1e-3), np.log(3e3)), method="bounded").fun))

    def prepare(self, centre):
        """Cumulates what counts above each place of the window, relative to exp(-tilt x loss) at the centre."""
        self.centre = centre
        self.scale = np.exp(self.log_moment(self.tilt) - self.tilt * centre)
        above = self.losses - centre
        with np.errstate(over="ignore"):
            mass = np.where(self.tilt * above > -600, self.density * np.exp(-self.tilt * np.maximum(above, -600 / self.tilt)), 0)
            self.tail = np.append(np.cumsum(mass[::-1])[::-1], 0)
            self.charged = np.append(np.cumsum((mass * np.exp(-above))[::-1])[::-1], 0)

    def place(self, loss):
        return np.clip(np.ceil((loss - self.losses[0]) / self.h), 0, len(self.losses)).astype(int)

    def finite(self, epsilon):
        """E of (1 - exp(epsilon - sum))+ over finite sums, and its error."""
        i = self.place(np.nextafter(epsilon, np.inf))
        value = float(self.tail[i] - self.charged[i] * np.exp(epsilon - self.centre)) * self.scale
        weight = self.scale * np.exp(min(600, -self.tilt * (epsilon - self.centre)))
        error = weight * (self.outside + self.rounding * (1 / (self.h * self.tilt * (self.tilt + 1)) + 1))
        return max(0.0, value), error + abs(value) * (self.times * CELL + 1e-9)

    def upper(self, epsilon):
        value, error = self.finite(epsilon)
        return value + error + self.escaped

    def lower(self, epsilon):
        lift = self.times * bias(self.h)
        value, error = self.finite(epsilon + lift)
        return value - error - self.raised - self.excess(epsilon + lift, lift)

    def excess(self, epsilon, lift):
        sigma = self.h * np.sqrt(self.times) / 2
        reach = np.sqrt(2 * np.log(1e6 / self.delta))
        edges = sigma * np.arange(-np.ceil(reach), np.ceil(reach) + 1)
        moved = np.array([self.moved(u, sigma) for u in edges])
        wide = reach * sigma
        start, end = epsilon + edges[:-1] - wide - lift, epsilon + edges[1:] + wide
        far = np.minimum(600, -self.tilt * (start - self.centre))
        mass = self.scale * (self.tail[self.place(start)] - self.tail[self.place(end)]).astype(float)
        weight = self.scale * np.exp(far)
        mass += weight * (self.outside + self.rounding * (end - start) / self.h) + 2 * np.exp(-reach**2 / 2)
        return moved[0] + moved[-1] + np.sum(np.minimum(1, mass) * np.maximum(moved[:-1], moved[1:]))

    @staticmethod
    def moved(u, sigma):
        """A bound on E f(s + N) - f(s) at s = epsilon + u."""
        rate = abs(u) / sigma**2 + 1 / sigma + (u >= 0)
        log = -rate * abs(u) + rate**2 * sigma**2 / 2
        if u >= 0:
            return np.exp(log + rate * np.log1p(-1 / rate)) / (rate - 1)
        return np.exp(log - 1) / rate

    def epsilon(self, delta):
        """Lower and upper bounds on epsilon."""
        self.prepare(self.guess)
        if self.upper(0.0) <= delta:
            return 0.0, 0.0
        end = float(self.losses[-1])
        assert self.upper(end) <= delta, "the window ends too early"
        upper = self.crossing(self.upper, delta, 0.0, end)
        for share in np.append(np.logspace(-7, 0, 60, endpoint=False), 1):  # sound at any start; sharp near upper
            if self.lower(upper * (1 - share)) > delta:
                return self.crossing(self.lower, delta, upper * (1 - share), upper, 0), upper
        return 0.0, upper

    @staticmethod
    def crossing(f, delta, low, high, side=1):
        for _ in range(50):
            middle = (low + high) / 2
            low, high = (middle, high) if f(middle) > delta else (low, middle)
        return (low, high)[side]


def epsilon(directions, delta, accuracy=2e-4, most=1 << 18):
    """Bounds on the least epsilon of several directions, each a list of (pair, times)."""
    found = [Sum(rounds, delta, accuracy, most).epsilon(delta) for rounds in directions]
    return max(f[0] for f in found) * (1 - 1e-9), max(f[1] for f in found) * (1 + 1e-9)
