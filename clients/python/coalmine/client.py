"""Trains single users' models for Coalmine: the contract "client", docs/contracts/client.md.

    class Mine(Client):
        name = "mine 1.0"

        def initial(self, seed):
            return {"weights": ..., "bias": ...}                    # NumPy arrays of 32-bit floats

        def fit(self, parameters, examples, seed, round):
            ...                                                     # from parameters, on one user's examples
            return parameters, len(examples), {"loss": ..., "targets": ...}

        def evaluate(self, parameters, examples):
            return {"loss": ..., "targets": ..., "correct": ...}

        def loglikelihood(self, parameters, pairs):
            return [(log_prob, is_greedy) for context, continuation in pairs]

    serve(Mine)

Of images it is an ImageClient, whose examples have images and labels.

Then, in an experiment file: model: {kind: external} and training: {client_command: "python3 mine.py"}.
"""
import json
import math
import os

import numpy

from . import tensors
from .score import answered, decoded, finite, one_each, streams

CONTRACT, VERSION = "coalmine/client", 2


class Vocabulary:
    """What tokens are: numbers below size; those from first_word on are ordinary words."""

    def __init__(self, size, begin, end, first_word, words, **later):
        self.size, self.begin, self.end, self.first_word, self.path = size, begin, end, first_word, words

    def words(self):
        """The texts of all tokens."""
        with open(self.path, encoding="utf-8") as file:
            return json.load(file)


class Client:
    """What trains. It is made once it is known for what: config is training.job of the experiment file.

    Examples are lists of tokens, from that of the begin to that of the end, or texts where input is "text". Pairs are
    of a context and a continuation, likewise, without these two tokens. Parameters are a dict of arrays by their names,
    which may be changed: nothing is remembered from one request to the next.
    """

    name = ""  # for people, with a version
    input = "tokens"  # or "text"
    deterministic = False  # whether equal requests have equal answers, to the last bit
    users = 0  # the most users of fit_many, by the configuration alone; 0: it trains one at a time
    memory = 0  # bytes of each of them, or 0
    frozen = ()  # names of the parameters that training leaves as they are, the last of initial; files of results omit them
    tolerance = 1e-5  # by which a user's parameters from fit_many may differ from those of fit, as a share of the update

    def __init__(self, config, vocabulary, threads):
        self.config, self.vocabulary, self.threads = config, vocabulary, threads

    def initial(self, seed):
        """The parameters that the training begins with, by the seed alone."""
        raise NotImplementedError(f"{type(self).__name__} has no initial(seed)")

    def fit(self, parameters, examples, seed, round):
        """Those after training on a user's examples, the number of examples, and metrics: loss and targets, or nothing."""
        raise NotImplementedError(f"{type(self).__name__} has no fit(parameters, examples, seed, round)")

    def fit_many(self, parameters, users, round):
        """fit for each of a list of User: arrays with a first axis over them, and a list of their examples and metrics."""
        raise NotImplementedError(f"{type(self).__name__} has no fit_many(parameters, users, round)")

    def sum(self, parameters, users, round, clip, weights):
        """The sum of weight x min(1, clip / norm) x update, and a list of every user's examples, metrics and norm.

        An update is a user's parameters minus the given ones; clip is 0 for none, weights None for those by examples.
        """
        fitted, results = self.fit_many(parameters, users, round)
        start = {name: array for name, array in parameters.items() if name not in self.frozen}
        total = {name: numpy.zeros(numpy.shape(array)) for name, array in start.items()}
        norms = []
        for i, (examples, _) in enumerate(results):
            update = {name: fitted[name][i] - array for name, array in start.items()}
            norms.append(math.sqrt(sum(float(numpy.square(u, dtype=float).sum()) for u in update.values())))
            scale = scale_of(norms[-1], examples, clip, weights and weights[i])
            for name, u in update.items():
                total[name] += scale * numpy.asarray(u, float)
        return total, [(*result, norm) for result, norm in zip(results, norms)]

    def loglikelihood_tree(self, parameters, parents, tokens):
        """For every node the log-probability of its token after those of its ancestors, and whether it is the greedy one.

        A parent is the number of an earlier node, or -1 for the begin.
        """
        raise NotImplementedError(f"{type(self).__name__} has no loglikelihood_tree(parameters, parents, tokens)")

    def evaluate(self, parameters, examples):
        """loss: the mean of -log p of the targets in nats; targets: how many; correct: how many first guesses were right."""
        raise NotImplementedError(f"{type(self).__name__} has no evaluate(parameters, examples)")

    def loglikelihood(self, parameters, pairs):
        """For every (context, continuation) the log-probability of the continuation, and whether it is the greedy one."""
        raise NotImplementedError(f"{type(self).__name__} has no loglikelihood(parameters, pairs)")


