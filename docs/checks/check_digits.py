"""Recomputes what audits say of examples/external/digits: accuracy, perplexity, and how well users that trained are told apart.

    coalmine export RUN CELL -o DIR/model              # what the training has left
    coalmine data export RUN CELL --only parts,population -o DIR
    coalmine results RUN --json > DIR/results.json
    coalmine show RUN CELL --json > DIR/experiment.json
    python3 docs/checks/check_digits.py DIR ...

Of the model it reads the weights alone, of the data what Coalmine exports. The network is computed in float64, from the
equations of the example's README, and the attack by losses as docs/method.md says. It needs NumPy.
"""
import collections
import json
import math
import sys

import numpy

from check_data import rows

FIRST_WORD = 4


def weights(path):
    """The tensors of a file of safetensors, or of an archive of NumPy's."""
    with open(path, "rb") as file:
        data = file.read()
    if data[:2] == b"PK":
        return {name: array.astype(float) for name, array in numpy.load(path).items()}
    length = int.from_bytes(data[:8], "little")
    header, tensors = json.loads(data[8:8 + length]), {}
    for name, entry in header.items():
        if name != "__metadata__":
            first, end = (8 + length + offset for offset in entry["data_offsets"])
            tensors[name] = numpy.frombuffer(data[first:end], "<f4").reshape(entry["shape"]).astype(float)
    return tensors


def predicted(w, examples):
    """-ln p of the label of each example, and whether it is the most probable one."""
    tokens = numpy.array(examples)
    labels, x = tokens[:, 1] - FIRST_WORD, (tokens[:, 2:] - FIRST_WORD) / 255
    hidden = numpy.maximum(0, x @ w["hidden.weight"] + w["hidden.bias"])
    logits = hidden @ w["output.weight"] + w["output.bias"]
    own = logits[numpy.arange(len(labels)), labels]
    return numpy.log(numpy.exp(logits - own[:, None]).sum(1)), logits.argmax(1) == labels


def auc(members, others):
    """The probability that a member's score is above another user's; half of it where they are equal."""
    return numpy.mean([[(m > o) + (m == o) / 2 for o in others] for m in members])


def by_user(found):
    users = collections.defaultdict(list)
    for row in found:
        users[row["user"]].append(row["tokens"])
    return users


def check_utility(w, cell, parts):
    losses, right = predicted(w, [row["tokens"] for row in parts if row["part"] == "test"])
    perplexity, told = math.exp(losses.mean()), cell["utility"]
    print(f"  {len(losses)} images: accuracy {told['recall_at_1']:.6g}, here {right.mean():.6g}; perplexity {told['perplexity']:.9g}, here {perplexity:.9g}")
    return len(losses) == told["tokens"] and abs(right.mean() - told["recall_at_1"]) < 1e-3 and abs(perplexity / told["perplexity"] - 1) < 1e-5


def check_membership(w, verdict, parts, population):
    """Users that trained are those of the population: who they are in the source follows from their images."""
    trained = {tuple(map(tuple, examples)) for examples in by_user(population).values()}
    scores = {True: [], False: []}
    for examples in by_user(row for row in parts if row["part"] == "train").values():
        losses, _ = predicted(w, examples)
        scores[tuple(map(tuple, examples)) in trained].append(-losses.mean())
    told = next(attack for attack in verdict["attacks"] if attack["attack"] == "loss")["members"]["auc"]["value"]
    found = auc(scores[True], scores[False])
    print(f"  {len(scores[True])} users that trained, {len(scores[False])} that did not: AUC of their losses {told:.6g}, here {found:.6g}")
    return len(scores[True]) == verdict["members"] and len(scores[False]) == verdict["held_out"] and abs(found - told) < 1e-3


def check(directory):
    told = json.load(open(f"{directory}/experiment.json"))["cells"][0]
    cell = next(c for c in json.load(open(f"{directory}/results.json"))["cells"] if c["cell"] == told["name"])
    w, parts = weights(f"{directory}/model"), list(rows(directory, "parts"))
    print(f"{directory}: {cell['label']}")
    right = check_utility(w, cell, parts)
    verdict = cell.get("audit", {}).get("membership")
    return right and (verdict is None or check_membership(w, verdict, parts, rows(directory, "population")))


if __name__ == "__main__":
    failed = [d for d in sys.argv[1:] if not check(d)]
    sys.exit(f"not the same: {', '.join(failed)}" if failed else 0)
