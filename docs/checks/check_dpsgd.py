#!/usr/bin/env python3
"""Recomputes what DP-SGD claims. From `coalmine results RUN --format json` on standard input:

  account     the epsilons of the cells, from the theorems
  exposures   whether the exposures of canaries that were inserted so often differ from those
              of canaries that were not inserted: Mann-Whitney's test, two-sided

And from a directory with what `coalmine data export RUN CELL` wrote, the experiment's file as
JSON (`coalmine show RUN CELL --json`) as experiment.json, and the models after steps 0, 1, 2,
... as model0.safetensors, ..., of a small model trained by plain SGD with steps_per_task: 1
and Poisson batches:

  steps DIR   each model from the one before: every record's gradient by central differences,
              clipped; their sum over the expected size of the batch; and the noise. With NumPy
              or PyTorch

docs/privacy.md and docs/method.md have the definitions.
"""
import json
import math
import sys


def simpson(f, low, high, n=4000):
    """The integral of f, and f is a logarithm: log of the integral of exp(f)."""
    step = (high - low) / n
    values = [f(low + i * step) + math.log(1 if i in (0, n) else 4 if i % 2 else 2) for i in range(n + 1)]
    top = max(values)
    return top + math.log(sum(math.exp(v - top) for v in values) * step / 3)


def poisson_rdp(rate, sigma, order):
    """Mironov, Talwar and Zhang 2019, section 3: the mean of (mixture/normal)^order under
    the normal distribution, its logarithm over order - 1."""
    def integrand(x):
        shifted = (2 * x - 1) / (2 * sigma * sigma)
        low, high = sorted([math.log1p(-rate), math.log(rate) + shifted])
        ratio = high + math.log1p(math.exp(low - high))
        return order * ratio - x * x / (2 * sigma * sigma) - math.log(sigma * math.sqrt(2 * math.pi))
    return simpson(integrand, -12 * sigma, order + 12 * sigma) / (order - 1)


