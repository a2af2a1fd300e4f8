"""An LSTM of the size of Thakkar et al. (2020), 1.3 million parameters, trained by the contract "client": 96 dimensions, 670
units projected to 96, the output tied to the embedding. It tells how long its loop takes, for

    go run ./bench/cmd clients --command "python3 clients/python/examples/paper_lstm.py"
"""
import os
import sys
import time

import torch

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from coalmine.torchclient import ModuleClient, serve


class Language(torch.nn.Module):
    def __init__(self, tokens):
        super().__init__()
        self.embedding = torch.nn.Embedding(tokens, 96)
        self.cell = torch.nn.LSTM(96, 670, proj_size=96, batch_first=True)
        self.bias = torch.nn.Parameter(torch.zeros(tokens))

    def forward(self, ids):
        return torch.nn.functional.linear(self.cell(self.embedding(ids))[0], self.embedding.weight, self.bias)


class Paper(ModuleClient):
    name = "lstm of 670 units"

    def module(self):
        return Language(self.vocabulary.size)

    def fit(self, *arguments):
        begun = time.perf_counter()
        parameters, examples, metrics = super().fit(*arguments)
        return parameters, examples, {**metrics, "seconds": time.perf_counter() - begun}


serve(Paper)
