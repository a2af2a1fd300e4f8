"""Recomputes what audits by scores say of a model in PyTorch: of examples/external/gru-central and transformer.

    coalmine export RUN CELL -o DIR/model.pt
    coalmine data export RUN CELL --only vocabulary,parts,canaries,references -o DIR
    coalmine results RUN --json > DIR/results.json
    coalmine show RUN CELL --json > DIR/experiment.json
    PYTHONPATH=examples/external/EXAMPLE/trainer python3 docs/checks/check_external.py DIR ...

The weights alone are read by PyTorch, and those of the untrained model drawn by it. Networks are computed by NumPy in float64,
from the papers' equations; ranks, exposures, coins and the bound on epsilon follow as docs/method.md says. It needs PyTorch,
NumPy and SciPy.
"""
import json
import math
import sys

import numpy
import torch
from scipy import special

from check_data import rows
from check_one_run import right, theorem52

BEGIN, FIRST_WORD, BLOCK = 2, 4, 256
PREDICTED = 5000  # words of the test part, about
NEAR = 1e-4  # nats: what float32 may decide either way


class GRU:
    """Cho et al. 2014, with the reset gate after the recurrent product, as cuDNN has it."""

    def __init__(self, shape, weights):
        self.w = weights

    def outputs(self, ids):
        w, x = self.w, self.w["embedding.weight"][ids]
        state, out = numpy.zeros((len(ids), w["cell.weight_hh_l0"].shape[1])), []
        for t in range(ids.shape[1]):
            i = x[:, t] @ w["cell.weight_ih_l0"].T + w["cell.bias_ih_l0"]
            h = state @ w["cell.weight_hh_l0"].T + w["cell.bias_hh_l0"]
            (ir, iz, inew), (hr, hz, hnew) = numpy.split(i, 3, 1), numpy.split(h, 3, 1)
            update = special.expit(iz + hz)
            state = (1 - update) * numpy.tanh(inew + special.expit(ir + hr) * hnew) + update * state
            out.append(state)
        return numpy.stack(out, 1) @ w["output.weight"].T + w["output.bias"]


class Transformer:
    """Vaswani et al. 2017, decoder only, normalized before each part."""

    def __init__(self, shape, weights):
        self.w, self.heads, self.layers = weights, shape["heads"], shape["layers"]

    def norm(self, x, name):
        x = x - x.mean(-1, keepdims=True)
        return x / numpy.sqrt((x * x).mean(-1, keepdims=True) + 1e-5) * self.w[name + ".weight"] + self.w[name + ".bias"]

    def linear(self, x, name):
        return x @ self.w[name + ".weight"].T + self.w[name + ".bias"]

    def attention(self, x, name):
        q, k, v = numpy.split(self.linear(x, name + ".inward"), 3, -1)
        size, mixed = x.shape[-1] // self.heads, []
        seen = numpy.tril(numpy.ones((x.shape[1], x.shape[1]), dtype=bool))
        for h in range(self.heads):
            of = slice(h * size, (h + 1) * size)
            scores = numpy.where(seen, q[..., of] @ k[..., of].swapaxes(1, 2) / math.sqrt(size), -numpy.inf)
            mixed.append(special.softmax(scores, -1) @ v[..., of])
        return self.linear(numpy.concatenate(mixed, -1), name + ".outward")

    def outputs(self, ids):
        x = self.w["words.weight"][ids] + self.w["places.weight"][:ids.shape[1]]
        for i in range(self.layers):
            block = f"blocks.{i}"
            x = x + self.attention(self.norm(x, block + ".first"), block + ".attention")
            inner = self.linear(self.norm(x, block + ".second"), block + ".feed.0")
            x = x + self.linear(inner * special.ndtr(inner), block + ".feed.2")  # GELU
        return self.norm(x, "last") @ self.w["words.weight"].T


class Model:
    def __init__(self, shape, state):
        weights = {name: tensor.double().numpy() for name, tensor in state.items()}
        self.network = (Transformer if "heads" in shape else GRU)(shape, weights)

    def log_probs(self, texts):
        """Log-probabilities of every token at each place of texts of one length, and which was there."""
        ids = numpy.array([[BEGIN] + text for text in texts])
        return special.log_softmax(self.network.outputs(ids[:, :-1]), -1), ids[:, 1:]

    def costs(self, prefix, suffixes):
        """The log-perplexity of each suffix after the prefix."""
        out = []
        for first in range(0, len(suffixes), BLOCK):
            log_probs, there = self.log_probs([prefix + s for s in suffixes[first:first + BLOCK]])
            each = numpy.take_along_axis(log_probs, there[..., None], -1)[..., 0]
            out += (-each[:, len(prefix):].sum(-1)).tolist()
        return out

    def utility(self, texts):
        """Perplexity and recall over ordinary words."""
        lengths, loss, hits, targets = {}, 0.0, 0, 0
        for text in texts:
            lengths.setdefault(len(text), []).append(text)
        for same in lengths.values():
            for first in range(0, len(same), 64):
                log_probs, there = self.log_probs(same[first:first + 64])
                ordinary = there >= FIRST_WORD
                loss -= numpy.take_along_axis(log_probs, there[..., None], -1)[..., 0][ordinary].sum()
                hits, targets = hits + (log_probs.argmax(-1) == there)[ordinary].sum(), targets + ordinary.sum()
        return math.exp(loss / targets), hits / targets, targets


