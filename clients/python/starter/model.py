"""The module that is trained. Put your own in its place: token ids [batch, length] go in, and logits
[batch, length, tokens] come out, those at a place about the token after it."""
import torch


class Model(torch.nn.Module):
    def __init__(self, tokens, config):
        super().__init__()
        width, units = config.get("embedding", 32), config.get("units", 64)
        self.embedding = torch.nn.Embedding(tokens, width)
        self.cell = torch.nn.GRU(width, units, batch_first=True)
        self.output = torch.nn.Linear(units, tokens)

    def forward(self, ids):
        return self.output(self.cell(self.embedding(ids))[0])
