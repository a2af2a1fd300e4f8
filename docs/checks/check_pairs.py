"""Runs an exported model of pairs, an encoder-decoder, outside of Coalmine: recomputes the
perplexity of the targets of the test part, and ranks every canary among the references
by scoring these one by one.

    coalmine export RUN CELL -o DIR/model.safetensors
    coalmine data export RUN CELL --only parts,canaries,references -o DIR
    coalmine results RUN --json > DIR/results.json
    python3 docs/checks/check_pairs.py DIR ...

It needs PyTorch or NumPy, computes in float64, and is written from docs/model.md and
docs/method.md.
"""
import json
import math
import sys

from check_export import BEGIN, FIRST_WORD, Model, agreement, xp

NEAR = 1e-4  # nats: what float32 may decide either way
BLOCK = 512  # pairs at a time


def rows(directory, table):
    return [json.loads(line) for line in open(f"{directory}/{table}.jsonl")]


def predictions(model, pairs):
    """For each pair a list of (target, loss, hit) after its separator."""
    out, groups = [None] * len(pairs), {}
    for i, pair in enumerate(pairs):
        groups.setdefault((pair.index(model.separator), len(pair)), []).append(i)
    for (source, length), members in groups.items():
        for first in range(0, len(members), BLOCK):
            block = members[first:first + BLOCK]
            for i, found in zip(block, predict(model, [pairs[i] for i in block], source, length)):
                out[i] = found
    return out


def predict(model, pairs, source, length):
    """Predictions of pairs of one length, each with its separator at the same place."""
    states, encoder = model.start(len(pairs)), model.encoder()
    for t in range(source):
        states = encoder.step(states, [pair[t] for pair in pairs])
    found = [[] for _ in pairs]
    for t in range(source, length - 1):
        states = model.step(states, [pair[t] for pair in pairs])
        log_probs = model.log_probs(states)
        targets = [pair[t + 1] for pair in pairs]
        losses = -log_probs[xp.arange(len(pairs)), targets]
        for i, (loss, best) in enumerate(zip(losses.tolist(), log_probs.argmax(axis=1).tolist())):
            found[i].append((targets[i], loss, best == targets[i]))
    return found


def given(model, format):
    """How many tokens of a canary stand before the first random one of its format."""
    symbols = list if model.vocabulary == FIRST_WORD + 256 else str.split  # of bytes or words
    texts = format.split("#")[0].split(" => ")
    return sum(len(symbols(text)) for text in texts) + len(texts) - 1  # and the separator


def costs(model, prefix, suffixes):
    """Log-perplexities after the prefix; of a source nothing is predicted."""
    pairs = [[BEGIN] + prefix + suffix for suffix in suffixes]
    scored = [len(pair) - max(len(prefix), pair.index(model.separator)) - 1 for pair in pairs]
    return [sum(loss for _, loss, _ in found[-n:]) for found, n in zip(predictions(model, pairs), scored)]


def perplexities(model, directory, theirs):
    test = [row["tokens"] for row in rows(directory, "parts") if row["part"] == "test"]
    every = [p for found in predictions(model, test) for p in found]
    ordinary = [p for p in every if p[0] >= FIRST_WORD]
    mean = lambda some: math.exp(sum(loss for _, loss, _ in some) / len(some))
    same = len(ordinary) == theirs["tokens"] and len(every) == theirs["all_targets"]["tokens"]
    hits = abs(sum(hit for _, _, hit in ordinary) - round(theirs["recall_at_1"] * theirs["tokens"]))
    compared = [(mean(ordinary), theirs["perplexity"]), (mean(every), theirs["all_targets"]["perplexity"])]
    return compared, len(ordinary), same and hits <= 1 + len(ordinary) // 10000


def check(directory):
    model = Model(f"{directory}/model.safetensors")
    cell = next(c for c in json.load(open(f"{directory}/results.json"))["cells"] if c["cell"] == model.metadata["cell"])
    compared, targets, right = perplexities(model, directory, cell["utility"])

    references, canaries = {}, {}
    for row in rows(directory, "references"):
        references.setdefault(row["format"], []).append(row["tokens"])
    for row in rows(directory, "canaries"):
        canaries[tuple(row["words"])] = (row["format"], row["tokens"])
    known, losses, off, wrong = {}, [], 0, 0
    audited = cell["audit"]["canaries"] + cell["audit"]["never_inserted"] + cell["audit"]["controls"]
    for canary in audited:
        form, tokens = canaries[tuple(canary["words"])]
        k = given(model, form)
        if form not in known:  # all canaries of a format have one prefix
            known[form] = costs(model, tokens[:k], references[form])
        limit, = costs(model, tokens[:k], [tokens[k:]])
        losses.append((limit, canary["log_perplexity"]))
        rank = 1 + sum(cost <= limit for cost in known[form])
        close = sum(abs(cost - limit) < NEAR for cost in known[form])
        wrong += canary.get("fitted_log_perplexity", canary["log_perplexity"]) != canary["log_perplexity"]
        off += canary["rank_exact"] and rank != canary["rank"]
        wrong += canary["rank_exact"] and abs(rank - canary["rank"]) > close
        wrong += not canary["rank_exact"] and abs(math.log2(rank / canary["rank"])) > 5 * canary["exposure_se"]
    print(f"{directory}: {cell['label']}: {targets} targets; relative differences: perplexity {agreement(compared):.1e}, log-perplexity of "
          f"{len(losses)} canaries {agreement(losses):.1e}; {off} have another rank among their references, {wrong} by more than rounding")
    return right and not wrong and agreement(compared) < 1e-5 and agreement(losses) < 1e-5


if __name__ == "__main__":
    failed = [d for d in sys.argv[1:] if not check(d)]
    sys.exit(f"not the same: {', '.join(failed)}" if failed else 0)
