"""Computes gradients of the networks for images again, by PyTorch's automatic differentiation.

    python3 docs/checks/check_vision.py FILE ...

Each FILE holds the parameters of a network, a batch, the numbers that were drawn for it, and
the loss, gradient and moving statistics that Coalmine computed of them. The tests of
models/vision write such files and run this program. It needs PyTorch, computes in float64,
and is written from docs/model.md ("Networks for images"), not from the Go code. It prints how
far off the worst tensor is, relative to the L2 norm of its own gradient, and fails if that is
more than the rounding of float32 explains.
"""
import json
import struct
import sys

import torch
from torch.nn import functional

DECAY, EPSILON, MOMENTUM, SLOPE = 2.5e-5, 1e-3, 0.999, 0.01
TOLERANCE = 1e-4


def read(path):
    with open(path, "rb") as file:
        size, = struct.unpack("<Q", file.read(8))
        header, data = json.loads(file.read(size)), None
        data = bytearray(file.read())
    metadata, tensors = header.pop("__metadata__"), {}
    for name, t in header.items():
        kind = torch.float32 if t["dtype"] == "F32" else torch.int64
        values = torch.frombuffer(data[slice(*t["data_offsets"])], dtype=kind).reshape(t["shape"])
        tensors[name] = values.double() if kind == torch.float32 else values
    return metadata, tensors


def filters(kernel):
    """[side, side, in, out] as PyTorch has it: [out, in, side, side]."""
    return kernel.permute(3, 2, 0, 1)


