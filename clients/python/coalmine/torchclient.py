"""Trains a PyTorch module for single users, by the contract "client".

    class GRU(ModuleClient):
        name = "gru 1"

        def module(self):
            return Language(self.vocabulary.size, self.config["units"])  # token ids [batch, length] to logits [batch, length, size]

    serve(GRU)

Each user's training is gradient descent on the mean loss of a batch: config has batch (16), epochs (1), learning_rate (1),
gradient_clip (0: none), and device (such as "cuda:1"; else COALMINE_DEVICE, or the best available). A short last batch
takes its share of the learning rate. coalmine.torch trains many users at once.
"""
import torch

from . import devices
from .client import Client, serve

__all__ = ["ModuleClient", "serve"]


class ModuleClient(Client):
    deterministic = True

    def __init__(self, config, vocabulary, threads):
        super().__init__(config, vocabulary, threads)
        torch.set_num_threads(threads)
        torch.use_deterministic_algorithms(True)
        self.device = devices.choose(config.get("device"))
        self.model = self.seeded(0)

    def module(self):
        """A new module, its parameters drawn from PyTorch's generator."""
        raise NotImplementedError(f"{type(self).__name__} has no module()")

    def optimizer(self, module):
        return torch.optim.SGD(module.parameters(), lr=self.config.get("learning_rate", 1.0))

    def seeded(self, seed):
        torch.manual_seed(seed)
        return self.module().to(self.device)

    def initial(self, seed):
        return self.arrays(self.seeded(seed))

    def arrays(self, module):
        return {name: p.detach().cpu().numpy().copy() for name, p in module.named_parameters()}

    @torch.no_grad()
    def load(self, parameters):
        for name, p in self.model.named_parameters():
            p.copy_(torch.from_numpy(parameters[name]))
        return self.model

    def fit(self, parameters, examples, seed, round):
        module, batch = self.load(parameters).train(), self.config.get("batch", 16)
        torch.manual_seed(seed)
        optimizer, total, targets = self.optimizer(module), 0.0, 0
        for _ in range(self.config.get("epochs", 1)):
            order = torch.randperm(len(examples)).tolist()
            for first in range(0, len(order), batch):
                loss, n = self.loss(module, [examples[i] for i in order[first:first + batch]])
                self.step(module, optimizer, loss / n, min(1, (len(order) - first) / batch))
                total, targets = total + float(loss.detach()), targets + n
        return self.arrays(module), len(examples), {"loss": total / targets, "targets": targets}

    def step(self, module, optimizer, loss, share):
        """A step with this share of the learning rate."""
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        clip = self.config.get("gradient_clip", 0)
        if clip:
            torch.nn.utils.clip_grad_norm_(module.parameters(), clip)
        rates = [group["lr"] for group in optimizer.param_groups]
        for group, rate in zip(optimizer.param_groups, rates):
            group["lr"] = rate * share
        optimizer.step()
        for group, rate in zip(optimizer.param_groups, rates):
            group["lr"] = rate

    def padded(self, examples):
        """Sentences as rows, and a mask of their tokens."""
        longest = max(map(len, examples))
        ids = torch.tensor([list(e) + [0] * (longest - len(e)) for e in examples])
        there = torch.arange(longest) < torch.tensor([len(e) for e in examples])[:, None]
        return ids.to(self.device), there.to(self.device)

    def loss(self, module, examples):
        """The sum of -log p of all tokens but the first of each example, and how many they are."""
        ids, there = self.padded(examples)
        logits, targets = module(ids[:, :-1]), ids[:, 1:].masked_fill(~there[:, 1:], -100)
        return torch.nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten(), reduction="sum"), int(there[:, 1:].sum())

    @torch.no_grad()
    def evaluate(self, parameters, examples):
        """Of the targets that are ordinary words."""
        module, sums = self.load(parameters).eval(), [0.0, 0, 0]
        for first in range(0, len(examples), 64):
            ids, there = self.padded(examples[first:first + 64])
            counted = there[:, 1:] & (ids[:, 1:] >= self.vocabulary.first_word)
            logits, targets = module(ids[:, :-1])[counted], ids[:, 1:][counted]
            sums[0] += float(torch.nn.functional.cross_entropy(logits.cpu().double(), targets.cpu(), reduction="sum"))
            sums[1] += len(targets)
            sums[2] += int((logits.argmax(-1) == targets).sum())
        return {"loss": sums[0] / max(1, sums[1]), "targets": sums[1], "correct": sums[2]}

    @torch.no_grad()
    def loglikelihood(self, parameters, pairs):
        module = self.load(parameters).eval()
        begin = self.vocabulary.begin
        sequences = [[begin, *context, *continuation] for context, continuation in pairs]
        ids, _ = self.padded(sequences)
        log_probs = torch.log_softmax(module(ids[:, :-1]).float(), -1).cpu()
        for row, sequence, (context, _) in zip(log_probs, sequences, pairs):
            tokens = torch.tensor(sequence[1 + len(context):])
            of = row[len(context):len(sequence) - 1]
            yield of.gather(-1, tokens[:, None]).double().sum(), bool((of.argmax(-1) == tokens).all())
