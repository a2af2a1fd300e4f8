"""Writes reference.csv: Rényi divergences from the published formulas, in
arithmetic of up to 1,600 digits, by mpmath 1.3. Columns: mechanism, sampling
rate, sigma, order, divergence of one round. Run it as

    python3 reference.py > reference.csv
"""

from mpmath import mp, mpf, exp, expm1, log, pi, quad, sqrt

RATES = ["1e-7", "1e-4", "0.0127", "0.3", "0.99"]
SIGMAS = ["0.005", "0.01", "0.1", "0.3", "0.5", "1", "2", "9.5", "100"]
WHOLE = [2, 3, 4, 9, 64, 257, 1024]
FRACTIONAL = ["1.01", "1.5", "2.3", "10.9"]
FRACTIONAL_RATES = ["1e-7", "0.0127", "0.99"]


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


def fixed_size(q, sigma, order, moments):
    total, choose = mpf(1), order
    for i in range(2, order + 1):
        choose = choose * (order - i + 1) // i
        if i == 2:
            bound = min(4 * expm1(1 / sigma**2), 2 * growth(sigma, 2))
        else:
            low, high = 2 * (i // 2), 2 * ((i + 1) // 2)
            bound = min(4 * sqrt(moments[low] * moments[high]), 2 * growth(sigma, i))
        total += q**i * choose * bound
    return min(log(total) / (order - 1), order / (2 * sigma**2))


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


def main():
    mp.dps = 40
    print("mechanism,rate,sigma,order,divergence")
    for s in SIGMAS:
        sigma = mpf(s)
        moments = central_moments(sigma, 1024)
        for r in RATES:
            q = mpf(r)
            for a in WHOLE:
                print(f"fixed-size,{r},{s},{a},{mp.nstr(fixed_size(q, sigma, a, moments), 17)}")
                print(f"poisson,{r},{s},{a},{mp.nstr(poisson_whole(q, sigma, a), 17)}")
            for a in FRACTIONAL if r in FRACTIONAL_RATES else []:
                print(f"poisson,{r},{s},{a},{mp.nstr(poisson_fractional(q, sigma, mpf(a)), 17)}", flush=True)


main()
