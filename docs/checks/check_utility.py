"""Computes again what audit.baselines and audit.utility of a cell say, from its exported data.

    coalmine data export RUN CELL --only parts -o DIR
    coalmine results RUN --json > DIR/results.json
    coalmine show RUN CELL --json > DIR/experiment.json
    coalmine export RUN CELL -o DIR/model.safetensors
    python3 docs/checks/check_utility.py DIR ...

Needs NumPy, scikit-learn and, for models of images, PyTorch; it is written from docs/method.md,
docs/data.md and docs/model.md. Without model.safetensors it looks at the baselines alone. Models
of scores and tags of texts are not run.
"""
import collections
import json
import os
import struct
import sys

import numpy
from sklearn.metrics import accuracy_score, average_precision_score, mean_absolute_error
from sklearn.neighbors import NearestNeighbors

UNKNOWN, BEGIN, END, FIRST_WORD = 1, 2, 3, 4
SCORES = 9
PLACES = 512


class Data:
    """The training and the test part, and what is said of each example."""

    def __init__(self, directory, data):
        self.images, self.label = data.get("level") == "image", data.get("label")
        self.tags, self.pairs = len(data.get("tags", [])), data.get("pairs", False)
        self.ordinary = data["vocabulary"].get("size", 256)
        self.classes = data.get("image", {}).get("classes", 10)
        rows = [json.loads(line) for line in open(f"{directory}/parts.jsonl")]
        self.train, self.test = ([self.divide(r["tokens"]) for r in rows if r["part"] == part] for part in ("train", "test"))
        if self.images and not self.label:  # images without a label say nothing
            self.train, self.test = ([x for x in part if x[0][0] != UNKNOWN] for part in (self.train, self.test))

    def divide(self, tokens):
        """The tokens of the labels, and those of the content; of words, the targets."""
        words = tokens[1:-1] if tokens[-1] == END else tokens[1:]
        if self.images:
            labels = self.tags if self.label else 1
            return words[:labels], words[labels:]
        if self.label is None:
            return [], tokens[tokens.index(END) + 1:] if self.pairs else tokens[1:]
        most = FIRST_WORD + (self.tags if self.label == "tags" else SCORES)
        first = next(i for i, w in enumerate(words) if w >= most or w < FIRST_WORD)
        return words[:first], words[first:]

    def truth(self, said):
        if self.label == "score":
            return [1 + 0.5 * (said[0] - FIRST_WORD)]
        if self.label == "tags":
            have = {i for i, t in enumerate(said) if t > FIRST_WORD} if self.images else {t - FIRST_WORD for t in said}
            return [float(i in have) for i in range(self.tags)]
        return [float(i == said[0] - FIRST_WORD) for i in range(self.classes)]

    def truths(self, part):
        return numpy.array([self.truth(said) for said, _ in part])

    def features(self):
        """Those of the training and of the test part."""
        if self.images:
            return [(numpy.array([content for _, content in part]) - FIRST_WORD) / 255.0 for part in (self.train, self.test)]
        having = collections.Counter(w for _, content in self.train for w in set(content))
        weights = {w: numpy.log(len(self.train) / n) for w, n in having.items()}
        return [numpy.array([hashed(content, weights) for _, content in part]) for part in (self.train, self.test)]


def hashed(words, weights):
    x = numpy.zeros(PLACES)
    for w in words:
        h = w * 0x9E3779B97F4A7C15 % 2**64
        x[(h >> 32) % PLACES] += weights.get(w, 0) * (-1 if h >> 63 else 1)
    norm = numpy.linalg.norm(x)
    return x / norm if norm else x


def measured(data, truth, predicted):
    """The measure of predictions, by its name in the results."""
    if data.label == "score":
        return {"mean_absolute_error": mean_absolute_error(truth, predicted)}
    if data.label == "tags":
        there = [i for i in range(data.tags) if truth[:, i].any()]
        return {"mean_average_precision": numpy.mean([average_precision_score(truth[:, i], predicted[:, i]) for i in there])}
    return {"recall_at_1": accuracy_score(truth.argmax(1), predicted.argmax(1))}


def recalls(guesses, targets):
    counts = collections.Counter(targets)
    return {"recall_at_1": counts[guesses[0]] / len(targets), "recall_at_5": sum(counts[g] for g in guesses) / len(targets)}


def most_frequent(items):
    counts = collections.Counter(items)
    return sorted(counts, key=lambda i: (-counts[i], i))[:5]


def guessing(known, asked, choices):
    uniform = {"recall_at_1": 1 / choices, "recall_at_5": min(1, 5 / choices)}
    return {"chance": uniform, "constant": recalls(most_frequent(known), asked)}


def baselines(data):
    """All that the baselines of the results have."""
    if not data.images and data.label is None:
        known, asked = ([t for _, targets in part for t in targets if t >= FIRST_WORD] for part in (data.train, data.test))
        return guessing(known, asked, data.ordinary)
    known, truth = data.truths(data.train), data.truths(data.test)
    if data.label == "score":
        constants = lambda guess: measured(data, truth, numpy.full_like(truth, guess))
        uniform = numpy.mean([constants(g)["mean_absolute_error"] for g in numpy.unique(known)])
        ours = {"chance": {"mean_absolute_error": uniform}, "constant": constants(numpy.median(known))}
    elif data.label == "tags":
        ours = {"chance": measured(data, truth, numpy.zeros_like(truth))}
    else:
        ours = guessing(known.argmax(1).tolist(), truth.argmax(1).tolist(), data.classes)
    train, test = data.features()
    near = NearestNeighbors(n_neighbors=10, algorithm="brute").fit(train).kneighbors(test, return_distance=False)
    ours["nearest_neighbours"] = measured(data, truth, known[near].mean(axis=1).round(9))
    return ours