def load(directory, e):
    """The trained model and the untrained one."""
    from network import Language
    file = torch.load(f"{directory}/model.pt")
    torch.manual_seed(e["seed"])
    return Model(file["shape"], file["model"]), Model(file["shape"], Language(**file["shape"]).state_dict())


def check_ranks(model, e, audited, canaries, references):
    """The worst difference of log-perplexities and exposures, and how many ranks differ for no reason of rounding."""
    k, wrong, worst, off = e["audit"]["random_sampling"]["prefix"], 0, 0.0, 0.0
    for canary in audited:
        tokens = canaries[tuple(canary["words"])]
        limit, = model.costs(tokens[:k], [tokens[k:]])
        found = numpy.array(model.costs(tokens[:k], references))
        rank, near = 1 + (found <= limit).sum(), (abs(found - limit) < NEAR).sum()
        wrong += abs(rank - canary["rank"]) > near
        worst = max(worst, abs(limit - canary["log_perplexity"]))
        off = max(off, abs(math.log2(len(found)) - math.log2(canary["rank"]) - canary["exposure"]))
    return worst, off, wrong


def check_coins(trained, untrained, verdict, canaries):
    """The worst difference of scores, and both bounds."""
    texts = [canaries[tuple(u["words"])] for u in verdict["units"]]
    scores = [before - after for before, after in zip(untrained.costs([], texts), trained.costs([], texts))]
    units = [{**u, "score": score} for u, score in zip(verdict["units"], scores)]
    worst = max(abs(score - u["score"]) for score, u in zip(scores, verdict["units"]))
    plus, minus = verdict["k_plus"], verdict["k_minus"]
    correct = right(units, plus, minus)
    assert correct == verdict["correct"], f"{correct} guesses are right here, {verdict['correct']} in the results"
    return worst, theorem52(len(units), plus + minus, correct, verdict["delta"], 1 - verdict["confidence"])


def check(directory):
    told = json.load(open(f"{directory}/experiment.json"))["cells"][0]
    e = told["experiment"]
    cell = next(c for c in json.load(open(f"{directory}/results.json"))["cells"] if c["cell"] == told["name"])
    trained, untrained = load(directory, e)
    canaries = {tuple(row["words"]): row["tokens"] for row in rows(directory, "canaries")}
    references = [row["tokens"] for row in rows(directory, "references")]
    audit = cell["audit"]
    audited = audit["canaries"] + audit["never_inserted"] + audit["controls"]
    worst, off, wrong = check_ranks(trained, e, audited, canaries, references)
    print(f"{directory}: {cell['label']}: {len(audited)} canaries among {len(references)} references: log-perplexities within {worst:.1e} nats, "
          f"exposures within {off:.1e} bits, {wrong} other ranks")
    coins, bound = check_coins(trained, untrained, audit["one_run"], canaries)
    print(f"  {len(audit['one_run']['units'])} coins: scores within {coins:.1e} nats, epsilon at least {audit['one_run']['epsilon_lower']:.9g}, here {bound:.9g}")
    special_tokens = {BEGIN, BEGIN + 1}
    texts = [[t for t in row["tokens"] if t not in special_tokens] for row in rows(directory, "parts") if row["part"] == "test"]
    apart = max(1, math.ceil(sum(map(len, texts)) / PREDICTED))
    perplexity, recall, targets = trained.utility(texts[::apart])
    u = cell["utility"]
    print(f"  {targets} targets: perplexity {u['perplexity']:.9g}, here {perplexity:.9g}; recall {u['recall_at_1']:.6g}, here {recall:.6g}")
    return (not wrong and worst < 1e-4 and coins < 1e-4 and abs(bound - audit["one_run"]["epsilon_lower"]) < 1e-9
            and targets == u["tokens"] and abs(perplexity / u["perplexity"] - 1) < 1e-6 and abs(recall - u["recall_at_1"]) < 1e-3)


if __name__ == "__main__":
    failed = [d for d in sys.argv[1:] if not check(d)]
    sys.exit(f"not the same: {', '.join(failed)}" if failed else 0)
