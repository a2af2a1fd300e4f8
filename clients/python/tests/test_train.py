import json
import os
import signal
import subprocess
import sys
import tempfile
import textwrap
import unittest

try:
    import numpy
except ImportError:
    numpy = None

root = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))

TRAINER = """
    import os, signal
    from coalmine.train import Trainer, run

    class Sum(Trainer):
        def train(self, job):
            done, total = job.load("state", lambda file: eval(file.read())) or (0, job.seed)
            for round in range(done + 1, job.rounds + 1):
                total += sum(len(text) for user, text in job.texts()) * job.job["rate"]
                job.metrics(round, loss=1.0 / total)
                if os.path.exists("interrupt"):
                    os.remove("interrupt")
                    os.kill(os.getpid(), signal.SIGTERM)
                job.save("state", lambda file: file.write(repr((round, total)).encode()))
            with open("out/model", "w") as file:
                file.write(str(total))
            return {"score": "./score", "model": "out/model"}

    run(Sum)
"""

# What pfl.metrics and FederatedAlgorithm.run promise, as of pfl-research 0.5: recorded from its source, in the order of
# its calls, since it is not at hand. The names are those that a simulation with it has printed.
METRICS = """
    class Metrics:
        def __init__(self, values=()):
            self.values = dict(values)

        def __contains__(self, name):
            return name in self.values

        def __getitem__(self, name):
            return self.values[name]

        def __iter__(self):
            return iter(self.values.items())

        def __or__(self, other):
            return Metrics([*self, *other])
"""

SIMULATION = """
    import json, os, signal
    import numpy
    from pfl.metrics import Metrics
    from coalmine.pfl import Rounds, by_user
    from coalmine.train import Trainer, run

    class Weighted:
        def __init__(self, value):
            self.overall_value = value

    class Model:
        weight = 1.0

        def save(self, directory):
            with open(os.path.join(directory, "checkpoint.pt"), "w") as file:
                file.write(repr(self.weight))

        def load(self, directory):
            with open(os.path.join(directory, "checkpoint.pt")) as file:
                self.weight = float(file.read())

    class Algorithm:
        iteration, checkpointer = 0, None

        def set_checkpointer(self, checkpointer):
            self.checkpointer = checkpointer

        def save(self, directory):
            with open(os.path.join(directory, "algorithm_checkpoint.json"), "w") as file:
                json.dump({"current_central_iteration": self.iteration}, file)

        def load(self, directory):
            with open(os.path.join(directory, "algorithm_checkpoint.json")) as file:
                self.iteration = json.load(file)["current_central_iteration"]

        def run(self, iterations, model, callbacks):
            begun = Metrics()
            for callback in callbacks:
                begun |= callback.on_train_begin(model=model)
            stop = False
            while self.iteration < iterations and not stop:
                self.checkpointer.invoke_save(self)
                found = Metrics([("train population | number of devices", 3.0)]) | begun
                if self.iteration % 2 == 0:
                    found |= Metrics([("train population | loss before local training", Weighted(model.weight))])
                model.weight += numpy.random.uniform()
                for callback in callbacks:
                    stopped, more = callback.after_central_iteration(found, model, central_iteration=self.iteration)
                    stop |= stopped
                    found |= more
                self.iteration += 1
            for callback in callbacks:
                callback.on_train_end(model=model)

    class Interrupted(Rounds):
        def after_central_iteration(self, *arguments, central_iteration):
            if central_iteration == 1 and os.path.exists("interrupt"):
                os.remove("interrupt")
                os.kill(os.getpid(), signal.SIGTERM)
            return super().after_central_iteration(*arguments, central_iteration=central_iteration)

    class Mine(Trainer):
        def train(self, job):
            model, algorithm = Model(), Algorithm()
            rounds = Interrupted(job, algorithm, [model], loss="train population | " + job.job["loss"], clients="train population | number of devices")
            algorithm.run(4, model, [rounds])
            with open("out/model", "w") as file:
                file.write(repr((by_user(job), model.weight)))
            return {"model": "out/model"}

    run(Mine)
"""


