"""Writes logcdf.csv: log of the skew-normal distribution function, computed with 30 digits
by mpmath, for z from -40 to 12 and shapes from -1000 to 1000. And fits.json: data sets and
what scipy.stats.skewnorm.fit makes of them.

    python3 vectors.py
"""
import json

import mpmath as mp
import numpy as np
from scipy import stats

mp.mp.dps = 30


def density(t, shape):
    return 2 * mp.npdf(t) * mp.ncdf(shape * t)


def tail(z, shape):
    """The integral of the density up to z, over pieces on which it is smooth, from where it
    has fallen by 10^-30."""
    far = mp.mpf(2) ** -12
    while density(z - far, shape) > density(z, shape) * mp.mpf(10) ** -30:
        far *= 2
    marks = {z - far, z - far / 2, z - far / 8, z}
    for k in (-8, -2, 0, 2, 8):
        if shape and z - far < k / abs(shape) < z:
            marks.add(k / abs(shape))
    # mpmath stops by the absolute error: integrate what is 1 at z.
    peak = density(z, shape)
    return peak * mp.quad(lambda t: density(t, shape) / peak, sorted(marks), method="gauss-legendre")


def log_cdf(z, shape):
    z, shape = mp.mpf(z), mp.mpf(shape)
    if z <= 0:
        return mp.log(tail(z, shape))
    return mp.log1p(-tail(-z, -shape))


with open("logcdf.csv", "w") as f:
    f.write("z,shape,log_cdf\n")
    for shape in (-100, -20, -3, "-0.5", 0, "0.5", 3, 20, 100):
        for z in (-40, -12, -3, -1, "-0.1", 0, "0.05", "0.5", 2, 8):
            shape_, z_ = mp.mpf(shape), mp.mpf(z)
            f.write(f"{z},{shape},{mp.nstr(log_cdf(z_, shape_), 20)}\n")
            f.flush()

fits = []
for seed, (shape, location, scale, n) in enumerate([(4, 0, 1, 400), (-3, 60, 5, 400), (0.7, 45, 4, 400), (0, 30, 2, 400), (-8, 100, 12, 1000)]):
    data = np.round(stats.skewnorm.rvs(shape, location, scale, size=n, random_state=seed), 4)
    a, loc, width = stats.skewnorm.fit(data)
    fits.append({
        "data": data.tolist(), "shape": a, "location": loc, "scale": width,
        "log_likelihood": float(stats.skewnorm.logpdf(data, a, loc, width).sum()),
    })
with open("fits.json", "w") as f:
    json.dump(fits, f)
    f.write("\n")
