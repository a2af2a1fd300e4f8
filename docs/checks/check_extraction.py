"""Recomputes what can be extracted from a cell's model: the most likely sequences after a
canary's prefix by a search of its own, what they and the canary cost, the probability that
a sample is the canary, how many samples that takes, and what greedy decoding gives.

    coalmine export RUN CELL -o DIR/model.safetensors
    coalmine data export RUN CELL --only canaries,vocabulary -o DIR
    coalmine results RUN --json > DIR/results.json
    coalmine show RUN CELL --json > DIR/experiment.json
    python3 docs/checks/check_extraction.py DIR ...

It needs PyTorch or NumPy, and is written from docs/method.md and docs/model.md. Its own
search pulls one node at a time, up to MOST of them.
"""
import heapq
import json
import math
import sys

from check_audit import after
from check_data import choices, forms, fraction, given, rows
from check_export import Model, agreement, log_perplexity

NEAR = 1e-4  # nats: what float32 may decide either way
MOST = 3000  # nodes of the search here


def best_sequence(model, prefix, among, most=MOST):
    """The cost and tokens of the most likely sequence, and the nodes pulled; None after at most that many."""
    queue, pulled, at = [(0.0, ())], 0, {(): after(model, prefix)}
    while pulled < most:
        cost, tokens = heapq.heappop(queue)
        if len(tokens) == len(among):
            return cost, list(tokens), pulled
        pulled += 1
        states = model.step(at[tokens[:-1]], [tokens[-1]]) if tokens else at[()]
        at[tokens] = states
        log_probs = model.log_probs(states)[0].tolist()
        for token in among[len(tokens)]:
            heapq.heappush(queue, (cost - log_probs[token], tokens + (token,)))
    return None


def sampled(model, prefix, rest, temperature, top_k):
    """ln of the probability that a sample after the prefix is the rest, and whether each of its tokens is the most probable."""
    states, total, greedy = after(model, prefix), 0.0, True
    for token in rest:
        log_probs = model.log_probs(states)[0].tolist()
        order = sorted(range(len(log_probs)), key=lambda t: (-log_probs[t], t))
        greedy = greedy and order[0] == token
        kept = order[:top_k] if top_k else order
        most = log_probs[kept[0]] / temperature
        norm = most + math.log(math.fsum(math.exp(log_probs[t] / temperature - most) for t in kept))
        total += log_probs[token] / temperature - norm if token in kept else -math.inf
        states = model.step(states, [token])
    return total, greedy


def queries(log_p, chance):
    """The least n with 1 - (1-p)^n >= chance."""
    if log_p == -math.inf:
        return None
    p = math.exp(log_p)
    n = math.log1p(-chance) / math.log1p(-p) if p < 1 else 1
    return max(1, math.ceil(n * (1 - 1e-14)))


def check_search(model, canary, tokens, among, token_of):
    """Pairs of our costs and theirs, what is wrong, and whether our search came to an end."""
    prefix, rest = tokens[:len(tokens) - len(among)], tokens[len(tokens) - len(among):]
    found = [([token_of[w] for w in r["words"]], r["log_perplexity"]) for r in canary["search_results"]]
    costs = [(log_perplexity(model, prefix, t), theirs) for t, theirs in found]
    costs.append((log_perplexity(model, prefix, rest), canary["search_canary_log_perplexity"]))
    wrong = int([cost for _, cost in found] != sorted(cost for _, cost in found))
    wrong += canary["search_extracted"] != (found[0][0] == rest)
    wrong += canary["search_sequences"] != math.prod(map(len, among))
    mine = best_sequence(model, prefix, among)
    if mine and canary["search_certain"]:
        wrong += abs(mine[0] - found[0][1]) > NEAR
        wrong += canary["search_expanded"] < 0.99 * mine[2]  # none can prove it with fewer, but for ties
    return costs, wrong, bool(mine)


def check_sampling(model, canary, tokens, audit):
    """Pairs of our logarithms of probabilities and theirs, and what is wrong."""
    pairs, wrong = [], 0
    chance = float(fraction(str(audit["chance"])))
    for after_prefix in canary["probabilistic_prefixes"]:
        k, theirs = after_prefix["prefix"], after_prefix["log_probability"]
        mine, greedy = sampled(model, tokens[:k], tokens[k:], audit["temperature"], audit.get("top_k"))
        wrong += greedy != after_prefix["greedy"] or (theirs is None) != (mine == -math.inf)
        if theirs is not None and mine > -math.inf:
            pairs.append((mine, theirs))
            n, given = queries(theirs, chance), after_prefix["queries"]
            wrong += abs(n - given) > 1e-12 * given
    return pairs, wrong


def space_of(spaces, tokens):
    """The form of a canary, and what may stand at each of its places."""
    return next((form, among) for form, among in spaces if len(among) == len(tokens) and all(t in a for t, a in zip(tokens, among)))


def check(directory):
    model = Model(f"{directory}/model.safetensors")
    cell = next(c for c in json.load(open(f"{directory}/results.json"))["cells"] if c["cell"] == model.metadata["cell"])
    e = json.load(open(f"{directory}/experiment.json"))["cells"][0]["experiment"]
    search, sampling = e["audit"]["search"], e["audit"]["probabilistic_extraction"]
    names = [row["text"] for row in rows(directory, "vocabulary")]
    token_of = {name: token for token, name in enumerate(names)}
    tokens = {tuple(row["words"]): row["tokens"] for row in rows(directory, "canaries")}
    spaces = [(form, choices(form, names)) for form in forms(e)]
    audited = cell["audit"]["canaries"] + cell["audit"]["never_inserted"] + cell["audit"]["controls"]
    costs, probabilities, wrong, proved = [], [], 0, 0
    for canary in audited:
        t = tokens[tuple(canary["words"])]
        form, among = space_of(spaces, t)
        pairs, mistakes, ended = check_search(model, canary, t, among[given(form, search["prefix"]):], token_of)
        costs, wrong, proved = costs + pairs, wrong + mistakes, proved + ended
        pairs, mistakes = check_sampling(model, canary, t, sampling)
        probabilities, wrong = probabilities + pairs, wrong + mistakes
    off, drawn = agreement(costs), agreement(probabilities)
    print(f"{directory}: {cell['label']}: {len(costs)} log-perplexities to a relative {off:.1e}, {len(probabilities)} probabilities of samples "
          f"to {drawn:.1e} of their logarithm; of {len(audited)} searches {proved} were done again here; {wrong} disagree")
    return not wrong and off < 1e-5 and drawn < 1e-5


if __name__ == "__main__":
    failed = [d for d in sys.argv[1:] if not check(d)]
    sys.exit(f"not the same: {', '.join(failed)}" if failed else 0)
