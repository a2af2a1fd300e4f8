"""Runs an exported model outside of Coalmine, and compares it with the results.

    coalmine export RUN CELL -o DIR/model.safetensors
    coalmine data export RUN CELL --only parts,canaries -o DIR
    coalmine results RUN --json > DIR/results.json
    coalmine show RUN CELL --json > DIR/experiment.json
    python3 docs/checks/check_export.py DIR ...

It needs PyTorch or NumPy, computes in float64, and is written from docs/model.md.
"""
import copy
import json
import math
import struct
import sys

try:
    import torch as xp
except ImportError:
    import numpy as xp

BEGIN, FIRST_WORD = 2, 4


def sigmoid(x):
    return 0.5 * xp.tanh(0.5 * x) + 0.5


class Model:
    """The language model of a safetensors file that coalmine export has written."""

    def __init__(self, path):
        with open(path, "rb") as file:
            size, = struct.unpack("<Q", file.read(8))
            header = json.loads(file.read(size))
            data = bytearray(file.read())
        self.metadata = header.pop("__metadata__")
        self.tensors = {}
        for name, t in header.items():
            values = xp.frombuffer(data[slice(*t["data_offsets"])], dtype=xp.float32)
            self.tensors[name] = xp.asarray(values, dtype=xp.float64).reshape(t["shape"])
        config = json.loads(self.metadata["model"])
        self.kind, self.units, self.layers = config["kind"], config["units"], config.get("layers", 1)
        self.vocabulary, self.separator, self.heads = config["vocabulary"], config.get("separator"), config.get("heads")
        self.adapters = config.get("adapters")
        self.stored, self.tensors = self.tensors, self.merged(self.tensors)

    def merged(self, tensors):
        """The tensors that the model computes with: the products of adapters are added to their matrices."""
        tensors, width = dict(tensors), tensors["embedding"].shape[1]
        parts = {"query": slice(0, width), "key": slice(width, 2 * width), "value": slice(2 * width, None)}
        for name in [name.removesuffix("_a") for name in tensors if name.endswith("_a")]:
            scale = self.adapters.get("alpha", self.adapters["rank"]) / self.adapters["rank"]
            product, (room, matrix) = scale * tensors.pop(name + "_a") @ tensors.pop(name + "_b"), name.split(".")
            tensor = f"{room}.input" if matrix in parts else name
            whole = tensors[tensor] + 0
            whole[:, parts.get(matrix, slice(None))] += product
            tensors[tensor] = whole
        return tensors

    def encoder(self):
        """The part of an encoder-decoder that reads the source of a pair; self is the decoder."""
        part = copy.copy(self)
        part.tensors = {name.removeprefix("encoder."): t for name, t in self.tensors.items() if name.startswith("encoder.")}
        return part

    def tensor(self, name, layer):
        """cell.input is called cell2.input in the second layer."""
        head, dot, tail = name.partition(".")
        return self.tensors.get((head if layer == 0 else f"{head}{layer + 1}") + dot + tail)

    def start(self, n):
        """The states of n empty sequences: memory and output of each layer."""
        if self.kind == "transformer":
            nothing, width = xp.zeros((n, 0), dtype=xp.float64), self.tensors["embedding"].shape[1]
            return [(xp.zeros((n, 0, 2 * width), dtype=xp.float64), nothing) for _ in range(self.layers)]
        if self.kind == "conv":
            shapes = [self.tensor("cell.kernel", i).shape for i in range(self.layers)]
            return [(xp.zeros((n, k - 1, width), dtype=xp.float64), xp.zeros((n, 0))) for k, width, _ in shapes]
        width = [self.tensor("cell.recurrent", i).shape[0] for i in range(self.layers)]
        return [(xp.zeros((n, self.units), dtype=xp.float64), xp.zeros((n, w), dtype=xp.float64)) for w in width]

    def step(self, states, tokens):
        """Feeds one token to each state; returns the states that follow."""
        x, after = self.tensors["embedding"][tokens], []
        if self.kind == "transformer":
            return self.read(x, states)
        for i, (memory, output) in enumerate(states):
            memory, x = self.cell(i, x, memory, output)
            after.append((memory, x))
        return after

    def read(self, x, states):
        """step of a transformer: the memory of a block is the keys and values of all tokens, [n, tokens, 2 width]."""
        x, after = x + self.tensors["position"][states[0][0].shape[1]], []
        for i, (memory, _) in enumerate(states):
            qkv = self.normal("attention", i, x) @ self.tensor("attention.input", i) + self.tensor("attention.input_bias", i)
            queries, new = qkv[:, :x.shape[1]], qkv[:, None, x.shape[1]:]
            memory = xp.hstack((memory, new))
            mixed = self.mix(queries, memory[..., :x.shape[1]], memory[..., x.shape[1]:])
            x = x + mixed @ self.tensor("attention.output", i) + self.tensor("attention.output_bias", i)
            hidden = self.normal("feed", i, x) @ self.tensor("feed.input", i) + self.tensor("feed.input_bias", i)
            hidden = hidden * sigmoid(2 * math.sqrt(2 / math.pi) * (hidden + 0.044715 * hidden ** 3))
            x = x + hidden @ self.tensor("feed.output", i) + self.tensor("feed.output_bias", i)
            after.append((memory, self.normal("final", 0, x)))
        return after

    def normal(self, room, i, x):
        x = x - x.mean(1)[:, None]
        x = x / xp.sqrt((x * x).mean(1) + 1e-5)[:, None]
        return x * self.tensor(room + ".scale", i) + self.tensor(room + ".shift", i)

    def mix(self, queries, keys, values):
        """The mean of the values of every head, [n, tokens, width], weighted by the softmax of query x key."""
        n, tokens, width = keys.shape
        size = width // self.heads
        q, k, v = (x.reshape(n, -1, self.heads, size) for x in (queries, keys, values))
        weights = xp.exp((q * k).sum(3) / math.sqrt(size))
        return ((weights / weights.sum(1)[:, None])[..., None] * v).sum(1).reshape(n, width)

    def cell(self, i, x, memory, output):
        if self.kind == "conv":
            memory, emitted = self.convolution(i, x, memory)
        else:
            memory, emitted = self.recurrent_cell(i, x, memory, output)
        projection = self.tensor("projection", i)
        return memory, emitted if projection is None else emitted @ projection

    def convolution(self, i, x, memory):
        kernel, sums = self.tensor("cell.kernel", i), self.tensor("cell.bias", i)
        window = [x] + [memory[:, k] for k in range(len(kernel) - 1)]  # the newest first
        for inputs, weights in zip(window, kernel):
            sums = sums + inputs @ weights
        return xp.stack(window[:-1], 1), sums * (sums > 0)

    def recurrent_cell(self, i, x, memory, output):
        n, bias = self.units, self.tensor("cell.bias", i)
        from_input, recurrent = x @ self.tensor("cell.input", i) + bias, output @ self.tensor("cell.recurrent", i)
        gate = lambda k: from_input[:, k * n:(k + 1) * n] + recurrent[:, k * n:(k + 1) * n]
        if self.kind == "cifg-lstm":
            opened, candidate = sigmoid(gate(0)), xp.tanh(gate(1))
            memory = (1 - opened) * memory + opened * candidate
            emitted = sigmoid(gate(2)) * xp.tanh(memory)
        elif self.kind == "lstm":
            memory = sigmoid(gate(1)) * memory + sigmoid(gate(0)) * xp.tanh(gate(2))
            emitted = sigmoid(gate(3)) * xp.tanh(memory)
        else:  # gru
            reset, update = sigmoid(gate(0)), sigmoid(gate(1))
            scaled = reset * (recurrent[:, 2 * n:] + self.tensor("cell.candidate_bias", i))
            memory = (1 - update) * xp.tanh(from_input[:, 2 * n:] + scaled) + update * memory
            emitted = memory
        return memory, emitted

    def log_probs(self, states):
        """The log probability of every token after each state."""
        weights = self.tensors.get("output.weights", self.tensors["embedding"])
        logits = states[-1][1] @ weights.T + self.tensors["output.bias"]
        logits = logits - xp.amax(logits, axis=1)[:, None]
        return logits - xp.log(xp.exp(logits).sum(axis=1))[:, None]


