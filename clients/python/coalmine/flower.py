"""Trains single users' models by a Flower NumPyClient, in the contract "client".

    def make(examples, config):                      # one user's client, as a client_fn of Flower makes it
        return MyNumPyClient(load(examples), config)

    serve(FromNumPyClient.of("mine 1", make))

What Flower's server would send in a round's config is config of the experiment file, with server_round and seed added.
Flower has no method that scores a text. Canaries are ranked if the client has one more:
loglikelihood(parameters, pairs), which gives for every (context, continuation) its log-probability and whether it is the
greedy one. Its evaluate must give the accuracy among its metrics, from 0 to 1.
"""
import functools

from .client import Client, serve

__all__ = ["FromNumPyClient", "serve"]


class FromNumPyClient(Client):
    def __init__(self, name, make, config, vocabulary, threads, input="tokens", deterministic=False):
        super().__init__(config, vocabulary, threads)
        self.name, self.make, self.input, self.deterministic = name, make, input, deterministic

    @classmethod
    def of(cls, name, make, **about):
        """What serve takes: about may say input and deterministic."""
        return functools.partial(cls, name, make, **about)

    def initial(self, seed):
        return self.named(self.make([], self.config).get_parameters({**self.config, "seed": seed}))

    def named(self, arrays):
        """Flower's arrays have an order and no names."""
        return {f"parameter {i:04}": array for i, array in enumerate(arrays)}

    def fit(self, parameters, examples, seed, round):
        config = {**self.config, "seed": seed, "server_round": round}
        arrays, n, metrics = self.make(examples, self.config).fit(list(parameters.values()), config)
        known = {"loss": metrics["loss"], "targets": metrics.get("targets", n)} if "loss" in metrics else {}
        return self.named(arrays), n, known

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
