"""Scores texts for Coalmine: the contract "score", docs/contracts/score.md.

    class Mine(Scorer):
        model = digest("weights.pt")

        def loglikelihood(self, pairs):
            return [(log_prob(continuation, after=context), is_greedy) for context, continuation in pairs]

    serve(Mine)

Then: coalmine audit --command "python3 mine.py" --canaries canaries.txt ...
"""
import hashlib
import json
import math
import os
import re
import sys
import traceback

CONTRACT, VERSION = "coalmine/score", 1


class Retry(Exception):
    """What went wrong may go right later: Coalmine asks again."""


OUT_OF_MEMORY = re.compile("out of memory|ALLOC_FAILED|can't allocate memory|not enough memory")  # of CUDA and MPS, cuBLAS, the CPU


def out_of_memory(error):
    """Whether Python, NumPy or PyTorch had no memory."""
    return isinstance(error, MemoryError) or isinstance(error, RuntimeError) and OUT_OF_MEMORY.search(str(error)) is not None


def reported(error, method):
    """The error of an answer: without memory one sentence, after which the request is sent again."""
    if not out_of_memory(error):
        return error
    message = (str(error).strip() or type(error).__name__).split("\n")[0]
    return Retry(f"no memory for {method}: {message}; free some of it, or take a device with more")


class Scorer:
    """A model. A subclass sets model and has loglikelihood, of images classify; it may have the others.

    classify(images) gets bytes, a NumPy array [n, height, width, channels], and gives the log-probabilities of all classes
    for each.
    token_logprobs(pairs) gives for every pair the log-probabilities of the continuation's tokens.
    generate_until(prompts, until, max_tokens) gives for every prompt what greedy decoding goes on with.
    """

    model = ""  # a text that another model does not have
    longest_input = 0  # tokens of context and continuation together; 0: no bound
    deterministic = False  # whether equal requests have equal answers, to the last bit

    def loglikelihood(self, pairs):
        """For every (context, continuation) the log-probability of the continuation, and whether it is the greedy one."""
        raise NotImplementedError(f"{type(self).__name__} has no loglikelihood(pairs)")


def digest(path):
    """A name for the model in a file."""
    with open(path, "rb") as file:
        return "sha256:" + hashlib.sha256(file.read()).hexdigest()


def serve(make, *arguments):
    """Answers standard input until it ends, by the scorer that make(*arguments) makes.

    What the scorer, and making it, prints goes to standard error.
    """
    requests, answers = streams()
    converse(make(*arguments), requests, answers)


def streams():
    """Standard input and output as they are for requests and answers: whatever else is printed goes to standard error."""
    requests, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    with open(os.devnull) as nothing:
        os.dup2(nothing.fileno(), 0)
    os.dup2(2, 1)
    return requests, answers


def converse(scorer, requests, answers):
    """Answers the lines of a binary file in another."""
    for line in requests:
        answers.write(answer(scorer, json.loads(line)))
        answers.flush()


def encoded(answer):
    """An answer as a line; what JSON does not have, such as NaN, is an error."""
    return json.dumps(answer, allow_nan=False).encode() + b"\n"


def answer(scorer, request):
    """The line that answers a request."""
    return answered(request, METHODS, methods(scorer), lambda method: METHODS[method](scorer, request))


def answered(request, known, named, call, about=lambda error: {}):
    """The line with call(method), or with an error if it raises one or the method is not known: a message, retry, and about(error)."""
    method = request.get("method")
    if method not in known:
        return encoded({"id": request["id"], "error": {"message": f"no method {method!r}; there are {named}", "retry": False}})
    try:
        return encoded({"id": request["id"], "result": call(method)})
    except Exception as caught:
        traceback.print_exc()
        error = reported(caught, method)
        return encoded({"id": request["id"], "error": {"message": f"{type(error).__name__}: {error}", "retry": isinstance(error, Retry), **about(error)}})


def methods(scorer):
    """Those that the scorer has. One without any is told what it lacks when it is asked for it."""
    has = [name for name in METHODS if name != "describe" and hasattr(scorer, name) and getattr(type(scorer), name, None) is not Scorer.loglikelihood]
    return has or ["loglikelihood"]


def describe(scorer, request):
    return {"contract": CONTRACT, "version": VERSION, "model": scorer.model, "longest_input": scorer.longest_input,
            "deterministic": scorer.deterministic, "methods": methods(scorer)}


def loglikelihood(scorer, request):
    pairs = [tuple(pair) for pair in request["pairs"]]
    return [[finite(log_prob), bool(greedy)] for log_prob, greedy in one_each(scorer.loglikelihood(pairs), pairs)]


def token_logprobs(scorer, request):
    pairs = [tuple(pair) for pair in request["pairs"]]
    return [[finite(log_prob) for log_prob in tokens] for tokens in one_each(scorer.token_logprobs(pairs), pairs)]


def generate_until(scorer, request):
    prompts = request["prompts"]
    return [str(text) for text in one_each(scorer.generate_until(prompts, request["until"], request["max_tokens"]), prompts)]


def decoded(images):
    """The images of a request, as NumPy has them."""
    import base64

    import numpy
    return numpy.frombuffer(base64.b64decode(images["pixels"]), numpy.uint8).reshape(images["shape"])


def classify(scorer, request):
    images = decoded(request["images"])
    return [[finite(log_prob) for log_prob in classes] for classes in one_each(scorer.classify(images), images)]


METHODS = {f.__name__: f for f in (describe, loglikelihood, token_logprobs, generate_until, classify)}


def one_each(results, asked):
    results = list(results)
    if len(results) != len(asked):
        raise ValueError(f"{len(results)} results for {len(asked)} texts or images; expected one for each")
    return results


def finite(log_prob):
    """JSON has no NaN and no Infinity; NumPy's numbers are none of Python's."""
    log_prob = float(log_prob)
    if not math.isfinite(log_prob):
        raise ValueError(f"the log-probability {log_prob}; expected a finite number: has the model diverged?")
    return log_prob
