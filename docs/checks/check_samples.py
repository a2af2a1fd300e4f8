"""Draws the samples of a model again, and computes their statistics and the list of the most
probable words, outside of Coalmine.

    coalmine export RUN CELL -o DIR/model.safetensors
    coalmine results RUN --json > DIR/results.json
    coalmine show RUN CELL --json > DIR/experiment.json
    python3 docs/checks/check_samples.py DIR ...

It needs NumPy, with or without PyTorch, computes in float64, and is written from docs/method.md,
docs/random-streams.md and docs/model.md. The list is found by looking at every beginning that is
as probable as its last word: no word that is left out can be more probable.
"""
import json
import math
import sys

import numpy

from check_export import BEGIN, FIRST_WORD, Model, agreement
from check_streams import stream

UNKNOWN, END = 1, 3
TOGETHER = 500


def rows(model, states):
    return numpy.asarray(model.log_probs(states))


def only(states, places):
    return [(memory[places], output[places]) for memory, output in states]


def draw(log_probs, u, audit):
    """The first token at which the probabilities, added up, exceed u."""
    order = numpy.arange(len(log_probs))
    if audit.get("top_k", 0):
        order = numpy.argsort(-log_probs, kind="stable")[:audit["top_k"]]
    sums = numpy.cumsum(numpy.exp(log_probs[order] / audit["temperature"]))
    return int(order[min(numpy.searchsorted(sums, u * sums[-1], side="right"), len(order) - 1)])


def some_samples(model, audit, seed, numbers):
    """The tokens and the log probability of the samples of these numbers."""
    streams = {i: stream(seed, "samples", i) for i in numbers}
    tokens, total = {i: [] for i in numbers}, dict.fromkeys(numbers, 0.0)
    going, states = list(numbers), model.step(model.start(len(numbers)), [BEGIN] * len(numbers))
    for _ in range(audit["length"]):
        for i, log_probs in zip(going, rows(model, states)):
            token = draw(log_probs, streams[i].float64(), audit)
            tokens[i].append(token)
            total[i] += log_probs[token]
        places = [k for k, i in enumerate(going) if tokens[i][-1] != END]
        going = [going[k] for k in places]
        if not going:
            break
        states = model.step(only(states, places), [tokens[i][-1] for i in going])
    return [(tokens[i], total[i]) for i in numbers]


def words(sample):
    return sample[:-1] if sample[-1] == END else sample


def text(tokens, vocabulary, bytewise):
    if not bytewise:
        return " ".join(vocabulary[t] for t in tokens)
    try:
        plain = bytes(t - FIRST_WORD for t in tokens).decode()
        if not any(ord(c) < 32 or 127 <= ord(c) < 160 for c in plain):
            return plain
    except ValueError:
        pass
    return "".join(vocabulary[t] for t in tokens)


def tail(k, n, p):
    """P(X >= k) of n trials of probability p."""
    if k == 0:
        return 1.0
    log = lambda i: math.lgamma(n + 1) - math.lgamma(i + 1) - math.lgamma(n - i + 1) + i * math.log(p) + (n - i) * math.log1p(-p)
    return math.fsum(math.exp(log(i)) for i in range(k, n + 1))


def interval(share):
    """The differences of the interval's tails from 2.5%."""
    k, n = share["count"], share["of"]
    low = tail(k, n, share["low"]) if k else 0.025
    high = 1 - tail(k + 1, n, share["high"]) if k < n else 0.025
    return [(low / 0.025, 1), (high / 0.025, 1)]


def of_words(samples, seed, theirs):
    """Pairs of counts, ours and theirs, and of probabilities, for a model of words."""
    found, probabilities = [], []
    for position, share in enumerate(theirs["positions"]):
        there = [words(s)[position] for s, _ in samples if len(words(s)) > position]
        found += [(there.count(UNKNOWN), share["count"]), (len(there), share["of"])]
        probabilities += interval(share)
    every = [t for s, _ in samples for t in words(s)]
    found += [(every.count(UNKNOWN), theirs["all"]["count"]), (len(every), theirs["all"]["of"])]
    rng, first, other = stream(seed, "sample positions"), 0, 0
    for s, _ in samples:
        if len(words(s)) > 1:
            compared = words(s)[1 + rng.below(len(words(s)) - 1)]
            first += s[0] == UNKNOWN != compared
            other += s[0] != UNKNOWN == compared
    found += [(first, theirs["first"]["first_only"]), (other, theirs["first"]["other_only"])]
    probabilities.append((tail(first, first + other, 0.5), theirs["first"]["p"]))
    return found, probabilities