def epsilon(p):
    """The best conversion over orders: classic is Mironov 2017, Proposition 3; improved is
    Canonne, Kamath and Steinke 2020, Proposition 12."""
    best = math.inf
    for order in [1.01] + [1 + x / 10 for x in range(1, 100)] + list(range(11, 65)):
        if p["sampling"] == "poisson":
            rdp = p["rounds"] * poisson_rdp(p["sampling_rate"], p["noise_multiplier"], order)
        else:  # shuffled: replacing a record moves the sum of a batch by 2C, once an epoch
            epochs = -(-p["rounds"] // (p["population"] // p["cohort"]))
            rdp = epochs * order / (2 * (p["noise_multiplier"] / 2) ** 2)
        bound = rdp - math.log(p["delta"]) / (order - 1)
        if p["conversion"] == "improved":
            bound = rdp + math.log1p(-1 / order) - math.log(p["delta"] * order) / (order - 1)
        best = min(best, bound)
    return max(0, best)


def account(cells):
    for c in cells:
        p = c.get("privacy")
        if p and p["sampling"] in ("poisson", "shuffled") and p["noise_multiplier"] > 0:
            mine, its = epsilon(p), p["epsilon_renyi"]
            print(f"{c['label']}: {p['rounds']} steps, epsilon {mine:.9g} here, {its:.9g} there, apart by {abs(mine / its - 1):.1e}")


def mann_whitney(x, y):
    """The two-sided p-value, by the normal approximation with ties."""
    pooled, n, m = sorted(x + y), len(x), len(y)
    rank, ties, i = {}, 0, 0
    while i < len(pooled):
        j = i
        while j < len(pooled) and pooled[j] == pooled[i]:
            j += 1
        rank[pooled[i]], ties, i = (i + j + 1) / 2, ties + (j - i) ** 3 - (j - i), j
    u = sum(rank[v] for v in x) - n * (n + 1) / 2
    total = n + m
    deviation = math.sqrt(n * m / 12 * (total + 1 - ties / (total * (total - 1))))
    return math.erfc(abs(u - n * m / 2) / deviation / math.sqrt(2))


def exposures(cells):
    for c in cells:
        a = c["audit"]
        out = [one["enumerated_exposure"] for one in a["controls"] + a["never_inserted"]]
        for times in sorted({one["insertions"] for one in a["canaries"]}):
            seen = [one["enumerated_exposure"] for one in a["canaries"] if one["insertions"] == times]
            if len(seen) < 5:
                continue
            print(f"{c['label']}: {len(seen)} canaries inserted {times} times have a mean exposure of {sum(seen) / len(seen):.2f} bits"
                  f" (largest {max(seen):.2f}), {len(out)} that were not {sum(out) / len(out):.2f}; p = {mann_whitney(seen, out):.2g}")


def gradient(model, sentence):
    """Of the mean loss per target, by name of the tensor: central differences in float64."""
    def loss():
        states, total = model.start(1), 0.0
        for token, target in zip(sentence, sentence[1:]):
            states = model.step(states, [token])
            total -= float(model.log_probs(states)[0][target])
        return total / (len(sentence) - 1)

    slopes, h = {}, 1e-5
    for name, tensor in model.tensors.items():
        flat = tensor.reshape(-1)  # shares its memory
        slopes[name] = []
        for i in range(len(flat)):
            kept = float(flat[i])
            flat[i] = kept + h
            above = loss()
            flat[i] = kept - h
            slopes[name].append((above - loss()) / (2 * h))
            flat[i] = kept
    return slopes


def steps(directory):
    import os
    from check_data import read_tensors, rows
    from check_export import Model
    from check_streams import cohort, stream
    e = json.load(open(f"{directory}/experiment.json"))["cells"][0]["experiment"]
    records, t = [row["tokens"] for row in rows(directory, "population")], e["training"]
    clip, z, size, rate = t["privacy"]["clip"], t["privacy"].get("noise_multiplier", 0), t["cohort"], t["client"]["learning_rate"]
    number, worst = 1, 0.0
    while os.path.exists(f"{directory}/model{number}.safetensors"):
        model = Model(f"{directory}/model{number - 1}.safetensors")
        mean, clipped = {name: [0.0] * math.prod(tensor.shape) for name, tensor in model.tensors.items()}, 0
        chosen = cohort(stream(e["seed"], "cohort", number), len(records), size, "poisson")
        for i in chosen:
            slopes = gradient(model, records[i])
            norm = math.sqrt(sum(v * v for tensor in slopes.values() for v in tensor))
            clipped += norm > clip
            for name, tensor in slopes.items():
                mean[name] = [m + v * min(1, clip / norm) / size for m, v in zip(mean[name], tensor)]
        noise, after = stream(e["seed"], "noise", number), read_tensors(f"{directory}/model{number}.safetensors")
        largest = apart = 0.0
        for (name, _, values), (_, _, before) in zip(after, read_tensors(f"{directory}/model{number - 1}.safetensors")):
            for m, a, b in zip(mean[name], values, before):
                change = -rate * (m + z * clip / size * noise.normal() if z else m)
                largest, apart = max(largest, abs(change)), max(apart, abs(a - b - change))
        print(f"{directory}: step {number}, {len(chosen)} records, {clipped} clipped: changes up to {largest:.3g} apart by {apart:.1e} at most")
        number, worst = number + 1, max(worst, apart / largest if largest else 0)
    return number > 1 and worst < 1e-4


if __name__ == "__main__":
    if sys.argv[1:2] == ["steps"] and len(sys.argv) == 3:
        sys.exit(0 if steps(sys.argv[2]) else 1)
    if sys.argv[1:] not in (["account"], ["exposures"]):
        sys.exit(__doc__)
    {"account": account, "exposures": exposures}[sys.argv[1]](json.load(sys.stdin)["cells"])
