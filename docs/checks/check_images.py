"""Makes the images of a gan again, and measures them, outside of Coalmine: how many look inverted,
the classifier score and the Frechet distance; and selects users or examples again by the
prepared classifier.

    coalmine export RUN CELL -o DIR/model.safetensors
    coalmine export RUN CELL --prepared classifier -o DIR/classifier.safetensors
    coalmine sample RUN CELL --seed SEED --count COUNT -o DIR/images
    coalmine data export RUN CELL --only parts,population -o DIR
    coalmine results RUN --json > DIR/results.json
    coalmine show RUN CELL --json > DIR/experiment.json
    python3 docs/checks/check_images.py SOURCE DIR ...

SOURCE is the file of JSON lines with pixels that the cells were computed on, plain or .gz; SEED is
the seed of the experiment and COUNT that of its audit.generated_images. Faults are planted in the
source again. It needs PyTorch and NumPy, computes in float64, and is written from docs/model.md,
docs/method.md, docs/choices.md and docs/random-streams.md.
"""
import base64
import glob
import itertools
import json
import struct
import sys
import zlib

import numpy
import torch

from check_data import result, rows
from check_faults import lines, planted
from check_streams import stream
from check_vision import EPSILON, Network, read

BLOCK = 500  # images at a time
TASK = 1000  # images that are drawn from one stream
SIDES = {"below": numpy.less_equal, "above": numpy.greater_equal}


class Generator(Network):
    """A gan whose generator normalizes by its moving statistics, without what is left of their beginning."""

    def normalized(self, name, x, kind="batch"):
        w, places = self.t["generator.norm.initial_share"], (1, -1) + (1, 1) * (x.ndim == 4)
        mean, variance = self.t[name + ".mean"], self.t[name + ".variance"]
        if w < 1:
            mean, variance = mean / (1 - w), ((variance - w) / (1 - w)).clamp(min=0)
        x = (x - mean.reshape(places)) / (variance + EPSILON).sqrt().reshape(places)
        return x + self.t[name + ".beta"].reshape(places)


def values(directory):
    """The values of the images that the generator makes, before they are rounded."""
    metadata, tensors = read(f"{directory}/model.safetensors")
    e, shape = json.load(open(f"{directory}/experiment.json"))["cells"][0]["experiment"], json.loads(metadata["model"])["image"]
    count, latent = e["audit"]["generated_images"]["count"], shape.get("gan", {}).get("latent", 128)
    inputs = []
    for first in range(0, count, TASK):
        rng = stream(e["seed"], "generated images", first)
        inputs += [[rng.normal() for _ in range(latent)] for _ in range(min(TASK, count - first))]
    inputs = torch.tensor(inputs, dtype=torch.float64).float().double()
    network = Generator(tensors, {})
    made = torch.cat([network.make(part, shape["height"], shape["width"]) for part in inputs.split(BLOCK)])
    return ((made + 1) * 127.5).permute(0, 2, 3, 1).numpy()