def utility(model, sentences):
    """Targets, hits and loss over all targets, and over ordinary words."""
    everything, ordinary = [0, 0, 0.0], [0, 0, 0.0]
    sentences = sorted(sentences, key=len, reverse=True)
    for first in range(0, len(sentences), 256):
        block = sentences[first:first + 256]
        states = model.start(len(block))
        for t in range(len(block[0]) - 1):
            block = [s for s in block if len(s) > t + 1]  # the longest come first
            states = [(memory[:len(block)], output[:len(block)]) for memory, output in states]
            states = model.step(states, [s[t] for s in block])
            log_probs = model.log_probs(states)
            targets = [s[t + 1] for s in block]
            losses = -log_probs[xp.arange(len(block)), targets]
            for target, best, loss in zip(targets, log_probs.argmax(axis=1).tolist(), losses.tolist()):
                for tally in [everything] + [ordinary] * (target >= FIRST_WORD):
                    tally[0] += 1
                    tally[1] += best == target
                    tally[2] += loss
    return everything, ordinary


def log_perplexity(model, prefix, rest):
    """The sum of -log p over rest, in nats, after <begin> and the prefix."""
    states, total = model.start(1), 0.0
    for token in [BEGIN] + prefix:
        states = model.step(states, [token])
    for token in rest:
        total -= float(model.log_probs(states)[0, token])
        states = model.step(states, [token])
    return total


