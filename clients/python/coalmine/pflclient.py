"""Trains single users' models by a PyTorchModel of pfl-research, in the contract "client".

    def make(config, vocabulary):                        # whose module maps token ids [batch, length] to logits [batch, length, size]
        return PyTorchModel(Language(vocabulary.size), local_optimizer_create=torch.optim.SGD, central_optimizer=...)

    def params(config):
        return NNTrainHyperParams(local_num_epochs=1, local_learning_rate=config["learning_rate"], local_batch_size=16)

    serve(FromModel.of("mine 1", make, my_dataset, params))

my_dataset(examples) is a pfl Dataset of one user's examples, lists of token ids. The algorithm is FederatedAveraging, or one
whose train_one_user asks no more of its context than model_train_params. Coalmine draws cohorts, clips, adds noise
and takes the server's step: backend, postprocessors and central optimizer are not used.
"""
import functools
import types

import numpy
import torch

from .client import serve
from .torchclient import ModuleClient

__all__ = ["FromModel", "serve"]


class FromModel(ModuleClient):
    def __init__(self, name, make, dataset, params, algorithm, config, vocabulary, threads):
        self.name, self.make, self.dataset, self.algorithm = name, make, dataset, algorithm or averaging()
        self.context = types.SimpleNamespace(model_train_params=params(config))
        super().__init__(config, vocabulary, threads)
        self.wrapped = make(config, vocabulary)
        self.model = self.wrapped.pytorch_model

    @classmethod
    def of(cls, name, make, dataset, params, algorithm=None):
        """Returns the argument of serve."""
        return functools.partial(cls, name, make, dataset, params, algorithm)

    def module(self):
        return self.make(self.config, self.vocabulary).pytorch_model

    def fit(self, parameters, examples, seed, round):
        module = self.load(parameters).train()
        torch.manual_seed(seed)
        numpy.random.seed(seed % 2**32)
        self.algorithm.train_one_user(self.wrapped.get_parameters(), self.wrapped, self.dataset(examples), self.context)
        return self.arrays(module), len(examples), {}


def averaging():
    from pfl.algorithm import FederatedAveraging

    return FederatedAveraging()
