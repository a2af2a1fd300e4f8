import itertools
import json
import math
import os
import re
import subprocess
import sys
import tempfile
import unittest
import unittest.mock

root = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
sys.path.insert(0, root)

try:
    import numpy
    import torch
except ImportError:
    raise unittest.SkipTest("PyTorch is not installed")

from coalmine import devices, tensors
from coalmine.client import Answers, Diverged, User, Vocabulary
from coalmine.torch import Batch, Trainer

ADAPTED = (
    {"heads": 2, "layers": 2, "adapters": {"rank": 2}},
    {"heads": 3, "untied": True, "adapters": {"rank": 1, "alpha": 3, "matrices": "attention.key,attention.output,feed.input,feed.output"}},
    {"heads": 3, "blocks": {"rotary": 2, "key_heads": 1, "rms": True, "gated": True, "unbiased": True, "activation": "silu"},
     "adapters": {"rank": 2, "alpha": 3, "matrices": "attention.query,attention.key,attention.value,feed.input"}},
)
DEVICE = os.environ.get("COALMINE_DEVICE", "cpu")  # of the comparison with the native engine
VOCABULARY = Vocabulary(11, 2, 3, 4, "/none")
RULES = {
    "sgd": {}, "momentum": {"momentum": .9}, "nesterov": {"momentum": .9}, "adam": {"beta1": .9, "beta2": .999, "epsilon": 1e-3},
    "fedadam": {"beta1": .9, "beta2": .99, "epsilon": 1e-3, "initial": 1e-3}, "adagrad": {"epsilon": 1e-3, "initial": .1}, "rmsprop": {"beta2": .9, "epsilon": 1e-3},
    "yogi": {"beta1": .9, "beta2": .99, "epsilon": 1e-3, "initial": 1e-3}, "adadelta": {"beta2": .95, "epsilon": 1e-4},
}


def trainer(kind="cifg-lstm", local=(), **more):
    model = {"kind": kind, "embedding": 5, "units": 6, **more.pop("model", {})}
    return Trainer({"model": model, "local": {"learning_rate": .1, "batch": 2, **dict(local)}, "epochs": 2, "device": "cpu", **more}, VOCABULARY, 1)


def users(lengths=((3, 5, 2), (4,), (2, 2, 6, 3, 7))):
    draw = numpy.random.default_rng(1)
    return [User([[2, *draw.integers(4, 11, n).tolist(), 3] for n in of], seed) for seed, of in enumerate(lengths)]


def flat(parameters):
    return numpy.concatenate([numpy.ravel(array) for array in parameters.values()]).astype(float)


