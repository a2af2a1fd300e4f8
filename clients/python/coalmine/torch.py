"""Trains Coalmine's language models in PyTorch, many users at once: cifg-lstm, lstm, gru and transformer (coalmine.transformer).

    model: {kind: lstm}
    training: {engine: pytorch, ...}

An experiment with training.engine: pytorch runs python3 -m coalmine.torch, with the model and the optimizer of the experiment
file. As a program of training.client_command its training.job has

    model: {kind: lstm, embedding: 96, units: 670}      # and layers, projection (-1: none), untied
    local: {learning_rate: 0.5, batch: 16}              # and optimizer, gradient_clip, dropout, weight_decay, proximal
    users: 16                                           # at once; and epochs, steps, device

The weights of all users are stacked, [users, ...], and so are the products: docs/model.md has the equations, and the names and
shapes of the tensors.
"""
import itertools
import math
import sys

try:
    import numpy
    import torch
    from torch.nn import functional
except ImportError as error:
    sys.exit(f"coalmine.torch needs NumPy and PyTorch 1.13 or later, and {sys.executable} lacks one of them: {error}; install it there, or put another python3 first in PATH")

from . import devices
from .client import Client, Diverged, User, scale_of, serve

GATES = {"cifg-lstm": 3, "lstm": 4, "gru": 3}
CPU_LOGITS = 1 << 22  # the most logits at a time on a CPU: more do not fit its caches


