"""Scores texts by a model of trainer.py: the contract score. Without a file, as it is checked, the model is untrained."""
import sys
import zlib

import torch

from coalmine.pytorch import FromModule
from coalmine.score import serve
from model import Model

UNKNOWN, BEGIN = 1, 2  # the first words of a vocabulary stand for others


def load(path=None):
    if path is None:
        torch.manual_seed(1)
        return FromModule(Model(1000, {}), lambda text: [4 + zlib.crc32(word.encode()) % 996 for word in text.split()], BEGIN)
    file = torch.load(path)
    ids = {word: i for i, word in enumerate(file["words"])}
    model = Model(len(ids), file["config"])
    model.load_state_dict(file["model"])
    return FromModule(model, lambda text: [ids.get(word, UNKNOWN) for word in text.split()], BEGIN)


serve(load, *sys.argv[1:])
