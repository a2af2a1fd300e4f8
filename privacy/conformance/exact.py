"""Epsilons that have a closed form, or a finite sum, in numbers of 60 digits and more (mpmath)."""
from math import comb

from mpmath import besseli, erfc, exp, expm1, floor, inf, log, log1p, mp, mpf, power, sqrt

mp.dps = 60


def tail(x):
    """P(X > x) of a standard normal X."""
    return erfc(x / sqrt(mpf(2))) / 2


def gaussian_delta(mu, epsilon):
    """Balle and Wang 2018, Theorem 8, for a sensitivity of mu standard deviations."""
    return tail(epsilon / mu - mu / 2) - exp(epsilon) * tail(epsilon / mu + mu / 2)


def gaussian(mu, delta):
    """The epsilon of the Gaussian mechanism. log delta is concave in epsilon, so Newton's iteration from above
    decreases to it."""
    mu, delta, digits = mpf(mu), mpf(delta), mp.dps
    with mp.workdps(digits + 20 + int(3 * abs(log(mu, 10)))):  # for the differences of arguments
        if 1 - 2 * tail(mu / 2) <= delta:
            return mpf(0)
        epsilon = mu**2 / 2 + mu * sqrt(-2 * log(delta))
        for _ in range(200):
            off = gaussian_delta(mu, epsilon)
            step = off * log(off / delta) / (exp(epsilon) * tail(epsilon / mu + mu / 2))
            epsilon += step
            if abs(step) < epsilon * mpf(10) ** -50:
                return epsilon
    raise ArithmeticError(f"no epsilon for mu {mu} and delta {delta}")


def root(f, low, high):
    """Where a decreasing function crosses 0."""
    for _ in range(150):
        middle = (low + high) / 2
        low, high = (middle, high) if f(middle) > 0 else (low, middle)
    return (low + high) / 2


def mixture(sigma, centres, weights, delta):
    """One round of a normal mixture at non-negative centres against the normal distribution around 0, in the worse
    direction: the best test is a threshold (Neyman and Pearson), whose loss is epsilon."""
    sigma, delta = mpf(sigma), mpf(delta)
    pairs = [(mpf(c), mpf(w)) for c, w in zip(centres, weights)]
    loss = lambda x: log(sum(w * exp(c * (2 * x - c) / 2 / sigma**2) for c, w in pairs))

    def taken(x):
        return sum(w * tail((x - c) / sigma) for c, w in pairs) - exp(loss(x)) * tail(x / sigma) - delta

    def added(x):  # mirrored, so that it falls
        return tail(x / sigma) - exp(-loss(-x)) * sum(w * tail((x + c) / sigma) for c, w in pairs) - delta

    reach = 45 * sigma + pairs[-1][0]
    return max(mpf(0), loss(root(taken, -reach, reach)), -loss(-root(added, -reach, reach)))


def sampled(epsilon, rate):
    """Amplification of one round by a sample (Balle, Barthe and Gaboardi 2018, Theorems 8 and 9)."""
    return log1p(mpf(rate) * expm1(epsilon))


def with_replacement(sigma, population, sample, delta):
    """Lower and upper bounds for one round of a sample with replacement, one member replaced, noise over the clip
    norm sigma (Balle, Barthe and Gaboardi 2018, Theorem 10)."""
    rate = mpf(1) / population
    weights = [comb(sample, k) * rate**k * (1 - rate) ** (sample - k) for k in range(sample + 1)]
    weights = [w for w in weights if w > mpf(delta) * mpf(10) ** -30]  # without the last, of no account
    lower = mixture(sigma, range(0, 2 * len(weights), 2), weights, delta)
    any_copy = 1 - weights[0]
    profile = lambda e: sum(w * gaussian_delta(mpf(2 * k) / sigma, e) for k, w in enumerate(weights) if k) - delta
    if profile(mpf(0)) <= 0:
        return lower, mpf(0)
    top = mpf(1)
    while profile(top) > 0:
        top *= 2
    return lower, sampled(root(profile, mpf(0), top), any_copy)


def of_losses(atoms, delta):
    """The epsilon of a finite distribution of losses: pairs (loss, probability); delta(epsilon) is linear in
    exp(epsilon) between losses. An infinite loss has probability under P alone."""
    p = q = mpf(0)
    atoms = sorted(atoms, key=lambda a: -a[0])
    for i, (loss, mass) in enumerate(atoms):
        p += mass
        q += mass * exp(-loss) if loss != inf else 0
        following = atoms[i + 1][0] if i + 1 < len(atoms) else -inf
        if p <= delta:
            continue
        epsilon = log((p - delta) / q) if q else inf
        if epsilon >= following:
            return max(mpf(0), epsilon)
    return mpf(0)


