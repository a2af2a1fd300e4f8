"""The network and how texts become numbers. The first words of a vocabulary stand for others: padding, the
unknown word, begin and end."""
import torch

UNKNOWN, BEGIN, END = 1, 2, 3


def numbered(words):
    """A function from texts to numbers."""
    places = {word: i for i, word in enumerate(words)}
    return lambda text: [places.get(word, UNKNOWN) for word in text.split()]


def batches(texts):
    """Inputs and targets [batch, length] of texts: begin predicts the first word, the last one the end."""
    longest = max(map(len, texts)) + 1
    inputs, targets = torch.full((len(texts), longest), BEGIN), torch.full((len(texts), longest), BEGIN)
    for i, text in enumerate(texts):
        inputs[i, 1:len(text) + 1] = torch.tensor(text, dtype=torch.long)
        targets[i, :len(text) + 1] = torch.tensor(text + [END], dtype=torch.long)
    return inputs, targets


class Language(torch.nn.Module):
    def __init__(self, words, embedding, units, dropout):
        super().__init__()
        self.embedding = torch.nn.Embedding(words, embedding)
        self.cell = torch.nn.GRU(embedding, units, batch_first=True)
        self.dropout = torch.nn.Dropout(dropout)
        self.output = torch.nn.Linear(units, words)

    def forward(self, ids):
        return self.output(self.dropout(self.cell(self.embedding(ids))[0]))
