"""Ranks the secrets that a cell's text has by itself again: draws the others of their forms,
scores them one by one, and compares log-perplexity, rank and exposure; and searches for those
that a search has looked for, one node at a time, up to MOST of them.

    coalmine export RUN CELL -o DIR/model.safetensors
    coalmine results RUN --json > DIR/results.json
    coalmine show RUN CELL --json > DIR/experiment.json
    python3 docs/checks/check_natural.py DIR ...

The experiment must have audit.natural.show. It needs PyTorch or NumPy, and is written from
docs/method.md, docs/random-streams.md and docs/model.md.
"""
import json
import math
import string
import sys

from check_audit import NEAR, rank
from check_data import FIRST_WORD, luhn
from check_export import Model, log_perplexity
from check_extraction import best_sequence
from check_streams import stream

MOST = 25000


def holes(pattern, secret):
    """The characters that may stand at each place of others of the form."""
    letters = {"card": 0, "ssn": 0, "phone": 0, "email": secret.rfind("@")}.get(pattern, len(secret))
    numbers = letters if pattern == "email" else len(secret)
    alike = [(string.digits, numbers), (string.ascii_lowercase, letters), (string.ascii_uppercase, letters)]
    return [next((among for among, until in alike if c in among and i < until), c) for i, c in enumerate(secret)]


def draw(rng, among, card):
    """One of the form, of a card number with the last digit that makes it valid."""
    text = "".join(c[rng.below(len(c))] if len(c) > 1 else c for c in among)
    if not card:
        return text
    return next(valid for valid in (text[:-1] + digit for digit in string.digits) if luhn([d for d in valid if d.isdigit()]))


def tokens(text):
    return [FIRST_WORD + byte for byte in text.encode("latin-1")]


def check_secret(model, e, number, s):
    """Whether all is as the results say, how far its log-perplexity is from theirs, and whether a reference is near it."""
    among, card = holes(s["pattern"], s["text"]), s["pattern"] == "card"
    sequences = math.prod(map(len, among)) // (10 if card else 1)
    wanted, rng, others = min(e["audit"]["natural"]["references"], sequences - 1), stream(e["seed"], "natural references", number), []
    while len(others) < wanted:
        other = draw(rng, among, card)
        if other != s["text"]:
            others.append(tokens(other))
    if s["sequences"] != sequences or s["references"] != wanted:
        return False, 0.0, False
    if not others:
        return s["rank"] is None, 0.0, False
    context = tokens(s["context"])
    limit = log_perplexity(model, context, tokens(s["text"]))
    mine, exact, margin = rank(model, context, others, limit, False)
    exposure = math.log2(len(others)) - math.log2(s["rank"])
    same = abs(mine - s["rank"]) <= margin and abs(exposure - s["exposure"]) < 1e-9 and exact == (s["exposure_se"] is None)
    return same and s["exposure_censored"] == (s["rank"] == 1), abs(limit - s["log_perplexity"]) / limit, margin > 0


def check_search(model, s):
    """Whether our search says the same as theirs; None where it does not come to an end."""
    among = [sorted(FIRST_WORD + ord(c) for c in place) for place in holes(s["pattern"], s["text"])]
    mine = best_sequence(model, tokens(s["context"]), among, MOST)
    if mine is None:
        return None
    near = abs(mine[0] - s["log_perplexity"]) < NEAR  # another may be as likely
    return near or (mine[1] == tokens(s["text"])) == s["extracted"]


def check(directory):
    model = Model(f"{directory}/model.safetensors")
    cell = next(c for c in json.load(open(f"{directory}/results.json"))["cells"] if c["cell"] == model.metadata["cell"])
    e = json.load(open(f"{directory}/experiment.json"))["cells"][0]["experiment"]
    secrets = cell["audit"]["natural"]["secrets"]
    outcomes = [check_secret(model, e, number, s) for number, s in enumerate(secrets)]
    wrong, worst = sum(not same for same, _, _ in outcomes), max(off for _, off, _ in outcomes)
    print(f"{directory}: {cell['label']}: of {len(secrets)} natural secrets {wrong} have another rank or exposure here "
          f"({sum(near for _, _, near in outcomes)} have references within {NEAR} nats); log-perplexities to a relative {worst:.1e}")
    searched = [check_search(model, s) for s in secrets if "extracted" in s]
    if searched:
        print(f"{directory}: of {len(searched)} searches {searched.count(True)} were done again here and {searched.count(False)} disagree")
    return not wrong and worst < 1e-5 and False not in searched


if __name__ == "__main__":
    failed = [d for d in sys.argv[1:] if not check(d)]
    sys.exit(f"not the same: {', '.join(failed)}" if failed else 0)
