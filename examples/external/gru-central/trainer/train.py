"""A GRU in PyTorch, trained centrally on the texts of all users.

job: embedding and units of the network, dropout, epochs, batch, learning_rate.
"""
import random

import torch

from coalmine.train import Trainer, run
from network import BEGIN, Language, batches, numbered


class GRU(Trainer):
    def train(self, job):
        torch.manual_seed(job.seed)
        words, options = job.vocabulary(), job.job
        numbers = numbered(words)
        texts = [numbers(text) for _, text in job.texts()]
        shape = {"words": len(words), "embedding": options["embedding"], "units": options["units"], "dropout": options["dropout"]}
        model = Language(**shape)
        optimizer = torch.optim.Adam(model.parameters(), lr=options["learning_rate"])
        self.write("out/initial.pt", words, shape, model)
        epoch = 0
        state = job.load("state.pt", lambda file: torch.load(file))
        if state:
            model.load_state_dict(state["model"])
            optimizer.load_state_dict(state["optimizer"])
            epoch = state["epoch"]
        for epoch in range(epoch + 1, options["epochs"] + 1):
            loss, tokens = self.epoch(model, optimizer, texts, options["batch"], seed=job.seed + 1000 * epoch)
            job.metrics(epoch, loss=loss, examples=len(texts), tokens=tokens)
            job.save("state.pt", lambda file: torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": epoch}, file))
        self.write("out/model.pt", words, shape, model)
        return {"model": "out/model.pt", "score": "python3 score.py out/model.pt", "initial_score": "python3 score.py out/initial.pt"}

    def epoch(self, model, optimizer, texts, size, seed):
        """One pass in an order, and with the dropout, of the epoch's own seed: an interruption changes neither."""
        order = list(range(len(texts)))
        random.Random(seed).shuffle(order)
        torch.manual_seed(seed)
        model.train()
        total, tokens = 0.0, 0
        for at in range(0, len(order), size):
            inputs, targets = batches([texts[i] for i in order[at:at + size]])
            loss = torch.nn.functional.cross_entropy(model(inputs).flatten(0, 1), targets.flatten(), ignore_index=BEGIN)
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 5.0)
            optimizer.step()
            count = int((targets != BEGIN).sum())
            total, tokens = total + float(loss.detach()) * count, tokens + count
        return total / tokens, tokens

    def write(self, path, words, shape, model):
        torch.save({"words": words, "shape": shape, "model": model.state_dict()}, path)


if __name__ == "__main__":
    run(GRU)
