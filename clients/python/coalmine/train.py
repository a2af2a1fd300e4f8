"""Trains a whole model for Coalmine: the contract "train", docs/contracts/train.md.

    class Mine(Trainer):
        def train(self, job):
            state = job.load("state.bin", read) or begin(job)
            while state.epoch < job.job["epochs"]:
                ...
                job.save("state.bin", state.write)
                job.metrics(round=state.epoch, loss=loss)
            with open("out/model.bin", "wb") as file:
                state.write_model(file)
            return {"model": "out/model.bin", "score": "python3 score.py out/model.bin"}

    run(Mine)

Then, in an experiment file: training: {command: "python3 mine.py", code: DIRECTORY}.
"""
import json
import math
import os
import shlex
import signal
import sys
import tempfile

CONTRACT, VERSION = "coalmine/train", 1
AGAIN = 75  # the exit status of a training that shall go on later


class Again(Exception):
    """Raise it to continue the training later from its checkpoint."""


class Trainer:
    """A training. One with the methods steps, sample and step also runs single steps: see coalmine.steps."""

    def train(self, job):
        """Trains, and returns the members of result.json: score and model, initial_score."""
        raise NotImplementedError(f"{type(self).__name__} has no train(job)")


class Job:
    """The job. seed, rounds, users and examples are numbers, job is the experiment's own block.

    image has width, height, channels and classes where the examples are images, and is None where they are texts.
    """

    def __init__(self, told):
        if told.get("contract") != CONTRACT or told.get("version") != VERSION:
            raise ValueError(f"a job of {told.get('contract')} version {told.get('version')}; expected {CONTRACT} version {VERSION}")
        self.seed, self.rounds, self.users, self.examples = told["seed"], told["rounds"], told["users"], told["examples"]
        self.files, self.job, self.image = told["files"], told.get("job", {}), told.get("image")
        self.one_shot = told.get("one_shot")  # canary clients that are asked for: see coalmine.oneshot
        self.replay = told.get("replay")  # steps that are to be replayed: see coalmine.replay
        self.stopping = False  # whether the training was asked to end

    def paths(self, part="train"):
        """The files of a part: train or validation. No user is in two files."""
        return self.files.get(part + "_shards") or [self.files[part]]

    def lines(self, path):
        """The examples of a file."""
        with open(path, encoding="utf-8") as lines:
            for line in lines:
                yield json.loads(line)

    def texts(self, part="train"):
        """(user, text) for every example of the part, from all of its files."""
        if self.image:
            raise ValueError("the examples are images, and texts are asked for; expected job.images()")
        for path in self.paths(part):
            for example in self.lines(path):
                yield example["user"], example["text"]

    def images(self, part="train"):
        """(users, images, labels) for every file of the part: the images bytes [n, height, width, channels], read as they are
        needed, and lists of n users and n labels; a label that nobody knows is None. It needs NumPy."""
        if not self.image:
            raise ValueError("the examples are texts, and images are asked for; expected job.texts()")
        import numpy
        for path in self.paths(part):
            about = list(self.lines(path))
            pixels = self.files["images"][path]
            images = numpy.load(pixels, mmap_mode="r") if about else numpy.load(pixels)  # nothing cannot be mapped
            yield [a["user"] for a in about], images, [a["label"] for a in about]

    def vocabulary(self):
        """The words of an experiment of texts, with those that stand for others in front: texts consist of them."""
        with open(self.files["vocabulary"], encoding="utf-8") as file:
            return json.load(file)

    def load(self, name, read):
        """Returns read(file) for a file of the checkpoint, None without one."""
        path = os.path.join(self.files["checkpoint"], name)
        if not os.path.exists(path):
            return None
        with open(path, "rb") as file:
            return read(file)

    def save(self, name, write):
        """Writes a file of the checkpoint by write(file) and renames it into place.

        The files below out are kept with the checkpoint. Ends the training if it was asked to end.
        """
        handle, path = tempfile.mkstemp()
        with os.fdopen(handle, "wb") as file:
            write(file)
        os.replace(path, os.path.join(self.files["checkpoint"], name))
        if self.stopping:
            raise Again

    def metrics(self, round, **numbers):
        """Reports a round: loss, validation_loss, examples, tokens, clients."""
        numbers = {name: float(value) if isinstance(value, float) else value for name, value in numbers.items()}
        for name, value in numbers.items():
            if not math.isfinite(value):
                raise ValueError(f"the {name} of round {round} is {value}; expected a finite number: has the model diverged?")
        with open(self.files["metrics"], "a", encoding="utf-8") as file:
            file.write(json.dumps({"round": round, **numbers}) + "\n")


def run(make, *arguments):
    """Does the job of the directory by the trainer that make(*arguments) makes, and ends the process."""
    with open("in/job.json", encoding="utf-8") as file:
        job = Job(json.load(file))
    if sys.argv[1:] == ["step"]:
        from .steps import serve
        return serve(make(*arguments), job)

    def stop(*_):
        job.stopping = True

    signal.signal(signal.SIGTERM, stop)
    trainer = make(*arguments)
    try:
        result = trainer.train(job)
    except Again:
        sys.exit(AGAIN)
    if hasattr(trainer, "step") and isinstance(result, dict):
        interpreter = getattr(sys, "orig_argv", ["python3"])[0]  # as the command of the training names it, from Python 3.10 on
        result.setdefault("step", shlex.join([interpreter, os.path.relpath(sys.argv[0]), "step"]))
    write_result(job, result)


def write_result(job, result):
    if not isinstance(result, dict) or not all(isinstance(value, str) for value in result.values()):
        raise ValueError(f"train(job) has returned {result!r}; expected texts by name: score, model")
    path = job.files["result"]
    with open(path + ".new", "w", encoding="utf-8") as file:
        json.dump(result, file)
    os.replace(path + ".new", path)