class Together(unittest.TestCase):
    def check(self, t, many):
        start = t.initial(7)
        together, results = t.fit_many(dict(start), many, 1)
        for i, user in enumerate(many):
            alone, *result = t.fit(dict(start), user.examples, user.seed, 1)
            update = numpy.linalg.norm(flat(alone) - flat(t.trained(start)))
            apart = numpy.linalg.norm(flat({name: array[i] for name, array in together.items()}) - flat(alone))
            self.assertGreater(update, 0)
            self.assertLessEqual(apart, t.tolerance * update)
            self.assertEqual((results[i][0], results[i][1]["targets"]), (result[0], result[1]["targets"]))
            self.assertAlmostEqual(results[i][1]["loss"], result[1]["loss"], places=5)

    def test_users_learn_together_what_each_learns_alone(self):
        for kind in ("cifg-lstm", "lstm", "gru"):
            for model in ({}, {"layers": 2, "projection": -1, "untied": True}):
                with self.subTest(kind=kind, **model):
                    self.check(trainer(kind, {"gradient_clip": .3, "dropout": .25, "weight_decay": .1, "proximal": .5}, model=model), users())

    def test_users_learn_a_transformer_together_as_alone(self):
        for model in ({"heads": 2}, {"layers": 2, "heads": 3, "context": 9, "untied": True}, *ADAPTED):
            with self.subTest(**model):
                local = {"gradient_clip": .3, "dropout": .25, "weight_decay": .1, "proximal": .5, "optimizer": {"kind": "momentum", **RULES["momentum"]}}
                self.check(trainer("transformer", local, model={"embedding": 6, **model}), users())

    def test_a_user_learns_the_same_beside_longer_sentences(self):
        t = trainer("transformer", model={"embedding": 6, "heads": 2})
        short, long = User([[2, 5, 7, 3], [2, 9]], 1), User([[2, 4, 5, 6, 7, 8, 9, 3]] * 5, 2)
        self.check(t, [short, long])

    def test_every_rule(self):
        for kind, config in RULES.items():
            with self.subTest(kind=kind):
                self.check(trainer(local={"optimizer": {"kind": kind, **config}}), users())

    def test_a_sum_is_that_of_the_clipped_updates(self):
        t, many = trainer(), users()
        start = t.initial(7)
        fitted, results = t.fit_many(dict(start), many, 1)
        norms = [numpy.linalg.norm(flat({name: array[i] for name, array in fitted.items()}) - flat(start)) for i in range(3)]
        for clip, weights in ((0, None), (sorted(norms)[1], [1, 2, 3])):
            total, told = t.sum(dict(start), many, 1, clip, weights)
            want = 0
            for i, norm in enumerate(norms):
                update = flat({name: array[i] for name, array in fitted.items()}) - flat(start)
                want = want + update * (weights or [3, 1, 5])[i] * (min(1, clip / norm) if clip else 1)
            self.assertLess(numpy.linalg.norm(flat(total) - want), 1e-6 * numpy.linalg.norm(want))
            self.assertTrue(numpy.allclose([norm for *_, norm in told], norms, rtol=1e-5))
            self.assertEqual([result[:2] for result in told], results)

    def test_what_is_out_of_memory_is_halved(self):
        t, many, sizes = trainer(), users(), []
        train = t.train

        def short(start, many, part, fitted=None):
            sizes.append(len(part))
            if len(part) > 1:
                raise RuntimeError("CUDA out of memory. Tried to allocate 9 GiB\nmore")
            return train(start, many, part, fitted)
        want, results = t.fit_many(t.initial(7), many, 1)
        with unittest.mock.patch.object(t, "train", short):
            got, halved = t.fit_many(t.initial(7), many, 1)
        self.assertEqual(sizes, [3, 1, 2, 1, 1])
        self.assertTrue(numpy.allclose(flat(got), flat(want), atol=1e-6))
        self.assertEqual([r[0] for r in halved], [r[0] for r in results])
        total, told = t.sum(t.initial(7), many, 1, .1, None)
        with unittest.mock.patch.object(t, "train", short):
            halves, again = t.sum(t.initial(7), many, 1, .1, None)
        self.assertTrue(numpy.allclose(flat(halves), flat(total), atol=1e-6))
        self.assertTrue(numpy.allclose([norm for *_, norm in again], [norm for *_, norm in told], rtol=1e-5))
        with self.assertRaisesRegex(RuntimeError, "another error"):
            devices.halving(unittest.mock.Mock(side_effect=RuntimeError("another error")), [1, 2])

    def test_one_user_out_of_memory_is_a_sentence_and_may_be_tried_again(self):
        for said in ("CUDA out of memory. Tried to allocate 9 GiB\nmore", "CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",
                     "MPS backend out of memory (MPS allocated: 9 GB)", "[enforce fail at alloc_cpu.cpp:66] . DefaultCPUAllocator: can't allocate memory: you tried"):
            with self.subTest(said), tempfile.TemporaryDirectory() as folder, unittest.mock.patch("traceback.print_exc"):
                t = trainer()
                answers = Answers(lambda *_: t)
                path = os.path.join(folder, "p")
                answers.to({"id": 1, "method": "describe", "config": {}, "vocabulary": {"size": 11, "begin": 2, "end": 3, "first_word": 4, "words": ""}, "threads": 1, "versions": [2]})
                answers.to({"id": 2, "method": "initial", "seed": 1, "into": path})
                asked = {"id": 3, "method": "sum", "parameters": path, "round": 1, "users": [{"examples": u.examples, "seed": u.seed} for u in users()],
                         "into": os.path.join(folder, "s"), "clip": .1, "weights": [1, 1, 1], "stamp": "1"}
                with unittest.mock.patch.object(t, "train", side_effect=RuntimeError(said)):
                    error = json.loads(answers.to(asked))["error"]
                self.assertTrue(error["retry"])
                self.assertRegex(error["message"], r"^Retry: the device has no memory for one user: [^\n]+; lower the batch, or take a device with more$")
                with unittest.mock.patch.object(t, "load", side_effect=RuntimeError(said)):
                    error = json.loads(answers.to(asked))["error"]
                self.assertTrue(error["retry"])
                self.assertRegex(error["message"], r"^Retry: no memory for sum: [^\n]+; free some of it, or take a device with more$")
                self.assertEqual(len(json.loads(answers.to(asked))["result"]["users"]), 3)  # and the program goes on

    def test_training_that_diverges_names_the_first_user_its_step_and_the_number(self):
        for rate, largest, batches, want in (
                (1e30, None, None, {"user": 1, "step": 2, "name": "loss", "value": "nan"}),
                (1e3, 1e3, None, {"user": 1, "step": 3, "name": "loss"}),
                (1e45, None, [[0]], {"user": 1, "step": 1, "name": "update"}),
                (1e3, None, None, None)):
            t, (_, *many) = trainer(), users()
            start, calm = t.initial(7), User([[2, 5, 3]], 1, [[]])
            many = [calm, *(User(u.examples, u.seed, batches, rate, largest) for u in reversed(many))]
            calm.learning_rate = rate
            for ask in (t.fit_many, lambda *asked: t.sum(*asked, .1, None)):
                with self.subTest(rate=rate, ask=ask):
                    if not want:
                        ask(dict(start), many, 1)
                        continue
                    with self.assertRaises(Diverged) as raised:
                        ask(dict(start), many, 1)
                    self.assertEqual({**raised.exception.about, **want}, raised.exception.about)
                    self.assertRegex(str(raised.exception), f"^the {want['name']} is [^ ]+: training diverged; lower the learning rate")

    def test_a_gradient_that_is_not_finite_is_named(self):
        t = trainer(local={"gradient_clip": .3})
        start = {**t.initial(7), "output.bias": numpy.zeros(11, numpy.float32)}
        with unittest.mock.patch.object(t, "norms", lambda tensors: torch.full((len(next(iter(tensors.values()))),), math.inf)):
            with self.assertRaises(Diverged) as raised:
                t.fit_many(start, users(), 1)
        self.assertEqual(raised.exception.about, {"user": 0, "step": 1, "name": "gradient", "value": "inf"})

    def test_norms_beyond_the_squares_of_floats_are_right(self):
        t = trainer()
        found = t.norms({"a": torch.tensor([[3e30], [0]]), "b": torch.tensor([[4e30], [2]])}).tolist()
        self.assertTrue(numpy.allclose(found, [5e30, 2], rtol=1e-6), found)

    def test_a_divergence_is_a_part_of_the_error(self):
        answers = Answers(lambda *_: unittest.mock.Mock(initial=unittest.mock.Mock(side_effect=Diverged(2, 3, "loss", math.nan))))
        with unittest.mock.patch("traceback.print_exc"):
            error = json.loads(answers.to({"id": 1, "method": "describe", "config": {}, "vocabulary": {"size": 11, "begin": 2, "end": 3, "first_word": 4, "words": ""}, "threads": 1, "versions": [2]}))["error"]
        self.assertEqual(error["diverged"], {"user": 2, "step": 3, "name": "loss", "value": "nan"})
        self.assertFalse(error["retry"])

    def test_batches_and_a_rate_that_are_given_are_used(self):
        t, (user, *_) = trainer(epochs=1), users()
        start = t.initial(7)
        own = t.batches(user)
        given = User(user.examples, 99, own, .1)
        self.assertTrue(numpy.array_equal(flat(t.fit_many(dict(start), [given], 1)[0]), flat(t.fit_many(dict(start), [user], 1)[0])))
        given.learning_rate = 0.0
        self.assertTrue(numpy.array_equal(flat({k: v[0] for k, v in t.fit_many(dict(start), [given], 1)[0].items()}), flat(start)))


