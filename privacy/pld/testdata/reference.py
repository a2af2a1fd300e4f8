"""Recomputes replacing.csv: epsilon of the pair that dominates samples of fixed size.

    python3 reference.py < replacing.csv

It needs gmpy2, works in numbers of 170 bits, and is written from the comment of package pld alone: the integral
over the characteristic function of the summed losses along a line, without any smoothing, its
step fine enough that Chernoff's bound on what is folded in is below e^-34 of delta. A recipe whose
integrand does not fall within the work allowed has "none"; these are not in the file, and grid.csv has them. The epsilon that stands there is
where the search starts.
"""
import csv
import sys

import gmpy2
from gmpy2 import mpfr, mpc, exp, log, erfc, sqrt
gmpy2.get_context().precision = 170
PI = gmpy2.const_pi()
N = 30
def legendre(n):
    xs, ws = [], []
    for i in range(n):
        x = gmpy2.cos(PI*(i+mpfr(3)/4)/(n+mpfr(1)/2))
        for _ in range(12):
            p0, p1 = mpfr(1), x
            for k in range(2, n+1): p0, p1 = p1, ((2*k-1)*x*p1-(k-1)*p0)/k
            d = n*(x*p1-p0)/(x*x-1); x = x - p1/d
        xs.append(x); ws.append(2/((1-x*x)*d*d))
    return xs, ws
XS, WS = legendre(N)
def Lof(q, r): return gmpy2.log1p(q*gmpy2.expm1(r))
class Pair:
    def __init__(s, q, sig, T):
        s.q, s.sig, s.T = mpfr(q), mpfr(sig), T
        s.atom = (1-s.q)*(1-erfc(1/(2*s.sig)/sqrt(mpfr(2))))
    def nodes(s, t, ymax):
        """(loss, a, b): M(t+iy) = atom + sum a e^{iy loss} + b e^{-iy loss}."""
        out, r = [], mpfr(0)
        turn = log((1-s.q)/s.q)
        norm = s.sig/sqrt(2*PI)
        def mass(r):  # log of the integrand, upper part
            g = s.sig*r + 1/(2*s.sig)
            return -g*g/2 + (t+1)*Lof(s.q, r)
        peak, rr = mass(mpfr(0)), mpfr(0)
        step = 1/s.sig/8
        while True:
            rr += step
            m = mass(rr)
            if m > peak: peak = m
            if m < max(peak, -(1/(2*s.sig))**2/2) - 95 or (m < -95 and rr*s.sig > 14): end = rr; break
        while r < end:
            w = 1/s.sig
            for _ in range(60):
                slope = s.q*exp(r+w)/(1-s.q+s.q*exp(r+w)) if r+w < 600 else mpfr(1)
                near = abs(r+w/2-turn) < w/2+3
                if ymax*slope*w <= 20 and (not near or w <= 3): break
                w *= mpfr('0.7')
            c, h = r+w/2, w/2
            for x, wt in zip(XS, WS):
                rn = c+h*x; g = s.sig*rn+1/(2*s.sig); L = Lof(s.q, rn)
                d = h*wt*norm*exp(-g*g/2)
                out.append((L, d*exp((t+1)*L), d*exp(-t*L)))
            r += w
        return out
def K(p, t):
    nd = p.nodes(t, mpfr(0)); m = p.atom; m1 = m2 = mpfr(0)
    for L, a, b in nd: m += a+b; m1 += L*(a-b); m2 += L*L*(a+b)
    return p.T*log(m), p.T*m1/m, p.T*(m2/m-(m1/m)**2)
def tail(x): return erfc(x/sqrt(mpfr(2)))/2
def gauss(sig, e): return tail(-(1/(2*sig)-e*sig))-exp(e)*tail(1/(2*sig)+e*sig)
def once(p, e):  # one round: q x the Gaussian delta at log(1+(exp(e)-1)/q)
    return p.q*gauss(p.sig, gmpy2.log1p(gmpy2.expm1(e)/p.q))
class Inverse:
    def __init__(s, p, eps, delta, cap=6000, work=8e6):
        lo, hi = mpfr('1e-6'), mpfr(1)
        while K(p, hi)[1] < eps and hi < 1e7: lo, hi = hi, hi*2
        for _ in range(7):
            mid = sqrt(lo*hi)
            if K(p, mid)[1] < eps: lo = mid
            else: hi = mid
        s.t = t = hi; s.p = p
        k, mean, var = K(p, t)
        ld = -log(mpfr(delta))
        W, best = (ld+34)/t, mpfr('inf')
        for f in (mpfr('1.3'), mpfr('1.7'), mpfr(2)):   # aliases above, by Chernoff at a larger tilt
            k2 = K(p, t*f)[0]
            W2 = (k2-t*f*eps+ld+34)/(t*(f-1))
            best = min(best, W2)
        W = max(W, best)
        s.h = 2*PI/W
        need = sqrt(2*75/var)
        s.ok = False
        for stretch in (mpfr('1.2'), mpfr(3), mpfr(8)):
            n = int(need*stretch/s.h)+2
            if n > cap: n = cap
            nd = p.nodes(t, n*s.h)
            if n*len(nd) > work: return
            s.logs = []
            us = [mpc(1)]*len(nd); ro = [mpc(gmpy2.cos(s.h*L), gmpy2.sin(s.h*L)) for L, _, _ in nd]
            ab = [a+b for _, a, b in nd]; am = [a-b for _, a, b in nd]
            for j in range(n):
                re = p.atom; im = mpfr(0)
                for u, x, y in zip(us, ab, am): re += x*u.real; im += y*u.imag
                M = mpc(re, im)
                s.logs.append(p.T*log(M))
                us = [u*r for u, r in zip(us, ro)]
                y = s.h*j
                if j > 10 and s.logs[-1].real-t*eps-2*log(y+1)+log(s.h) < log(mpfr(delta))-28 and s.logs[-2].real < s.logs[0].real-20: s.ok = True; break
            if s.ok or n >= cap: return
    def delta(s, eps):
        tot = mpfr(0)
        for j, l in enumerate(s.logs):
            z = mpc(s.t, s.h*j)
            v = (exp(l-z*eps)/(z*(z+1))).real
            tot += v/2 if j == 0 else v
        return tot*s.h/PI


def epsilon(rate, sigma, rounds, delta, guess):
    """The root of log delta(epsilon), by secants."""
    pair = Pair(rate, sigma, rounds)
    d = mpfr(delta)
    if rounds == 1:
        f = lambda e: once(pair, e)
    else:
        inverse = Inverse(pair, mpfr(guess), delta)
        if not inverse.ok:
            return "none"
        f = inverse.delta
    a, b = mpfr(guess), mpfr(guess) * (1 - mpfr('1e-4'))
    fa = log(f(a) / d)
    for _ in range(8):
        fb = log(f(b) / d)
        if fb == fa:
            break
        a, fa, b = b, fb, b - fb * (b - a) / (fb - fa)
        if abs(b - a) < abs(b) * mpfr('1e-14'):
            break
    return repr(float(b))


print("rate,sigma,rounds,delta,epsilon")
for row in csv.DictReader(sys.stdin):
    rate, sigma, rounds, delta = row["rate"], row["sigma"], int(row["rounds"]), row["delta"]
    print(rate, sigma, rounds, delta, epsilon(float(rate), float(sigma), rounds, float(delta), row["epsilon"]), sep=",", flush=True)
