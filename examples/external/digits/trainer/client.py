"""Trains the network on one user's images: the contract "client"."""
import numpy
from coalmine.client import ImageClient, serve

import network


class Digits(ImageClient):
    name, deterministic = "digits 1", True

    def initial(self, seed):
        return network.drawn(seed, self.image.width * self.image.height * self.image.channels, self.config["width"], self.image.classes)

    def fit(self, parameters, examples, seed, round):
        x, labels = network.seen(examples.images), numpy.array(examples.labels)
        order = numpy.random.Generator(numpy.random.PCG64(seed)).permutation(len(labels))
        loss = network.epoch(parameters, x, labels, self.config["batch"], self.config["learning_rate"], order)
        return parameters, len(labels), {"loss": loss, "targets": len(labels)}

    def evaluate(self, parameters, examples):
        _, log_probs = network.forward(parameters, network.seen(examples.images))
        labels = numpy.array(examples.labels)
        own = log_probs[numpy.arange(len(labels)), labels]
        return {"loss": -own.astype(float).mean(), "targets": len(labels), "correct": (log_probs.argmax(1) == labels).sum()}


serve(Digits)
