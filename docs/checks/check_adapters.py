"""Computes a round of a training of adapters again, and compares the models.

    coalmine export RUN CELL --round ROUND-1 -o DIR/before.safetensors
    coalmine export RUN CELL --round ROUND -o DIR/model.safetensors
    coalmine data export RUN CELL --only population,cohorts -o DIR
    coalmine show RUN CELL --json > DIR/experiment.json
    python3 docs/checks/check_adapters.py DIR ...

The clients take one step each (training.client.batch is at least their examples) by gradient descent with weight decay; their
updates are clipped, without noise, and averaged. It needs PyTorch, computes in float64, and is written from docs/model.md.
"""
import json
import math
import sys

import torch

from check_export import Model

torch.set_num_threads(1)  # the vectors are short


def lines(path):
    return [json.loads(line) for line in open(path)]


def loss(model, sentences):
    """The mean of -log p over all targets."""
    total, targets = 0.0, 0
    for sentence in sentences:
        states = model.start(1)
        for token, target in zip(sentence, sentence[1:]):
            states = model.step(states, [token])
            total, targets = total - model.log_probs(states)[0, target], targets + 1
    return total / targets


def update(model, factors, sentences, client):
    """The change of the factors by a client's step."""
    leaves = {name: tensor.clone().requires_grad_() for name, tensor in factors.items()}
    model.tensors = model.merged({**model.stored, **leaves})
    gradients = torch.autograd.grad(loss(model, sentences), list(leaves.values()))
    rate = client["learning_rate"] * len(sentences) / client["batch"]
    return [-rate * (g + client.get("weight_decay", 0) * w) for g, w in zip(gradients, factors.values())]


def check(directory):
    before, after = Model(f"{directory}/before.safetensors"), Model(f"{directory}/model.safetensors")
    experiment = json.load(open(f"{directory}/experiment.json"))["cells"][0]["experiment"]
    training, round = experiment["training"], int(after.metadata["round"])
    users = next(row["users"] for row in lines(f"{directory}/cohorts.jsonl") if row["round"] == round)
    population = lines(f"{directory}/population.jsonl")
    factors = {name: t for name, t in before.stored.items() if name[-2:] in ("_a", "_b")}
    frozen = all(torch.equal(t, after.stored[name]) for name, t in before.stored.items() if name not in factors)
    clip, mean = training["privacy"]["clip"], [0.0] * len(factors)
    for user in users:
        found = update(before, factors, [row["tokens"] for row in population if row["user"] == user], training["client"])
        norm = math.sqrt(sum(float((u * u).sum()) for u in found))
        mean = [m + u * min(1, clip / norm) / training["cohort"] for m, u in zip(mean, found)]
    theirs = [after.stored[name] - w for name, w in factors.items()]
    apart = math.sqrt(sum(float(((a - b) ** 2).sum()) for a, b in zip(mean, theirs)) / sum(float((b * b).sum()) for b in theirs))
    still = sum(not bool((b != 0).any()) for b in theirs)
    print(f"{directory}: round {round} of {len(users)} clients changes {len(factors) - still} of {len(factors)} factors; the change computed here "
          f"differs by {apart:.1e} of its norm; frozen tensors are {'equal' if frozen else 'NOT equal'}")
    return frozen and apart < 1e-4 and still <= len(factors) // 2


if __name__ == "__main__":
    failed = [d for d in sys.argv[1:] if not check(d)]
    sys.exit(f"not the same: {', '.join(failed)}" if failed else 0)
