#!/usr/bin/env python3
"""Prints what coalmine.torch takes for users one by one (fit), together (fit_many) and summed (sum), and what the files between
it and Coalmine take: writing the answer and reading it back. Seconds are of the processor on a CPU, else of the clock. Works
take turns, and a number is the median over the turns: of the rates, and of the ratios within a turn.

    python3 bench/pytorch/users.py [--users 8] [--device cpu] [--small]
"""
import argparse
import os
import statistics
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "clients", "python"))

import numpy
import torch

from coalmine import tensors
from coalmine.client import User, Vocabulary
from coalmine.torch import Trainer

options = argparse.ArgumentParser()
options.add_argument("--users", type=int, default=8)
options.add_argument("--device", default="cpu")
options.add_argument("--repeat", type=int, default=5)
options.add_argument("--small", action="store_true", help="the model of examples/quickstart.yaml alone")
options = options.parse_args()
clock = time.process_time if options.device == "cpu" else time.perf_counter
MODELS = [("quickstart", {"kind": "cifg-lstm", "embedding": 32, "units": 64}, 1004, 20, 16), ("paper", {"kind": "cifg-lstm", "embedding": 96, "units": 670}, 10004, 80, 20)]


def once(work):
    start = clock()
    work()
    if options.device.startswith("cuda"):
        torch.cuda.synchronize()
    return clock() - start


def files(arrays, folder):
    path = os.path.join(folder, "many.safetensors")
    tensors.write(path, arrays, {"stamp": "1"})
    tensors.read(path)


print(f"PyTorch {torch.__version__}, {options.device}, {options.users} users, one thread\n")
print(f"{'model':<12}{'':<10}{'tokens/s':>10}{'to fit':>8}{'files':>8}")
for name, model, vocabulary, sentences, words in MODELS[:1 if options.small else 2]:
    t = Trainer({"model": model, "local": {"learning_rate": 0.1, "batch": 16}, "users": options.users, "device": options.device}, Vocabulary(vocabulary, 2, 3, 4, ""), 1)
    draw, start = numpy.random.default_rng(1), t.initial(1)
    users = [User([[2, *draw.integers(4, vocabulary, words - 1).tolist(), 3] for _ in range(sentences)], seed) for seed in range(options.users)]
    tokens = sum(len(e) - 1 for u in users for e in u.examples)
    together, _ = t.fit_many(start, users, 1)
    total, _ = t.sum(start, users, 1, 0.5, None)
    with tempfile.TemporaryDirectory(dir="/dev/shm" if os.path.isdir("/dev/shm") else None) as folder:
        alone = {n: a[0] for n, a in together.items()}
        rows = [("fit", lambda: [t.fit(start, u.examples, u.seed, 1) for u in users], lambda: [files(alone, folder) for _ in users]),
                ("fit_many", lambda: t.fit_many(start, users, 1), lambda: files(together, folder)),
                ("sum", lambda: t.sum(start, users, 1, 0.5, None), lambda: files(total, folder))]
        turns = [[(once(work), once(file)) for _, work, file in rows] for _ in range(options.repeat)]
        for i, (method, *_) in enumerate(rows):
            rate, to_fit, share = (statistics.median(of) for of in zip(*((tokens / turn[i][0], turn[0][0] / turn[i][0], turn[i][1] / turn[i][0]) for turn in turns)))
            print(f"{name:<12}{method:<10}{rate:>10.0f}{to_fit:>8.2f}{share:>8.1%}", flush=True)