class Network:
    def __init__(self, tensors, options):
        self.t, self.options, self.seen = tensors, options, []

    def leaky(self, x):
        return functional.leaky_relu(x, SLOPE)

    def dense(self, x, name):
        y = x @ self.t[name + ".kernel"]
        return y + self.t[name + ".bias"] if name + ".bias" in self.t else y

    def normalized(self, name, x, kind="batch"):
        """Of x [images, features] or [images, features, rows, columns]."""
        over = {"batch": [0, 2, 3][: x.ndim - 1] if x.ndim == 4 else [0], "layer": [1], "none": []}[kind]
        if over:
            mean, variance = x.mean(over, keepdim=True), x.var(over, unbiased=False, keepdim=True)
            if kind == "batch":
                n = x.numel() // x.shape[1]
                self.seen.append((name, mean.detach().flatten(), variance.detach().flatten() * n / max(1, n - 1)))
            x = (x - mean) / (variance + EPSILON).sqrt()
        beta = self.t[name + ".beta"]
        return x + (beta[:, None, None] if x.ndim == 4 else beta)

    def classify(self, x):
        for i in range(1, 4):
            x = functional.conv2d(x, filters(self.t[f"conv{i}.kernel"]), self.t[f"conv{i}.bias"]).relu()
            if i < 3:
                x = functional.max_pool2d(x, 2)
        x = x.permute(0, 2, 3, 1).flatten(1)
        return self.dense(self.dense(x, "dense1").relu(), "dense2")

    def judge(self, x):
        for i in (1, 2):
            name = f"discriminator.conv{i}"
            x = self.leaky(functional.conv2d(x, filters(self.t[name + ".kernel"]), self.t[name + ".bias"], stride=2, padding=1))
        x = self.dense(x.permute(0, 2, 3, 1).flatten(1), "discriminator.dense1")
        x = self.leaky(self.normalized("discriminator.norm", x, self.options.get("normalization", "batch")))
        return self.dense(x, "discriminator.dense2").flatten()

    def make(self, inputs, height, width):
        x = self.normalized("generator.norm1", self.dense(inputs, "generator.dense1")).relu()
        x = self.normalized("generator.norm2", self.dense(x, "generator.dense2")).relu()
        x = x.reshape(len(x), height // 4, width // 4, -1).permute(0, 3, 1, 2)
        for i in (1, 2):
            kernel = filters(self.t[f"generator.conv{i}.kernel"])
            x = self.normalized(f"generator.norm{i + 2}", functional.conv_transpose2d(x, kernel, stride=2, padding=1)).relu()
        x = functional.pad(x, (1, 2, 1, 2))
        return functional.conv2d(x, filters(self.t["generator.conv3.kernel"]), self.t["generator.conv3.bias"]).tanh()

    def score(self, y, sign):
        return functional.softplus(sign * y).mean() if self.options.get("loss") == "minimax" else sign * y.mean()

    def decay(self, network, learned):
        decayed = [n for n in learned if n.startswith(network) and ".norm" not in n and "generator.conv3" not in n]
        return DECAY / 2 * sum(self.t[n].square().sum() for n in decayed)


def loss_of(network, kind, batch, learned):
    images = (batch["images"] / 127.5 - 1).permute(0, 3, 1, 2) if "images" in batch else None
    if kind == "classifier":
        return functional.cross_entropy(network.classify(images), batch["labels"])
    height, width = batch["size"].tolist()
    made = network.make(batch["inputs"], height, width)
    if kind == "generator":
        return network.score(network.judge(made), -1) + network.decay("generator", learned)
    made, network.seen = made.detach(), []  # the generator's statistics are the generator's own affair
    loss = network.score(network.judge(made), 1) + network.score(network.judge(images), -1)
    coefficient = network.options.get("penalty", 10)
    if coefficient > 0:
        between = (images + batch["shares"][:, None, None, None] * (made - images)).requires_grad_(True)
        gradient, = torch.autograd.grad(network.judge(between).sum(), between, create_graph=True)
        norms = (gradient.square().sum((1, 2, 3)) + 1e-10).sqrt()
        loss = loss + coefficient * (norms - 1).square().mean()
    return loss + network.decay("discriminator", learned)


def statistics(network, tensors):
    """The moving statistics after the batches that were seen, in their order."""
    after = dict(tensors)
    for name, mean, variance in network.seen:
        for end, value in ((".mean", mean), (".variance", variance)):
            after[name + end] = MOMENTUM * after[name + end] + (1 - MOMENTUM) * value
        if name == "generator.norm1":
            after["generator.norm.initial_share"] = MOMENTUM * after["generator.norm.initial_share"]
    return after


def distance(got, want):
    return float((got - want).norm() / want.norm()) if want.norm() > 0 else float(got.norm())


def check(path):
    metadata, tensors = read(path)
    parameters = {n: t for n, t in tensors.items() if not n.startswith(("batch.", "gradient.", "after."))}
    batch = {n[len("batch."):]: t for n, t in tensors.items() if n.startswith("batch.")}
    gradients = {n[len("gradient."):]: t for n, t in tensors.items() if n.startswith("gradient.")}
    learned = [n for n in gradients if not n.endswith((".mean", ".variance", ".initial_share"))]
    for name in learned:
        parameters[name].requires_grad_(True)
    network = Network(parameters, json.loads(metadata["model"])["image"].get("gan", {}))
    loss = loss_of(network, metadata["network"], batch, learned)
    wanted = torch.autograd.grad(loss, [parameters[n] for n in learned])
    worst = max((distance(gradients[n], w), n) for n, w in zip(learned, wanted))
    after = statistics(network, parameters)
    moved = max([distance(t, after[n[len("after."):]]) for n, t in tensors.items() if n.startswith("after.")], default=0)
    off = abs(float(metadata["loss"]) / loss.item() - 1)
    print(f"{path}: loss off by {off:.1e}, gradient by at most {worst[0]:.1e} ({worst[1]}), statistics by {moved:.1e}")
    return max(off, worst[0], moved)


if __name__ == "__main__":
    if len(sys.argv) == 1:
        sys.exit(__doc__)
    if max(map(check, sys.argv[1:])) > TOLERANCE:
        sys.exit("further off than rounding explains")
