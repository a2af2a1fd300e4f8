"""Decoder-only transformers for coalmine.torch: model.kind transformer.

    model: {kind: transformer, layers: 4, embedding: 256, heads: 8, context: 128}   # and blocks, adapters

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
        self.blocks_of(model.get("blocks") or {})
        self.tied = not model.get("untied")
        self.adapt(model.get("adapters") or {})
        frozen = dict(self.list())
        self.tensors = {**dict(self.factors()), **frozen}
        if self.adapters:
            self.frozen = tuple(frozen)

    def adapt(self, options):
        """Products of low rank (LoRA): docs/model.md has them. self.adapters has by tensor the name, the first column and the shape
        of each matrix in it."""
        width, keys, self.adapters = self.width, self.key_width, {}
        if not options:
            return
        known = {
            "attention.query": ("attention.input", 0, width, width), "attention.key": ("attention.input", width, width, keys),
            "attention.value": ("attention.input", width + keys, width, keys), "attention.output": ("attention.output", 0, width, width),
            "feed.input": ("feed.input", 0, width, (1 + bool(self.gated)) * self.units), "feed.output": ("feed.output", 0, self.units, width)}
        chosen = (options.get("matrices") or "attention.query,attention.value").split(",")
        if not {"rank", "alpha", "matrices"}.issuperset(options) or not set(known).issuperset(chosen) or not options.get("rank", 0) >= 1:
            raise ValueError(f"model.adapters is {options}; expected a rank of at least 1, and perhaps alpha and matrices, some of {', '.join(known)}")
        self.rank = options["rank"]
        self.scale = (options.get("alpha") or self.rank) / self.rank
        for layer in range(self.layers):
            for matrix, (tensor, *place) in known.items():
                if matrix in chosen:
                    self.adapters.setdefault(self.name(tensor, layer), []).append((self.name(matrix, layer), *place))

    def factors(self):
        for matrices in self.adapters.values():
            for name, _, rows, columns in matrices:
                yield name + "_a", [rows, self.rank]
                yield name + "_b", [self.rank, columns]

    def blocks_of(self, options):
        """Variants of blocks: docs/model.md has them."""
        activations = {"": lambda x: functional.gelu(x, approximate="tanh"), "gelu": functional.gelu, "silu": functional.silu}
        known = {"rotary", "theta", "key_heads", "parallel", "rms", "epsilon", "activation", "gated", "unbiased"}
        if not known.issuperset(options) or options.get("activation", "") not in activations:
            raise ValueError(f"model.blocks is {options}; expected some of {', '.join(sorted(known))}, and an activation that is gelu or silu")
        self.rotary, self.theta = options.get("rotary", 0), options.get("theta") or 10000
        self.key_width = self.width // self.heads * (options.get("key_heads") or self.heads)
        self.parallel, self.rms, self.gated = options.get("parallel"), options.get("rms"), options.get("gated")
        self.epsilon, self.biased = options.get("epsilon") or 1e-5, not options.get("unbiased")
        self.activation = activations[options.get("activation", "")]

    def list(self):
        width, missing = self.width, set()
        if self.rms:
            missing.add("shift")
        if not self.biased:
            missing |= {"input_bias", "output_bias"}
        yield "embedding", [self.vocabulary, width]
        if not self.rotary:
            yield "position", [self.context, width]
        for i in range(self.layers):
            for room, wide, narrow in (("attention", width + 2 * self.key_width, width), ("feed", (1 + bool(self.gated)) * self.units, self.units)):
                for name, shape in (("scale", [width]), ("shift", [width]), ("input", [width, wide]), ("input_bias", [wide]),
                                    ("output", [narrow, width]), ("output_bias", [width])):
                    if name not in missing:
                        yield self.name(f"{room}.{name}", i), shape
        yield "final.scale", [width]
        if not self.rms:
            yield "final.shift", [width]
        if not self.tied:
            yield "output.weights", [self.vocabulary, width]
        yield "output.bias", [self.vocabulary]

    def initial(self, seed):
        generator, drawn = torch.Generator().manual_seed(seed), {}
        for name, shape in self.tensors.items():
            drawn[name] = torch.full(shape, 1.0 if name.endswith(".scale") else 0.0)
            if name.endswith("_a"):
                drawn[name].normal_(0, 1 / math.sqrt(shape[0]), generator=generator)
            elif len(shape) == 2 and not name.endswith("_b"):
                bound = math.sqrt(3 / shape[1]) if "." not in name or name == "output.weights" else 1 / math.sqrt(shape[0])
                if name.endswith(".output"):
                    bound /= math.sqrt(2 * self.layers)
                drawn[name].uniform_(-bound, bound, generator=generator)
        return drawn

    def normal(self, w, room, x):
        scale = w[room + ".scale"].unsqueeze(1)
        if self.rms:
            return x * torch.rsqrt((x * x).mean(-1, keepdim=True) + self.epsilon) * scale
        return functional.layer_norm(x, [self.width], eps=self.epsilon) * scale + w[room + ".shift"].unsqueeze(1)

    def product(self, w, name, x):
        if not self.biased:
            y = torch.bmm(x, w[name])
        else:
            y = torch.baddbmm(w[name + "_bias"].unsqueeze(1), x, w[name])
        for matrix, first, _, columns in self.adapters.get(name, ()):
            y[..., first:first + columns] += self.scale * torch.bmm(torch.bmm(x, w[matrix + "_a"]), w[matrix + "_b"])
        return y

    def half(self, w, room, x, between):
        """attention or feed: a normalisation, two products and what stands between them."""
        return self.product(w, room + ".output", between(self.product(w, room + ".input", self.normal(w, room, x))))

    def hidden(self, inputs):
        """The hidden values of a feed-forward layer."""
        if not self.gated:
            return self.activation(inputs)
        gates, values = inputs.split(self.units, -1)
        return self.activation(gates) * values

    def rotated(self, x, places):
        """Queries or keys [..., rows, width] of the tokens at places [rows], turned in each head."""
        if not self.rotary:
            return x
        size, pairs = self.width // self.heads, self.rotary // 2
        frequencies = 1 / self.theta ** (torch.arange(0, self.rotary, 2, device=x.device).float() / self.rotary)
        angles = (places.to(x.device).float()[:, None] * frequencies)[:, None]
        x = x.unflatten(-1, (-1, size))
        first, second, rest = x.split([pairs, pairs, size - 2 * pairs], -1)
        turned = [first * angles.cos() - second * angles.sin(), second * angles.cos() + first * angles.sin(), rest]
        return torch.cat(turned, -1).flatten(-2)

    def parts(self, qkv, places):
        """Queries, keys and values of tokens at places."""
        queries, keys, values = qkv.split([self.width, self.key_width, self.key_width], -1)
        return self.rotated(queries, places), self.rotated(keys, places), values

    def placed(self, w, x, places):
        """The inputs of the first block for the vectors of tokens at places."""
        return x if self.rotary else x + w["position"][:, places.to(x.device)]

    def blocks(self, w, x, attend, drop):
        """The outputs for the embedded tokens x, [users, rows, width]; attend(layer, queries, keys and values) mixes the values."""
        for layer in range(self.layers):
            attention = self.half(w, self.name("attention.", layer)[:-1], x, lambda qkv: attend(layer, qkv))
            between = x + (attention * drop(layer) if drop else attention)
            feed = self.half(w, self.name("feed.", layer)[:-1], x if self.parallel else between, self.hidden)
            x = between + (feed * drop(layer) if drop else feed)
        return self.normal(w, "final", x)

    def split(self, x):
        """[..., tokens, width] as [..., heads, tokens, width of a head]; heads share keys and values."""
        x = x.unflatten(-1, (-1, self.width // self.heads)).transpose(-3, -2)
        shared = self.heads // x.shape[-3]
        return x if shared == 1 else x.repeat_interleave(shared, -3)

    def mix(self, queries, keys, values, hidden=None):
        """Attention of [..., tokens, width]; hidden says which keys a query does not see."""
        queries, keys, values = self.split(queries), self.split(keys), self.split(values)
        scores = queries @ keys.transpose(-2, -1) / math.sqrt(self.width // self.heads)
        if hidden is not None:
            scores = scores.masked_fill(hidden, -math.inf)
        return (torch.softmax(scores, -1) @ values).transpose(-3, -2).flatten(-2)

    def outputs(self, w, batch, drop=None):
        """Of a batch whose rows lie token by token: attention lays them sentence by sentence, and its outputs back."""
        steps, sentences = len(batch.active), int(batch.row.max()) + 1
        if steps > self.context:
            raise ValueError(f"an example has {steps + 1} tokens; expected at most {self.context + 1}, one more than model.context")
        step, row = torch.from_numpy(batch.step), torch.from_numpy(batch.row)
        place = (row * steps + step).to(batch.ids.device)
        source = torch.zeros(sentences * steps, dtype=torch.long, device=place.device)
        source[place] = torch.arange(len(place), device=place.device)
        later = torch.ones(steps, steps, dtype=torch.bool, device=place.device).triu(1)

        def attend(layer, qkv):
            laid = (part[:, source].unflatten(1, (sentences, steps)) for part in self.parts(qkv, step))
            return self.mix(*laid, later).flatten(1, 2)[:, place]

        return self.blocks(w, self.placed(w, self.read(w, batch.ids), step), attend, drop)

    def advance(self, w, ids, states):
        """The keys and values after one more token, by layer [1, nodes, tokens, width], and the outputs."""
        length, after = states[0][0].shape[2] if states else 0, []
        places = torch.full((ids.shape[1],), length)
        if length == self.context:
            raise ValueError(f"a sequence has more than {length} tokens, as many as model.context; expected a shorter one")

        def attend(layer, qkv):
            queries, keys, values = (part.unsqueeze(2) for part in self.parts(qkv, places))
            if states:
                keys, values = torch.cat([states[layer][0], keys], 2), torch.cat([states[layer][1], values], 2)
            after.append((keys, values))
            return self.mix(queries, keys, values).squeeze(2)

        x = self.blocks(w, self.placed(w, self.read(w, ids), places), attend, None)
        return after, x
