"""Attacks the membership of texts again, from an exported model and the texts alone.

    coalmine export RUN CELL -o DIR/model.safetensors
    coalmine data export RUN CELL --only vocabulary,parts -o DIR
    python3 docs/checks/check_members.py DIR texts 200
    coalmine audit DIR/model.safetensors --members DIR/members.txt --nonmembers DIR/nonmembers.txt \\
        --prefix-users 3 --neighbour-texts 4 --json > DIR/audit.json
    python3 docs/checks/check_members.py DIR check 3 4

or the scores of all users of a run by the tokens of their texts:

    coalmine export RUN CELL -o DIR/model.safetensors
    coalmine show RUN CELL --json > DIR/experiment.json
    coalmine data export RUN CELL --only parts,population,memberships -o DIR
    python3 docs/checks/check_members.py DIR users

It needs PyTorch or NumPy, computes in float64, and is written from docs/model.md, docs/method/membership.md and
docs/random-streams.md. The model reads words. The scores of zlib are not computed again.
"""
import json
import math
import os
import sys

import numpy

import check_data
import check_export
import check_streams

BEGIN, END, FIRST_WORD, SEQUENCE = 2, 3, 4, 20


def lines(*path):
    with open(os.path.join(*path)) as f:
        return [line.rstrip("\n") for line in f]


def write_texts(folder, n):
    """Texts of known words: n of the training part, and n of the test part."""
    words = {r["token"]: r["text"] for r in map(json.loads, lines(folder, "vocabulary.jsonl"))}
    texts = {"train": {}, "test": {}}
    for row in map(json.loads, lines(folder, "parts.jsonl")):
        tokens = [t for t in row["tokens"] if t not in (BEGIN, END)]
        if row["part"] in texts and len(tokens) >= 5 and min(tokens) >= FIRST_WORD:
            texts[row["part"]][" ".join(words[t] for t in tokens)] = None
    for name, part in (("members", "train"), ("nonmembers", "test")):
        chosen = [t for t in texts[part] if part == "train" or t not in texts["train"]][:n]
        with open(os.path.join(folder, name + ".txt"), "w") as f:
            f.write("".join(t + "\n" for t in chosen))


def predict(model, sentences, states=None):
    """Of each sentence the log-probabilities of its targets, their mean and their deviation: [3, targets]."""
    found = [None] * len(sentences)
    for length in sorted({len(s) for s in sentences}):
        places = [i for i, s in enumerate(sentences) if len(s) == length]
        now = model.start(len(places))
        if states:
            now = [(zero + one, none + of) for (zero, none), (one, of) in zip(now, states)]
        columns = []
        for t in range(length - 1):
            now = model.step(now, [sentences[i][t] for i in places])
            logs = numpy.asarray(model.log_probs(now))
            mean = (numpy.exp(logs) * logs).sum(axis=1)
            deviation = numpy.sqrt((numpy.exp(logs) * (logs - mean[:, None]) ** 2).sum(axis=1))
            columns.append((logs[numpy.arange(len(places)), [sentences[i][t + 1] for i in places]], mean, deviation))
        for k, i in enumerate(places):
            found[i] = numpy.array([[part[k] for part in column] for column in columns]).T
    return found