def floor(data):
    """The baseline that the utility is held against: the frequencies of the training part."""
    if data.label == "tags":
        truth = data.truths(data.test)
        return measured(data, truth, numpy.zeros_like(truth))
    if data.label == "score":
        truth = data.truths(data.test)
        return measured(data, truth, numpy.full_like(truth, numpy.median(data.truths(data.train))))
    if data.images:
        known, asked = ([said[0] for said, _ in part] for part in (data.train, data.test))
    else:
        known, asked = ([t for _, targets in part for t in targets if t >= FIRST_WORD] for part in (data.train, data.test))
    counts, different = collections.Counter(known), len(set(known) | set(asked))
    probability = lambda w: (counts[w] + 1) / (len(known) + different)
    perplexity = numpy.exp(-numpy.mean([numpy.log(probability(w)) for w in asked]))
    return {"recall_at_1": asked.count(most_frequent(known)[0]) / len(asked), "perplexity": perplexity}


def tensors_of(path):
    with open(path, "rb") as file:
        size, = struct.unpack("<Q", file.read(8))
        header, data = json.loads(file.read(size)), file.read()
    for name, t in header.items():
        if name != "__metadata__":
            yield name, numpy.frombuffer(data[slice(*t["data_offsets"])], dtype="<f4").reshape(t["shape"])


def of_images(data, path):
    """What an exported model of images predicts."""
    import torch
    t = {name: torch.tensor(values, dtype=torch.float64) for name, values in tensors_of(path)}
    x = torch.tensor([content for _, content in data.test], dtype=torch.float64)
    shape = data.shape
    x = ((x - FIRST_WORD) / 127.5 - 1).reshape(len(x), shape["height"], shape["width"], shape["channels"]).permute(0, 3, 1, 2)
    for i in (1, 2, 3):
        x = torch.nn.functional.conv2d(x, t[f"conv{i}.kernel"].permute(3, 2, 0, 1), t[f"conv{i}.bias"])
        x = torch.relu(torch.nn.functional.max_pool2d(x, 2) if i < 3 else x)
    x = torch.relu(x.permute(0, 2, 3, 1).flatten(1) @ t["dense1.kernel"] + t["dense1.bias"])
    logits = (x @ t["dense2.kernel"] + t["dense2.bias"]).numpy()
    # Probabilities are float32, of which some are equal that are not in float64.
    return (1 / (1 + numpy.exp(-logits))).astype("float32") if data.label == "tags" else logits


def of_words(data, path):
    """Recalls of an exported language model, by the program that docs/model.md has for it."""
    import check_export
    model, hits, tops, all_words = check_export.Model(path), 0, 0, 0
    sentences = sorted(([BEGIN] + targets for _, targets in data.test), key=len, reverse=True)
    for first in range(0, len(sentences), 256):
        block = sentences[first : first + 256]
        states = model.start(len(block))
        for t in range(len(block[0]) - 1):
            block = [s for s in block if len(s) > t + 1]  # the longest come first
            states = model.step([(m[: len(block)], o[: len(block)]) for m, o in states], [s[t] for s in block])
            best = numpy.argsort(-numpy.asarray(model.log_probs(states)), axis=1, kind="stable")[:, :5].tolist()
            for guesses, s in zip(best, block):
                if s[t + 1] >= FIRST_WORD:
                    all_words, hits, tops = all_words + 1, hits + (guesses[0] == s[t + 1]), tops + (s[t + 1] in guesses)
    return {"recall_at_1": hits / all_words, "recall_at_5": tops / all_words}


def of_model(data, path):
    if not os.path.exists(path):
        return {}
    if data.images:
        return measured(data, data.truths(data.test), of_images(data, path))
    return of_words(data, path) if data.label is None else {}


def check(directory):
    shown = json.load(open(f"{directory}/experiment.json"))["cells"][0]
    cell = next(c for c in json.load(open(f"{directory}/results.json"))["cells"] if c["cell"] == shown["name"])
    data = Data(directory, shown["experiment"]["data"])
    data.shape = {"width": 28, "height": 28, "channels": 1, **shown["experiment"]["data"].get("image", {})}
    worst = 0
    there = {**cell.get("audit", {}).get("baselines", {}), "utility": cell["utility"], "baseline": cell["utility"].get("baseline", {})}
    found = baselines(data) if "baselines" in cell.get("audit", {}) else {}
    for what, ours in (found | {"utility": of_model(data, f"{directory}/model.safetensors"), "baseline": floor(data)}).items():
        theirs = there[what]
        for name, value in ours.items():
            if name not in theirs:
                continue
            worst = max(worst, abs(value - theirs[name]))
            print(f"{directory}, {what}, {name}: {value:.9g}, results have {theirs[name]:.9g}")
    print(f"{directory}: {len(data.train)} and {len(data.test)} examples, largest difference {worst:.2g}")


if __name__ == "__main__":
    for d in sys.argv[1:] or sys.exit(__doc__):
        check(d)
