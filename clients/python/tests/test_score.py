import base64
import io
import json
import math
import os
import subprocess
import sys
import unittest

root = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
sys.path.insert(0, root)
from coalmine import score
from coalmine.harness import FromLM

try:
    import numpy
except ImportError:
    numpy = None

try:
    import torch
except ImportError:
    torch = None


class Lengths(score.Scorer):
    """The log-probability of a continuation is less by one for each of its letters."""

    model, longest_input, deterministic = "lengths", 40, True

    def loglikelihood(self, pairs):
        if any("busy" in context for context, _ in pairs):
            raise score.Retry("the model is busy")
        return [(float("nan") if "diverged" in context else -len(continuation), "g" in continuation) for context, continuation in pairs]


def ask(scorer, *requests):
    """The answers to requests, which get ids from 1."""
    lines = [json.dumps({"id": i + 1, **request}) for i, request in enumerate(requests)]
    answers = io.BytesIO()
    errors, sys.stderr = sys.stderr, io.StringIO()
    try:
        score.converse(scorer, io.BytesIO("\n".join(lines).encode()), answers)
    finally:
        sys.stderr = errors
    return [json.loads(line) for line in answers.getvalue().splitlines()]


class Brightness(score.Scorer):
    """The first of two classes is as probable as an image is bright."""

    model = "brightness"

    def classify(self, images):
        share = images.reshape(len(images), -1).mean(1) / 255
        return [[math.log(p), math.log1p(-p)] for p in share]


class Images(unittest.TestCase):
    @unittest.skipIf(numpy is None, "NumPy is not installed")
    def test_a_scorer_of_images_has_no_texts(self):
        asked = {"shape": [2, 1, 3, 1], "pixels": base64.b64encode(bytes([51, 51, 51, 0, 255, 51])).decode()}
        described, found, texts = ask(Brightness(), {"method": "describe", "versions": [1]}, {"method": "classify", "images": asked},
                                      {"method": "loglikelihood", "pairs": [["a", "b"]]})
        self.assertEqual(described["result"]["methods"], ["classify"])
        for got, want in zip(found["result"], (0.2, 0.4)):
            self.assertAlmostEqual(math.exp(got[0]), want)
            self.assertAlmostEqual(math.exp(got[0]) + math.exp(got[1]), 1)
        self.assertIn("Brightness has no loglikelihood(pairs)", texts["error"]["message"])


class Contract(unittest.TestCase):
    def test_a_scorer_describes_itself_and_scores(self):
        described, scored = ask(Lengths(), {"method": "describe", "versions": [1]}, {"method": "loglikelihood", "pairs": [["my", " pin"], ["", "egg"]]})
        self.assertEqual(described, {"id": 1, "result": {"contract": "coalmine/score", "version": 1, "model": "lengths",
                                                         "longest_input": 40, "deterministic": True, "methods": ["loglikelihood"]}})
        self.assertEqual(scored, {"id": 2, "result": [[-4.0, False], [-3.0, True]]})

    def test_what_goes_wrong_is_an_answer(self):
        answers = ask(Lengths(), {"method": "loglikelihood", "pairs": [["busy", "a"]]}, {"method": "loglikelihood", "pairs": [["diverged", "a"]]},
                      {"method": "generate_until", "prompts": ["a"], "until": [], "max_tokens": 3}, {"method": "none"},
                      {"method": "loglikelihood", "pairs": [["my", " pin"]]})
        errors = [a["error"] for a in answers[:-1]]
        self.assertEqual([e["retry"] for e in errors], [True, False, False, False])
        self.assertEqual([a["id"] for a in answers], [1, 2, 3, 4, 5])
        for error, want in zip(errors, ("the model is busy", "nan; expected a finite number", "generate_until", "no method 'none'; there are ['loglikelihood']")):
            self.assertIn(want, error["message"])
        self.assertEqual(answers[-1]["result"], [[-4.0, False]])

    def test_results_must_be_as_many_as_texts(self):
        class Few(Lengths):
            def loglikelihood(self, pairs):
                return [(-1.0, False)]

        answer, = ask(Few(), {"method": "loglikelihood", "pairs": [["a", "b"], ["c", "d"]]})
        self.assertIn("1 results for 2 texts", answer["error"]["message"])

    def test_what_is_printed_is_no_answer(self):
        program = """
import os, sys
from coalmine.score import Scorer, serve
class Loud(Scorer):
    model = "loud"
    def __init__(self):
        print("loading")
    def loglikelihood(self, pairs):
        os.system("echo from a child; cat")
        return [(-1.0, True) for _ in pairs]
serve(Loud)
"""
        asked = b'{"id":1,"method":"describe"}\n{"id":2,"method":"loglikelihood","pairs":[["a","b"]]}\n{"id":3,"method":"none"}\n'
        done = subprocess.run([sys.executable, "-c", program], input=asked, capture_output=True, env={**os.environ, "PYTHONPATH": root})
        self.assertEqual((done.returncode, [json.loads(line)["id"] for line in done.stdout.splitlines()]), (0, [1, 2, 3]), done.stderr)
        self.assertEqual(done.stderr.split(), b"loading from a child".split())