def png(path):
    """The values of a PNG file of 8 bits, without interlacing: [rows, columns, channels]."""
    data, at, packed = open(path, "rb").read(), 8, b""
    while at < len(data):
        size, name = struct.unpack(">I4s", data[at:at + 8])
        if name == b"IHDR":
            width, height, bits, color = struct.unpack(">IIBB", data[at + 8:at + 18])
        if name == b"IDAT":
            packed += data[at + 8:at + 8 + size]
        at += 12 + size
    assert bits == 8, path
    step, raw = {0: 1, 2: 3, 6: 4}[color], zlib.decompress(packed)
    above, out = [0] * (width * step), []
    for y in range(height):
        kind, *line = raw[y * (1 + width * step):(y + 1) * (1 + width * step)]
        for i in range(len(line)):
            left, up, corner = (line[i - step] if i >= step else 0), above[i], (above[i - step] if i >= step else 0)
            line[i] = line[i] + (0, left, up, (left + up) // 2, paeth(left, up, corner))[kind] & 255
        above = line
        out.append(line)
    return numpy.array(out).reshape(height, width, step)[:, :, :1 if step == 1 else 3]


def paeth(left, up, corner):
    return min((left, up, corner), key=lambda v: abs(left + up - corner - v))


def logits(network, images):
    """What a classifier makes of images [n, rows, columns, channels], 0 to 255."""
    x = (torch.tensor(images, dtype=torch.float64) / 127.5 - 1).permute(0, 3, 1, 2)
    return torch.cat([network.classify(part) for part in x.split(BLOCK)]).numpy()


def score(rows):
    p = torch.tensor(rows).softmax(1).numpy()
    divergences = numpy.where(p > 0, p * (numpy.log(numpy.maximum(p, 1e-300)) - numpy.log(p.mean(0))), 0).sum(1)
    return numpy.exp(divergences.mean())


def frechet(a, b):
    covariances = [numpy.cov(rows, rowvar=False) for rows in (a, b)]
    root = numpy.sqrt(numpy.maximum(numpy.linalg.eigvals(covariances[0] @ covariances[1]).real, 0)).sum()
    return ((a.mean(0) - b.mean(0)) ** 2).sum() + sum(numpy.trace(c) for c in covariances) - 2 * root


def inverted(images, real):
    """How many images are nearer to inverted ones: by mean intensity, and by the mean image."""
    upright, axes = real.mean(0), (1, 2, 3)
    means, m = images.mean(axes), upright.mean()
    far = ((images - upright) ** 2 - (images - (255 - upright)) ** 2).sum(axes)
    return int((abs(means - (255 - m)) < abs(means - m)).sum()), int((far > 0).sum())


def measured(made, real, network, theirs):
    """Relative differences of numbers; whether the counts are the same."""
    by_intensity, by_image = inverted(made, real)
    counts = [by_intensity, by_image, inverted(real, real)[0], len(real)]
    same = counts == [theirs["inverted"]["count"], theirs["inverted_by_means"]["count"], theirs["real_inverted"]["count"], theirs["real"]]
    a, b = logits(network, made), logits(network, real)
    ours = {"intensity": made.mean(), "real_intensity": real.mean(), "score": score(a), "real_score": score(b), "frechet_distance": frechet(a, b)}
    return same, {name: abs(value / {**theirs, **theirs["classifier"]}[name] - 1) for name, value in ours.items()}


def cube(shape, numbers):
    return numpy.array(numbers, dtype=numpy.float64).reshape(-1, *shape)


def accuracy(users):
    """What the results say of the accuracy of users, pairs of examples and correct ones."""
    shares = [correct / examples for examples, correct in users]
    histogram = [0] * 20
    for examples, correct in users:
        histogram[min(20 * correct // examples, 19)] += 1
    return {"users": len(users), "examples": sum(n for n, _ in users), "correct": sum(c for _, c in users),
            "percentiles": [float(v) for v in numpy.percentile(shares, [5, 25, 50, 75, 95])], "histogram": histogram}


def close(ours, theirs):
    """Equal but for rounding."""
    return ours.keys() == theirs.keys() and all(numpy.allclose(v, theirs[k], rtol=1e-12, atol=1e-12) if k != "side" else v == theirs[k] for k, v in ours.items())


def selected(choice, train, right, clean):
    """What the results say of a selection, and whether each example trains. right and clean say of each whether it is predicted."""
    places = [[i for i, _ in group] for _, group in itertools.groupby(enumerate(train), key=lambda x: x[1]["user"])]
    if choice.get("examples"):
        kept = [[i for i in own if right[i] == (choice["examples"] == "correct")] for own in places]
        kept = [own for own in kept if len(own) >= choice["at_least"]]
        found = {"at_least": choice["at_least"]}
    else:
        side, percent = next((s, float(t.rstrip("%"))) for s, t in choice["users"].items())
        of = lambda hits: [(len(own), sum(hits[i] for i in own)) for own in places]
        threshold = numpy.percentile([c / n for n, c in of(clean)], percent)
        kept = [own for own, (n, c) in zip(places, of(right)) if SIDES[side](c / n, threshold)]
        found = {"percentile": percent, "side": side, "threshold": threshold}
    found.update(users=len(kept), of_users=len(places), examples=sum(map(len, kept)))
    trains = {i for own in kept for i in own}
    return found, [i for i in range(len(train)) if i in trains], places


def check_selection(e, directory, train, faulty, clean, network, theirs):
    """Whether users or examples are selected again; None without a selection by the classifier."""
    choice = e["data"].get("select", {})
    if not choice.get("users") and not choice.get("examples"):
        return None
    labels = lambda rows: numpy.array([row["label"] for row in rows])
    hits = lambda rows: logits(network, numpy.stack([row["image"] for row in rows])).argmax(1) == labels(rows)
    right, fine = hits(faulty), hits(clean)
    found, trains, places = selected(choice, train, right, fine)
    if "accuracy" in theirs:
        for name, of in (("accuracy", right), ("clean_accuracy", fine)):
            if not close(accuracy([(len(own), int(sum(of[i] for i in own))) for own in places]), theirs[name]):
                return False
    population = [row["tokens"] for row in rows(directory, "population")]
    tokens = [[2, 4 + faulty[i]["label"], *(4 + faulty[i]["image"].astype(int).reshape(-1)).tolist()] for i in trains]
    return close(found, {k: theirs[k] for k in found}) and population == tokens


def read_rows(e, source, directory):
    """The rows of the parts with their labels and images, with faults and without."""
    d = e["data"]
    shape = (d["image"]["height"], d["image"]["width"], d["image"]["channels"])
    numbers = [n for n, _ in planted(e, source)[0]]
    parts = rows(directory, "parts")
    faulty = [{"part": r["part"], "user": r["user"], "label": numbers[r["example"]][0], "image": cube(shape, numbers[r["example"]][1:])[0]} for r in parts]
    clean = [{**row, "label": source[r["example"]]["label"], "image": cube(shape, list(base64.b64decode(source[r["example"]]["pixels"])))[0]}
             for row, r in zip(faulty, parts)]
    of = lambda part, some: [row for row in some if row["part"] == part]
    return of("train", faulty), of("train", clean), of("test", clean)


def check(source, directory):
    e, cell = json.load(open(f"{directory}/experiment.json"))["cells"][0]["experiment"], result(directory)
    theirs = cell["audit"]["generated_images"]
    faulty, clean, test = read_rows(e, source, directory)
    network = Network(read(f"{directory}/classifier.safetensors")[1], {})
    made = numpy.stack([png(path) for path in sorted(glob.glob(f"{directory}/images/*.png"))]).astype(float)
    real = numpy.stack([row["image"] for row in test[:theirs["images"]]])
    drawn = values(directory)
    off = abs(numpy.rint(drawn) - made) if drawn.shape == made.shape else numpy.array([255.0])
    edge = abs(drawn - made).max() if drawn.shape == made.shape else numpy.inf
    same, differences = measured(made, real, network, theirs)
    chosen = check_selection(e, directory, faulty, faulty, clean, network, cell.get("selection"))
    print(f"{directory}: {cell['label']}: {len(made)} images made again, {int((off > 0).sum())} of {made.size} values differ, by at most {int(off.max())}; "
          f"counts of inverted ones {'the same' if same else 'DIFFER'}; relative differences: " + ", ".join(f"{k} {v:.1e}" for k, v in differences.items())
          + ("" if chosen is None else f"; the selection is {'the same' if chosen else 'ANOTHER'}"))
    return edge < 0.51 and same and max(differences.values()) < 1e-4 and chosen is not False


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    with torch.no_grad():
        of = lines(sys.argv[1])
        failed = [d for d in sys.argv[2:] if not check(of, d)]
    sys.exit(f"not the same: {', '.join(failed)}" if failed else 0)