def collect(atoms):
    """Atoms with equal losses joined; losses are combinations of a few, so equal ones differ by rounding alone."""
    joined = {}
    for loss, mass in atoms:
        key = loss if loss == inf else floor(loss * mpf(10) ** 40 + mpf(1) / 2)
        old = joined.get(key, (loss, mpf(0)))
        joined[key] = (old[0], old[1] + mass)
    return list(joined.values())


def composed(*groups):
    """The losses of independent rounds: each group is (atoms, times)."""
    total = [(mpf(0), mpf(1))]
    for atoms, times in groups:
        square = list(atoms)
        while times:
            if times % 2:
                total = collect((a + b, p * q) for a, p in total for b, q in square)
            times //= 2
            if times:
                square = collect((a + b, p * q) for a, p in square for b, q in square)
    return total


def response(epsilon, times=1):
    """Losses of `times` binary randomized responses: the worst of all mechanisms of that epsilon, and of their
    adaptive composition (Kairouz, Oh and Viswanath 2015)."""
    right = 1 / (1 + exp(-mpf(epsilon)))
    return [((times - 2 * j) * mpf(epsilon), comb(times, j) * right ** (times - j) * (1 - right) ** j) for j in range(times + 1)]


def categories(truth, count):
    """Losses of a randomized response that tells the truth with a probability, else one of the other categories."""
    other = (1 - mpf(truth)) / (count - 1)
    loss = log(mpf(truth) / other)
    atoms = [(loss, mpf(truth)), (-loss, other)]
    return atoms + ([(mpf(0), 1 - mpf(truth) - other)] if count > 2 else [])


def leaking(atoms, leak):
    """Losses of a mechanism that reveals everything with a probability, else has the given losses."""
    return [(loss, mass * (1 - leak)) for loss, mass in atoms] + [(inf, mpf(leak))]


def shuffled_responses(truth, users, delta):
    """Of binary randomized responses of all users in random order, one replaced: the number of ones is a sufficient
    statistic. The worst of all inputs of the others and both directions."""
    truth, worst = mpf(truth), mpf(0)
    binomial = lambda n, p: [comb(n, k) * p**k * (1 - p) ** (n - k) for k in range(n + 1)]
    for ones in range(users):
        a, b = binomial(ones, truth), binomial(users - 1 - ones, 1 - truth)
        others = [sum(a[i] * b[k - i] for i in range(max(0, k - len(b) + 1), min(k, len(a) - 1) + 1)) for k in range(users)]
        at = lambda k: others[k] if 0 <= k < users else mpf(0)
        one = [truth * at(k - 1) + (1 - truth) * at(k) for k in range(users + 1)]
        zero = [(1 - truth) * at(k - 1) + truth * at(k) for k in range(users + 1)]
        for p, q in ((one, zero), (zero, one)):
            worst = max(worst, of_losses([(log(x / y), x) for x, y in zip(p, q)], delta))
    return worst


def lattice(kind, noise, reach):
    """Probabilities of integer noise from -reach to reach."""
    if kind == "skellam":
        side = [exp(-mpf(noise) ** 2) * besseli(k, mpf(noise) ** 2) for k in range(reach + 1)]
        return side[:0:-1] + side
    side = [exp(-mpf(k) ** 2 / 2 / mpf(noise) ** 2) for k in range(reach + 1)]
    whole = side[0] + 2 * sum(side[1:])
    return [s / whole for s in side[:0:-1] + side]


def shifted(probabilities, by):
    """Losses of integer noise against the same noise moved by an integer. Beyond the list the loss is infinite,
    which a reach with a negligible rest makes an upper bound close to the truth."""
    return [(log(p / probabilities[i - by]) if i >= by else inf, p) for i, p in enumerate(probabilities)]


def powered(probabilities, times):
    """Probabilities of a sum of independent integers, in fixed point: a polynomial's power as products of numbers."""
    bits, size = 300, 80  # bits of a probability, bytes of a product of two and their sum
    pack = lambda values: int.from_bytes(b"".join(v.to_bytes(size, "little") for v in values), "little")

    def product(a, b):
        n = len(a) + len(b) - 1
        whole = (pack(a) * pack(b)).to_bytes(size * n, "little")
        return [int.from_bytes(whole[size * i:size * (i + 1)], "little") >> bits for i in range(n)]

    result, square = [1 << bits], [int(p * mpf(2) ** bits) for p in probabilities]
    while times:
        result = product(result, square) if times % 2 else result
        times //= 2
        square = product(square, square) if times else square
    with mp.workdps(100):
        return [mpf(v) / mpf(2) ** bits for v in result]


def discrete_gaussians(noise, by, times, delta):
    """Of composed discrete Gaussians the loss is linear in the sum of the noise (Canonne, Kamath and Steinke 2020)."""
    reach = int(16 * noise) + 3 + by
    total = powered(lattice("discrete-gaussian", noise, reach), times)
    middle, variance = len(total) // 2, mpf(noise) ** 2
    return of_losses([((times * by * by - 2 * by * mpf(i - middle)) / 2 / variance, p) for i, p in enumerate(total)], delta)