class Shape:
    """The tensors of a model: shapes by their names, in the order of its files."""

    frozen = ()  # names of those that are not trained

    def __init__(self, model, vocabulary):
        if model["kind"] not in GATES or model.get("separator"):
            raise ValueError(f"model.kind is {model['kind']!r}, without or with pairs; expected one of {', '.join(GATES)}, transformer, without pairs")
        self.kind, self.layers, self.units = model["kind"], model.get("layers") or 1, model["units"]
        self.vocabulary, self.embedding = model.get("vocabulary") or vocabulary, model["embedding"]
        projection = model.get("projection") or self.embedding
        self.projected = projection != -1
        self.width = projection if self.projected else self.units
        self.tied = not model.get("untied")
        if self.tied and self.width != self.embedding:
            raise ValueError(f"the outputs have the width {self.width}; expected that of the embedding, {self.embedding}, or untied: true")
        self.tensors = dict(self.list())

    def list(self):
        yield "embedding", [self.vocabulary, self.embedding]
        gates, below = GATES[self.kind] * self.units, self.embedding
        for i in range(self.layers):
            yield self.name("cell.input", i), [below, gates]
            yield self.name("cell.recurrent", i), [self.width, gates]
            yield self.name("cell.bias", i), [gates]
            if self.kind == "gru":
                yield self.name("cell.candidate_bias", i), [self.units]
            if self.projected:
                yield self.name("projection", i), [self.units, self.width]
            below = self.width
        if not self.tied:
            yield "output.weights", [self.vocabulary, self.width]
        yield "output.bias", [self.vocabulary]

    def name(self, tensor, layer):
        first, dot, rest = tensor.partition(".")
        return (f"{first}{layer + 1}" if layer else first) + dot + rest

    def bound(self, name):
        """Initial values are uniform from -bound to bound."""
        rows, columns = self.tensors[name]
        if name in ("embedding", "output.weights"):
            return math.sqrt(3 / columns)
        return math.sqrt(6 / (rows + (columns if name.startswith("projection") else self.units)))

    def initial(self, seed):
        generator, drawn = torch.Generator().manual_seed(seed), {}
        for name, shape in self.tensors.items():
            drawn[name] = torch.zeros(shape)
            if len(shape) == 2:
                drawn[name].uniform_(-self.bound(name), self.bound(name), generator=generator)
            elif name.endswith(".bias") and self.kind == "cifg-lstm" and name != "output.bias":
                drawn[name][:self.units] = -1
            elif name.endswith(".bias") and self.kind == "lstm" and name != "output.bias":
                drawn[name][self.units:2 * self.units] = 1
        return drawn

    def cell(self, w, layer, gates, output, memory):
        """A step of a layer: gates [users, rows, gates] of its input, the output and memory of the step before, None at the begin."""
        weights, n = w[self.name("cell.recurrent", layer)], self.units
        if self.kind == "gru":
            bias = w[self.name("cell.candidate_bias", layer)].unsqueeze(1)
            direct, candidate = gates[..., :2 * n], bias
            if output is not None:
                direct = torch.baddbmm(direct, output, weights[..., :2 * n])
                candidate = torch.baddbmm(bias, output, weights[..., 2 * n:])
            r, u = torch.sigmoid(direct).split(n, -1)
            z = torch.tanh(gates[..., 2 * n:] + r * candidate)
            memory = z - u * z if memory is None else z + u * (memory - z)
            emitted = memory
        else:
            if output is not None:
                gates = torch.baddbmm(gates, output, weights)
            parts = gates.split(n, -1)
            i, z, o = torch.sigmoid(parts[0]), torch.tanh(parts[-2]), torch.sigmoid(parts[-1])
            if memory is None:
                memory = i * z
            elif self.kind == "lstm":
                memory = torch.sigmoid(parts[1]) * memory + i * z
            else:
                memory = memory + i * (z - memory)
            emitted = o * torch.tanh(memory)
        return torch.bmm(emitted, w[self.name("projection", layer)]) if self.projected else emitted, memory

    def read(self, w, ids):
        """The vectors of tokens [users, rows]."""
        table = w["embedding"]
        if "embedding" in self.frozen:  # one for all users
            return functional.embedding(ids, table[0])
        users = torch.arange(len(ids), device=ids.device)[:, None]
        return functional.embedding(ids + users * self.vocabulary, table.reshape(-1, self.embedding))

    def gates(self, w, layer, x):
        return torch.baddbmm(w[self.name("cell.bias", layer)].unsqueeze(1), x, w[self.name("cell.input", layer)])

    def logits(self, w, outputs):
        weights = w["embedding" if self.tied else "output.weights"]
        return torch.baddbmm(w["output.bias"].unsqueeze(1), outputs, weights.transpose(1, 2))

    def outputs(self, w, batch, drop=None):
        """Those of the last layer, [users, rows, width]; drop(layer) are factors of a layer's outputs."""
        x = self.read(w, batch.ids)
        for layer in range(self.layers):
            output, memory, steps = None, None, []
            for gates in self.gates(w, layer, x).split(batch.active, 1):
                if output is not None and gates.shape[1] < output.shape[1]:
                    output, memory = output[:, :gates.shape[1]], memory[:, :gates.shape[1]]
                output, memory = self.cell(w, layer, gates, output, memory)
                steps.append(output)
            x = torch.cat(steps, 1)
            if drop:
                x = x * drop(layer)
        return x

    def advance(self, w, ids, states):
        """The states after one more token, and the last layer's outputs."""
        x, after = self.read(w, ids), []
        for layer in range(self.layers):
            before = states[layer] if states else (None, None)
            after.append(self.cell(w, layer, self.gates(w, layer, x), *before))
            x = after[-1][0]
        return after, x


def shape_of(model, vocabulary):
    if model["kind"] != "transformer":
        return Shape(model, vocabulary)
    from .transformer import Transformer

    return Transformer(model, vocabulary)


class Batch:
    """Sentences of every user, the longest first, laid out token by token: [users, rows].

    The rows of a step are as many as the user with the most sentences of that length has; -100 is the target of the others'.
    """

    def __init__(self, sentences, device):
        self.order = [sorted(range(len(of)), key=lambda i: -len(of[i])) for of in sentences]
        longest = max(len(s) for of in sentences for s in of)
        tokens = numpy.full((len(sentences), max(map(len, sentences)), longest), -100, numpy.int64)
        for user, of in enumerate(sentences):
            for row, i in enumerate(self.order[user]):
                tokens[user, row, :len(of[i])] = of[i]
        active = (tokens[:, :, 1:] >= 0).sum(1).max(0)
        self.active = active.tolist()  # rows of each step
        self.step = numpy.repeat(numpy.arange(longest - 1), active)
        self.row = numpy.concatenate([numpy.arange(n) for n in active])
        ids, targets = tokens[:, self.row, self.step], tokens[:, self.row, self.step + 1]
        self.counts = (targets >= 0).sum(1)
        self.valid = targets >= 0
        self.ids = torch.from_numpy(numpy.maximum(ids, 0)).to(device)
        self.targets = torch.from_numpy(targets).to(device)