class Directory(unittest.TestCase):
    job = {"rate": 2}

    def setUp(self):
        self.directory = tempfile.TemporaryDirectory()
        self.addCleanup(self.directory.cleanup)
        for folder in ("in", "out", "checkpoint", "tmp"):
            os.mkdir(self.path(folder))
        files = {"train": "in/train.jsonl", "vocabulary": "in/vocabulary.json", "checkpoint": "checkpoint",
                 "metrics": "out/metrics.jsonl", "result": "out/result.json"}
        self.write("in/job.json", json.dumps({"contract": "coalmine/train", "version": 1, "seed": 5, "rounds": 3, "users": 1, "examples": 2,
                                              "files": files, "job": self.job}))
        self.write("in/train.jsonl", '{"user": "0", "text": "one"}\n{"user": "0", "text": "zwölf"}\n')
        self.write("in/vocabulary.json", '["<pad>"]')

    def path(self, name):
        return os.path.join(self.directory.name, name)

    def write(self, name, text):
        with open(self.path(name), "w", encoding="utf-8") as file:
            file.write(text)

    def read(self, name):
        with open(self.path(name), encoding="utf-8") as file:
            return file.read()

    def train(self):
        environment = {**os.environ, "PYTHONPATH": root, "TMPDIR": self.path("tmp")}
        return subprocess.run([sys.executable, "train.py"], cwd=self.directory.name, env=environment, capture_output=True, text=True)



READER = """
    import json
    from coalmine.train import Trainer, run

    class Reader(Trainer):
        def train(self, job):
            found = [list(job.texts())] if not job.image else [(users, images.tolist(), str(images.dtype), labels) for users, images, labels in job.images()]
            with open("out/found", "w") as file:
                json.dump(found + [job.paths()], file)
            return {"model": "out/found"}

    run(Reader)
"""


class Files(Directory):
    """What a trainer reads of several files and of images."""

    def setUp(self):
        super().setUp()
        self.write("train.py", textwrap.dedent(READER))

    def told(self, files, **more):
        self.write("in/job.json", json.dumps({"contract": "coalmine/train", "version": 1, "seed": 5, "rounds": 3, "users": 2, "examples": 3, "later": True,
                                              "files": {"result": "out/result.json", "checkpoint": "checkpoint", "metrics": "out/metrics.jsonl", **files}, **more}))

    def found(self):
        done = self.train()
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(self.read("out/found"))

    def test_several_files_are_read_as_one(self):
        shards = ["in/train-00000-of-00002.jsonl", "in/train-00001-of-00002.jsonl"]
        self.told({"train_shards": shards})
        self.write(shards[0], '{"user": "0", "text": "one"}\n{"user": "0", "text": "two"}\n')
        self.write(shards[1], '{"user": "1", "text": "three"}\n')
        self.assertEqual(self.found(), [[["0", "one"], ["0", "two"], ["1", "three"]], shards])

    @unittest.skipIf(numpy is None, "NumPy is not installed")
    def test_images_are_arrays_beside_users_and_labels(self):
        shards = ["in/train-00000-of-00002.jsonl", "in/train-00001-of-00002.jsonl"]
        images = {path: path.replace(".jsonl", ".npy") for path in shards}
        self.told({"train_shards": shards, "images": images}, image={"width": 2, "height": 1, "channels": 1, "classes": 4})
        self.write(shards[0], '{"user": "0", "label": 3}\n{"user": "0", "label": null}\n')
        self.write(shards[1], "")
        numpy.save(self.path(images[shards[0]]), numpy.array([[[[1], [2]]], [[[3], [255]]]], numpy.uint8))
        numpy.save(self.path(images[shards[1]]), numpy.zeros((0, 1, 2, 1), numpy.uint8))
        self.assertEqual(self.found(), [[["0", "0"], [[[[1], [2]]], [[[3], [255]]]], "uint8", [3, None]], [[], [], "uint8", []], shards])

    def test_a_trainer_of_texts_is_told_of_images(self):
        self.write("train.py", textwrap.dedent(TRAINER))
        self.told({"train": "in/train.jsonl", "images": {}}, image={"width": 2, "height": 1, "channels": 1, "classes": 4}, job=self.job)
        done = self.train()
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("the examples are images, and texts are asked for; expected job.images()", done.stderr)