class User:
    """One of several users: the examples and the seed of fit. A trainer that Coalmine ships also gets batches, lists of the
    places of examples, the learning_rate, and the largest_loss: the mean per target above which training has diverged. All
    are None for others."""

    def __init__(self, examples, seed, batches=None, learning_rate=None, largest_loss=None):
        self.examples, self.seed, self.batches, self.learning_rate, self.largest_loss = examples, seed, batches, learning_rate, largest_loss


class Diverged(ValueError):
    """Training that diverged: the index of the user in the request, the step from 1, and a number, the "loss" of the step, or the
    norm of its "gradient" or of the user's "update"."""

    def __init__(self, user, step, name, value):
        super().__init__(f"the {name} is {value:.2g}: training diverged; lower the learning rate or set a gradient clip")
        self.about = {"user": user, "step": step, "name": name, "value": str(float(value))}


def scale_of(norm, examples, clip, weight):
    """That of an update in a sum."""
    return (examples if weight is None else weight) * (min(1.0, clip / norm) if clip and norm else 1.0)


class Image:
    """The shape of images, and how many classes they have."""

    def __init__(self, width, height, channels, classes, **later):
        self.width, self.height, self.channels, self.classes = width, height, channels, classes


class Images:
    """Examples: images, bytes [n, height, width, channels], and a list of n labels; one that nobody knows is None."""

    def __init__(self, told):
        self.images, self.labels = decoded(told), told["labels"]

    def __len__(self):
        return len(self.labels)


class ImageClient(Client):
    """What trains on images: examples are Images, and image is their shape. Nobody asks it for loglikelihood."""

    input = "images"

    def __init__(self, config, image, threads):
        if not isinstance(image, Image):
            raise ValueError(f"{type(self).__name__} reads images, and the examples are texts (data.level)")
        super().__init__(config, None, threads)
        self.image = image


def serve(make):
    """Answers standard input until it ends, by the client that make(config, vocabulary, threads) makes.

    What is printed goes to standard error.
    """
    converse(make, *streams())


def converse(make, requests, answers):
    """Answers the lines of a binary file in another."""
    answer = Answers(make)
    for line in requests:
        answers.write(answer.to(json.loads(line)))
        answers.flush()


def number(name, value):
    """A finite number of Python's, as JSON has them."""
    value = float(value)
    if not math.isfinite(value):
        raise ValueError(f"{name} is {value}; expected a finite number: has the training diverged? Lower the learning rate")
    return value


