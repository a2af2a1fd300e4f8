"""Trains whole models by simulations of pfl-research, in the contract "train".

    class Mine(Trainer):                                 # coalmine.train
        def train(self, job):
            texts = by_user(job)
            dataset = FederatedDataset(lambda user: my_dataset(texts[user]), get_user_sampler("random", list(texts)))
            ...
            rounds = Rounds(job, algorithm, [model], loss="train population | loss before local training")
            algorithm.run(params, backend, model, train_params, eval_params, callbacks=[rounds])
            torch.save(model.pytorch_model.state_dict(), "out/model.pt")
            return {"model": "out/model.pt", "score": "python3 score.py out/model.pt"}

    run(Mine)
"""
import json
import os
import sys
import tempfile
import zipfile

import numpy

__all__ = ["Rounds", "by_user"]


def by_user(job):
    """The texts of each user of the training part, for the datasets of a FederatedDataset."""
    users = {}
    for user, text in job.texts():
        users.setdefault(user, []).append(text)
    return users


class Rounds:
    """A callback for FederatedAlgorithm.run that reports each central iteration and saves checkpoints.

    saveables are what changes from one iteration to the next beside the algorithm: the model, at least. names are the names of
    aggregate metrics by those that Coalmine knows: loss, validation_loss, examples, tokens, clients. The first iteration must have
    them, later ones may leave them out.

    Each iteration begins with draws of NumPy and PyTorch from a seed of its own, so that an interruption does not change
    them. A state that nobody saves, such as that of a sampler, begins anew.
    """

    file = "pfl.zip"

    def __init__(self, job, algorithm, saveables, **names):
        self.job, self.algorithm, self.saveables, self.names, self.next = job, algorithm, [algorithm, *saveables], names, 0

    def on_train_begin(self, *, model):
        with tempfile.TemporaryDirectory() as directory:
            if self.job.load(self.file, lambda file: unpack(file, directory)):
                for folder, saveable in self.folders(directory):
                    saveable.load(folder)
                with open(os.path.join(directory, "next"), encoding="utf-8") as file:
                    self.next = json.load(file)
        self.algorithm.set_checkpointer(self)
        return empty()

    def invoke_save(self, _):
        """Is called by the algorithm when an iteration begins: it knows its number by then, and the model has the update of the last one."""
        with tempfile.TemporaryDirectory() as directory:
            for folder, saveable in self.folders(directory):
                os.mkdir(folder)
                saveable.save(folder)
            with open(os.path.join(directory, "next"), "w", encoding="utf-8") as file:
                json.dump(self.next, file)
            self.job.save(self.file, lambda file: pack(directory, file))
        seed((self.job.seed + 1_000_003 * self.next) % 2**32)

    def folders(self, directory):
        return [(os.path.join(directory, str(i)), saveable) for i, saveable in enumerate(self.saveables)]

    def after_central_iteration(self, aggregate_metrics, model, *, central_iteration):
        missing = [name for name in self.names.values() if name not in aggregate_metrics]
        if missing and central_iteration == 0:
            raise ValueError(f"the first iteration has no metric {missing[0]!r}; expected one of {[str(name) for name, _ in aggregate_metrics]}")
        numbers = {ours: number(aggregate_metrics[theirs]) for ours, theirs in self.names.items() if theirs not in missing}
        self.job.metrics(central_iteration + 1, **numbers)
        self.next = central_iteration + 1
        return False, empty()

    def on_train_end(self, *, model):
        pass


def empty():
    from pfl.metrics import Metrics

    return Metrics()


def number(metric):
    """The number of a plain value, or of one that knows its weight."""
    value = float(getattr(metric, "overall_value", metric))
    return int(value) if value.is_integer() else value


def seed(value):
    numpy.random.seed(value)
    if "torch" in sys.modules:
        sys.modules["torch"].manual_seed(value)


def pack(directory, file):
    with zipfile.ZipFile(file, "w") as archive:
        for folder, _, names in os.walk(directory):
            for name in names:
                path = os.path.join(folder, name)
                archive.write(path, os.path.relpath(path, directory))


def unpack(file, directory):
    with zipfile.ZipFile(file) as archive:
        archive.extractall(directory)
    return True