class Contract(Directory):
    def setUp(self):
        super().setUp()
        self.write("train.py", textwrap.dedent(TRAINER))

    def test_a_training_leaves_its_model_and_metrics(self):
        self.assertEqual(self.train().returncode, 0)
        self.assertEqual(json.loads(self.read("out/result.json")), {"score": "./score", "model": "out/model"})
        self.assertEqual(self.read("out/model"), str(5 + 3 * 8 * 2))
        rounds = [json.loads(line) for line in self.read("out/metrics.jsonl").splitlines()]
        self.assertEqual(rounds, [{"round": i, "loss": 1 / (5 + i * 16)} for i in (1, 2, 3)])
        self.assertEqual(os.listdir(self.path("tmp")), [])

    def test_a_training_that_is_asked_to_end_goes_on_later(self):
        self.write("interrupt", "")
        self.assertEqual(self.train().returncode, 75)
        self.assertEqual(self.read("checkpoint/state"), "(1, 21)")
        self.assertFalse(os.path.exists(self.path("out/result.json")))
        self.assertEqual(self.train().returncode, 0)
        self.assertEqual(self.read("out/model"), "53")

    def test_what_goes_wrong_is_said(self):
        for change, want in (("raise RuntimeError('no device')", "no device"), ("return 3", "expected texts by name"),
                             ("job.metrics(1, loss=float('nan'))", "has the model diverged?")):
            self.write("train.py", textwrap.dedent(f"""
                from coalmine.train import Trainer, run
                class Wrong(Trainer):
                    def train(self, job):
                        {change}
                run(Wrong)
            """))
            ended = self.train()
            self.assertEqual(ended.returncode, 1)
            self.assertIn(want, ended.stderr)

    def test_a_job_of_another_version_is_refused(self):
        self.write("in/job.json", '{"contract": "coalmine/train", "version": 2}')
        self.assertIn("version 2; expected coalmine/train version 1", self.train().stderr)


STEPPER = """
    import numpy
    from coalmine.replay import Replay
    from coalmine.steps import Steps
    from coalmine.train import Trainer, run

    class Mine(Trainer):
        def train(self, job):
            self.steps(job)
            if job.replay:
                replay = Replay(job, [("a", 2), ("b", 1)], unit="record", noise_multiplier=1.0, sampling="fixed-size", population=2, cohort=1, rounds=3, delta=1e-5)
                for round in range(1, replay.repeats + 1):
                    batch = self.sample(round, job.seed)
                    replay.add(batch, lambda without, noise: self.step(self.parameters, self.records, [i for i in batch if i != without], round, job.seed, 1.0, noise))
                replay.tell()
            return {"model": "out/model"}

        def steps(self, job):
            self.records = [len(text) for _, text in job.texts()]
            self.parameters = {"a": numpy.ones(2), "b": numpy.zeros(1)}
            return Steps(self.records, self.parameters, unit="record", noise_multiplier=1.0, clip=0.5, divisor=1, sampling="fixed-size",
                         cohort=1, rounds=job.rounds, delta=1e-5)

        def sample(self, round, seed):
            return [(round + seed) % 2]

        def step(self, parameters, records, batch, round, seed, clip, noise):
            return [sum(records[i] for i in batch), len(records), parameters["a"][0] + clip + (seed + round if noise else 0)]

    run(Mine)
"""