class Answers:
    methods = ("describe", "initial", "fit", "evaluate", "loglikelihood", "fit_many", "sum")

    def __init__(self, make):
        self.make, self.shapes, self.last = make, None, (None, None)

    def to(self, request):
        """The line that answers a request."""
        return answered(request, self.methods, list(self.methods), lambda method: getattr(self, method)(request),
                        lambda error: {"diverged": error.about} if isinstance(error, Diverged) else {})

    def describe(self, request):
        self.client = self.make(request["config"], self.about(request), request["threads"])
        self.shapes = {name: list(numpy.shape(array)) for name, array in self.client.initial(0).items()}
        frozen = {name: {"frozen": True} for name in self.client.frozen}
        parameters = [{"name": name, "shape": shape, **frozen.get(name, {})} for name, shape in self.shapes.items()]
        return {"contract": CONTRACT, "version": min(VERSION, max(request["versions"])), "program": self.client.name, "input": self.client.input,
                "deterministic": self.client.deterministic, "parameters": parameters, **self.optional()}

    def optional(self):
        """What the client can beside what every client can."""
        client, can = self.client, {}
        if client.users:
            can["fit_many"] = {"users": client.users, "memory": client.memory, "sum": True, "tolerance": client.tolerance}
        if getattr(type(client), "loglikelihood_tree", None) not in (None, Client.loglikelihood_tree):
            can["tree"] = True
        return can

    def about(self, request):
        """What the examples are made of: one that reads texts describes itself in any case, and is refused by name."""
        if "image" in request and getattr(self.make, "input", "images") == "images":
            return Image(**request["image"])
        return Vocabulary(**request["vocabulary"])

    def initial(self, request):
        self.write(request["into"], self.client.initial(request["seed"]), self.shapes)
        return {}

    def fit(self, request):
        parameters, examples, metrics = self.client.fit(self.read(request), self.examples(request), request["seed"], request["round"])
        self.write(request["into"], self.trained(parameters), self.trained(self.shapes))
        return fitted(examples, metrics)

    def trained(self, named):
        return {name: value for name, value in named.items() if name not in self.client.frozen}

    def users(self, request):
        return [User(self.examples(user), user["seed"], user.get("batches"), request.get("learning_rate"), request.get("largest_loss")) for user in request["users"]]

    def fit_many(self, request):
        users, each = self.users(request), request["per_file"]
        arrays, results = self.client.fit_many(self.read(request), users, request["round"])
        one_each(results, users)
        for i, path in enumerate(request["files"]):
            first, end = i * each, min((i + 1) * each, len(users))
            shapes = {name: [end - first, *shape] for name, shape in self.trained(self.shapes).items()}
            self.write(path, {name: array[first:end] for name, array in self.trained(arrays).items()}, shapes, request["stamp"])
        return {"users": [fitted(*result) for result in results]}

    def sum(self, request):
        users = self.users(request)
        total, results = self.client.sum(self.read(request), users, request["round"], request.get("clip", 0), request.get("weights"))
        self.write(request["into"], self.trained(total), self.trained(self.shapes), request["stamp"])
        return {"users": [fitted(examples, metrics) | {"norm": number("norm", norm)} for examples, metrics, norm in one_each(results, users)]}

    def evaluate(self, request):
        found = self.client.evaluate(self.read(request), self.examples(request))
        return {"loss": number("loss", found["loss"]), "targets": int(found["targets"]), "correct": int(found["correct"])}

    def loglikelihood(self, request):
        if "tree" in request:
            nodes = request["tree"]
            scores = one_each(self.client.loglikelihood_tree(self.read(request), nodes["parents"], nodes["tokens"]), nodes["tokens"])
        else:
            pairs = [tuple(pair) for pair in request["pairs"]]
            scores = one_each(self.client.loglikelihood(self.read(request), pairs), pairs)
        return [[finite(log_prob), bool(greedy)] for log_prob, greedy in scores]

    def examples(self, request):
        """Lists of tokens, texts, or Images."""
        told = request["examples"]
        return Images(told) if isinstance(told, dict) else told

    def read(self, request):
        """The parameters that a request names: a file that has just been read is copied from memory."""
        path = request["parameters"]
        status = os.stat(path)
        key = (path, status.st_ino, status.st_mtime_ns)
        if self.last[0] != key:
            self.last = (key, tensors.read(path))
        return {name: array.copy() for name, array in self.last[1].items()}

    def write(self, path, parameters, expected, stamp=None):
        """Names and shapes must be the expected ones. JSON and safetensors have their own checks of the rest."""
        shapes = {name: list(numpy.shape(array)) for name, array in parameters.items()}
        if shapes != expected:
            raise ValueError(f"parameters of the shapes {shapes}; expected {expected}")
        for name, array in parameters.items():
            if not numpy.isfinite(array).all():
                raise ValueError(f"parameters {name!r} are not finite: the training has diverged; lower the learning rate")
        tensors.write(path, parameters, stamp and {"stamp": stamp})


def fitted(examples, metrics):
    """The result for a user, of numbers that JSON has."""
    return {"examples": int(examples), "metrics": {name: number(name, value) for name, value in metrics.items() if name != "targets"}
            | ({"targets": int(metrics["targets"])} if "targets" in metrics else {})}
