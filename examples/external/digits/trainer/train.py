"""Trains the network on all images, whatever number of files they are in: the contract "train"."""
import numpy
from coalmine.train import Trainer, run

import network


def write(file, parameters, epoch):
    numpy.savez(file, epoch=epoch, **parameters)


def read(file):
    found = dict(numpy.load(file))
    return int(found.pop("epoch")), found


class Digits(Trainer):
    def train(self, job):
        shape, recipe = job.image, job.job
        files = [(network.seen(images), numpy.array(labels)) for _, images, labels in job.images() if len(labels)]
        x, labels = (numpy.concatenate(parts) for parts in zip(*files))
        done, p = job.load("state.npz", read) or (
            0, network.drawn(job.seed, shape["width"] * shape["height"] * shape["channels"], recipe["width"], shape["classes"]))
        for epoch in range(done + 1, recipe["epochs"] + 1):
            order = numpy.random.Generator(numpy.random.PCG64([job.seed, epoch])).permutation(len(labels))
            loss = network.epoch(p, x, labels, recipe["batch"], recipe["learning_rate"], order)
            job.metrics(round=epoch, loss=loss, examples=len(labels))
            job.save("state.npz", lambda file: write(file, p, epoch))
        with open("out/model.npz", "wb") as file:
            write(file, p, recipe["epochs"])
        return {"model": "out/model.npz", "score": "python3 score.py out/model.npz"}


run(Digits)
