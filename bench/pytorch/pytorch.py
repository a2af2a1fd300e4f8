#!/usr/bin/env python3
"""The rows of `coalmine bench engine` that PyTorch can run, as JSON.

One thread, the same models, batches and plain SGD; medians. Nothing of
Coalmine needs this program. See README.md beside it.
"""

import argparse
import json
import math
import os
import sys
import time

import torch
from torch import nn
from torch.nn import functional

BATCH = 16


class CIFG(nn.Module):
    """CIFG-LSTM with projection and tied embedding, gates by hand.

    PyTorch has no fused cell of this kind: the forget gate is 1 - input gate.
    """

    def __init__(self, vocabulary, embedding, units):
        super().__init__()
        self.units = units
        self.embedding = nn.Parameter(torch.randn(vocabulary, embedding) * 0.1)
        self.input = nn.Parameter(torch.randn(embedding, 3 * units) / math.sqrt(embedding))
        self.recurrent = nn.Parameter(torch.randn(embedding, 3 * units) / math.sqrt(embedding))
        self.bias = nn.Parameter(torch.zeros(3 * units))
        self.projection = nn.Parameter(torch.randn(units, embedding) / math.sqrt(units))
        self.output_bias = nn.Parameter(torch.zeros(vocabulary))

    def forward(self, tokens):
        steps, batch = tokens.shape
        x = functional.embedding(tokens, self.embedding).view(steps * batch, -1)
        gates = torch.addmm(self.bias, x, self.input).view(steps, batch, -1)
        h = torch.zeros(batch, self.projection.shape[1])
        c = torch.zeros(batch, self.units)
        outputs = []
        for step in gates:
            i, z, o = torch.addmm(step, h, self.recurrent).split(self.units, dim=1)
            c = torch.lerp(c, torch.tanh(z), torch.sigmoid(i))
            h = torch.mm(torch.sigmoid(o) * torch.tanh(c), self.projection)
            outputs.append(h)
        return torch.addmm(self.output_bias, torch.cat(outputs), self.embedding.t())


class Fused(nn.Module):
    """An embedding, PyTorch's own LSTM or GRU, and an output layer."""

    def __init__(self, cell, vocabulary, embedding, width, tied):
        super().__init__()
        self.embedding = nn.Parameter(torch.randn(vocabulary, embedding) * 0.1)
        self.weights = self.embedding if tied else nn.Parameter(torch.randn(vocabulary, width) * 0.1)
        self.cell = cell
        self.output_bias = nn.Parameter(torch.zeros(vocabulary))

    def forward(self, tokens):
        x, _ = self.cell(functional.embedding(tokens, self.embedding))
        return torch.addmm(self.output_bias, x.reshape(-1, x.shape[-1]), self.weights.t())


# Row, targets of a sentence, vocabulary, model. A GRU with projection is not
# among PyTorch's cells, so that row is left out.
ROWS = [
    ("training", 20, 10004, lambda: CIFG(10004, 96, 670)),
    ("lstm", 20, 10004, lambda: Fused(nn.LSTM(96, 670, proj_size=96), 10004, 96, 96, tied=True)),
    ("small", 20, 2004, lambda: CIFG(2004, 64, 128)),
    ("characters", 100, 260, lambda: Fused(nn.LSTM(200, 200, num_layers=2), 260, 200, 200, tied=True)),
]


def step(model, tokens, targets):
    model.zero_grad(set_to_none=True)
    functional.cross_entropy(model(tokens), targets.view(-1)).backward()
    with torch.no_grad():
        for p in model.parameters():
            p.add_(p.grad, alpha=-1e-3)


def measure(name, steps, vocabulary, make, repeat):
    torch.manual_seed(1)
    model = make()
    tokens = torch.randint(0, vocabulary, (steps, BATCH))
    targets = torch.randint(0, vocabulary, (steps, BATCH))
    for _ in range(3):
        step(model, tokens, targets)
    seconds = []
    for _ in range(repeat):
        begin = time.process_time()  # with one thread, what Coalmine measures
        step(model, tokens, targets)
        seconds.append(time.process_time() - begin)
    seconds.sort()
    return {"row": name, "tokens_per_second": steps * BATCH / seconds[len(seconds) // 2]}


def blas():
    """The BLAS in use: a plain reference one is 20 times slower than OpenBLAS."""
    try:
        with open("/proc/self/maps") as maps:
            files = {line.split()[-1] for line in maps if "blas" in line.rsplit("/", 1)[-1]}
    except OSError:
        return "BLAS unknown"
    names = {os.path.basename(os.path.realpath(f)) for f in files}
    if any("openblas" in n for n in names) or any("openblas" in os.path.realpath(f) for f in files):
        return "OpenBLAS"
    return "its own BLAS" if not names else "reference BLAS"


def setting():
    chosen = [f"{v}={os.environ[v]}" for v in ("OPENBLAS_CORETYPE", "ATEN_CPU_CAPABILITY") if v in os.environ]
    return " ".join(chosen) or "stock"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeat", type=int, default=11)
    parser.add_argument("--only", nargs="*", default=[row[0] for row in ROWS])
    args = parser.parse_args()
    torch.set_num_threads(1)
    rows = [measure(*row, args.repeat) for row in ROWS if row[0] in args.only]
    json.dump({"name": f"PyTorch {torch.__version__}, {blas()}, {setting()}", "repeat": args.repeat, "rows": rows}, sys.stdout, indent=1)
    print()


if __name__ == "__main__":
    main()
