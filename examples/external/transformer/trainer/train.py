"""A small transformer in PyTorch, trained centrally on the texts of all users.

job: width, heads, layers and length (the longest input in tokens) of the network, dropout, epochs, batch, learning_rate.
"""
import random

import torch

from coalmine.train import Trainer, run
from network import BEGIN, END, Language, numbered


class Transformer(Trainer):
    def train(self, job):
        torch.manual_seed(job.seed)
        words, options = job.vocabulary(), job.job
        numbers = numbered(words)
        texts = [numbers(text)[:options["length"] - 1] for _, text in job.texts()]
        shape = {"words": len(words), **{name: options[name] for name in ("length", "width", "heads", "layers", "dropout")}}
        model = Language(**shape)
        optimizer = torch.optim.AdamW(model.parameters(), lr=options["learning_rate"], weight_decay=0.01)
        self.write("out/initial.pt", words, shape, model)
        state = job.load("state.pt", torch.load) or {"epoch": 0}
        if "model" in state:
            model.load_state_dict(state["model"])
            optimizer.load_state_dict(state["optimizer"])
        for epoch in range(state["epoch"] + 1, options["epochs"] + 1):
            loss, tokens = self.epoch(model, optimizer, texts, options["batch"], seed=job.seed + 1000 * epoch)
            job.metrics(epoch, loss=loss, examples=len(texts), tokens=tokens)
            state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": epoch}
            job.save("state.pt", lambda file: torch.save(state, file))
        self.write("out/model.pt", words, shape, model)
        return {"model": "out/model.pt", "score": "python3 score.py out/model.pt", "initial_score": "python3 score.py out/initial.pt"}

    def epoch(self, model, optimizer, texts, size, seed):
        """One pass in an order, and with the dropout, of the epoch's own seed: an interruption changes neither."""
        torch.manual_seed(seed)
        model.train()
        total, tokens = 0.0, 0
        for batch in self.batches(texts, size, random.Random(seed)):
            inputs, targets = padded(batch)
            loss = torch.nn.functional.cross_entropy(model(inputs).flatten(0, 1), targets.flatten(), ignore_index=BEGIN)
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            count = int((targets != BEGIN).sum())
            total, tokens = total + float(loss.detach()) * count, tokens + count
        return total / tokens, tokens

    def batches(self, texts, size, rng):
        """Batches of texts that are about equally long, in any order: little is computed for padding."""
        order = sorted(range(len(texts)), key=lambda i: (len(texts[i]), rng.random()))
        batches = [[texts[i] for i in order[at:at + size]] for at in range(0, len(order), size)]
        rng.shuffle(batches)
        return batches

    def write(self, path, words, shape, model):
        torch.save({"words": words, "shape": shape, "model": model.state_dict()}, path)


def padded(texts):
    """Inputs and targets [batch, length] of texts: begin predicts the first word, the last one the end. Targets that are
    begin are none."""
    longest = max(map(len, texts)) + 1
    inputs, targets = torch.full((len(texts), longest), BEGIN), torch.full((len(texts), longest), BEGIN)
    for i, text in enumerate(texts):
        inputs[i, 1:len(text) + 1] = torch.tensor(text, dtype=torch.long)
        targets[i, :len(text) + 1] = torch.tensor(text + [END], dtype=torch.long)
    return inputs, targets


if __name__ == "__main__":
    run(Transformer)