@unittest.skipIf(numpy is None, "NumPy is not installed")
class Steps(Directory):
    def setUp(self):
        super().setUp()
        self.write("train.py", textwrap.dedent(STEPPER))
        os.mkdir(self.path("step"))

    def ask(self, *requests):
        """The results of requests, and the errors of those that have none."""
        lines = "".join(json.dumps({"id": i, **request}) + "\n" for i, request in enumerate(requests))
        ended = subprocess.run([sys.executable, "train.py", "step"], cwd=self.directory.name, env={**os.environ, "PYTHONPATH": root}, capture_output=True, text=True, input=lines)
        answers = [json.loads(line) for line in ended.stdout.splitlines()]
        self.assertEqual(([a["id"] for a in answers], ended.returncode), (list(range(len(requests))), 0))
        return [a["result"] if "result" in a else a["error"] for a in answers]

    def test_a_training_names_its_step(self):
        self.assertEqual(self.train().returncode, 0)
        self.assertEqual(json.loads(self.read("out/result.json")), {"model": "out/model", "step": f"{sys.executable} train.py step"})

    def test_a_step_has_the_data_without_those_who_are_left_out(self):
        sys.path.insert(0, root)
        from coalmine import tensors
        step = {"method": "step", "round": 2, "seed": 7, "parameters": "step/initial", "batch": [1], "without": [0], "clip": 0.25, "noise": True, "into": "step/release"}
        described, _, sampled, stepped = self.ask({"method": "describe", "versions": [1]}, {"method": "initial", "seed": 7, "into": "step/initial"},
                                                  {"method": "sample", "round": 2, "seed": 7}, step)
        self.assertEqual((described["version"], described["population"], described["parameters"]), (1, 2, [{"name": "a", "shape": [2]}, {"name": "b", "shape": [1]}]))
        self.assertEqual((sampled, stepped), ({"members": [1]}, {}))
        release = tensors.read(self.path("step/release"))
        self.assertEqual({name: values.tolist() for name, values in release.items()}, {"a": [5, 1], "b": [1 + 0.25 + 9]})

    def test_an_error_is_an_answer(self):
        self.assertEqual(self.ask({"method": "fit"}, {"method": "step"}), [
            {"message": "no method 'fit'; there are ['describe', 'initial', 'sample', 'step']", "retry": False}, {"message": "KeyError: 'parameters'", "retry": False}])

    def test_a_step_without_memory_is_asked_again(self):
        self.write("train.py", textwrap.dedent(STEPPER).replace("return [(round + seed) % 2]", "raise MemoryError('of 9 GiB')"))
        self.assertEqual(self.ask({"method": "sample", "round": 2, "seed": 7}), [
            {"message": "Retry: no memory for sample: of 9 GiB; free some of it, or take a device with more", "retry": True}])

    def test_a_job_with_replays_has_them(self):
        sys.path.insert(0, root)
        from coalmine import tensors
        job = json.loads(self.read("in/job.json"))
        job["replay"] = {"repeats": 2}
        job["files"].update(replay="out/replay.json", replay_tensors="out/replay.safetensors")
        self.write("in/job.json", json.dumps(job))
        self.assertEqual(self.train().returncode, 0)
        self.assertEqual(json.loads(self.read("out/replay.json"))["cohorts"], [[0], [1]])
        self.assertEqual(tensors.read(self.path("out/replay.safetensors"))["noisy"].tolist(), [[3, 2, 8], [5, 2, 9]])


@unittest.skipIf(numpy is None, "NumPy is not installed")
class Simulation(Directory):
    """A simulation of pfl-research."""

    job = {"loss": "loss before local training"}

    def setUp(self):
        super().setUp()
        os.mkdir(self.path("pfl"))
        self.write("pfl/__init__.py", "")
        self.write("pfl/metrics.py", textwrap.dedent(METRICS))
        self.write("train.py", textwrap.dedent(SIMULATION))

    def rounds(self):
        return [json.loads(line) for line in self.read("out/metrics.jsonl").splitlines()]

    def test_its_iterations_are_told(self):
        self.assertEqual(self.train().returncode, 0)
        told = self.rounds()
        self.assertEqual([line["round"] for line in told], [1, 2, 3, 4])
        self.assertEqual([line["clients"] for line in told], [3, 3, 3, 3])
        self.assertEqual(["loss" in line for line in told], [True, False, True, False])
        self.assertIn("{'0': ['one', 'zwölf']}", self.read("out/model"))

    def test_an_interruption_changes_nothing(self):
        self.train()
        want = self.read("out/model"), self.rounds()
        for name in ("out/model", "out/metrics.jsonl", "checkpoint/pfl.zip"):
            os.remove(self.path(name))
        self.write("interrupt", "")
        self.assertEqual(self.train().returncode, 75)
        self.assertEqual(len(self.rounds()), 2)
        self.assertEqual(self.train().returncode, 0)
        self.assertEqual((self.read("out/model"), self.rounds()), want)
        self.assertEqual(os.listdir(self.path("tmp")), [])

    def test_a_metric_that_there_is_not_is_named(self):
        self.write("in/job.json", self.read("in/job.json").replace("loss before", "los before"))
        self.assertIn("no metric 'train population | los before local training'; expected one of ['train population | number of devices', ",
                      self.train().stderr)


if __name__ == "__main__":
    unittest.main()
