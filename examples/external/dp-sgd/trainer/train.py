"""DP-SGD in plain PyTorch, with three faults to choose from by job.bug: clip-batch, noise-divided and shuffled."""
import numpy
import torch

from coalmine.replay import Replay
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

    def descend(self, vector):
        at = 0
        with torch.no_grad():
            for tensor in self.tensors.values():
                tensor -= vector[at:at + tensor.numel()].view_as(tensor)
                at += tensor.numel()


class Private(Trainer):
    def train(self, job):
        self.settings, self.seed, self.bug = job.job, job.seed, job.job.get("bug")
        if self.bug not in BUGS:
            raise ValueError(f"bug {self.bug}: expected one of {BUGS}")
        number = {word: i for i, word in enumerate(job.vocabulary())}
        self.records = [torch.tensor([number[w] for w in text.split()]) for _, text in job.texts() if len(text.split()) > 1]
        self.model = Model(len(number), job.job["units"], torch.Generator().manual_seed(job.seed))
        if job.replay:
            self.replay(job)
        for step in range(job.rounds):
            batch = self.batch(step)
            self.model.descend(job.job["learning_rate"] * self.released(batch, step, noise=True))
            job.metrics(round=step + 1, examples=len(batch))
        torch.save(self.model.tensors, "out/model.pt")
        return {"model": "out/model.pt"}

    def batch(self, step):
        """The records of a step, each with probability batch / records."""
        n, size = len(self.records), self.settings["batch"]
        if self.bug == "shuffled":
            epoch, place = divmod(step, n // size)
            return sorted(numpy.random.default_rng([self.seed, 1, epoch]).permutation(n)[place * size:(place + 1) * size].tolist())
        return numpy.flatnonzero(numpy.random.default_rng([self.seed, 1, step]).random(n) < size / n).tolist()

    def released(self, batch, step, noise):
        """The noised mean of the clipped gradients."""
        clip, size = self.settings["clip"], self.settings["batch"]
        total = torch.zeros(sum(t.numel() for t in self.model.tensors.values()))
        if self.bug == "clip-batch":
            if batch:
                total = size * self.clipped(self.model.gradient([self.records[i] for i in batch]))
        else:
            for i in batch:
                total += self.clipped(self.model.gradient([self.records[i]]))
        if noise:
            deviation = self.settings["noise_multiplier"] * clip
            if self.bug == "noise-divided":
                deviation /= size
            total += deviation * torch.randn(total.shape, generator=torch.Generator().manual_seed(1_000_003 * self.seed + step))
        return total / size

    def clipped(self, gradient):
        return gradient * min(1.0, self.settings["clip"] / max(gradient.norm().item(), 1e-12))

    def replay(self, job):
        s = self.settings
        replay = Replay(job, [(name, t.numel()) for name, t in self.model.tensors.items()], unit="record", noise_multiplier=s["noise_multiplier"],
                        sampling="poisson", population=len(self.records), cohort=s["batch"], rounds=job.rounds, delta=s["delta"])
        for step in range(replay.repeats):
            batch = self.batch(step)
            replay.add(batch, lambda without, noise: self.released([i for i in batch if i != without], step, noise).numpy() * s["batch"] / s["clip"])
        replay.tell()


if __name__ == "__main__":
    torch.set_num_threads(1)
    run(Private)