def neighbours(rng, text, pool, n):
    places = [i for i, t in enumerate(text) if t >= FIRST_WORD]
    for _ in range(n):
        copy = list(text)
        for at in rng.permutation(len(places))[:max(1, len(places) // 20)]:
            for _ in range(10):
                copy[places[at]] = pool[rng.below(len(pool))]
                if copy[places[at]] != text[places[at]]:
                    break
        yield copy


def least(values):
    return numpy.sort(values)[:max(1, int(0.2 * len(values)))].mean()


def min_k_plus_plus(scores):
    return least((scores[0] - scores[1]) / numpy.maximum(scores[2], 1e-6))


def curvature(scores):
    return (scores[0] - scores[1]).mean() / max(math.sqrt((scores[2] ** 2).mean()), 1e-6)


def check_users(folder):
    """Members come first, without the examples that canaries have replaced."""
    with open(os.path.join(folder, "experiment.json")) as f:
        e = json.load(f)["cells"][0]["experiment"]
    table = lambda name: map(json.loads, lines(folder, name + ".jsonl"))
    everyone = check_data.balanced(e, [row for row in table("parts") if row["part"] == "train"])
    held = check_data.held_out(e, everyone)
    order = [i for i in range(len(everyone)) if i not in held] + sorted(held)
    replaced = {(row["user"], row["example"]) for row in table("population") if row["canary"] is not None}
    sentences, owners = [], []
    for user, place in enumerate(order):
        for i, text in enumerate(everyone[place]):
            if (user, i) not in replaced:
                sentences.append([BEGIN] + list(text) + [END] * (len(text) < SEQUENCE))
                owners.append(user)
    of = [[] for _ in order]
    for user, scores in zip(owners, predict(check_export.Model(os.path.join(folder, "model.safetensors")), sentences)):
        of[user].append(scores)
    most, users = {}, 0
    for row in table("memberships"):
        assert row["member"] == (order[row["user"]] not in held) and row["targets"] == sum(s.shape[1] for s in of[row["user"]]), row["user"]
        if not row["targets"]:
            continue
        users += 1
        scores = numpy.concatenate(of[row["user"]], axis=1)
        for name, value in (("loss", -scores[0].sum()), ("min_k", least(scores[0])), ("min_k_plus_plus", min_k_plus_plus(scores)), ("curvature", curvature(scores))):
            most[name] = max(most.get(name, 0), abs(value - row[name]) / max(1, abs(value)))
    print(f"{users} users: differences, relative above 1, of at most", ", ".join(f"{d:.1e} in {name}" for name, d in most.items()))


def check(folder, prefix_users, neighbour_texts, seed=1):
    model = check_export.Model(os.path.join(folder, "model.safetensors"))
    tokens = {r["text"]: r["token"] for r in map(json.loads, lines(folder, "vocabulary.jsonl")) if r["token"] >= FIRST_WORD}
    members, others = ([[tokens[w] for w in text.split()][:SEQUENCE] for text in lines(folder, name)] for name in ("members.txt", "nonmembers.txt"))
    texts = members + others
    framed = lambda text: [BEGIN] + text + [END] * (len(text) < SEQUENCE)
    scores = predict(model, [framed(t) for t in texts])
    loss = numpy.array([-s[0].sum() for s in scores])
    states = model.start(1)
    for token in sum((framed(t) for t in others[:prefix_users]), []):
        states = model.step(states, [token])
    prefixed = numpy.array([-s[0].sum() for s in predict(model, [framed(t) for t in texts], states)])
    pool = [t for text in texts for t in text if t >= FIRST_WORD]
    copies = [list(neighbours(check_streams.stream(seed, "member neighbours", i), t, pool, neighbour_texts)) for i, t in enumerate(texts)]
    of_copies = iter(predict(model, [framed(t) for some in copies for t in some]))
    near = numpy.array([numpy.mean([-next(of_copies)[0].sum() for _ in some]) for some in copies])
    targets = numpy.array([s.shape[1] for s in scores])
    attacks = {
        "loss": -loss / targets,
        "min-k": [least(s[0]) for s in scores],
        "min-k-plus-plus": [min_k_plus_plus(s) for s in scores],
        "curvature": [curvature(s) for s in scores],
        "recall": prefixed / loss,
        "neighbours": (near - loss) / targets,
    }
    found = {a["attack"]: a["members"]["auc"]["value"] for a in json.loads("\n".join(lines(folder, "audit.json")))["membership"]["attacks"]}
    for name, values in attacks.items():
        inside, outside = numpy.array(values[:len(members)]), numpy.array(values[len(members):])
        if name == "recall":
            outside = outside[prefix_users:]
        apart = inside[:, None] - outside
        area = ((apart > 0) + 0.5 * (apart == 0)).mean()
        print(f"{name}: AUC {area:.12f} here, {found[name]:.12f} by Coalmine, {round(abs(area - found[name]) * apart.size, 6):g} pairs apart")


if __name__ == "__main__":
    if len(sys.argv) < 3 or len(sys.argv) != {"users": 3, "texts": 4, "check": 5}.get(sys.argv[2]):
        raise SystemExit(__doc__)
    if sys.argv[2] == "users":
        check_users(sys.argv[1])
    elif sys.argv[2] == "texts":
        write_texts(sys.argv[1], int(sys.argv[3]))
    else:
        check(sys.argv[1], int(sys.argv[3]), int(sys.argv[4]))
