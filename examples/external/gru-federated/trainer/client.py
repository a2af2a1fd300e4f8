"""The GRU of native.yaml in PyTorch, trained by the contract "client"."""
import math

import torch
from coalmine.torchclient import ModuleClient, serve


class Language(torch.nn.Module):
    """Token vectors, one layer of a GRU, and an output layer of its own weights."""

    def __init__(self, tokens, embedding, units):
        super().__init__()
        self.embedding = torch.nn.Embedding(tokens, embedding)
        self.cell = torch.nn.GRU(embedding, units, batch_first=True)
        self.output = torch.nn.Linear(units, tokens)
        self.draw()

    @torch.no_grad()
    def draw(self):
        """Draws parameters as docs/model.md says of a gru; the numbers are others."""
        for weights in (self.embedding.weight, self.output.weight):
            weights.uniform_(-math.sqrt(3 / weights.shape[1]), math.sqrt(3 / weights.shape[1]))
        for weights in (self.cell.weight_ih_l0, self.cell.weight_hh_l0):
            bound = math.sqrt(6 / (weights.shape[1] + self.cell.hidden_size))
            weights.uniform_(-bound, bound)
        for bias in (self.cell.bias_ih_l0, self.cell.bias_hh_l0, self.output.bias):
            bias.zero_()

    def forward(self, ids):
        return self.output(self.cell(self.embedding(ids))[0])


class GRU(ModuleClient):
    name = "gru 1"

    def module(self):
        return Language(self.vocabulary.size, self.config["embedding"], self.config["units"])


serve(GRU)
