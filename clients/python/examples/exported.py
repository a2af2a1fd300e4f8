"""Any model of coalmine export, computed by docs/checks/check_export.py in PyTorch or NumPy, scored by contract.

    coalmine audit --command "python3 clients/python/examples/exported.py model.safetensors" \\
        --vocabulary model.safetensors --canaries canaries.txt

A model of bytes is asked about texts as they stand, without --vocabulary.
"""
import os
import sys

here = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(here, ".."), os.path.join(here, "..", "..", "..", "docs", "checks")]
import json

from check_export import BEGIN, Model
from coalmine.score import Scorer, digest, serve

FIRST = 4  # of the ordinary tokens


class Exported(Scorer):
    deterministic = True

    def __init__(self, path):
        self.network, self.model = Model(path), digest(path)
        words = json.loads(self.network.metadata["vocabulary"])
        self.numbers = {word: i for i, word in enumerate(words)}
        self.of_bytes = words[FIRST + ord("a"):FIRST + ord("d")] == ["a", "b", "c"]

    def encode(self, text):
        if self.of_bytes:
            return [FIRST + b for b in text.encode()]
        unknown = [word for word in text.split() if word not in self.numbers]
        if unknown:
            raise ValueError(f"the words {unknown} are not in the vocabulary")
        return [self.numbers[word] for word in text.split()]

    def loglikelihood(self, pairs):
        return [(sum(tokens), greedy) for tokens, greedy in map(self.scored, pairs)]

    def token_logprobs(self, pairs):
        return [tokens for tokens, _ in map(self.scored, pairs)]

    def scored(self, pair):
        """The log-probabilities of a continuation's tokens, and whether all are the most probable."""
        states, found, greedy = self.network.start(1), [], True
        for token in [BEGIN] + self.encode(pair[0]):
            states = self.network.step(states, [token])
        for token in self.encode(pair[1]):
            log_probs = self.network.log_probs(states)[0]
            found.append(float(log_probs[token]))
            greedy = greedy and int(log_probs.argmax()) == token
            states = self.network.step(states, [token])
        return found, greedy


if __name__ == "__main__":
    serve(Exported, sys.argv[1])
