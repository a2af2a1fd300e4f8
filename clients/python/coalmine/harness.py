"""Serves any model for which lm-evaluation-harness has an adapter.

    coalmine audit --command "python3 -m coalmine.harness hf pretrained=gpt2" ...

or, with an LM of your own: serve(FromLM, lm, "name and revision")
"""
import sys

from .score import Scorer, serve


class Request:
    """The fields of lm_eval's Instance that an LM reads."""

    def __init__(self, kind, *arguments):
        self.request_type, self.arguments, self.args = kind, arguments, arguments
        self.doc, self.idx, self.resps = {}, 0, []


class FromLM(Scorer):
    """An lm_eval.api.model.LM, which takes lists of requests."""

    def __init__(self, lm, model, deterministic=False):
        self.lm, self.model, self.deterministic = lm, model, deterministic
        self.longest_input = getattr(lm, "max_length", 0) or 0

    def loglikelihood(self, pairs):
        for context, continuation in pairs:
            self.fits(context + continuation)
        return self.lm.loglikelihood([Request("loglikelihood", *pair) for pair in pairs])

    def generate_until(self, prompts, until, max_tokens):
        how = {"until": until, "max_gen_toks": max_tokens, "do_sample": False, "temperature": 0.0}
        return self.lm.generate_until([Request("generate_until", prompt, dict(how)) for prompt in prompts])

    def fits(self, text):
        """Raises an error for a text that is too long: an LM cuts it from the left and only logs it."""
        if self.longest_input and hasattr(self.lm, "tok_encode"):
            tokens = len(self.lm.tok_encode(text))
            if tokens > self.longest_input:
                raise ValueError(f"{tokens} tokens; the model takes at most {self.longest_input}")


def load(kind, arguments=""):
    """An LM by the name and the arguments that lm_eval's --model and --model_args take."""
    from lm_eval.api.registry import get_model

    return FromLM(get_model(kind).create_from_arg_string(arguments), f"{kind} {arguments}".strip())


if __name__ == "__main__":
    serve(load, *sys.argv[1:])
