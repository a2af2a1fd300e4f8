"""A small transformer that predicts the next word, and how texts become numbers. The first words of a vocabulary stand
for others: padding, the unknown word, begin and end."""
import math

import torch
from torch.nn import functional

UNKNOWN, BEGIN, END = 1, 2, 3


def numbered(words):
    """A function from texts to numbers."""
    places = {word: i for i, word in enumerate(words)}
    return lambda text: [places.get(word, UNKNOWN) for word in text.split()]


class Attention(torch.nn.Module):
    """Every place looks at itself and at those before it."""

    def __init__(self, width, heads, dropout):
        super().__init__()
        self.heads = heads
        self.inward, self.outward = torch.nn.Linear(width, 3 * width), torch.nn.Linear(width, width)
        self.dropout = torch.nn.Dropout(dropout)

    def forward(self, x):
        batch, length, width = x.shape
        split = self.inward(x).view(batch, length, 3, self.heads, width // self.heads)
        queries, keys, values = split.permute(2, 0, 3, 1, 4)
        scores = queries @ keys.transpose(-2, -1) / math.sqrt(width // self.heads)
        later = torch.ones(length, length, dtype=torch.bool, device=x.device).triu(1)
        weights = self.dropout(scores.masked_fill(later, -math.inf).softmax(-1))
        return self.outward((weights @ values).transpose(1, 2).reshape(batch, length, width))


class Block(torch.nn.Module):
    def __init__(self, width, heads, dropout):
        super().__init__()
        self.first, self.attention = torch.nn.LayerNorm(width), Attention(width, heads, dropout)
        self.second = torch.nn.LayerNorm(width)
        self.feed = torch.nn.Sequential(torch.nn.Linear(width, 4 * width), torch.nn.GELU(), torch.nn.Linear(4 * width, width))
        self.dropout = torch.nn.Dropout(dropout)

    def forward(self, x):
        x = x + self.dropout(self.attention(self.first(x)))
        return x + self.dropout(self.feed(self.second(x)))


class Language(torch.nn.Module):
    """Word and place vectors, blocks, and an output layer that shares the word vectors."""

    def __init__(self, words, length, width, heads, layers, dropout):
        super().__init__()
        self.words, self.places = torch.nn.Embedding(words, width), torch.nn.Embedding(length, width)
        self.dropout = torch.nn.Dropout(dropout)
        self.blocks = torch.nn.Sequential(*(Block(width, heads, dropout) for _ in range(layers)))
        self.last = torch.nn.LayerNorm(width)
        for vectors in (self.words, self.places):
            torch.nn.init.normal_(vectors.weight, std=0.05)

    def forward(self, ids):
        places = torch.arange(ids.shape[1], device=ids.device)
        x = self.blocks(self.dropout(self.words(ids) + self.places(places)))
        return functional.linear(self.last(x), self.words.weight)