class Native(unittest.TestCase):
    """What clients of the same parameters, batches and rates learn in Coalmine: tasks/training/torchvectors_test.go."""

    def test_an_update_is_that_of_the_native_engine(self):
        with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "native.jsonl")) as lines:
            vectors = [json.loads(line) for line in lines]
        self.assertGreater(len(vectors), 12)
        for v in vectors:
            with self.subTest(kind=v["model"]["kind"], layers=v["model"].get("layers"), rule=v["local"]["optimizer"]["kind"]):
                t = Trainer({"model": v["model"], "local": v["local"], "epochs": v["epochs"], "device": DEVICE}, VOCABULARY, 1)
                start, at = {}, 0
                for name, shape in t.shape.tensors.items():
                    n = int(numpy.prod(shape))
                    start[name], at = numpy.array(v["before"][at:at + n], "<f4").reshape(shape), at + n
                self.assertEqual(at, len(v["before"]))
                user = User(v["examples"], 1, v["batches"], v["local"]["learning_rate"])
                other = User(v["examples"][:2], 2, [[1, 0], [0], [1], [0, 1], [1], [1], [0]], user.learning_rate)
                fitted, results = t.fit_many(dict(start), [other, user], 1)
                after = numpy.concatenate([array[1].ravel() for array in fitted.values()]).astype(float)
                update = numpy.linalg.norm(numpy.array(v["after"]) - v["before"])
                self.assertLess(numpy.linalg.norm(after - v["after"]), (1e-5 if DEVICE == "cpu" else 1e-4) * update)
                self.assertEqual(results[1][1]["targets"], v["targets"])
                self.assertAlmostEqual(results[1][1]["loss"], v["loss"], delta=1e-5 * v["loss"])


