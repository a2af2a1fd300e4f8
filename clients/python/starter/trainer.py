"""Trains Model on the texts of all users: the contract train. job.job is training.job of the experiment file."""
import torch

from coalmine.train import Trainer, run
from model import Model

UNKNOWN, BEGIN, END = 1, 2, 3  # the first words of a vocabulary stand for others


class Central(Trainer):
    def train(self, job):
        torch.manual_seed(job.seed)
        words, config = job.vocabulary(), job.job
        ids = {word: i for i, word in enumerate(words)}
        texts = [[BEGIN] + [ids.get(word, UNKNOWN) for word in text.split()] + [END] for _, text in job.texts()]
        model = Model(len(words), config)
        optimizer = torch.optim.Adam(model.parameters(), lr=config.get("learning_rate", 0.003))
        state = job.load("state.pt", torch.load) or {"epoch": 0}
        if state["epoch"]:  # the training was interrupted
            model.load_state_dict(state["model"])
            optimizer.load_state_dict(state["optimizer"])
        for epoch in range(state["epoch"] + 1, job.rounds + 1):
            torch.manual_seed(job.seed + 1000 * epoch)  # so that an interruption changes nothing
            job.metrics(epoch, loss=self.epoch(model, optimizer, texts, config.get("batch", 32)), examples=len(texts))
            job.save("state.pt", lambda file: torch.save({"epoch": epoch, "model": model.state_dict(), "optimizer": optimizer.state_dict()}, file))
        torch.save({"words": words, "config": config, "model": model.state_dict()}, "out/model.pt")
        return {"model": "out/model.pt", "score": "python3 scorer.py out/model.pt"}

    def epoch(self, model, optimizer, texts, size):
        losses = []
        for batch in torch.randperm(len(texts)).split(size):
            ids = torch.nn.utils.rnn.pad_sequence([torch.tensor(texts[i]) for i in batch], batch_first=True, padding_value=-100)
            logits = model(ids[:, :-1].clamp(min=0))
            loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten(), ignore_index=-100)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        return sum(losses) / len(losses)


run(Central)
