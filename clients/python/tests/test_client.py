import io
import json
import os
import sys
import tempfile
import types
import unittest
import unittest.mock

root = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
sys.path.insert(0, root)

try:
    import numpy
except ImportError:
    raise unittest.SkipTest("NumPy is not installed")

from coalmine import client, score, tensors

try:
    import torch
except ImportError:
    torch = None


class Means(client.Client):
    """Its only tensors are the mean number of tokens of a user's examples, and a number that never changes."""

    name, deterministic = "means 1", True

    def initial(self, seed):
        return {"mean": numpy.full((1, 2), seed, "<f4"), "constant": numpy.float32(0.5)}

    def fit(self, parameters, examples, seed, round):
        if not examples:
            raise score.Retry("no examples yet")
        if self.config.get("grow"):
            return {**parameters, "more": numpy.zeros(3)}, 1, {}
        parameters["mean"][:] = float("nan") if self.config.get("diverge") else numpy.mean([len(e) for e in examples])
        return parameters, len(examples), {"loss": numpy.float32(1.5), "targets": numpy.int64(3)}

    def evaluate(self, parameters, examples):
        return {"loss": parameters["mean"].sum(), "targets": len(examples), "correct": 0}

    def loglikelihood(self, parameters, pairs):
        return [(-numpy.float32(len(continuation)), numpy.bool_(not context)) for context, continuation in pairs]


FIRST = {"method": "describe", "versions": [1], "threads": 1,
         "vocabulary": {"size": 9, "begin": 2, "end": 3, "first_word": 4, "words": "/none", "later": True}}


def asked(make, config, *requests):
    """The answers to describe and then to requests, which get ids from 1."""
    first = {**FIRST, "config": config}
    lines = [json.dumps({"id": i + 1, **request}) for i, request in enumerate((first,) + requests)]
    answers = io.BytesIO()
    errors, sys.stderr = sys.stderr, io.StringIO()
    try:
        client.converse(make, io.BytesIO("\n".join(lines).encode()), answers)
    finally:
        sys.stderr = errors
    found = [json.loads(line) for line in answers.getvalue().splitlines()]
    assert [answer["id"] for answer in found] == list(range(1, len(lines) + 1)), found
    return found