class Transformer(unittest.TestCase):
    def test_its_log_probabilities_are_those_of_pytorchs_modules(self):
        """docs/checks/check_transformer.py computes them by torch.nn.TransformerEncoderLayer, the transformers library those of blocks."""
        cases = []
        for name in ("transformer.json", "blocks.json"):
            with open(os.path.join(root, "..", "..", "models", "testdata", name)) as file:
                cases += json.load(file)
        for case in cases:
            model, tokens = case["model"], case["tokens"]
            t = Trainer({"model": model, "local": {"learning_rate": .1, "batch": 2}, "device": "cpu"}, Vocabulary(model["vocabulary"], 2, 3, 4, "/none"), 1)
            w, at = {}, 0
            for name, shape in t.shape.tensors.items():
                n = int(numpy.prod(shape))
                k = numpy.arange(at, at + n, dtype=numpy.uint64)
                w[name], at = torch.from_numpy(((k * 2654435761 % 2**32) / 2**32 - .5).astype("<f4").reshape(1, *shape)), at + n
            batch = Batch([[[*tokens, 0], tokens[:3]]], t.device)
            rows = torch.log_softmax(t.shape.logits(w, t.shape.outputs(w, batch))[0], -1)[batch.row == 0]
            self.assertTrue(numpy.allclose(rows.numpy(), case["log_probs"], rtol=1e-5, atol=1e-5))
            single = {name: array[0].numpy() for name, array in w.items()}
            path = tokens[1:]
            scored = t.loglikelihood_tree(single, list(range(-1, len(path) - 1)), path) if tokens[0] == 2 else []
            for at, (log_prob, _) in enumerate(scored):
                self.assertAlmostEqual(log_prob, case["log_probs"][at][path[at]], delta=1e-4)

    def test_bad_sizes_are_told_in_a_sentence(self):
        with self.assertRaisesRegex(ValueError, "^model.heads is 4; expected a divisor of the embedding, 6$"):
            trainer("transformer", model={"embedding": 6, "heads": 4})
        t = trainer("transformer", model={"embedding": 6, "heads": 2, "context": 3})
        with self.assertRaisesRegex(ValueError, "^an example has 7 tokens; expected at most 4, one more than model.context$"):
            t.fit(t.initial(1), users()[0].examples, 1, 1)
        with self.assertRaisesRegex(ValueError, "^a sequence has more than 3 tokens"):
            t.loglikelihood_tree(t.initial(1), [-1, 0, 1, 2], [4, 5, 6, 7])


