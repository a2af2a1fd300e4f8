"""Trains single users' models by a Flower NumPyClient, in the contract "client".

    def make(examples, config):                      # one user's client, as a client_fn of Flower makes it
        return MyNumPyClient(load(examples), config)

    serve(FromNumPyClient.of("mine 1", make))

The config of a round is training.job of the experiment file, with server_round and seed added.
Flower has no method that scores a text. Canaries are ranked if the client has one more:
loglikelihood(parameters, pairs), which returns for every (context, continuation) its log-probability and whether it is
the greedy one. Its evaluate must give the accuracy among its metrics, from 0 to 1.

A federation that Flower runs without Coalmine writes files for later audits:

    strategy = FedAvg(evaluate_fn=rounds("rounds"))                               # of the server: the arrays of each round
    app = ClientApp(client_fn, mods=[updates("updates", clients={17, 18})])       # of clients: what these have sent

coalmine.tensors.read returns the arrays of such a file, by the names that FromNumPyClient gives them. To audit a round, write a
scorer (contract "score") that loads them into the model:
coalmine audit --command "python3 score.py rounds/round-0010.safetensors" --canaries ...
"""
import functools
import os

import numpy

from . import tensors
from .client import Client, serve

__all__ = ["FromNumPyClient", "rounds", "serve", "updates"]


def named(arrays):
    """Flower's arrays have an order and no names."""
    return {f"parameter {i:04}": array for i, array in enumerate(arrays)}


def write(folder, name, arrays):
    """Writes arrays to a file and renames it into place."""
    os.makedirs(folder, exist_ok=True)
    path = os.path.join(folder, name + ".safetensors")
    tensors.write(path + ".part", named(arrays))
    os.replace(path + ".part", path)


def rounds(folder, then=None):
    """An evaluate_fn of a strategy: it writes the arrays after each round to folder/round-0001.safetensors, those before the first to
    round-0000, and gives what then gives, another evaluate_fn."""
    def evaluate(server_round, parameters, config):
        write(folder, f"round-{server_round:04}", parameters)
        return None if then is None else then(server_round, parameters, config)

    return evaluate


def partition(context):
    """The number of a client in Flower's simulations."""
    return context.node_config["partition-id"]


def updates(folder, clients, client_of=partition):
    """A mod of a ClientApp: it writes what some clients add to the arrays of a round to folder/round-0001-client-17.safetensors. clients
    are those that client_of(context) may give. The messages stay as they are. Mods that change the arrays, such as those that clip, come after
    it in the list, for it to see what the server gets."""
    def mod(message, context, call_next):
        client = client_of(context)
        if message.metadata.message_type != "train" or client not in clients:
            return call_next(message, context)
        from flwr.common import parameters_to_ndarrays, recordset_compat

        before = parameters_to_ndarrays(recordset_compat.recordset_to_fitins(message.content, keep_input=True).parameters)
        reply = call_next(message, context)
        if not reply.has_error():
            after = parameters_to_ndarrays(recordset_compat.recordset_to_fitres(reply.content, keep_input=True).parameters)
            change = [numpy.subtract(a, b) for a, b in zip(after, before, strict=True)]
            write(folder, f"round-{int(message.metadata.group_id):04}-client-{client}", change)
        return reply

    return mod


class FromNumPyClient(Client):
    def __init__(self, name, make, config, vocabulary, threads, input="tokens", deterministic=False):
        super().__init__(config, vocabulary, threads)
        self.name, self.make, self.input, self.deterministic = name, make, input, deterministic

    @classmethod
    def of(cls, name, make, **about):
        """Returns the argument of serve; about may set input and deterministic."""
        return functools.partial(cls, name, make, **about)

    def initial(self, seed):
        return named(self.make([], self.config).get_parameters({**self.config, "seed": seed}))

    def fit(self, parameters, examples, seed, round):
        config = {**self.config, "seed": seed, "server_round": round}
        arrays, n, metrics = self.make(examples, self.config).fit(list(parameters.values()), config)
        known = {"loss": metrics["loss"], "targets": metrics.get("targets", n)} if "loss" in metrics else {}
        return named(arrays), n, known

    def evaluate(self, parameters, examples):
        loss, n, metrics = self.make(examples, self.config).evaluate(list(parameters.values()), self.config)
        if "accuracy" not in metrics:
            raise ValueError(f"evaluate of the NumPyClient gives the metrics {sorted(metrics)}; expected accuracy among them")
        return {"loss": loss, "targets": n, "correct": round(metrics["accuracy"] * n)}

    def loglikelihood(self, parameters, pairs):
        client = self.make([], self.config)
        if not hasattr(client, "loglikelihood"):
            raise NotImplementedError(f"{type(client).__name__} has no loglikelihood(parameters, pairs), without which canaries cannot be ranked")
        return client.loglikelihood(list(parameters.values()), pairs)