def agreement(pairs):
    """The largest difference among pairs of ours and theirs, relative to what is above 1."""
    return max((abs(a - b) / max(abs(b), 1) for a, b in pairs), default=0.0)


def check(directory):
    model = Model(f"{directory}/model.safetensors")
    cell = next(c for c in json.load(open(f"{directory}/results.json"))["cells"] if c["cell"] == model.metadata["cell"])
    experiment = json.load(open(f"{directory}/experiment.json"))["cells"][0]["experiment"]
    bits = experiment["training"].get("quantize_bits", 32)
    quantized = bits == 32 or all(len(set(t.reshape(-1).tolist())) < 2 ** bits for t in model.tensors.values())
    parts = [json.loads(line) for line in open(f"{directory}/parts.jsonl")]
    everything, ordinary = utility(model, [row["tokens"] for row in parts if row["part"] == "test"])
    theirs = cell["utility"]
    perplexities = [(math.exp(ordinary[2] / ordinary[0]), theirs["perplexity"]),
                    (math.exp(everything[2] / everything[0]), theirs["all_targets"]["perplexity"])]
    along = []  # losses of the last model beside those along the training
    if "test_loss" in cell["curve"][-1]:
        along.append((everything[2] / everything[0], cell["curve"][-1]["test_loss"]))
    if "early_stopping" in cell:
        validation, _ = utility(model, [row["tokens"] for row in parts if row["part"] == "validation"])
        along.append((validation[2] / validation[0], cell["early_stopping"]["validation_loss"]))
    if "stop_at" in cell and cell["stop_at"]["reached"]:
        _, words = utility(model, [row["tokens"] for row in parts if row["part"] == "validation"])
        along.append((words[1] / words[0], cell["stop_at"]["recall_at_1"]))
    hits = abs(ordinary[1] - round(theirs["recall_at_1"] * theirs["tokens"]))

    prefix = experiment["audit"]["random_sampling"]["prefix"]
    tokens = {tuple(c["words"]): c["tokens"] for c in map(json.loads, open(f"{directory}/canaries.jsonl"))}
    audited = cell["audit"]["canaries"] + cell["audit"]["never_inserted"] + cell["audit"]["controls"]
    losses = []
    for canary in audited:
        t = tokens[tuple(canary["words"])]
        losses.append((log_perplexity(model, t[:prefix], t[prefix:]), canary["log_perplexity"]))
    print(f"{directory}: {cell['label']}: perplexity {perplexities[0][0]:.6f}, of {ordinary[0]} targets {ordinary[1]} hit; "
          f"relative differences: perplexity {agreement(perplexities):.1e}, "
          f"log-perplexity of {len(losses)} canaries {agreement(losses):.1e}; hits differ by {hits}"
          + (f"; losses along the training {agreement(along):.1e}" if along else ""))
    same = ordinary[0] == theirs["tokens"] and everything[0] == theirs["all_targets"]["tokens"]
    # Two guesses that are equal but for rounding may be ordered either way.
    return same and quantized and all(agreement(pairs) < 1e-5 for pairs in (perplexities, losses, along)) and hits <= 1 + ordinary[0] // 10000


if __name__ == "__main__":
    failed = [d for d in sys.argv[1:] if not check(d)]
    sys.exit(f"not the same: {', '.join(failed)}" if failed else 0)