class Adapters(unittest.TestCase):
    def cases(self):
        """Trainers, and their parameters [1, ...] in float64, none of which is 0."""
        for model in ADAPTED:
            t = trainer("transformer", model={"embedding": 6, **model})
            draw = torch.Generator().manual_seed(5)
            yield t, {name: torch.randn(1, *shape, generator=draw, dtype=torch.float64) for name, shape in t.shape.tensors.items()}

    def merged(self, t, w):
        """The parameters of the model without adapters that computes the same."""
        merged = {name: w[name].clone() for name in t.shape.frozen}
        for tensor, matrices in t.shape.adapters.items():
            for name, first, rows, columns in matrices:
                merged[tensor][..., first:first + columns] += t.shape.scale * w[name + "_a"] @ w[name + "_b"]
        return merged

    def test_they_compute_with_the_merged_matrices(self):
        for t, w in self.cases():
            batch = Batch([[[2, 5, 7, 3], [2, 9]]], t.device)
            plain = trainer("transformer", model={**t.config["model"], "adapters": None})
            self.assertEqual(list(plain.shape.tensors), list(t.shape.frozen))
            self.assertTrue(torch.allclose(t.losses(w, batch), plain.losses(self.merged(t, w), batch), rtol=1e-12, atol=1e-12))

    def test_their_gradients_are_those_of_differences_and_of_the_merged_matrix(self):
        for t, w in self.cases():
            batch, factors = Batch([[[2, 5, 7, 3], [2, 9]]], t.device), t.trained(w)
            for factor in factors.values():
                factor.requires_grad_()
            gradients = dict(zip(factors, torch.autograd.grad(t.losses(w, batch).sum(), list(factors.values()))))
            w = {name: tensor.detach() for name, tensor in w.items()}
            plain, merged = trainer("transformer", model={**t.config["model"], "adapters": None}), self.merged(t, w)
            whole = dict(zip(merged, torch.autograd.grad(plain.losses({n: m.requires_grad_() for n, m in merged.items()}, batch).sum(), list(merged.values()))))
            for tensor, matrices in t.shape.adapters.items():
                for name, first, rows, columns in matrices:
                    a, b, of = w[name + "_a"], w[name + "_b"], whole[tensor][..., first:first + columns]
                    self.assertTrue(torch.allclose(gradients[name + "_a"], t.shape.scale * of @ b.transpose(1, 2), rtol=1e-9, atol=1e-11))
                    self.assertTrue(torch.allclose(gradients[name + "_b"], t.shape.scale * a.transpose(1, 2) @ of, rtol=1e-9, atol=1e-11))
            for name, gradient in gradients.items():
                for at in (0, gradient.numel() - 1):
                    found = []
                    for step in (1e-5, -1e-5):
                        moved = w[name].clone()
                        moved.view(-1)[at] += step
                        found.append(float(t.losses({**w, name: moved}, batch).sum()))
                    self.assertAlmostEqual((found[0] - found[1]) / 2e-5, float(gradient.view(-1)[at]), delta=1e-6)

    def test_updates_and_norms_are_of_factors_alone(self):
        for t, w in self.cases():
            start = {name: tensor[0].float().numpy() for name, tensor in w.items()}
            fitted, _, _ = t.fit(dict(start), users()[0].examples, users()[0].seed, 1)
            self.assertEqual(set(start) - set(fitted), set(t.frozen))
            total, ((_, _, norm),) = t.sum(dict(start), users()[:1], 1, 1e9, [1])
            update = flat(fitted) - flat(t.trained(start))
            self.assertAlmostEqual(norm, numpy.linalg.norm(update), delta=1e-5 * norm)
            self.assertLess(numpy.linalg.norm(flat(total) - update), 1e-5 * norm)

    def test_the_program_names_frozen_tensors_and_leaves_them_out(self):
        with tempfile.TemporaryDirectory() as folder:
            t = trainer("transformer", model={"embedding": 6, **ADAPTED[0]})
            answers, path = Answers(lambda *_: t), os.path.join(folder, "p")
            described = json.loads(answers.to({"id": 1, "method": "describe", "config": {}, "vocabulary": {"size": 11, "begin": 2, "end": 3, "first_word": 4, "words": ""}, "threads": 1, "versions": [2]}))
            parameters = described["result"]["parameters"]
            self.assertEqual([p["name"] for p in parameters[:4]], ["attention.query_a", "attention.query_b", "attention.value_a", "attention.value_b"])
            self.assertEqual([p["name"] for p in parameters if p.get("frozen")], list(t.frozen))
            answers.to({"id": 2, "method": "initial", "seed": 1, "into": path})
            self.assertEqual(len(tensors.read(path)), len(parameters))
            answers.to({"id": 3, "method": "fit", "parameters": path, "round": 1, "examples": users()[0].examples, "seed": 1, "into": path + "f"})
            self.assertEqual(list(tensors.read(path + "f")), [p["name"] for p in parameters if not p.get("frozen")])

    def test_bad_ones_are_told_in_a_sentence(self):
        for adapters in ({"rank": 0}, {"rank": 2, "matrices": "query"}, {"alpha": 2}, {"rank": 1, "dropout": 1}):
            with self.assertRaisesRegex(ValueError, "^model.adapters is .*; expected a rank of at least 1, and perhaps alpha and matrices"):
                trainer("transformer", model={"embedding": 6, "heads": 2, "adapters": adapters})


