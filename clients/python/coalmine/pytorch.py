"""Serves a causal language model in PyTorch: a module from token ids [batch, length] to logits
[batch, length, vocabulary], where those at a place are of the token after it."""
import hashlib

import torch

from .score import Scorer


def digest(module):
    """A name for the module's weights."""
    sha = hashlib.sha256()
    for name, tensor in sorted(module.state_dict().items()):
        sha.update(name.encode() + b"\0" + tensor.detach().cpu().contiguous().numpy().tobytes())
    return "sha256:" + sha.hexdigest()


class FromModule(Scorer):
    """encode(text) gives token ids, decode(ids) a text; begin is the id that stands before every text."""

    deterministic = True

    def __init__(self, module, encode, begin, decode=None, longest_input=0):
        self.module, self.encode, self.begin, self.decode = module.eval(), encode, begin, decode
        self.model, self.longest_input = digest(module), longest_input
        if decode:
            self.generate_until = self.generate

    def loglikelihood(self, pairs):
        return [(log_probs.double().sum(), greedy) for log_probs, greedy in self.scored(pairs)]

    def token_logprobs(self, pairs):
        return [log_probs for log_probs, _ in self.scored(pairs)]

    def ids(self, text):
        ids = [self.begin] + list(self.encode(text))
        if self.longest_input and len(ids) > self.longest_input:
            raise ValueError(f"{len(ids)} tokens; the model takes at most {self.longest_input}")
        return ids

    @torch.no_grad()
    def scored(self, pairs):
        """The log-probabilities of the continuations' tokens, and whether all are the most probable."""
        firsts = [len(self.ids(context)) for context, _ in pairs]
        texts = [self.ids(context + continuation) for context, continuation in pairs]
        longest = max(map(len, texts))
        padded = torch.tensor([ids + [self.begin] * (longest - len(ids)) for ids in texts], device=self.device())
        log_probs = torch.log_softmax(self.module(padded).float(), -1)
        for i, (first, ids) in enumerate(zip(firsts, texts)):
            rows, tokens = log_probs[i, first - 1:len(ids) - 1], padded[i, first:len(ids)]
            yield rows.gather(-1, tokens[:, None])[:, 0], bool((rows.argmax(-1) == tokens).all())

    def device(self):
        return next(self.module.parameters()).device

    @torch.no_grad()
    def generate(self, prompts, until, max_tokens):
        return [self.generate_one(prompt, until, max_tokens) for prompt in prompts]

    def generate_one(self, prompt, until, max_tokens):
        before = self.ids(prompt)
        ids, text = list(before), ""
        for _ in range(max_tokens):
            ids.append(int(self.module(torch.tensor([ids], device=self.device()))[0, -1].argmax()))
            text = self.decode(ids[len(before):])
            for end in until:
                if end in text:
                    return text.split(end)[0]
        return text
