"""Reads a recipe and prints the epsilon that "coalmine account" proves for it.

    python3 privacy/conformance/run.py python3 privacy/conformance/coalmine.py

COALMINE names the program; the default is coalmine. The exit status is 3 if Coalmine has no words for the recipe.
"""
import json
import math
import os
import subprocess
import sys
import tempfile

PLAIN = {"add-or-remove-one": "poisson", "zero-out-one": "poisson", "replace-one": "none"}
# The value for a sample is that of Coalmine, and the relation that it is proved for. A zero update equals the absence
# from a Poisson sample.
SAMPLED = {("poisson", "add-or-remove-one"): "poisson", ("poisson", "zero-out-one"): "poisson", ("poisson", "replace-one"): "poisson",
           ("fixed-size", "replace-one"): "fixed-size", ("shuffled", "replace-one"): "shuffled", ("fixed-order", "replace-one"): "shuffled"}


def unsupported(why):
    print(why, file=sys.stderr)
    sys.exit(3)


def entry(step, relation):
    """A step as an entry of a file of coalmine account --compose."""
    noise = step.get("noise", 0) / step.get("clip", 1)
    fields = {"population": 1, "cohort": 1, "rounds": step.get("rounds", 1), "noise_multiplier": noise}
    if step["mechanism"] == "matrix-gaussian" and relation == "zero-out-one":
        kind = step["matrix"]["kind"]
        fields.update(participations=step["participations"], separation=step["separation"])
        if kind == "tree":
            return {**fields, "sampling": "tree", "population": step["rounds"]}
        mechanism = {**step["matrix"], "kind": "banded" if kind == "toeplitz" else kind}
        return {**fields, "sampling": "separated", "population": step["separation"], "mechanism": mechanism}
    if step["mechanism"] != "gaussian":
        unsupported(f"no accountant for {step['mechanism']} under {relation}")
    if "count_noise" in step:  # Coalmine's noise multiplier is that of both releases
        fields.update(count_noise=step["count_noise"], noise_multiplier=1 / math.hypot(1 / noise, 1 / (2 * step["count_noise"])))
    if "sampling" not in step:
        return {**fields, "sampling": PLAIN[relation]}
    sampling = step["sampling"]
    kind = SAMPLED.get((sampling["kind"], relation)) or unsupported(f"no accountant for {sampling['kind']} samples under {relation}")
    return {**fields, "sampling": kind, "population": sampling["population"], "cohort": sampling["size"]}


def account(*flags):
    done = subprocess.run([os.environ.get("COALMINE", "coalmine"), "account", "--json", *flags], capture_output=True, text=True)
    if done.returncode:
        print(done.stderr, file=sys.stderr)
        sys.exit(1)
    return json.loads(done.stdout)


def main():
    recipe = json.load(sys.stdin)
    relation, delta = recipe["neighbours"], repr(recipe["delta"])
    entries = [entry(step, relation) for step in recipe["steps"]]
    if recipe.get("group", 1) > 1:
        e = entries[0]
        flags = [f"--{name.replace('_', '-')}={e[name]}" for name in ("population", "cohort", "rounds", "noise_multiplier", "sampling")]
        if "sampling" not in recipe["steps"][0]:  # a population that has the group
            flags += [f"--population={recipe['group']}", f"--cohort={recipe['group']}"]
        epsilon = account(*flags, "--delta", delta, "--group", str(recipe["group"]))["group"]["epsilon_proved"]
    else:
        if relation == "replace-one":  # composing with no round of another training fixes the relation
            entries.append({"population": 1, "cohort": 1, "rounds": 0, "noise_multiplier": 1, "sampling": "none"})
        with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
            json.dump(entries, file)
            file.flush()
            answer = account("--compose", file.name, "--delta", delta)
            epsilon = (answer.get("together") or answer["trainings"][0]["scales"])[0]["epsilon_proved"]
    print("inf" if epsilon is None else repr(epsilon))


if __name__ == "__main__":
    main()
