"""Runs a privacy accountant over the recipes and compares its epsilons with the true ones.

    python3 privacy/conformance/run.py [--only FAMILY] [--json] COMMAND [ARGUMENT]...

COMMAND is started once for each recipe, gets it as JSON on standard input, without the answer, and prints an
epsilon on standard output ("inf" if there is no bound). Exit status 3 says that it does not support the recipe.
coalmine.py beside this file is an example: python3 run.py python3 coalmine.py.

The exit status is 1 if an epsilon is unsound or a command fails.
"""
import argparse
import concurrent.futures
import json
import math
import os
import shutil
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ROUNDING = 1e-9  # relative: an accountant in float64 may round
ANSWER = ("lower", "upper", "tolerance", "method", "published")
UNSUPPORTED = 3


def judged(recipe, epsilon):
    """The verdict on an epsilon that an accountant reports."""
    lower, upper = (math.inf if recipe[end] is None else recipe[end] for end in ("lower", "upper"))
    if math.isnan(epsilon) or epsilon < lower * (1 - ROUNDING):
        return "unsound"
    if epsilon > upper * (1 + recipe["tolerance"] + ROUNDING):
        return "too loose"
    return "sound"


def reported(command, recipe, seconds):
    """The verdict on a command for a recipe, and its epsilon or the reason why it has none."""
    question = {k: v for k, v in recipe.items() if k not in ANSWER}
    try:
        done = subprocess.run(command, input=json.dumps(question), capture_output=True, text=True, timeout=seconds)
    except subprocess.TimeoutExpired:
        return "failed", f"no answer within {seconds} s"
    if done.returncode == UNSUPPORTED:
        return "not supported", done.stderr.strip()
    if done.returncode:
        return "failed", done.stderr.strip() or f"exit status {done.returncode}"
    try:
        epsilon = float(done.stdout)
    except ValueError:
        return "failed", f"printed {done.stdout[:80]!r}: expected one number"
    return judged(recipe, epsilon), epsilon


def main():
    parser = argparse.ArgumentParser(description="Compare the epsilons of a privacy accountant with the true ones.")
    parser.add_argument("--recipes", default=os.path.join(HERE, "recipes.json"), help="file of recipes")
    parser.add_argument("--only", default="", help="run the recipes whose id begins with this")
    parser.add_argument("--seconds", type=float, default=120, help="time limit for one recipe")
    parser.add_argument("--json", action="store_true", help="print one JSON object per recipe")
    parser.add_argument("command", nargs=argparse.REMAINDER, help="command that reads a recipe and prints an epsilon")
    args = parser.parse_args()
    if not args.command:
        parser.error("expected a command, such as python3 coalmine.py")
    if not shutil.which(args.command[0]):
        parser.error(f"{args.command[0]}: no such command")
    with open(args.recipes) as f:
        recipes = [r for r in json.load(f)["recipes"] if r["id"].startswith(args.only)]
    if not recipes:
        parser.error(f"--only {args.only}: no recipe's id begins with it")
    counts = {}
    workers = concurrent.futures.ThreadPoolExecutor(os.cpu_count())
    answers = workers.map(lambda recipe: reported(args.command, recipe, args.seconds), recipes)
    for recipe, (verdict, found) in zip(recipes, answers):
        counts[verdict] = counts.get(verdict, 0) + 1
        if args.json:
            print(json.dumps({"id": recipe["id"], "verdict": verdict, "found": found if found != math.inf else "inf",
                              "lower": recipe["lower"], "upper": recipe["upper"]}), flush=True)
        else:
            print(f"{verdict:14}{recipe['id']:40}{found}   true: {recipe['lower']} to {recipe['upper']}", flush=True)
    print(", ".join(f"{n} {verdict}" for verdict, n in sorted(counts.items())) + f", of {len(recipes)}", file=sys.stderr)
    return 1 if counts.get("unsound") or counts.get("failed") else 0


if __name__ == "__main__":
    sys.exit(main())
