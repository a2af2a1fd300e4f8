"""Computes a transformer of docs/model.md by the modules of PyTorch, in float64.

    python3 docs/checks/check_transformer.py > models/testdata/transformer.json

prints, for three small models, the log-probability of every token after every prefix of a sentence. Element k of the flat
vector of parameters is (2654435761 k mod 2^32) / 2^32 - 1/2 in float32, so that no file of weights is needed.
"""
import json
import math

import torch
from torch import nn
from torch.nn import functional

CASES = [
    {"kind": "transformer", "vocabulary": 31, "embedding": 12, "units": 20, "layers": 3, "heads": 3, "context": 9},
    {"kind": "transformer", "vocabulary": 257, "embedding": 16, "units": 7, "heads": 1, "context": 6, "untied": True},
    {"kind": "transformer", "vocabulary": 30, "embedding": 8, "units": 32, "layers": 2, "heads": 8, "context": 5},
]


def shapes(c):
    """The tensors of a model: names and shapes, in the order of the flat vector."""
    width = c["embedding"]
    yield "embedding", [c["vocabulary"], width]
    yield "position", [c["context"], width]
    for i in range(c.get("layers", 1)):
        number = i + 1 if i else ""
        for room, wide, narrow in (("attention", 3 * width, width), ("feed", c["units"], c["units"])):
            for name, shape in (("scale", [width]), ("shift", [width]), ("input", [width, wide]), ("input_bias", [wide]),
                                ("output", [narrow, width]), ("output_bias", [width])):
                yield f"{room}{number}.{name}", shape
    yield "final.scale", [width]
    yield "final.shift", [width]
    if c.get("untied"):
        yield "output.weights", [c["vocabulary"], width]
    yield "output.bias", [c["vocabulary"]]


def parameters(c):
    at, tensors = 0, {}
    for name, shape in shapes(c):
        k = torch.arange(at, at + math.prod(shape), dtype=torch.int64)
        values = (k * 2654435761 % 2**32).double() / 2**32 - 0.5
        tensors[name], at = values.float().double().reshape(shape), at + math.prod(shape)
    return tensors


def block(c, w, i):
    """A block by torch.nn.TransformerEncoderLayer, whose matrices are transposed."""
    number = i + 1 if i else ""
    layer = nn.TransformerEncoderLayer(c["embedding"], c["heads"], c["units"], dropout=0, batch_first=True, norm_first=True,
                                       activation=lambda x: functional.gelu(x, approximate="tanh"))
    layer.load_state_dict({
        "norm1.weight": w[f"attention{number}.scale"], "norm1.bias": w[f"attention{number}.shift"],
        "self_attn.in_proj_weight": w[f"attention{number}.input"].T, "self_attn.in_proj_bias": w[f"attention{number}.input_bias"],
        "self_attn.out_proj.weight": w[f"attention{number}.output"].T, "self_attn.out_proj.bias": w[f"attention{number}.output_bias"],
        "norm2.weight": w[f"feed{number}.scale"], "norm2.bias": w[f"feed{number}.shift"],
        "linear1.weight": w[f"feed{number}.input"].T, "linear1.bias": w[f"feed{number}.input_bias"],
        "linear2.weight": w[f"feed{number}.output"].T, "linear2.bias": w[f"feed{number}.output_bias"],
    })
    return layer


@torch.no_grad()
def log_probs(c, w, tokens):
    """[tokens, vocabulary]: row t after the first t + 1 tokens."""
    x, n = w["embedding"][tokens] + w["position"][:len(tokens)], len(tokens)
    later = torch.ones(n, n, dtype=torch.bool).triu(1)
    for i in range(c.get("layers", 1)):
        x = block(c, w, i)(x[None], src_mask=later)[0]
    x = functional.layer_norm(x, [c["embedding"]], w["final.scale"], w["final.shift"])
    return torch.log_softmax(x @ w["output.weights" if c.get("untied") else "embedding"].T + w["output.bias"], -1)


def main():
    torch.set_default_dtype(torch.float64)
    cases = []
    for c in CASES:
        tokens = [(7 * t * t + 3 * t + 2) % c["vocabulary"] for t in range(c["context"])]
        rows = log_probs(c, parameters(c), tokens)
        cases.append({"model": c, "tokens": tokens, "log_probs": [[round(p, 7) for p in row] for row in rows.tolist()]})
    print("[" + ",\n".join(json.dumps(case) for case in cases) + "]")


if __name__ == "__main__":
    main()