def most_probable(model, length, least):
    """All sequences that end within the length and are at least as probable."""
    found = []
    beginnings, costs, states = [[]], numpy.zeros(1), model.step(model.start(1), [BEGIN])
    for used in range(1, length + 1):
        log_probs = numpy.concatenate([rows(model, only(states, slice(i, i + TOGETHER))) for i in range(0, len(beginnings), TOGETHER)])
        sums = costs[:, None] + log_probs
        if used > 1:
            found += [(sums[i, END], beginnings[i] + [END]) for i in range(len(beginnings)) if sums[i, END] >= least]
        sums[:, [0, BEGIN, END]] = -numpy.inf
        parents, tokens = numpy.nonzero(sums >= least)
        if used == length or not len(parents):
            break
        beginnings = [beginnings[p] + [int(t)] for p, t in zip(parents, tokens)]
        costs, states = sums[parents, tokens], model.step(only(states, parents.tolist()), tokens.tolist())
    return sorted(found, key=lambda f: (-f[0], f[1]))


def check(directory):
    model = Model(f"{directory}/model.safetensors")
    vocabulary = json.loads(model.metadata["vocabulary"])
    cell = next(c for c in json.load(open(f"{directory}/results.json"))["cells"] if c["cell"] == model.metadata["cell"])
    seed = json.load(open(f"{directory}/experiment.json"))["cells"][0]["experiment"]["seed"]
    audit = cell["audit"]["samples"]
    bytewise = "spaces" in audit
    samples = []
    for first in range(0, audit["samples"], TOGETHER):
        samples += some_samples(model, audit, seed, range(first, min(first + TOGETHER, audit["samples"])))

    shown = [(text(words(s), vocabulary, bytewise), log_p, s[-1] != END) for s, log_p in samples[:len(audit["shown"])]]
    same = [s[0] for s in shown] == [t["text"] for t in audit["shown"]] and [s[2] for s in shown] == [t.get("cut", False) for t in audit["shown"]]
    log_ps = [(s[1], t["log_probability"]) for s, t in zip(shown, audit["shown"])]
    whole = {tuple(s): log_p for s, log_p in samples if s[-1] == END and len(s) > 1 and not {0, BEGIN} & set(s)}
    counts = [(sum(s[-1] != END for s, _ in samples), audit["cut"]), (len(whole), audit["distinct"])]
    listed = sorted(whole.items(), key=lambda item: (-item[1], item[0]))[:len(audit["most_probable"])]
    log_ps += [(log_p, t["log_probability"]) for (_, log_p), t in zip(listed, audit["most_probable"])]
    drawn = [list(s) for s, _ in samples]
    counts += [(drawn.count(list(s)), t["drawn"]) for (s, _), t in zip(listed, audit["most_probable"])]

    probabilities, certain = [], 0
    if bytewise:
        ended = [s for s, _ in samples if s[-1] == END]
        spaces = audit["spaces"]["samples"]
        counts += [(sum(FIRST_WORD + 32 in s for s in ended), spaces["count"]), (len(ended), spaces["of"])]
        probabilities += interval(spaces)
    else:
        more, probabilities = of_words(samples, seed, audit["unknown"])
        counts += more
        row = rows(model, model.step(model.start(1), [BEGIN]))[0]
        exact = math.exp(row[UNKNOWN]) / -math.expm1(row[END])
        log_ps.append((math.log(exact), math.log(audit["unknown"]["first_probability"])))
    if audit.get("search", {}).get("certain", 0):
        certain = audit["search"]["certain"]
        theirs = audit["search"]["words"][:certain]
        found = most_probable(model, audit["length"], theirs[-1]["log_probability"] - 1e-6)[:certain]
        log_ps += [(log_p, t["log_probability"]) for (log_p, _), t in zip(found, theirs)]
        # Two words that are equally probable but for rounding may be listed either way.
        same &= sorted(text(words(s), vocabulary, bytewise) for _, s in found) == sorted(t["text"] for t in theirs)
    # A u that falls between a sum in float64 and that in float32 draws a neighbour.
    allowed = math.ceil(1e-7 * model.vocabulary * sum(len(s) for s, _ in samples))
    wrong = max(abs(a - b) for a, b in counts)
    print(f"{directory}: {cell['label']}: {len(samples)} samples drawn again, {len(shown)} compared as text, {certain} most probable of all; "
          f"{len(counts)} counts differ by at most {wrong}, of {allowed} by rounding; relative differences: log probabilities {agreement(log_ps):.1e}, "
          f"intervals and tests {agreement(probabilities):.1e}")
    return same and wrong <= allowed and agreement(log_ps) < 1e-5 and agreement(probabilities) < 1e-6


if __name__ == "__main__":
    failed = [d for d in sys.argv[1:] if not check(d)]
    sys.exit(f"not the same: {', '.join(failed)}" if failed else 0)