class Scores(unittest.TestCase):
    def test_a_tree_scores_as_pairs_do_and_probabilities_add_up_to_one(self):
        for kind in ("cifg-lstm", "lstm", "gru", "transformer"):
            t = trainer(kind, model={"layers": 2, "untied": True, **({"embedding": 6, "heads": 3} if kind == "transformer" else {"projection": -1})})
            parameters = {name: array * 3 for name, array in t.initial(3).items()}
            paths = [list(p) for n in (1, 2, 3) for p in itertools.product((4, 5, 7), repeat=n)]
            place = {tuple(p): i for i, p in enumerate(paths)}
            parents = [place.get(tuple(p[:-1]), -1) for p in paths]
            tree = t.loglikelihood_tree(parameters, parents, [p[-1] for p in paths])
            pairs = t.loglikelihood(parameters, [(p[:-1], p[-1:]) for p in paths])
            self.assertTrue(numpy.allclose([a for a, _ in tree], [a for a, _ in pairs], atol=1e-5))
            self.assertEqual([bool(g) for _, g in tree], [bool(g) for _, g in pairs])
            total = sum(numpy.exp(l) for l, _ in t.loglikelihood(parameters, [([4], [x]) for x in range(11)]))
            self.assertAlmostEqual(total, 1, places=5)
            sentence = [2, 4, 5, 7, 3]
            (loss, _), = t.loglikelihood(parameters, [([], sentence[1:])])
            words = t.evaluate(parameters, [sentence])
            (end, _), = t.loglikelihood(parameters, [(sentence[1:-1], [3])])
            self.assertAlmostEqual(words["loss"] * words["targets"], end - loss, places=5)


class Devices(unittest.TestCase):
    def test_one_that_is_not_there_is_told_in_a_sentence(self):
        if torch.cuda.is_available():
            self.skipTest("there is a GPU")
        with self.assertRaisesRegex(ValueError, r"^device 'cuda': PyTorch \S+ cannot use it: [^\n]+; update the driver or PyTorch, or set COALMINE_DEVICE=cpu$"):
            devices.choose("cuda")
        with self.assertRaisesRegex(ValueError, "^device 'gpu0' is unknown to PyTorch; expected cpu, "):
            devices.choose("gpu0")
        with unittest.mock.patch.object(torch.cuda, "init", side_effect=RuntimeError("The NVIDIA driver on your system is too old (found version 9000). Please update\nmore")):
            with self.assertRaisesRegex(ValueError, r"driver on your system is too old \(found version 9000\); update"):
                devices.choose("cuda:1")
        with unittest.mock.patch.dict(os.environ, COALMINE_DEVICE="cpu", CUDA_VISIBLE_DEVICES="0"):
            self.assertEqual(devices.choose().type, "cpu")
        # A worker that gives a GPU does not get the CPU's results instead.
        with unittest.mock.patch.dict(os.environ, CUDA_VISIBLE_DEVICES="GPU-a"):
            os.environ.pop("COALMINE_DEVICE", None)
            with self.assertRaisesRegex(ValueError, r"^device 'cuda': PyTorch \S+ cannot use it: [^\n]+; update the driver"):
                devices.choose()

    def test_an_old_or_absent_pytorch_is_told_in_a_sentence(self):
        for old in ("1.12.1+cu116", "0.4.1"):
            with unittest.mock.patch.object(torch, "__version__", old), self.assertRaisesRegex(ValueError, f"^PyTorch {re.escape(old)} is too old; expected 1.13 or later: update it$"):
                trainer()
        for new in ("1.13.0a0", "2.11.0+cu130", "10.0"):
            with unittest.mock.patch.object(torch, "__version__", new):
                devices.require(1, 13)
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "torch.py"), "w") as hidden:
                hidden.write("raise ImportError('there is none')")
            told = subprocess.run([sys.executable, "-B", "-m", "coalmine.torch"], stdin=subprocess.DEVNULL, capture_output=True, text=True, cwd=folder,
                                  env={**os.environ, "PYTHONPATH": folder + os.pathsep + root})
        self.assertEqual(told.returncode, 1)
        self.assertRegex(told.stderr, r"^coalmine.torch needs NumPy and PyTorch 1.13 or later, and \S+ lacks one of them: there is none; install it there, or put another python3 first in PATH\n$")


if __name__ == "__main__":
    unittest.main()