class Rule:
    """An optimizer of stacked weights. Its vectors are made when they are needed; rates are [users, 1, ...]."""

    def __init__(self, config, users):
        self.config, self.kind, self.users, self.state, self.steps = config, config.get("kind", "sgd"), users, {}, 0
        if not hasattr(self, self.kind):
            raise ValueError(f"optimizer {self.kind!r}: this trainer does not have it")

    def vector(self, name, like, value=0.0):
        """A vector of the state for the users that still train."""
        if name not in self.state:
            self.state[name] = torch.full((self.users, *like.shape[1:]), value, dtype=like.dtype, device=like.device)
        return self.state[name][:len(like)]

    def step(self, name, w, g, rate):
        getattr(self, self.kind)(name, w, g, rate, self.config)

    def sgd(self, name, w, g, rate, c):
        w -= rate * g

    def momentum(self, name, w, g, rate, c):
        w -= rate * self.vector(name, w).mul_(c["momentum"]).add_(g)

    def nesterov(self, name, w, g, rate, c):
        velocity = self.vector(name, w).mul_(c["momentum"]).add_(g)
        w -= rate * g
        w -= rate * c["momentum"] * velocity

    def squares(self, name, w, g, keep, add, initial=0.0):
        return self.vector(name + " squares", w, initial).mul_(keep).add_(g * g * add)

    def adagrad(self, name, w, g, rate, c):
        w -= rate * g / (self.squares(name, w, g, 1, 1, c.get("initial", 0)).sqrt() + c["epsilon"])

    def rmsprop(self, name, w, g, rate, c):
        w -= rate * g / (self.squares(name, w, g, c["beta2"], 1 - c["beta2"]).sqrt() + c["epsilon"])

    def mean(self, name, w, g, c):
        return self.vector(name, w).mul_(c.get("beta1", 0)).add_(g * (1 - c.get("beta1", 0)))

    def adam(self, name, w, g, rate, c):
        mean, squares = self.mean(name, w, g, c), self.squares(name, w, g, c.get("beta2", 0), 1 - c.get("beta2", 0))
        t = self.steps
        w -= rate / (1 - c.get("beta1", 0) ** t) * mean / ((squares / (1 - c.get("beta2", 0) ** t)).sqrt() + c["epsilon"])

    def fedadam(self, name, w, g, rate, c):
        mean = self.mean(name, w, g, c)
        w -= rate * mean / (self.squares(name, w, g, c.get("beta2", 0), 1 - c.get("beta2", 0), c.get("initial", 0)).sqrt() + c["epsilon"])

    def yogi(self, name, w, g, rate, c):
        mean, squares = self.mean(name, w, g, c), self.vector(name + " squares", w, c.get("initial", 0))
        squares -= (1 - c.get("beta2", 0)) * torch.sign(squares - g * g) * g * g
        w -= rate * mean / (squares.sqrt() + c["epsilon"])

    def adadelta(self, name, w, g, rate, c):
        keep, steps = c.get("beta2", 0), self.vector(name + " steps", w)
        squares = self.squares(name, w, g, keep, 1 - keep)
        step = (steps + c["epsilon"]).sqrt() / (squares + c["epsilon"]).sqrt() * g
        steps.mul_(keep).add_(step * step * (1 - keep))
        w -= rate * step


