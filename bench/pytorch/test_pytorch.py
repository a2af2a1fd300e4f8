"""Tests of pytorch.py: the choice between the modes, with a stand-in for torch.compile and given times."""
import contextlib
import io
import json
import unittest
from unittest import mock

import torch

import pytorch


def one_weight():
    model = torch.nn.Linear(1, 1)
    return lambda: model(torch.ones(1, 1)).sum(), model, -0.1


def measured(seconds, compiler=None):
    """The row of 20 tokens, if the works that are timed take these seconds one after the other."""
    with contextlib.ExitStack() as stack:
        def median(work, _):
            work()
            return seconds.pop(0)
        stack.enter_context(mock.patch.object(pytorch, "median", median))
        if compiler:
            stack.enter_context(mock.patch.object(torch, "compile", compiler, create=True))
        elif hasattr(torch, "compile"):
            stack.enter_context(mock.patch.object(pytorch, "lacking", lambda: "none"))
        return pytorch.measure("small", 20, one_weight, 3)


class TheFasterMode(unittest.TestCase):
    def test_is_eager_where_nothing_compiles(self):
        row = measured([2.0])
        self.assertEqual(row, {"row": "small", "tokens_per_second": 10.0, "mode": "eager", "eager": 10.0})

    def test_is_the_compiled_one_if_it_takes_less_time(self):
        calls = []

        def compiler(loss):
            return lambda: calls.append(1) or loss()

        row = measured([2.0, 1.0], compiler)
        self.assertEqual((row["tokens_per_second"], row["mode"], row["eager"], row["compiled"]), (20.0, "compiled", 10.0, 20.0))
        self.assertEqual(calls, [1], "the compiled loss is the one that is timed")

    def test_is_eager_if_the_compiled_one_takes_more(self):
        row = measured([1.0, 4.0], lambda loss: loss)
        self.assertEqual((row["tokens_per_second"], row["mode"], row["compiled"]), (20.0, "eager", 5.0))

    def test_is_eager_if_the_compiler_fails(self):
        def compiler(loss):
            def fail():
                raise RuntimeError("no C++ compiler\nfor all of its lines")
            return fail

        row = measured([1.0], compiler)
        self.assertEqual((row["mode"], row["not_compiled"]), ("eager", "RuntimeError: no C++ compiler"))
        self.assertIn("eager (not compiled: RuntimeError: no C++ compiler)", list(pytorch.table([row]))[1])


class TheResult(unittest.TestCase):
    def test_says_the_versions_and_each_mode(self):
        out, err = io.StringIO(), io.StringIO()
        arguments = ["pytorch.py", "--repeat", "1", "--only", "small"]
        with mock.patch("sys.argv", arguments), mock.patch("sys.stdout", out), mock.patch("sys.stderr", err), \
                mock.patch.object(pytorch, "ROWS", [("small", 2, 9, lambda: pytorch.CIFG(9, 4, 5))]):
            pytorch.main()
        result = json.loads(out.getvalue())
        self.assertTrue(result["name"].startswith(f"PyTorch {torch.__version__}, "))
        (row,) = result["rows"]
        self.assertEqual(row["tokens_per_second"], max(row["eager"], row.get("compiled", 0)))
        self.assertEqual(result["compiler"] == "TorchInductor", hasattr(torch, "compile"))
        self.assertIn(f"compiler: {result['compiler']}", err.getvalue())


if __name__ == "__main__":
    unittest.main()
