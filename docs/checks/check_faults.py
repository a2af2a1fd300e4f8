"""Plants the faults of a cell in its source again, and finds the words outside of its vocabulary.

    coalmine data export RUN CELL -o DIR
    coalmine show RUN CELL --json > DIR/experiment.json
    coalmine results RUN --json > DIR/results.json
    python3 docs/checks/check_faults.py SOURCE DIR ...

SOURCE is the file of JSON lines that the cells were computed on, plain or .gz. Every example
of every part is read from it, with its tokens, and compared with the export; so are the
vocabulary and the numbers of faults in the results. Images are read as pixels. It needs the standard library only, and
is written from docs/data.md, docs/choices.md and docs/random-streams.md.
"""
import base64
import collections
import gzip
import json
import sys
import unicodedata

from check_data import draw_parts, fraction, framed, result, rows
from check_streams import stream

SPECIALS, FIRST_WORD, UNKNOWN = ["<pad>", "<unk>", "<begin>", "<end>"], 4, 1


def is_format(c):
    return unicodedata.category(c) == "Cf"


def is_separator(c):
    return c.isspace() or unicodedata.category(c) in ("Cc", "Zs", "Zl", "Zp")


def of_word(c):
    return unicodedata.category(c)[0] in "LMN"


def is_digit(c):
    return unicodedata.category(c) == "Nd"


def tokenize(text, keep_case=False):
    """The words of a text."""
    text = [c for c in text if not is_format(c)]
    words, word = [], ""
    for at, c in enumerate(text):
        after = text[at + 1] if at + 1 < len(text) else " "
        inside = word and (c in "'\u2019" and of_word(after) or c in ".," and is_digit(word[-1]) and is_digit(after))
        plain = "'" if c == "\u2019" else c if keep_case else c.lower()[0]
        if inside or of_word(c):
            word += plain
            continue
        words += [word] if word else []
        words += [] if is_separator(c) else [plain]
        word = ""
    return words + ([word] if word else [])


def truncated(text, length):
    if len(text) <= length:
        return text
    while is_separator(text[0]) or is_format(text[0]):
        text = text[1:]
    return text[:length]


def hits(e, source):
    """The faults that hit each example, by their places in the list."""
    all_hits = [[] for _ in source]
    for place, fault in enumerate(e["data"].get("faults", [])):
        users, coins = stream(e["seed"], "faulty users", place), stream(e["seed"], "faulty examples", place)
        faulty = {}
        for row, hit in zip(source, all_hits):
            if row["user"] not in faulty:
                faulty[row["user"]] = "users" not in fault or users.float64() < float(fraction(fault["users"]))
            drawn = "examples" not in fault or coins.float64() < float(fraction(fault["examples"]))
            if faulty[row["user"]] and drawn:
                hit.append(place)
    return all_hits


def plant(faults, hit, text, counts):
    """The text that is read, and its words."""
    keep_case = False
    for place in hit:
        fault, before = faults[place], text
        if fault["fault"] == "latin-1":
            text = text.encode().decode("latin-1")
        elif fault["fault"] == "truncate":
            text = truncated(text, fault["length"])
        counts[place]["changed"] += text != before
    for place in hit:
        if faults[place]["fault"] == "keep-case":
            keep_case = True
            counts[place]["changed"] += any(c.lower() != c for c in text)
    words = tokenize(text, keep_case)
    for place in hit:
        if faults[place]["fault"] == "join-words" and len(words) > 1:
            words[:2] = [words[0] + " " + words[1]]
            counts[place]["changed"] += 1
    return text, words


def plant_in_image(d, hit, row, counts):
    """The label and the pixels that are read."""
    numbers = [row["label"], *base64.b64decode(row["pixels"])]
    for place in hit:
        fault, before = d["faults"][place]["fault"], list(numbers)
        if fault == "invert":
            numbers[1:] = [255 - p for p in numbers[1:]]
        elif fault == "blank":
            numbers[1:] = [0] * (len(numbers) - 1)
        elif fault == "shift-labels":
            numbers[0] = (numbers[0] + 1) % d["image"]["classes"]
        counts[place]["changed"] += numbers != before
    return numbers, None