class Contract(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.first, self.second = (os.path.join(directory.name, name) for name in ("first", "second"))
        self.initial = {"method": "initial", "seed": 7, "into": self.first}
        self.fit = {"method": "fit", "parameters": self.first, "into": self.second, "examples": [[2, 4, 3], [2, 4, 5, 6, 3]], "round": 1, "seed": 2}

    def test_a_client_is_described_trains_and_is_measured(self):
        described, drawn, fitted, evaluated, scored = asked(
            Means, {}, self.initial, self.fit, {"method": "evaluate", "parameters": self.second, "examples": [[2, 4]]},
            {"method": "loglikelihood", "parameters": self.second, "pairs": [[[], [4]], [[4], [5, 6]]]})
        self.assertEqual(described["result"], {"contract": "coalmine/client", "version": 1, "program": "means 1", "input": "tokens", "deterministic": True,
                                               "parameters": [{"name": "mean", "shape": [1, 2]}, {"name": "constant", "shape": []}]})
        self.assertEqual([drawn["result"], fitted["result"]], [{}, {"examples": 2, "metrics": {"loss": 1.5, "targets": 3}}])
        self.assertEqual(evaluated["result"], {"loss": 8.0, "targets": 1, "correct": 0})
        self.assertEqual(scored["result"], [[-1.0, True], [-2.0, False]])
        self.assertEqual(tensors.read(self.first)["mean"].tolist(), [[7, 7]])  # what was read has not changed
        self.assertEqual(tensors.read(self.second)["mean"].tolist(), [[4, 4]])

    def test_what_goes_wrong_is_an_answer(self):
        _, _, none, unknown, fitted = asked(Means, {}, self.initial, {**self.fit, "examples": []}, {"method": "train"}, self.fit)
        self.assertEqual(none["error"], {"message": "Retry: no examples yet", "retry": True})
        self.assertIn("no method 'train'; there are ['describe', 'initial', 'fit'", unknown["error"]["message"])
        self.assertEqual(fitted["result"]["examples"], 2)
        for config, want in (({"grow": True}, "'more': [3]}; expected {'mean': [1, 2], 'constant': []}"), ({"diverge": True}, "'mean' are not finite")):
            *_, fitted = asked(Means, config, self.initial, self.fit)
            self.assertIn(want, fitted["error"]["message"])

    def test_a_measurement_that_json_has_not_is_an_error_and_the_next_request_is_answered(self):
        nan = type("NaN", (Means,), {"evaluate": lambda self, parameters, examples: {"loss": numpy.float32("nan"), "targets": 1, "correct": 0},
                                     "fit": lambda self, parameters, *rest: (parameters, 1, {"loss": float("inf")})})
        _, _, evaluated, fitted, scored = asked(
            nan, {}, self.initial, {"method": "evaluate", "parameters": self.first, "examples": [[2, 4]]}, self.fit,
            {"method": "loglikelihood", "parameters": self.first, "pairs": [[[], [4]]]})
        self.assertIn("loss is nan; expected a finite number", evaluated["error"]["message"])
        self.assertIn("loss is inf; expected a finite number", fitted["error"]["message"])
        self.assertEqual(scored["result"], [[-1.0, True]])
        described, = asked(type("Set", (Means,), {"name": {1}}), {})
        self.assertIn("not JSON serializable", described["error"]["message"])

    def test_a_class_with_methods_to_write_says_which(self):
        described, = asked(client.Client, {})
        self.assertIn("Client has no initial(seed)", described["error"]["message"])

    def test_parameters_are_read_again_when_their_file_changes(self):
        tensors.write(self.first, {"mean": numpy.ones((1, 2)), "constant": numpy.float32(0)})
        answers = client.Answers(Means)
        asked_once = {"parameters": self.first}
        changed = answers.read(asked_once)
        changed["mean"][:] = 5
        self.assertEqual(answers.read(asked_once)["mean"].tolist(), [[1, 1]])
        os.remove(self.first)
        tensors.write(self.first, {"mean": numpy.zeros((1, 2)), "constant": numpy.float32(0)})
        self.assertEqual(answers.read(asked_once)["mean"].tolist(), [[0, 0]])


class Together(Means):
    """Means that takes several users, and whose nodes all have the log-probability of their number."""

    users, memory, tolerance = 3, 8, 0.5

    def fit_many(self, parameters, users, round):
        fits = [self.fit({name: array.copy() for name, array in parameters.items()}, u.examples, u.seed, round) for u in users]
        return {name: numpy.stack([fit[0][name] for fit in fits]) for name in parameters}, [fit[1:] for fit in fits]

    def loglikelihood_tree(self, parameters, parents, tokens):
        return [(-float(token), parent < 0) for parent, token in zip(parents, tokens)]


class Many(unittest.TestCase):
    setUp = Contract.setUp
    users = [{"examples": [[2, 4, 3]], "seed": 1}, {"examples": [[2, 4, 5, 6, 3]] * 2, "seed": 2}, {"examples": [[2]], "seed": 3}]

    def test_several_users_train_together(self):
        third = self.second + "3"
        asks = {"method": "fit_many", "parameters": self.first, "users": self.users, "files": [self.second, third], "per_file": 2, "round": 1}
        tensors.write(self.second, {"what": numpy.zeros(900)})  # which is written over, and is longer
        with unittest.mock.patch.dict(FIRST, versions=[1, 2]):
            described, _, fitted, _ = asked(Together, {}, self.initial, {**asks, "stamp": "9"}, {**asks, "stamp": "10"})
        self.assertEqual((described["result"]["version"], described["result"]["fit_many"], described["result"]["tree"]),
                         (2, {"users": 3, "memory": 8, "sum": True, "tolerance": 0.5}, True))
        self.assertEqual([u["examples"] for u in fitted["result"]["users"]], [1, 2, 1])
        self.assertEqual([tensors.read(path)["mean"].tolist() for path in (self.second, third)], [[[[3, 3]], [[5, 5]]], [[[1, 1]]]])
        self.assertEqual([tensors.read(path)["constant"].tolist() for path in (self.second, third)], [[0.5, 0.5], [0.5]])
        with open(third, "rb") as file:
            self.assertIn(b'"__metadata__": {"stamp": "10"}', file.read())

    def test_updates_are_summed(self):
        def summed(**more):
            *_, answer = asked(Together, {}, self.initial, {"method": "sum", "parameters": self.first, "users": self.users, "into": self.second, "round": 1, "stamp": "1", **more})
            self.assertTrue(numpy.allclose([u["norm"] for u in answer["result"]["users"]], [4 * 2 ** .5, 2 * 2 ** .5, 6 * 2 ** .5]))
            return tensors.read(self.second)
        # The model is 7, so that the updates are -4, -2 and -6 in both places.
        self.assertEqual(summed()["mean"].tolist(), [[-4 - 2 * 2 - 6] * 2])
        self.assertTrue(numpy.allclose(summed(clip=3 * 2 ** .5, weights=[1, 1, 2])["mean"], -3 - 2 - 2 * 3))
        self.assertEqual(summed()["constant"], 0)

    def test_a_tree_is_scored(self):
        *_, scored = asked(Together, {}, self.initial, {"method": "loglikelihood", "parameters": self.first, "tree": {"parents": [-1, 0], "tokens": [4, 5]}})
        self.assertEqual(scored["result"], [[-4.0, True], [-5.0, False]])

    def test_who_takes_one_at_a_time_says_so(self):
        described, _, fitted = asked(Means, {}, self.initial, {"method": "fit_many", "parameters": self.first, "users": self.users, "files": [self.second], "per_file": 3, "round": 1, "stamp": "1"})
        self.assertFalse({"fit_many", "tree"} & set(described["result"]))
        self.assertIn("Means has no fit_many", fitted["error"]["message"])


class MeanImage(client.ImageClient):
    """Its tensor is the mean image; it has learned from those that have a label."""

    name = "mean image 1"

    def initial(self, seed):
        return {"mean": numpy.zeros((self.image.height, self.image.width, self.image.channels), "<f4")}

    def fit(self, parameters, examples, seed, round):
        return {"mean": examples.images.mean(0, dtype="<f4")}, len(examples), {}

    def evaluate(self, parameters, examples):
        known = [label for label in examples.labels if label is not None]
        return {"loss": abs(parameters["mean"] - examples.images[0]).max(), "targets": len(known), "correct": known.count(1)}


class Pictures(unittest.TestCase):
    about = {"width": 3, "height": 1, "channels": 1, "classes": 2, "later": True}
    examples = {"shape": [2, 1, 3, 1], "pixels": "AAECAwQF", "labels": [1, None]}
    setUp = Contract.setUp

    def test_a_client_of_images_gets_arrays(self):
        with unittest.mock.patch.dict(FIRST, image=self.about):
            described, _, fitted, evaluated = asked(MeanImage, {}, self.initial, {**self.fit, "examples": self.examples},
                                                    {"method": "evaluate", "parameters": self.second, "examples": self.examples})
        self.assertEqual([described["result"][name] for name in ("input", "parameters")], ["images", [{"name": "mean", "shape": [1, 3, 1]}]])
        self.assertEqual(fitted["result"]["examples"], 2)
        self.assertEqual(tensors.read(self.second)["mean"].tolist(), [[[1.5], [2.5], [3.5]]])
        self.assertEqual(evaluated["result"], {"loss": 1.5, "targets": 1, "correct": 1})

    def test_who_reads_something_else_is_told(self):
        with unittest.mock.patch.dict(FIRST, image=self.about):
            described, = asked(Means, {})
            self.assertEqual(described["result"]["input"], "tokens")
        described, = asked(MeanImage, {})
        self.assertIn("MeanImage reads images, and the examples are texts (data.level)", described["error"]["message"])


class Files(unittest.TestCase):
    def test_tensors_come_back_as_they_were(self):
        with tempfile.TemporaryDirectory() as directory:
            path = os.path.join(directory, "a.safetensors")
            given = {"b": numpy.arange(6.0).reshape(2, 3), "a": numpy.float32(1.5), "none": numpy.zeros((0, 2)), "ü": numpy.arange(3)}
            tensors.write(path, given)
            found = tensors.read(path)
            self.assertEqual(list(found), list(given))
            for name, array in given.items():
                self.assertTrue(numpy.array_equal(found[name], array) and found[name].shape == numpy.shape(array), name)
            found["b"][0] = 9  # arrays of their own

    def test_a_file_of_something_else_is_refused(self):
        with tempfile.TemporaryDirectory() as directory:
            path = os.path.join(directory, "a.safetensors")
            for entry in ({"dtype": "I64", "shape": [1], "data_offsets": [0, 8]}, {"dtype": "F32", "shape": [3], "data_offsets": [0, 8]},
                          {"dtype": "F32", "shape": [4], "data_offsets": [0, 16]}):
                header = json.dumps({"a": entry}).encode()
                with open(path, "wb") as file:
                    file.write(len(header).to_bytes(8, "little") + header + bytes(8))
                with self.assertRaisesRegex(ValueError, "tensor 'a' has .* expected 32-bit floats"):
                    tensors.read(path)


class RecordedNumPyClient:
    """What flwr.client.NumPyClient promises, as of Flower 1.13: get_parameters(config) gives a list of arrays, fit(parameters, config)
    such a list, the number of examples and metrics, evaluate(parameters, config) the loss, the number of examples and metrics.
    Recorded from its documentation, since Flower is not at hand."""

    def __init__(self, examples, config):
        self.examples, self.config = examples, config

    def get_parameters(self, config):
        return [numpy.full(3, config["seed"]), numpy.zeros((2, 1))]

    def fit(self, parameters, config):
        assert isinstance(parameters, list) and config["server_round"] == 4 and config["rate"] == 2
        return [parameters[0] + len(self.examples), parameters[1]], len(self.examples), {"loss": 0.5, "seconds": 3}

    def evaluate(self, parameters, config):
        return 0.25, len(self.examples), {"accuracy": 0.5} if self.config.get("rate") else {}


class Flower(unittest.TestCase):
    def setUp(self):
        from coalmine.flower import FromNumPyClient

        self.make = FromNumPyClient.of("recorded 1", RecordedNumPyClient, deterministic=True)
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.first, self.second = (os.path.join(directory.name, name) for name in ("first", "second"))

    def test_a_numpy_client_is_a_client(self):
        examples = [[2, 4, 3], [2, 5, 3]]
        described, _, fitted, evaluated, scored = asked(
            self.make, {"rate": 2}, {"method": "initial", "seed": 7, "into": self.first},
            {"method": "fit", "parameters": self.first, "into": self.second, "examples": examples, "round": 4, "seed": 1},
            {"method": "evaluate", "parameters": self.second, "examples": examples},
            {"method": "loglikelihood", "parameters": self.second, "pairs": [[[], [4]]]})
        self.assertEqual(described["result"]["parameters"], [{"name": "parameter 0000", "shape": [3]}, {"name": "parameter 0001", "shape": [2, 1]}])
        self.assertEqual(fitted["result"], {"examples": 2, "metrics": {"loss": 0.5, "targets": 2}})
        self.assertEqual(tensors.read(self.second)["parameter 0000"].tolist(), [9, 9, 9])
        self.assertEqual(evaluated["result"], {"loss": 0.25, "targets": 2, "correct": 1})
        self.assertIn("has no loglikelihood(parameters, pairs)", scored["error"]["message"])

    def test_an_evaluation_without_an_accuracy_is_an_error(self):
        *_, evaluated = asked(self.make, {}, {"method": "initial", "seed": 7, "into": self.first},
                              {"method": "evaluate", "parameters": self.first, "examples": [[2, 3]]})
        self.assertIn("expected accuracy among them", evaluated["error"]["message"])


class RecordedFlower:
    """What a mod of a ClientApp gets of Flower 1.13: messages with metadata (message_type, group_id, which is the round) and content, which
    flwr.common.recordset_compat reads as FitIns and FitRes, whose parameters flwr.common makes arrays of; a context with the node_config of
    simulations. Recorded from its source (flwr/client/mod/centraldp_mods.py, flwr/server/workflow/default_workflows.py), since Flower is
    not at hand. A content here is the list of arrays itself."""

    def __init__(self):
        common, compat = types.ModuleType("flwr.common"), types.ModuleType("flwr.common.recordset_compat")
        common.recordset_compat, common.parameters_to_ndarrays = compat, lambda parameters: [array.copy() for array in parameters]
        for read in ("recordset_to_fitins", "recordset_to_fitres"):
            setattr(compat, read, lambda content, keep_input: types.SimpleNamespace(parameters=content))
        self.modules = {"flwr": types.ModuleType("flwr"), "flwr.common": common, "flwr.common.recordset_compat": compat}

    def message(self, arrays, message_type="train", round=0, error=False):
        metadata = types.SimpleNamespace(message_type=message_type, group_id=str(round))
        return types.SimpleNamespace(content=arrays, metadata=metadata, has_error=lambda: error)


class FlowerFiles(unittest.TestCase):
    """What a federation of Flower's leaves for audits."""

    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.folder = os.path.join(directory.name, "new")

    def files(self):
        return {name: tensors.read(os.path.join(self.folder, name)) for name in sorted(os.listdir(self.folder))} if os.path.exists(self.folder) else {}

    def test_the_arrays_of_each_round_are_written(self):
        from coalmine.flower import rounds

        evaluate = rounds(self.folder)
        for server_round in (0, 1):
            self.assertIsNone(evaluate(server_round, [numpy.full(3, server_round, "<f4"), numpy.ones((2, 1))], {}))
        then = rounds(self.folder, lambda server_round, parameters, config: (0.5, {"round": server_round, **config}))
        self.assertEqual(then(12, [numpy.zeros(3), numpy.ones((2, 1))], {"a": 1}), (0.5, {"round": 12, "a": 1}))
        found = self.files()
        self.assertEqual(list(found), ["round-0000.safetensors", "round-0001.safetensors", "round-0012.safetensors"])
        self.assertEqual({name: array.tolist() for name, array in found["round-0001.safetensors"].items()},
                         {"parameter 0000": [1, 1, 1], "parameter 0001": [[1], [1]]})

    def test_designated_clients_hand_over_what_they_add(self):
        from coalmine.flower import updates

        flower = RecordedFlower()
        mod = updates(self.folder, {7})

        def handed(client, arrays, **about):
            message, reply = flower.message([numpy.float32([1, 2])], **about), flower.message(arrays, error=about.get("error", False))
            with unittest.mock.patch.dict(sys.modules, flower.modules):
                given = mod(message, types.SimpleNamespace(node_config={"partition-id": client}), lambda asked, context: reply if asked is message else None)
            self.assertIs(given, reply)
            self.assertEqual([message.content[0].tolist(), reply.content], [[1, 2], arrays])

        handed(8, [numpy.float32([9, 9])], round=1)
        handed(7, [numpy.float32([9, 9])], round=1, message_type="evaluate")
        handed(7, [numpy.float32([9, 9])], round=2, error=True)
        self.assertEqual(self.files(), {})
        handed(7, [numpy.float32([1.5, 0])], round=3)
        self.assertEqual([{name: array.tolist() for name, array in tensors.items()} for tensors in self.files().values()], [{"parameter 0000": [0.5, -2]}])
        self.assertEqual(list(self.files()), ["round-0003-client-7.safetensors"])


class RecordedModel:
    """What pfl.model.pytorch.PyTorchModel promises, as of pfl-research 0.5: pytorch_model is the module that it was made of,
    get_parameters() gives tensors by their names. Recorded from its source, since it is not at hand."""

    def __init__(self, module):
        self.pytorch_model = module

    def get_parameters(self):
        return {name: p.detach().clone() for name, p in self.pytorch_model.named_parameters()}


class RecordedAlgorithm:
    """What FederatedAveraging.train_one_user promises: it trains the module in place on a dataset, by the context's
    model_train_params, and gives the change and metrics."""

    def train_one_user(self, initial, model, dataset, context):
        with torch.no_grad():
            for p in model.pytorch_model.parameters():
                p += context.model_train_params["rate"] * len(dataset) + torch.rand(())
        return {name: p - initial[name] for name, p in model.get_parameters().items()}, None


@unittest.skipIf(torch is None, "PyTorch is not installed")
class PFL(unittest.TestCase):
    def test_a_model_is_a_client(self):
        from coalmine.pflclient import FromModel

        make = FromModel.of("recorded 1", lambda config, vocabulary: RecordedModel(torch.nn.Embedding(vocabulary.size, vocabulary.size)),
                            lambda examples: examples, lambda config: {"rate": config["rate"]}, RecordedAlgorithm())
        with tempfile.TemporaryDirectory() as directory:
            first, second, third = (os.path.join(directory, name) for name in ("first", "second", "third"))
            fit = {"method": "fit", "parameters": first, "examples": [[2, 4, 3], [2, 5, 3]], "round": 4, "seed": 1}
            described, _, fitted, again, evaluated, scored = asked(
                make, {"rate": 2}, {"method": "initial", "seed": 7, "into": first}, {**fit, "into": second}, {**fit, "into": third},
                {"method": "evaluate", "parameters": second, "examples": [[2, 4, 3]]},
                {"method": "loglikelihood", "parameters": second, "pairs": [[[], [4]]]})
            self.assertEqual([p["name"] for p in described["result"]["parameters"]], ["weight"])
            self.assertEqual((fitted["result"], again["result"]), ({"examples": 2, "metrics": {}},) * 2)
            change = tensors.read(second)["weight"] - tensors.read(first)["weight"]
            self.assertTrue(4 <= change.min() and change.max() < 5)
            self.assertEqual(tensors.read(second)["weight"].tolist(), tensors.read(third)["weight"].tolist())
            self.assertEqual(evaluated["result"]["targets"], 1)
            self.assertEqual(len(scored["result"]), 1)


@unittest.skipIf(torch is None, "PyTorch is not installed")
class PyTorch(unittest.TestCase):
    def setUp(self):
        from coalmine.torchclient import ModuleClient

        class Bigrams(ModuleClient):
            """The logits of a token depend on the one before it alone."""

            name = "bigrams 1"

            def module(self):
                return torch.nn.Embedding(self.vocabulary.size, self.vocabulary.size)

        vocabulary = client.Vocabulary(6, 2, 3, 4, "/none")
        self.client = Bigrams({"learning_rate": 0.5, "batch": 2, "epochs": 2, "gradient_clip": 5}, vocabulary, 1)
        self.parameters = self.client.initial(3)
        self.examples = [[2, 4, 5, 4, 3], [2, 5, 3], [2, 4, 4]]

    def copy(self):
        return {name: array.copy() for name, array in self.parameters.items()}

    def log_probs(self, parameters):
        logits = parameters["weight"].astype("f8")
        return logits - numpy.log(numpy.exp(logits).sum(-1, keepdims=True))

    def test_scores_and_losses_are_those_of_the_definition(self):
        logs = self.log_probs(self.parameters)
        pairs = [([], [4, 5]), ([4, 5], [4]), ([5], [5, 4, 4])]
        for (context, continuation), (log_prob, greedy) in zip(pairs, self.client.loglikelihood(self.copy(), pairs)):
            before = ([2] + context + continuation)[len(context):-1]
            self.assertAlmostEqual(float(log_prob), sum(logs[a, b] for a, b in zip(before, continuation)), places=5)
            self.assertEqual(greedy, all(logs[a].argmax() == b for a, b in zip(before, continuation)))
        targets = [(a, b) for e in self.examples for a, b in zip(e, e[1:]) if b >= 4]
        found = self.client.evaluate(self.copy(), self.examples)
        self.assertEqual((found["targets"], found["correct"]), (len(targets), sum(logs[a].argmax() == b for a, b in targets)))
        self.assertAlmostEqual(found["loss"], -sum(logs[a, b] for a, b in targets) / len(targets), places=5)

    def test_training_is_gradient_descent_that_repeats_itself(self):
        first, n, metrics = self.client.fit(self.copy(), self.examples, 5, 1)
        self.client.fit(self.copy(), self.examples[:1], 6, 1)  # another user
        second, _, _ = self.client.fit(self.copy(), self.examples, 5, 1)
        self.assertTrue(all(numpy.array_equal(first[name], second[name]) for name in first))
        self.assertEqual((n, metrics["targets"]), (3, 2 * sum(len(e) - 1 for e in self.examples)))
        self.client.config = {"learning_rate": 0.5, "batch": 3}
        after, _, metrics = self.client.fit(self.copy(), self.examples, 5, 1)
        logs, targets = self.log_probs(self.parameters), [(a, b) for e in self.examples for a, b in zip(e, e[1:])]
        want = self.parameters["weight"].astype("f8")
        for a, b in targets:
            want[a] -= 0.5 * (numpy.exp(logs[a]) - numpy.eye(6)[b]) / len(targets)
        self.assertLess(abs(after["weight"] - want).max(), 1e-6)
        self.assertAlmostEqual(metrics["loss"], -sum(logs[a, b] for a, b in targets) / len(targets), places=5)


if __name__ == "__main__":
    unittest.main()
