"""Recomputes the audit of a cell: the rank of every canary among the references by
scoring these one by one, its exposure, and what beam search finds in its place.

    coalmine export RUN CELL -o DIR/model.safetensors
    coalmine data export RUN CELL --only vocabulary,canaries,references -o DIR
    coalmine results RUN --json > DIR/results.json
    coalmine show RUN CELL --json > DIR/experiment.json
    python3 docs/checks/check_audit.py DIR ...

A reference is left as soon as its words alone cost more than the whole canary,
since every further word adds to that. It needs PyTorch or NumPy, and is written from
docs/method.md and docs/model.md.
"""
import json
import math
import sys

from check_data import choices, forms, given, rows
from check_export import BEGIN, Model, log_perplexity, xp

PILOTS, ENOUGH = (20_000, 200_000), 200
NEAR = 1e-4  # nats: what float32 may decide either way
BLOCK = 256  # references at a time


def after(model, prefix):
    states = model.start(1)
    for token in [BEGIN] + prefix:
        states = model.step(states, [token])
    return states


def costs(model, prefix, references, limit):
    """The log-perplexity of each reference, or what of it is above the limit."""
    start, out = after(model, prefix), []
    for first in range(0, len(references), BLOCK):
        block = references[first:first + BLOCK]
        cost, alive = xp.zeros(len(block), dtype=xp.float64), list(range(len(block)))
        states, among = start, [0] * len(block)  # the state of each, shared at first
        for t in range(len(block[0])):
            cost[alive] -= model.log_probs(states)[among, [block[i][t] for i in alive]]
            kept = [at for at, i in enumerate(alive) if cost[i] <= limit + NEAR]
            alive, among = [alive[at] for at in kept], [among[at] for at in kept]
            if not alive or t + 1 == len(block[0]):
                break
            states = [(memory[among], output[among]) for memory, output in states]
            states, among = model.step(states, [block[i][t] for i in alive]), list(range(len(alive)))
        out += cost.tolist()
    return out


def rank(model, prefix, references, limit, exact):
    """The rank as docs/method.md defines it, whether it was counted, and how far rounding may move it."""
    found = []
    for size in [pilot for pilot in PILOTS if pilot < len(references) and not exact] + [len(references)]:
        found += costs(model, prefix, references[len(found):size], limit)
        hits, close = sum(cost <= limit for cost in found), sum(abs(cost - limit) < NEAR for cost in found)
        if size == len(references):
            return 1 + hits, True, close
        if hits >= ENOUGH:
            share = len(references) / size
            return 1 + math.floor(hits * share + 0.5), False, math.ceil(close * share)


def beam_search(model, prefix, among, width):
    """The best continuation of the prefix that a beam of this width finds."""
    beam, states = [(0.0, [])], after(model, prefix)
    for position, tokens in enumerate(among):
        log_probs = model.log_probs(states).tolist()
        longer = [(cost - log_probs[parent][token], words + [token], parent)
                  for parent, (cost, words) in enumerate(beam) for token in tokens]
        longer = sorted(longer)[:width]
        states = [(memory[[p for _, _, p in longer]], output[[p for _, _, p in longer]]) for memory, output in states]
        beam = [(cost, words) for cost, words, _ in longer]
        states = model.step(states, [words[-1] for _, words in beam])
    return beam[0][1]


def check(directory):
    model = Model(f"{directory}/model.safetensors")
    cell = next(c for c in json.load(open(f"{directory}/results.json"))["cells"] if c["cell"] == model.metadata["cell"])
    e = json.load(open(f"{directory}/experiment.json"))["cells"][0]["experiment"]
    sampling, beam = e["audit"]["random_sampling"], e["audit"]["beam_search"]
    names, references, canaries = [row["text"] for row in rows(directory, "vocabulary")], {}, {}
    for row in rows(directory, "references"):
        references.setdefault(row["format"], []).append(row["tokens"])
    for row in rows(directory, "canaries"):
        canaries[tuple(row["words"])] = (row["format"], row["tokens"])
    form_of = dict(zip(dict.fromkeys(name for name, _ in canaries.values()), forms(e)))  # both in the order of the experiment
    audited = cell["audit"]["canaries"] + cell["audit"]["never_inserted"] + cell["audit"]["controls"]
    wrong, off, near, worst = 0, 0, 0, 0.0
    for canary in audited:
        name, t = canaries[tuple(canary["words"])]
        form = form_of[name]
        k, b, among = given(form, sampling["prefix"]), given(form, beam["prefix"]), choices(form, names)
        limit = log_perplexity(model, t[:k], t[k:])
        mine, exact, margin = rank(model, t[:k], references[name], limit, sampling["exact"])
        best = beam_search(model, t[:b], among[b:], beam["width"])
        theirs, found = canary["rank"], best == t[b:]
        exposure = math.log2(len(references[name])) - math.log2(theirs)
        off, near, worst = off + (mine != theirs), near + (margin > 0), max(worst, abs(exposure - canary["exposure"]))
        wrong += abs(mine - theirs) > margin or exact != canary["rank_exact"]
        wrong += found != canary["beam_found"] or (theirs == 1) != canary["memorized"]
    print(f"{directory}: {cell['label']}: of {len(audited)} canaries among {sampling['references']} references, {off} have another rank here "
          f"({near} have references within {NEAR} nats); exposures differ by {worst:.1e} bits; {wrong} disagree on a rank or a verdict")
    return not wrong and worst < 1e-9


if __name__ == "__main__":
    failed = [d for d in sys.argv[1:] if not check(d)]
    sys.exit(f"not the same: {', '.join(failed)}" if failed else 0)