def planted(e, source):
    """Every example with its faults, as a text and as words, and where each fault was planted."""
    faults = e["data"].get("faults", [])
    counts = [{"fault": f["fault"], "users": set(), "examples": 0, "changed": 0} for f in faults]
    read = []
    for row, hit in zip(source, hits(e, source)):
        for place in hit:
            counts[place]["users"].add(row["user"])
            counts[place]["examples"] += 1
        if e["data"].get("level") == "image":
            read.append(plant_in_image(e["data"], hit, row, counts))
        else:
            read.append(plant(faults, hit, row["text"], counts))
    return read, [{**c, "users": len(c["users"])} for c in counts]


def most_frequent(source, parts, size, sequence):
    """The vocabulary of the source without faults."""
    counts = collections.Counter()
    for row, part in zip(source, parts):
        if part in ("train", "unused"):
            counts.update(tokenize(row["text"])[:sequence])
    return sorted(counts, key=lambda word: (-counts[word], word.encode()))[:size]


def expected(e, source, read, parts):
    """The examples, each with its place in the source, part and tokens; and the vocabulary."""
    d = e["data"]
    sequence = d.get("sequence") or (100 if d.get("level") == "byte" else 20)
    spelled = lambda text: [FIRST_WORD + b for b in text.encode()[:sequence]]
    names = [chr(b) if 32 <= b < 127 else f"<0x{b:02X}>" for b in range(256)]
    if d.get("select"):
        limit = d["select"]["words"].get("sequence", 20)
        known = set(most_frequent(source, parts, d["select"]["words"]["outside"], limit))
        examples = [[spelled(word) for word in words[:limit] if word not in known] for _, words in read]
    elif d.get("level") == "image":
        sequence = 1 + d["image"]["width"] * d["image"]["height"] * d["image"]["channels"]
        names = [str(n) for n in range(256)]
        examples = [[[FIRST_WORD + n for n in numbers]] for numbers, _ in read]
    elif d.get("level") == "byte":
        examples = [[spelled(text)] for text, _ in read]
    else:
        names = most_frequent(source, parts, d["vocabulary"]["size"], sequence)
        token = {word: FIRST_WORD + i for i, word in enumerate(names)}
        examples = [[[token.get(word, UNKNOWN) for word in words[:sequence]]] for _, words in read]
    tokens = [(i, part, framed(t, sequence) if part != "unused" else []) for i, part in enumerate(parts) for t in examples[i]]
    return tokens, SPECIALS + names


def check(source, directory):
    e = json.load(open(f"{directory}/experiment.json"))["cells"][0]["experiment"]
    parts = list(draw_parts(e, len(source)))
    read, counts = planted(e, source)
    examples, names = expected(e, source, read, parts)
    theirs = sorted(rows(directory, "parts"), key=lambda row: row["example"])
    found = {
        "vocabulary": [row["text"] for row in rows(directory, "vocabulary")] == names,
        f"{len(examples)} examples": [(r["example"], r["user"], r["part"], r["tokens"]) for r in theirs] == [
            (i, source[i]["user"], part, tokens) for i, part, tokens in examples],
        f"faults {counts}": result(directory).get("faults", []) == counts,
    }
    print(f"{directory}: " + ", ".join(f"{what} {'found again' if same else 'DIFFER'}" for what, same in found.items()))
    return all(found.values())


def lines(path):
    with (gzip.open if path.endswith(".gz") else open)(path, "rt", encoding="utf-8", newline="\n") as file:
        return [json.loads(line) for line in file]


if __name__ == "__main__":
    of = lines(sys.argv[1])
    failed = [d for d in sys.argv[2:] if not check(of, d)]
    sys.exit(f"not the same: {', '.join(failed)}" if failed else 0)