def shuffled_lower(mu, batches, epochs, delta):
    """A lower bound for batches of a shuffled order: in each epoch one batch of unknown place is mu standard
    deviations away (Chua et al. 2024, section 4); the test counts the epochs whose largest batch passes a threshold."""
    best = mpf(0)
    for direction in (1, -1):
        for step in range(-20, 61):
            x = mpf(step) / 4 + (mu if step > 40 else 0)
            still, moved = 1 - tail(x), 1 - tail(x - mu)
            p, q = 1 - still ** (batches - 1) * moved, 1 - still**batches
            if direction < 0:
                p, q = 1 - q, 1 - p
            top_p = top_q = mpf(0)
            for j in range(epochs, 0, -1):
                top_p += comb(epochs, j) * p**j * (1 - p) ** (epochs - j)
                top_q += comb(epochs, j) * q**j * (1 - q) ** (epochs - j)
                if top_p > delta and top_q > 0:
                    best = max(best, log((top_p - delta) / top_q))
    return best


def concentrated(rho, delta):
    """An upper bound of any rho-zCDP mechanism (Canonne, Kamath and Steinke 2020, Proposition 12), at the best order."""
    bound = lambda a: mpf(rho) * a + log1p(-1 / a) - log(mpf(delta) * a) / (a - 1)
    low, high = log(mpf(10) ** -8), log(mpf(10) ** 40)
    for _ in range(160):
        a, b = low + (high - low) * mpf("0.382"), low + (high - low) * mpf("0.618")
        low, high = (low, b) if bound(1 + exp(a)) < bound(1 + exp(b)) else (a, high)
    return max(mpf(0), bound(1 + exp(low)))


def renyi(order, divergence, delta):
    """Bounds for the guarantee of one order: from above by Proposition 12 as before, from below by the best pair of
    distributions on two outputs whose divergences in both directions are within it."""
    order, delta = mpf(order), mpf(delta)
    upper = max(mpf(0), divergence + log1p(-1 / order) - log(delta * order) / (order - 1))

    def fits(p, q):
        way = lambda a, b: log(power(a, order) * power(b, 1 - order) + power(1 - a, order) * power(1 - b, 1 - order)) / (order - 1)
        return way(p, q) <= divergence and way(q, p) <= divergence

    def reached(log_q):
        q = exp(log_q)
        low, high = q, mpf(1)
        for _ in range(60):
            middle = (low + high) / 2
            low, high = (middle, high) if middle < 1 and fits(middle, q) else (low, middle)
        return log((low - delta) / q) if low > delta else -inf

    digits, mp.dps = mp.dps, 25
    try:
        points = [log(delta) - 25 + mpf(i) * (26 - log(delta)) / 120 for i in range(119)]
        best = max(range(len(points)), key=lambda i: reached(points[i]))
        low, high = points[max(0, best - 1)], points[min(len(points) - 1, best + 1)]
        for _ in range(40):
            a, b = low + (high - low) * mpf("0.382"), low + (high - low) * mpf("0.618")
            low, high = (a, high) if reached(a) < reached(b) else (low, b)
        return max(mpf(0), reached(low), reached(points[best])), upper
    finally:
        mp.dps = digits


def tree_squares(rounds, times, separation):
    """The largest squared sensitivity of complete nodes of a binary tree over the rounds: over all placements."""
    nodes = [(j << l, (j + 1) << l) for l in range(rounds.bit_length()) for j in range(rounds >> l)]

    def place(chosen):
        best = sum(sum(a <= c < b for c in chosen) ** 2 for a, b in nodes) if chosen else 0
        if len(chosen) < times:
            for c in range(chosen[-1] + separation if chosen else 0, rounds):
                best = max(best, place(chosen + [c]))
        return best

    return place([])


def toeplitz_squares(column, rounds, times, separation):
    """The squared sensitivity of a lower triangular Toeplitz matrix whose column is nonnegative and never increases:
    participations at rounds 0, b, 2b, ... (Kalinin and Lampert 2024, Theorem 2)."""
    column = list(column[:rounds]) + [mpf(0)] * max(0, rounds - len(column))
    assert all(a >= b >= 0 for a, b in zip(column, column[1:])), "the column increases"
    total = [mpf(0)] * rounds
    for j in range(times):
        for i in range(j * separation, rounds):
            total[i] += column[i - j * separation]
    return sum(t * t for t in total)


def blt_column(scales, decays, rounds):
    """The first column of a buffered linear Toeplitz matrix (Dvijotham et al. 2024)."""
    return [mpf(1)] + [sum(mpf(s) * mpf(d) ** (t - 1) for s, d in zip(scales, decays)) for t in range(1, rounds)]