class Trainer(Client):
    """Several users at once, each from the same parameters."""

    name, deterministic = "coalmine.torch 1", True

    def __init__(self, config, vocabulary, threads):
        super().__init__(config, vocabulary, threads)
        devices.require(1, 13)
        torch.set_num_threads(threads)
        torch.use_deterministic_algorithms(True)
        self.device = devices.choose(config.get("device"))
        self.precise = torch.float32 if self.device.type == "mps" else torch.float64  # of sums
        self.shape = shape_of(config["model"], vocabulary.size)
        self.local, self.epochs, self.steps = config["local"], config.get("epochs") or 1, config.get("steps") or 0
        self.batch = self.local["batch"]
        self.users, self.frozen = config.get("users") or 16, self.shape.frozen
        size = sum(math.prod(shape) for name, shape in self.shape.tensors.items() if name not in self.frozen)
        self.memory = 4 * (5 * size + 4 * 20 * self.batch * self.shape.vocabulary)
        Rule(self.local.get("optimizer", {}), 1)

    def initial(self, seed):
        return {name: tensor.numpy() for name, tensor in self.shape.initial(seed).items()}

    def load(self, parameters):
        return {name: torch.from_numpy(parameters[name]).to(self.device) for name in self.shape.tensors}

    def trained(self, named):
        return {name: value for name, value in named.items() if name not in self.frozen}

    # Training.

    def fit(self, parameters, examples, seed, round):
        fitted, results = self.fit_many(parameters, [User(examples, seed)], round)
        return {name: array[0] for name, array in fitted.items()}, *results[0]

    def fit_many(self, parameters, users, round):
        start, results = self.load(parameters), []
        fitted = {name: torch.empty(len(users), *w.shape) for name, w in self.trained(start).items()}
        for weights, part, some in self.groups(start, users, fitted if self.device.type == "cpu" else None):
            results += some
            for name, w in weights.items():
                if fitted[name].device != w.device:
                    fitted[name][part.start:part.stop] = w.cpu()
        return {name: w.numpy() for name, w in fitted.items()}, results

    def sum(self, parameters, users, round, clip, weights):
        start, results = self.load(parameters), []
        total = {name: torch.zeros_like(w, dtype=self.precise) for name, w in self.trained(start).items()}
        for stacked, part, some in self.groups(start, users):
            for name, w in stacked.items():
                w -= start[name]
            for i, result, norm in zip(part, some, self.norms(stacked).tolist()):
                scale = scale_of(norm, result[0], clip, weights and weights[i])
                results.append((*result, norm))
                for name, w in stacked.items():
                    total[name].add_(w[i - part.start], alpha=scale)
        return {name: t.float().cpu().numpy() for name, t in total.items()}, results

    def norms(self, tensors):
        """The L2 norm of each user's part of stacked tensors, all together."""
        squares = sum((t.flatten(1) ** 2).sum(1, dtype=self.precise) for t in tensors.values())
        if not torch.isfinite(squares).all():  # a square may leave the range of 32-bit floats
            squares = sum((t.flatten(1).to(self.precise) ** 2).sum(1) for t in tensors.values())
        return squares.sqrt()

    def groups(self, start, users, fitted=None):
        """Trains the users some at a time, and gives their stacked weights, in fitted if there is one, their range and their results."""
        for part in self.parts(users):
            yield from devices.halving(lambda some: self.train(start, users, some, fitted), part)

    def parts(self, users):
        """Ranges of users whose logits fit the caches of a CPU; elsewhere one of all."""
        if self.device.type != "cpu":
            return [range(len(users))]
        longest = max(len(e) for user in users for e in user.examples)
        at_once = max(1, CPU_LOGITS // (self.batch * longest * self.shape.vocabulary))
        return [range(first, min(first + at_once, len(users))) for first in range(0, len(users), at_once)]

    def batches(self, user):
        """The places of the examples of every step."""
        if user.batches is not None:
            return user.batches
        generator, steps = torch.Generator().manual_seed(user.seed), []
        for _ in range(self.epochs):
            order = torch.randperm(len(user.examples), generator=generator).tolist()
            steps += [order[at:at + self.batch] for at in range(0, len(order), self.batch)]
        return steps[:self.steps] if self.steps else steps

    def train(self, start, users, part, fitted=None):
        """Stacked weights after the steps of a range of users, the range and their results. Those with the most steps come first, so
        that the others' end early."""
        plans = {i: self.batches(users[i]) for i in part}
        order = sorted(part, key=lambda i: -len(plans[i]))
        weights = {name: (torch.empty(len(part), *w.shape, device=self.device) if fitted is None else fitted[name][part.start:part.stop]).copy_(w)
                   for name, w in self.trained(start).items()}
        rule, losses, targets, diverged = Rule(self.local.get("optimizer", {}), len(part)), dict.fromkeys(part, 0.0), dict.fromkeys(part, 0), {}
        streams = [torch.Generator().manual_seed(users[i].seed) for i in order]
        for step in range(len(plans[order[0]])):
            live = [i for i in order if len(plans[i]) > step]
            w = {name: stacked[:len(live)].detach().requires_grad_() for name, stacked in weights.items()}
            chosen = [[users[i].examples[j] for j in plans[i][step]] for i in live]
            batch = Batch(chosen, self.device)
            found, norms = self.move(rule, w, start, batch, self.rates(users[0], chosen), streams)
            for i, loss, count, norm in zip(live, found, batch.counts.tolist(), norms):
                losses[i], targets[i] = losses[i] + loss, targets[i] + count
                self.watch(diverged, users[i], i, step + 1, loss / max(1, count), norm)
        if order != list(part):
            back = torch.tensor(order, device=self.device).argsort()
            for w in weights.values():
                w.copy_(w[back])
        self.ended(diverged, start, weights, part, plans)
        return weights, part, [(len(users[i].examples), {"loss": losses[i] / max(1, targets[i]), "targets": targets[i]}) for i in part]

    def watch(self, diverged, user, i, step, loss, norm):
        """Notes the first step of a user whose loss, or whose gradient's norm, shows that training diverged."""
        if not loss <= (user.largest_loss or sys.float_info.max):
            diverged.setdefault(i, (step, "loss", loss))
        elif not math.isfinite(norm):
            diverged.setdefault(i, (step, "gradient", norm))

    def ended(self, diverged, start, weights, part, plans):
        """Raises Diverged for the first user that diverged, in a step or by its update."""
        if not torch.isfinite(sum(w.sum() for w in weights.values())):
            norms = self.norms({name: w - start[name] for name, w in weights.items()}).tolist()
            for i, norm in zip(part, norms):
                if not math.isfinite(norm):
                    diverged.setdefault(i, (len(plans[i]), "update", norm))
        if diverged:
            raise Diverged(min(diverged), *diverged[min(diverged)])

    def rates(self, user, chosen):
        """A short batch takes its share of the learning rate."""
        rate = self.local["learning_rate"] if user.learning_rate is None else user.learning_rate
        return torch.tensor([rate * len(batch) / self.batch for batch in chosen], device=self.device)

    def move(self, rule, w, start, batch, rates, streams):
        """A step of the weights of all users in place; the sum of each one's losses before it, and the norm of its gradient, 0 if not
        known."""
        shared = {name: start[name].expand(len(rates), *start[name].shape) for name in self.frozen}
        rows = self.losses({**shared, **w}, batch, self.dropping(batch, streams)).sum(1)
        counts = torch.from_numpy(numpy.maximum(batch.counts, 1)).to(self.device)
        gradients = dict(zip(w, torch.autograd.grad((rows / counts).sum(), list(w.values()))))
        rule.steps += 1
        with torch.no_grad():
            norms = self.clip(gradients)
            for name, g in gradients.items():
                rate = rates.view(-1, *[1] * (g.dim() - 1))
                if self.local.get("proximal"):
                    g += self.local["proximal"] * (w[name] - start[name])
                if self.local.get("weight_decay"):
                    w[name].mul_(1 - rate * self.local["weight_decay"])
                rule.step(name, w[name].detach(), g, rate)
        return rows.tolist(), norms

    def losses(self, w, batch, drop=None):
        """-log p of every target, [users, rows], 0 where there is none."""
        logits = self.shape.logits(w, self.shape.outputs(w, batch, drop))
        return functional.cross_entropy(logits.flatten(0, 1), batch.targets.flatten(), reduction="none").view_as(batch.targets)

    def clip(self, gradients):
        """Bounds each user's gradient, and gives the norms before, 0 without a bound."""
        bound = self.local.get("gradient_clip")
        if not bound:
            return itertools.repeat(0.0)
        norms = self.norms(gradients)
        scale = (bound / norms.clamp(min=bound)).float()
        for g in gradients.values():
            g *= scale.view(-1, *[1] * (g.dim() - 1))
        return norms.tolist()

    def dropping(self, batch, streams):
        """Factors of a layer's outputs: each user's from a stream of its own, independent of the other users."""
        rate = self.local.get("dropout")
        if not rate:
            return None

        def factors(layer):
            mask = torch.zeros(*batch.targets.shape, self.shape.width)
            for of, valid, stream in zip(mask, torch.from_numpy(batch.valid), streams):
                drawn = torch.rand(int(valid.sum()), self.shape.width, generator=stream)
                of[valid] = (drawn >= rate).float() / (1 - rate)
            return mask.to(self.device)
        return factors

    # Measuring.

    def scored(self, w, sentences):
        """For 64 sentences at a time their batch, and for its rows the log-probability of the target and whether it is the first guess."""
        for first in range(0, len(sentences), 64):
            batch = Batch([sentences[first:first + 64]], self.device)
            logits = self.shape.logits(w, self.shape.outputs(w, batch))[0]
            targets = batch.targets[0]
            log_probs = torch.log_softmax(logits, -1).gather(-1, targets[:, None])[:, 0]
            yield first, batch, log_probs.cpu().double().numpy(), (logits.argmax(-1) == targets).cpu().numpy()

    def single(self, parameters):
        return {name: w.unsqueeze(0) for name, w in self.load(parameters).items()}

    @torch.no_grad()
    def evaluate(self, parameters, examples):
        """Of the targets that are ordinary words."""
        loss, targets, correct = 0.0, 0, 0
        for _, batch, log_probs, greedy in self.scored(self.single(parameters), examples):
            counted = batch.targets[0].cpu().numpy() >= self.vocabulary.first_word
            loss, targets, correct = loss - log_probs[counted].sum(), targets + counted.sum(), correct + greedy[counted].sum()
        return {"loss": loss / max(1, targets), "targets": targets, "correct": correct}

    @torch.no_grad()
    def loglikelihood(self, parameters, pairs):
        begin, found = self.vocabulary.begin, [None] * len(pairs)
        sentences = [[begin, *context, *continuation] for context, continuation in pairs]
        for first, batch, log_probs, greedy in self.scored(self.single(parameters), sentences):
            for row, i in enumerate(batch.order[0]):
                rows = (batch.row == row) & (batch.step >= len(pairs[first + i][0])) & (batch.step < len(sentences[first + i]) - 1)
                found[first + i] = log_probs[rows].sum(), greedy[rows].all()
        return found

    @torch.no_grad()
    def loglikelihood_tree(self, parameters, parents, tokens):
        """Level by level: the states of the nodes of one, the root's first, give the log-probabilities of the next."""
        w, children = self.single(parameters), {}
        for node, parent in enumerate(parents):
            children.setdefault(parent, []).append(node)
        found, level, states = [None] * len(tokens), [-1], None
        while level:
            ids = torch.tensor([[self.vocabulary.begin if node < 0 else tokens[node] for node in level]], device=self.device)
            states, outputs = self.shape.advance(w, ids, states)
            following, rows = [], []
            for row, node in enumerate(level):
                following += children[node]
                rows += [row] * len(children[node])
            for node, row, scored in zip(following, rows, self.tokens_after(w, outputs, rows, [tokens[node] for node in following])):
                found[node] = scored
            kept = [at for at, node in enumerate(following) if node in children]
            level, rows = [following[at] for at in kept], torch.tensor([rows[at] for at in kept], device=self.device, dtype=torch.long)
            states = [(first[:, rows], second[:, rows]) for first, second in states]
        return found

    def tokens_after(self, w, outputs, rows, tokens):
        """(log-probability, greedy) of each token after an output, of some outputs at a time."""
        at, many = 0, max(1, CPU_LOGITS // self.shape.vocabulary)
        for first in range(0, outputs.shape[1], many):
            logits = self.shape.logits(w, outputs[:, first:first + many])[0]
            log_probs, best = torch.log_softmax(logits, -1), logits.argmax(-1)
            end = at
            while end < len(rows) and rows[end] < first + many:
                end += 1
            r = torch.tensor(rows[at:end], device=self.device, dtype=torch.long) - first
            t = torch.tensor(tokens[at:end], device=self.device, dtype=torch.long)
            yield from zip(log_probs[r, t].tolist(), (best[r] == t).tolist())
            at = end


if __name__ == "__main__":
    serve(Trainer)
