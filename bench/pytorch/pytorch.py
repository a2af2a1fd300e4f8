#!/usr/bin/env python3
"""The rows of `go run ./bench/cmd engine` that PyTorch can run, as JSON.

One thread, the same models, batches and plain SGD; medians. Each row is run eagerly and,
from PyTorch 2.0 on, with its loss compiled by torch.compile (TorchInductor); the row has
both rates and its mode is the faster. Standard error gets a table of them. Nothing of
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


IMAGES = 32  # a batch of images
CLASSES, LATENT, PENALTY, DECAY = 36, 128, 10, 2.5e-5


class Norm(nn.Module):
    """Batch normalization with a shift and no scale, as the authors have it."""

    def __init__(self, features):
        super().__init__()
        self.beta = nn.Parameter(torch.zeros(features))
        self.register_buffer("mean", torch.zeros(features))
        self.register_buffer("variance", torch.ones(features))

    def forward(self, x):
        return functional.batch_norm(x, self.mean, self.variance, None, self.beta, True, 0.001, 1e-3)


def classifier():
    return nn.Sequential(
        nn.Conv2d(1, 32, 3), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 3), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(64, 64, 3), nn.ReLU(), nn.Flatten(),
        nn.Linear(576, 64), nn.ReLU(), nn.Linear(64, CLASSES),
    )


def discriminator():
    return nn.Sequential(
        nn.Conv2d(1, 64, 4, 2, 1), nn.LeakyReLU(0.01),
        nn.Conv2d(64, 128, 4, 2, 1), nn.LeakyReLU(0.01), nn.Flatten(),
        nn.Linear(6272, 1024, bias=False), Norm(1024), nn.LeakyReLU(0.01), nn.Linear(1024, 1),
    )


def generator():
    return nn.Sequential(
        nn.Linear(LATENT, 1024, bias=False), Norm(1024), nn.ReLU(),
        nn.Linear(1024, 12544, bias=False), Norm(12544), nn.ReLU(), nn.Unflatten(1, (256, 7, 7)),
        nn.ConvTranspose2d(256, 64, 4, 2, 1, bias=False), Norm(64), nn.ReLU(),
        nn.ConvTranspose2d(64, 32, 4, 2, 1, bias=False), Norm(32), nn.ReLU(),
        nn.ZeroPad2d((1, 2, 1, 2)), nn.Conv2d(32, 1, 4), nn.Tanh(),
    )


class Classifying:
    def __init__(self):
        self.learns = classifier()
        self.images, self.labels = torch.rand(IMAGES, 1, 28, 28) * 2 - 1, torch.randint(0, CLASSES, (IMAGES,))

    def loss(self):
        return functional.cross_entropy(self.learns(self.images), self.labels)


class Discriminating:
    def __init__(self):
        self.learns, self.generator = discriminator(), generator()
        self.images = torch.rand(IMAGES, 1, 28, 28) * 2 - 1

    def loss(self):
        with torch.no_grad():
            made = self.generator(torch.randn(IMAGES, LATENT))
        between = self.images + torch.rand(IMAGES, 1, 1, 1) * (made - self.images)
        between.requires_grad_(True)
        loss = self.learns(made).mean() - self.learns(self.images).mean()
        (gradient,) = torch.autograd.grad(self.learns(between).sum(), between, create_graph=True)
        norms = (gradient.square().sum((1, 2, 3)) + 1e-10).sqrt()
        return loss + PENALTY * (norms - 1).square().mean() + decay(self.learns)


class Generating:
    def __init__(self):
        self.learns, self.discriminator = generator(), discriminator()
        self.discriminator.requires_grad_(False)

    def loss(self):
        return decay(self.learns) - self.discriminator(self.learns(torch.randn(IMAGES, LATENT))).mean()


def decay(network):
    return DECAY / 2 * sum(p.square().sum() for p in network.parameters() if p.ndim > 1)


IMAGE_ROWS = [("classifier", Classifying), ("discriminator", Discriminating), ("generator", Generating)]


def images(make):
    """The loss of a batch of images, the network that learns, the descent."""
    task = make()
    return task.loss, task.learns, -1e-5


# Row, targets of a sentence, vocabulary, model. A GRU with projection is not
# among PyTorch's cells, so that row is left out.
ROWS = [
    ("training", 20, 10004, lambda: CIFG(10004, 96, 670)),
    ("lstm", 20, 10004, lambda: Fused(nn.LSTM(96, 670, proj_size=96), 10004, 96, 96, tied=True)),
    ("small", 20, 2004, lambda: CIFG(2004, 64, 128)),
    ("characters", 100, 260, lambda: Fused(nn.LSTM(200, 200, num_layers=2), 260, 200, 200, tied=True)),
]


def sentences(steps, vocabulary, make):
    """The loss of a batch of sentences, the model, the descent."""
    model = make()
    tokens = torch.randint(0, vocabulary, (steps, BATCH))
    targets = torch.randint(0, vocabulary, (steps, BATCH)).view(-1)
    return lambda: functional.cross_entropy(model(tokens), targets), model, -1e-3


def descend(loss, model, alpha):
    model.zero_grad(set_to_none=True)
    loss().backward()
    with torch.no_grad():
        for p in model.parameters():
            p.add_(p.grad, alpha=alpha)


def measure(name, tokens, make, repeat):
    """The row: the rates of both modes, and the faster."""
    torch.manual_seed(1)
    loss, model, alpha = make()
    eager = tokens / median(lambda: descend(loss, model, alpha), repeat)
    row = {"row": name, "tokens_per_second": eager, "mode": "eager", "eager": eager}
    if lacking():
        return row
    try:
        compiled = torch.compile(loss)
        row["compiled"] = tokens / median(lambda: descend(compiled, model, alpha), repeat)
    except Exception as error:  # of a compiler that is missing, or of a loss that it cannot take
        row["not_compiled"] = f"{type(error).__name__}: {error}".strip().splitlines()[0]
        return row
    if row["compiled"] > eager:
        row.update(tokens_per_second=row["compiled"], mode="compiled")
    return row


def lacking():
    """Why nothing can be compiled, or None."""
    if not hasattr(torch, "compile"):
        return f"PyTorch {torch.__version__} has no torch.compile, expected 2.0 or later"
    return None


def median(work, repeat):
    """The median of the seconds that work takes, after it has warmed up."""
    for _ in range(3):
        work()
    seconds = []
    for _ in range(repeat):
        begin = time.process_time()  # with one thread, what Coalmine measures
        work()
        seconds.append(time.process_time() - begin)
    return sorted(seconds)[repeat // 2]


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


def table(rows):
    """The lines of a table of both modes."""
    yield f"{'row':<14}{'eager':>10}{'compiled':>10}  faster"
    for row in rows:
        compiled = f"{row['compiled']:.0f}" if "compiled" in row else "-"
        note = f" (not compiled: {row['not_compiled']})" if "not_compiled" in row else ""
        yield f"{row['row']:<14}{row['eager']:>10.0f}{compiled:>10}  {row['mode']}{note}"


def all_rows():
    """The name, tokens and maker of each row."""
    for name, steps, vocabulary, make in ROWS:
        yield name, steps * BATCH, lambda steps=steps, vocabulary=vocabulary, make=make: sentences(steps, vocabulary, make)
    for name, make in IMAGE_ROWS:
        yield name, IMAGES, lambda make=make: images(make)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeat", type=int, default=11, help="measurements of each row and mode (default: 11)")
    parser.add_argument("--only", nargs="*", default=[name for name, *_ in all_rows()], help="rows to measure, separated by spaces")
    args = parser.parse_args()
    torch.set_num_threads(1)
    rows = [measure(*row, args.repeat) for row in all_rows() if row[0] in args.only]
    compiler = lacking() or "TorchInductor"
    if rows:
        print(*table(rows), f"compiler: {compiler}", sep="\n", file=sys.stderr)
    name = f"PyTorch {torch.__version__}, {blas()}, {setting()}"
    json.dump({"name": name, "compiler": compiler, "repeat": args.repeat, "rows": rows}, sys.stdout, indent=1)
    print()


if __name__ == "__main__":
    main()
