"""A GRU in PyTorch whose weights coalmine export has written, scored by contract.

    coalmine export RUN CELL -o model.safetensors
    coalmine audit --command "python3 clients/python/examples/torch_gru.py model.safetensors" \\
        --vocabulary model.safetensors --canaries canaries.txt

The model is a gru of one layer with an output of its own weights and without projection
(model: {kind: gru, untied: true, projection: 0}); docs/model.md has the tensors.
"""
import json
import os
import sys

import numpy
import torch

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from coalmine.pytorch import FromModule
from coalmine.score import serve

BEGIN = 2


def read(path):
    """The tensors of a safetensors file, and the metadata of its header."""
    with open(path, "rb") as file:
        header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
        data = file.read()
    metadata = header.pop("__metadata__")
    return {name: torch.from_numpy(numpy.frombuffer(data, "<f4")[slice(*(at // 4 for at in t["data_offsets"]))].reshape(t["shape"]).copy())
            for name, t in header.items()}, metadata


class Language(torch.nn.Module):
    def __init__(self, tensors):
        super().__init__()
        self.embedding = torch.nn.Embedding.from_pretrained(tensors["embedding"])
        self.cell = torch.nn.GRU(tensors["cell.input"].shape[0], tensors["output.weights"].shape[1], batch_first=True)
        self.output = torch.nn.Linear(*tensors["output.weights"].T.shape)
        units = self.cell.hidden_size
        state = {"weight_ih_l0": tensors["cell.input"].T, "weight_hh_l0": tensors["cell.recurrent"].T, "bias_ih_l0": tensors["cell.bias"],
                 "bias_hh_l0": torch.cat([torch.zeros(2 * units), tensors["cell.candidate_bias"]])}
        self.cell.load_state_dict(state)
        self.output.load_state_dict({"weight": tensors["output.weights"], "bias": tensors["output.bias"]})

    def forward(self, ids):
        return self.output(self.cell(self.embedding(ids))[0])


def load(path):
    tensors, metadata = read(path)
    if any(name.startswith(("projection", "cell2")) for name in tensors) or "cell.candidate_bias" not in tensors or "output.weights" not in tensors:
        raise SystemExit(f"{path} is no gru of one layer, untied and without projection: it has {sorted(tensors)}")
    words = json.loads(metadata["vocabulary"])
    numbers = {word: i for i, word in enumerate(words)}

    def encode(text):
        unknown = [word for word in text.split() if word not in numbers]
        if unknown:
            raise ValueError(f"the words {unknown} are not in the vocabulary")
        return [numbers[word] for word in text.split()]

    return FromModule(Language(tensors), encode, BEGIN, decode=lambda ids: "".join(" " + words[i] for i in ids))


if __name__ == "__main__":
    serve(load, sys.argv[1])