class RecordedLM:
    """What lm_eval.api.model.LM promises, as of its version 0.4: lists of instances with args, from which it
    answers (log-probability, is greedy) and texts. Recorded from its source, since lm_eval is not at hand."""

    max_length = 4

    def tok_encode(self, text):
        return text.split()

    def loglikelihood(self, requests):
        assert all(r.request_type == "loglikelihood" and r.args == r.arguments for r in requests)
        return [(-float(len(continuation)), context == "") for context, continuation in [r.args for r in requests]]

    def generate_until(self, requests):
        assert all(r.args[1]["do_sample"] is False for r in requests)
        return [" " + " ".join([r.args[1]["until"][0]] * r.args[1]["max_gen_toks"]) for r in requests]


class Harness(unittest.TestCase):
    def test_an_lm_is_a_scorer(self):
        described, scored, texts, long = ask(
            FromLM(RecordedLM(), "recorded"), {"method": "describe"}, {"method": "loglikelihood", "pairs": [["", "my"], ["my", " pin"]]},
            {"method": "generate_until", "prompts": ["a", "b"], "until": ["x"], "max_tokens": 2}, {"method": "loglikelihood", "pairs": [["a b c d", " e"]]})
        self.assertEqual(described["result"]["methods"], ["loglikelihood", "generate_until"])
        self.assertEqual(described["result"]["longest_input"], 4)
        self.assertEqual(scored["result"], [[-2.0, True], [-4.0, False]])
        self.assertEqual(texts["result"], [" x x", " x x"])
        self.assertIn("5 tokens; the model takes at most 4", long["error"]["message"])


@unittest.skipIf(torch is None, "PyTorch is not installed")
class PyTorch(unittest.TestCase):
    def setUp(self):
        from coalmine.pytorch import FromModule

        torch.manual_seed(5)
        self.words = ["<begin>", "a", "b", "c", "d"]
        embedding, cell, output = torch.nn.Embedding(5, 3), torch.nn.GRU(3, 4, batch_first=True), torch.nn.Linear(4, 5)

        class Module(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.parts = torch.nn.ModuleList([embedding, cell, output])

            def forward(self, ids):
                return output(cell(embedding(ids))[0])

        self.module = Module()
        self.scorer = FromModule(self.module, lambda text: [self.words.index(w) for w in text.split()], 0,
                                 decode=lambda ids: "".join(" " + self.words[i] for i in ids), longest_input=7)

    def test_scores_are_those_of_the_module(self):
        pairs = [["a b", " c d a"], ["", "d"], ["c", " c"]]
        scored, tokens = ask(self.scorer, {"method": "loglikelihood", "pairs": pairs}, {"method": "token_logprobs", "pairs": pairs})
        for pair, (log_prob, _), of in zip(pairs, scored["result"], tokens["result"]):
            context, continuation = [[self.words.index(w) for w in part.split()] for part in pair]
            ids, want = [0] + context, 0.0
            for token in continuation:  # one step after another, each from the start
                want += float(torch.log_softmax(self.module(torch.tensor([ids]))[0, -1], -1)[token])
                ids.append(token)
            self.assertAlmostEqual(log_prob, want, places=5)
            self.assertAlmostEqual(sum(of), log_prob, places=5)
            self.assertEqual(len(of), len(continuation))

    def test_what_is_generated_is_greedy(self):
        generated, = ask(self.scorer, {"method": "generate_until", "prompts": ["a"], "until": ["never"], "max_tokens": 4})
        text, = generated["result"]
        scored, long = ask(self.scorer, {"method": "loglikelihood", "pairs": [["a", text], ["a", " b"], ["a", " c"], ["a", " d"]]},
                           {"method": "loglikelihood", "pairs": [["a b c", " d a b c"]]})
        if "<begin>" not in text:
            self.assertTrue(scored["result"][0][1])
        self.assertLessEqual(sum(greedy for _, greedy in scored["result"][1:]), 1)
        self.assertIn("8 tokens; the model takes at most 7", long["error"]["message"])
        word = text.split()[1]
        cut, = ask(self.scorer, {"method": "generate_until", "prompts": ["a"], "until": [word], "max_tokens": 4})
        self.assertEqual(cut["result"], [text.split(word)[0]])

    def test_other_weights_have_another_name(self):
        from coalmine.pytorch import digest

        before = digest(self.module)
        self.assertEqual(before, digest(self.module))
        with torch.no_grad():
            self.module.parts[2].bias[0] += 1
        self.assertNotEqual(before, digest(self.module))


if __name__ == "__main__":
    unittest.main()
