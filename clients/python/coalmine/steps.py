"""Single steps of a private training, for audit.neighbours: docs/contracts/train.md, "Single steps". Needs NumPy.

    class Mine(Trainer):
        def train(self, job):                # as ever
            ...

        def steps(self, job):                # the claim, all records in the order of the job, and the untrained parameters
            return Steps(self.records, self.parameters(), unit="record", noise_multiplier=1.1, clip=0.5, divisor=64, sampling="poisson",
                         cohort=64, rounds=job.rounds, delta=1e-5)

        def sample(self, round, seed):       # the places of the records of a batch, as the training draws it
            return draw(round, seed)

        def step(self, parameters, records, batch, round, seed, clip, noise):
            return ...                       # the mean gradient that the optimizer gets: flat, or arrays by name

    run(Mine)

run serves these methods where Coalmine starts the program by the argument step, and names that command in result.json. The noise
of a step follows from round and seed. divisor divides the noised sum.
"""
import bisect
import json
import math

import numpy

from . import tensors
from .score import answered, streams
from .train import CONTRACT, VERSION


class Steps:
    """A claim about steps on some data: a list of records, or of users. parameters are arrays by name."""

    def __init__(self, data, parameters, **claim):
        self.data, self.claim = data, claim
        self.parameters = {name: numpy.asarray(values, dtype="<f4") for name, values in parameters.items()}


def serve(trainer, job):
    """Answers standard input until it ends."""
    requests, answers = streams()
    session = None

    def call(method):
        nonlocal session
        session = session or Session(trainer, job)
        return getattr(session, method)(request)

    for line in requests:
        request = json.loads(line)
        answers.write(answered(request, METHODS, METHODS, call))
        answers.flush()


METHODS = ["describe", "initial", "sample", "step"]


class Session:
    def __init__(self, trainer, job):
        self.trainer, self.steps = trainer, trainer.steps(job)
        self.loaded = None, None  # a file of parameters, and its arrays

    def describe(self, request):
        s = self.steps
        return {"contract": CONTRACT, "version": VERSION, "methods": METHODS[1:], "population": len(s.data),
                "parameters": [{"name": name, "shape": list(values.shape)} for name, values in s.parameters.items()], **s.claim}

    def initial(self, request):
        tensors.write(request["into"], self.steps.parameters)
        return {}

    def sample(self, request):
        return {"members": sorted(int(i) for i in self.trainer.sample(request["round"], request["seed"]))}

    def step(self, request):
        if self.loaded[0] != request["parameters"]:
            self.loaded = request["parameters"], tensors.read(request["parameters"])
        without, data = sorted(request["without"]), self.steps.data
        if without:
            data = [record for i, record in enumerate(data) if i not in without]
        batch = [i - bisect.bisect(without, i) for i in request["batch"]]
        release = self.trainer.step({name: values.copy() for name, values in self.loaded[1].items()}, data, batch, request["round"], request["seed"], request["clip"], request["noise"])
        tensors.write(request["into"], self.named(release))
        return {}

    def named(self, release):
        """A release as arrays by name."""
        shapes = {name: values.shape for name, values in self.steps.parameters.items()}
        if isinstance(release, dict):
            return {name: numpy.reshape(release[name], shape) for name, shape in shapes.items()}
        flat, sizes = numpy.asarray(release).ravel(), [math.prod(shape) for shape in shapes.values()]
        if len(flat) != sum(sizes):
            raise ValueError(f"the step has returned {len(flat)} numbers; expected {sum(sizes)}, one for each parameter")
        parts = numpy.split(flat, numpy.cumsum(sizes)[:-1])
        return {name: part.reshape(shape) for (name, shape), part in zip(shapes.items(), parts)}
