"""Writes reference.csv, Rényi divergences of one round, and conversions.csv, the
epsilon of the curve order x rho over ORDERS, from the published formulas, in
arithmetic of up to 1,600 digits, by mpmath 1.3.
"""

from pathlib import Path

from mpmath import mp, mpf, exp, expm1, log, pi, quad, sqrt

RATES = ["1e-7", "1e-4", "0.0127", "0.3", "0.99", "1"]
SIGMAS = ["0.005", "0.01", "0.1", "0.3", "0.5", "1", "2", "9.5", "100"]
WHOLE = [2, 3, 4, 9, 64, 128, 257, 1024]
FRACTIONAL = ["1.01", "1.5", "2.3", "10.9"]
FRACTIONAL_RATES = ["1e-7", "0.0127", "0.99"]
ORDERS = [mpf(a) for a in [1.01, 1.5, 2.3, 10.9]] + WHOLE
RHOS = ["1e-300", "1e-18", "1e-9", "1e-4", "0.01", "0.81", "20", "1e4", "1e10"]
DELTAS = ["1e-320", "1e-300", "1e-12", "1e-5", "0.3", "0.999999"]


def growth(sigma, k):
    return exp(mpf(k) * (k - 1) / (2 * sigma**2))


def central_moments(sigma, top):
    """B(l) for even l (Wang et al. 2019, Theorem 27)."""
    mp.dps = 1600
    g = [growth(sigma, k) for k in range(top + 1)]
    moments = {}
    row = [1]
    for l in range(1, top + 1):
        row = [1] + [row[i - 1] + row[i] for i in range(1, l)] + [1]
        if l % 2 == 0:
            moments[l] = sum((-1) ** (l - k) * row[k] * g[k] for k in range(l + 1))
    mp.dps = 40
    return moments


def fixed_size_moment(q, sigma, order, moments):
    """(order - 1) x the bound of Wang et al. 2019, Theorem 27; 0 at order 1."""
    total, choose = mpf(1), order
    for i in range(2, order + 1):
        choose = choose * (order - i + 1) // i
        if i == 2:
            bound = min(4 * expm1(1 / sigma**2), 2 * growth(sigma, 2))
        else:
            low, high = 2 * (i // 2), 2 * ((i + 1) // 2)
            bound = min(4 * sqrt(moments[low] * moments[high]), 2 * growth(sigma, i))
        total += q**i * choose * bound
    return log(total)


def fixed_size(q, sigma, order, moments):
    """Interpolates the moment between whole orders."""
    below = int(order)
    moment = fixed_size_moment(q, sigma, below, moments)
    if order > below:
        moment += (order - below) * (fixed_size_moment(q, sigma, below + 1, moments) - moment)
    return min(moment / (order - 1), order / (2 * sigma**2))


def poisson_whole(q, sigma, order):
    total, choose = mpf(0), 1
    for k in range(order + 1):
        total += choose * (1 - q) ** (order - k) * q**k * growth(sigma, k)
        choose = choose * (order - k) // (k + 1)
    return log(total) / (order - 1)


def poisson_fractional(q, sigma, order):
    """E[(1-q+q exp(ux-u^2/2))^a], x standard normal, less its value 1 at q=0."""
    u = 1 / sigma

    def f(x):
        y = q * expm1(u * x - u**2 / 2)
        return exp(-x * x / 2) / sqrt(2 * pi) * ((1 + y) ** order - 1 - order * y)

    turn = u / 2 + log((1 - q) / q) / u
    points = set()
    for centre in (mpf(0), turn, 2 * u, order * u):
        points |= {centre + d for d in (-14, -8, -4, -2, -1, -u**-1, 0, u**-1, 1, 2, 4, 8, 14)}
        if u < 3:
            points |= {mpf(k) for k in range(-14, int(max(order, 2) * u) + 15, 2)}
    points = sorted(p for p in points if -14 <= p <= max(order, 2) * u + 14)
    return log(1 + quad(f, points, maxdegree=6)) / (order - 1)


def classic(divergence, order, delta):
    """Mironov 2017, Proposition 3."""
    return divergence - log(delta) / (order - 1)


def improved(divergence, order, delta):
    """Canonne, Kamath and Steinke 2020, Proposition 12, and the limit of Bretagnolle and Huber 1978."""
    if delta**2 >= -expm1(-divergence):
        return mpf(0)
    return max(0, divergence + log(1 - 1 / mpf(order)) - (log(delta) + log(order)) / (order - 1))


def write_divergences(out):
    print("mechanism,rate,sigma,order,divergence", file=out)
    for s in SIGMAS:
        sigma = mpf(s)
        moments = central_moments(sigma, 1024)
        for r in RATES:
            q = mpf(r)
            for a in WHOLE:
                print(f"fixed-size,{r},{s},{a},{mp.nstr(fixed_size(q, sigma, a, moments), 17)}", file=out)
                print(f"poisson,{r},{s},{a},{mp.nstr(poisson_whole(q, sigma, a), 17)}", file=out)
            for a in FRACTIONAL if r in FRACTIONAL_RATES else []:
                print(f"fixed-size,{r},{s},{a},{mp.nstr(fixed_size(q, sigma, mpf(a), moments), 17)}", file=out)
                print(f"poisson,{r},{s},{a},{mp.nstr(poisson_fractional(q, sigma, mpf(a)), 17)}", file=out)


def write_conversions(out):
    print("rho,delta,conversion,epsilon", file=out)
    for rho in RHOS:
        for delta in DELTAS:
            for convert in (classic, improved):
                epsilon = min(convert(a * mpf(float(rho)), a, mpf(float(delta))) for a in ORDERS)
                print(f"{rho},{delta},{convert.__name__},{mp.nstr(epsilon, 17)}", file=out)


mp.dps = 40
folder = Path(__file__).parent
with open(folder / "reference.csv", "w") as out:
    write_divergences(out)
mp.dps = 700
with open(folder / "conversions.csv", "w") as out:
    write_conversions(out)
