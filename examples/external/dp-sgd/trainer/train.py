"""DP-SGD in plain PyTorch, with three faults to choose from by job.bug: clip-batch, noise-divided and shuffled."""
import numpy
import torch

from coalmine import tensors
from coalmine.steps import Steps
from coalmine.train import Trainer, run

BUGS = (None, "clip-batch", "noise-divided", "shuffled")


class Model:
    """Predicts each word from the one before it."""

    def __init__(self, words, units, generator):
        self.tensors = {name: 0.3 * torch.randn(shape, generator=generator) for name, shape in
                        (("embedding", (words, units)), ("output", (units, words)), ("bias", (words,)))}
        for tensor in self.tensors.values():
            tensor.requires_grad_()

    def gradient(self, records):
        """Of the mean loss of records: one flat vector."""
        e, w, b = self.tensors.values()
        losses = [torch.nn.functional.cross_entropy(e[r[:-1]] @ w + b, r[1:]) for r in records]
        return torch.cat([g.ravel() for g in torch.autograd.grad(torch.stack(losses).mean(), list(self.tensors.values()))])

    def arrays(self):
        return {name: tensor.detach().numpy() for name, tensor in self.tensors.items()}

    def load(self, arrays):
        with torch.no_grad():
            for name, tensor in self.tensors.items():
                tensor.copy_(torch.from_numpy(arrays[name]))

    def descend(self, vector):
        at = 0
        with torch.no_grad():
            for tensor in self.tensors.values():
                tensor -= vector[at:at + tensor.numel()].view_as(tensor)
                at += tensor.numel()


class Private(Trainer):
    def begin(self, job):
        self.settings, self.seed, self.bug = job.job, job.seed, job.job.get("bug")
        if self.bug not in BUGS:
            raise ValueError(f"bug {self.bug}: expected one of {BUGS}")
        number = {word: i for i, word in enumerate(job.vocabulary())}
        self.records = [torch.tensor([number[w] for w in text.split()]) for _, text in job.texts()]
        self.model = Model(len(number), job.job["units"], torch.Generator().manual_seed(job.seed))

    def train(self, job):
        self.begin(job)
        for round in range(1, job.rounds + 1):
            batch = self.sample(round, self.seed)
            self.model.descend(job.job["learning_rate"] * self.released(self.records, batch, round, self.seed, self.settings["clip"], noise=True))
            job.metrics(round=round, examples=len(batch))
        tensors.write("out/model.safetensors", self.model.arrays())
        return {"model": "out/model.safetensors"}

    def sample(self, round, seed):
        """The records of a batch, each with probability batch / records."""
        n, size = len(self.records), self.settings["batch"]
        if self.bug == "shuffled":
            epoch, place = divmod(round - 1, n // size)
            return sorted(numpy.random.default_rng([seed, 1, epoch]).permutation(n)[place * size:(place + 1) * size].tolist())
        return numpy.flatnonzero(numpy.random.default_rng([seed, 1, round]).random(n) < size / n).tolist()

    def released(self, records, batch, round, seed, clip, noise):
        """The noised mean of the clipped gradients."""
        size = self.settings["batch"]
        batch = [records[i] for i in batch if len(records[i]) > 1]  # a single word predicts nothing
        total = torch.zeros(sum(t.numel() for t in self.model.tensors.values()))
        if self.bug == "clip-batch":
            if batch:
                total = size * clipped(self.model.gradient(batch), clip)
        else:
            for record in batch:
                total += clipped(self.model.gradient([record]), clip)
        if noise:
            deviation = self.settings["noise_multiplier"] * clip
            if self.bug == "noise-divided":
                deviation /= size
            total += deviation * torch.from_numpy(numpy.random.default_rng([seed, 2, round]).standard_normal(len(total))).float()
        return total / size

    def steps(self, job):
        self.begin(job)
        s = self.settings
        return Steps(self.records, self.model.arrays(), unit="record", noise_multiplier=s["noise_multiplier"], clip=s["clip"], divisor=s["batch"],
                     sampling="poisson", cohort=s["batch"], rounds=job.rounds, delta=s["delta"])

    def step(self, parameters, records, batch, round, seed, clip, noise):
        self.model.load(parameters)
        return self.released(records, batch, round, seed, clip, noise).numpy()


def clipped(gradient, clip):
    return gradient * min(1.0, clip / max(gradient.norm().item(), 1e-12))


if __name__ == "__main__":
    torch.set_num_threads(1)
    run(Private)
