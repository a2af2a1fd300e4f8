"""Scores texts by a model that train.py has written: the contract score."""
import sys

import torch

from coalmine.pytorch import FromModule
from coalmine.score import serve
from network import BEGIN, Language, numbered


def load(path):
    file = torch.load(path)
    model = Language(**file["shape"])
    model.load_state_dict(file["model"])
    return FromModule(model, numbered(file["words"]), BEGIN, longest_input=file["shape"]["length"])


if __name__ == "__main__":
    serve(load, sys.argv[1])
