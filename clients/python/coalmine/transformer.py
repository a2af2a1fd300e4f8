"""Decoder-only transformers for coalmine.torch: model.kind transformer.

    model: {kind: transformer, layers: 4, embedding: 256, heads: 8, context: 128}

docs/model.md has the equations, and the names and shapes of the tensors. The weights of all users are stacked, [users, ...].
"""
import math

import torch
from torch.nn import functional

from .torch import Shape

CONTEXT = 128  # of a model that names none


class Transformer(Shape):
    """The tensors of a transformer, and its outputs."""

    def __init__(self, model, vocabulary):
        self.kind, self.layers, self.units = model["kind"], model.get("layers") or 1, model["units"]
        self.vocabulary, self.width = model.get("vocabulary") or vocabulary, model["embedding"]
        self.embedding, self.heads, self.context = self.width, model["heads"], model.get("context") or CONTEXT
        if self.width % self.heads:
            raise ValueError(f"model.heads is {self.heads}; expected a divisor of the embedding, {self.width}")
        self.tied = not model.get("untied")
        self.tensors = dict(self.list())

    def list(self):
        width = self.width
        yield "embedding", [self.vocabulary, width]
        yield "position", [self.context, width]
        for i in range(self.layers):
            for room, wide, narrow in (("attention", 3 * width, width), ("feed", self.units, self.units)):
                for name, shape in (("scale", [width]), ("shift", [width]), ("input", [width, wide]), ("input_bias", [wide]),
                                    ("output", [narrow, width]), ("output_bias", [width])):
                    yield self.name(f"{room}.{name}", i), shape
        yield "final.scale", [width]
        yield "final.shift", [width]
        if not self.tied:
            yield "output.weights", [self.vocabulary, width]
        yield "output.bias", [self.vocabulary]

    def initial(self, seed):
        generator, drawn = torch.Generator().manual_seed(seed), {}
        for name, shape in self.tensors.items():
            drawn[name] = torch.full(shape, 1.0 if name.endswith(".scale") else 0.0)
            if len(shape) == 2:
                bound = math.sqrt(3 / shape[1]) if "." not in name or name == "output.weights" else 1 / math.sqrt(shape[0])
                if name.endswith(".output"):
                    bound /= math.sqrt(2 * self.layers)
                drawn[name].uniform_(-bound, bound, generator=generator)
        return drawn

    def normal(self, w, room, x):
        return functional.layer_norm(x, [self.width]) * w[room + ".scale"].unsqueeze(1) + w[room + ".shift"].unsqueeze(1)

    def half(self, w, room, x, between):
        """attention or feed: a normalisation, two products and what stands between them."""
        inputs = torch.baddbmm(w[room + ".input_bias"].unsqueeze(1), self.normal(w, room, x), w[room + ".input"])
        return torch.baddbmm(w[room + ".output_bias"].unsqueeze(1), between(inputs), w[room + ".output"])

    def blocks(self, w, x, attend, drop):
        """The outputs for the embedded tokens x, [users, rows, width]; attend(layer, queries, keys and values) mixes the values."""
        for layer in range(self.layers):
            attention = self.half(w, self.name("attention.", layer)[:-1], x, lambda qkv: attend(layer, qkv))
            x = x + (attention * drop(layer) if drop else attention)
            feed = self.half(w, self.name("feed.", layer)[:-1], x, lambda hidden: functional.gelu(hidden, approximate="tanh"))
            x = x + (feed * drop(layer) if drop else feed)
        return self.normal(w, "final", x)

    def split(self, x):
        """[..., tokens, width] as [..., heads, tokens, width of a head]."""
        return x.unflatten(-1, (self.heads, -1)).transpose(-3, -2)

    def mix(self, queries, keys, values, hidden=None):
        """Attention of [..., tokens, width]; hidden says which keys a query does not see."""
        queries, keys, values = self.split(queries), self.split(keys), self.split(values)
        scores = queries @ keys.transpose(-2, -1) / math.sqrt(self.width // self.heads)
        if hidden is not None:
            scores = scores.masked_fill(hidden, -math.inf)
        return (torch.softmax(scores, -1) @ values).transpose(-3, -2).flatten(-2)

    def outputs(self, w, batch, drop=None):
        """Of a batch whose rows lie token by token: attention lays them sentence by sentence, and its outputs back."""
        steps, sentences = len(batch.starts) - 1, int(batch.row.max()) + 1
        if steps > self.context:
            raise ValueError(f"an example has {steps + 1} tokens; expected at most {self.context + 1}, one more than model.context")
        step, row = torch.from_numpy(batch.step), torch.from_numpy(batch.row)
        place = (row * steps + step).to(batch.ids.device)
        source = torch.zeros(sentences * steps, dtype=torch.long, device=place.device)
        source[place] = torch.arange(len(place), device=place.device)
        later = torch.ones(steps, steps, dtype=torch.bool, device=place.device).triu(1)

        def attend(layer, qkv):
            laid = qkv[:, source].unflatten(1, (sentences, steps)).split(self.width, -1)
            return self.mix(*laid, later).flatten(1, 2)[:, place]

        return self.blocks(w, self.read(w, batch.ids) + w["position"][:, step.to(place.device)], attend, drop)

    def advance(self, w, ids, states):
        """The keys and values after one more token, by layer [1, nodes, tokens, width], and the outputs."""
        length, after = states[0][0].shape[2] if states else 0, []
        if length == self.context:
            raise ValueError(f"a sequence has more than {length} tokens, as many as model.context; expected a shorter one")

        def attend(layer, qkv):
            queries, keys, values = qkv.unsqueeze(2).split(self.width, -1)
            if states:
                keys, values = torch.cat([states[layer][0], keys], 2), torch.cat([states[layer][1], values], 2)
            after.append((keys, values))
            return self.mix(queries, keys, values).squeeze(2)

        x = self.blocks(w, self.read(w, ids) + w["position"][:, length:length + 1], attend, None)
        return after, x
