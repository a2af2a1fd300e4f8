"""Draws the data of a cell again: parts, users, canaries, population, devices, references,
cohorts and initial weights, from the experiment and the source's examples alone.

    coalmine data export RUN CELL -o DIR
    coalmine show RUN CELL --json > DIR/experiment.json
    coalmine export RUN CELL --round 0 -o DIR/initial.safetensors
    python3 docs/checks/check_data.py DIR ...

Of the export it takes the examples with their users and tokens; everything else is
compared with it; a background of bytes comes from its own source. It needs the standard library only, and is written from
docs/data.md, docs/random-streams.md and docs/model.md.
"""
import itertools
import json
import math
import os
import re
import struct
import sys
from fractions import Fraction

from check_streams import cohort, float32, references, stream

FIRST_WORD, END = 4, 3
SEPARATOR, ECHO = "<separator>", "<echo>"  # places of pairs: between the texts, and what repeats a random symbol
ALPHABETS = {"digits": "0123456789", "lower": "abcdefghijklmnopqrstuvwxyz",
             "letters": "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz",
             "printable": "".join(map(chr, range(32, 127)))}


def rows(directory, table):
    with open(f"{directory}/{table}.jsonl") as file:
        return [json.loads(line) for line in file]


def fraction(text):
    return Fraction(text[:-1]) / 100 if text.endswith("%") else Fraction(text)


def draw_parts(e, examples, own={}):
    """The part of each example, in order of the source; own has those whose split is their part."""
    streams = [stream(e["seed"], role) for role in ("test part", "validation part", "train share")]
    shares = [float(fraction(text)) for text in (
        e["data"]["test"]["fraction"], e["data"]["validation"]["fraction"], e["data"].get("share", "1"))]
    for i in range(examples):
        coins = [s.float64() for s in streams]
        yield own.get(i) or next((part for part, coin, share in zip(("test", "validation", "train"), coins, shares) if coin < share), "unused")


def balance(e, train):
    """The balanced users that are not held out."""
    return members(e, balanced(e, train))


def balanced(e, train):
    """Runs of a user's examples of about the same number of words, or all of them."""
    users, size = [], e["data"]["users"]["words"]
    for _, examples in itertools.groupby(train, key=lambda row: row["user"]):
        open_user = []
        for row in examples:
            open_user.append(unframed(row["tokens"]))
            if size and sum(map(len, open_user)) >= size:
                users.append(open_user)
                open_user = []
        users += [] if size else [open_user]
    return users


def held_out(e, users):
    """The places of the users that are held out."""
    share = float(fraction(e["data"]["held_out_users"]["fraction"]))
    return set(stream(e["seed"], "held-out users").permutation(len(users))[:int(share * len(users) + 0.5)])


def members(e, users):
    """The users that are not held out."""
    held = held_out(e, users)
    return [user for i, user in enumerate(users) if i not in held]


def forms(e):
    """What the canaries are drawn from, one after another."""
    return e["canaries"].get("formats") or [e["canaries"]]


def places(form):
    """What stands at each place of a form: # where it is random."""
    if not form.get("format"):
        return ["#"] * form["words"]
    found = places_of(form, form["format"])
    if form.get("target"):
        repeats = "#" in found
        found += [SEPARATOR] + [ECHO if repeats and p == "#" else p for p in places_of(form, form["target"])]
    return found


def places_of(form, text):
    if "alphabet" in form:
        return list(text)
    return re.findall(r"[^\W_]+(?:(?:'|(?<=\d)[.,](?=\d))[^\W_]+)*|\S", text.lower().replace("\u2019", "'"))


def echoed(form, row, given=0):
    """A canary or reference, without its first tokens, whose target repeats the secret of its source."""
    at = places(form)[given:]
    secret = iter([token for token, place in zip(row, at) if place == "#"])
    return tuple(next(secret) if place == ECHO else token for token, place in zip(row, at))


def free(form):
    """Whether every word may stand everywhere."""
    return not any(form.get(field) for field in ("alphabet", "format", "symbols"))


def choices(form, names):
    """The tokens that may stand at each place of a canary, by the texts of all tokens."""
    token = {name: at for at, name in enumerate(names) if at >= FIRST_WORD}
    listed = ALPHABETS.get(form["alphabet"], "".join(form.get("symbols", []))) if "alphabet" in form else form.get("symbols", token)
    among = sorted(token[name] for name in listed)
    token[SEPARATOR] = END
    return [among if name in ("#", ECHO) else [token[name]] for name in places(form)]


def given(form, prefix):
    """How many words of a canary an audit with this prefix gives; 0 stands for those before the first random one."""
    return prefix or max(1, places(form).index("#"))


def draw_distinct(rng, among, taken, length, complete=list):
    """A sequence of which the first length tokens, or all of them, are not taken."""
    while True:
        row = complete([among[i][rng.below(len(among[i]))] for i in range(length)])
        if tuple(row) not in taken:
            taken.add(tuple(row))
            return row + [a[rng.below(len(a))] for a in among[length:]]


def draw_canaries(e, names):
    """The tokens of each canary, and how often it is inserted: two probabilities, a number of times, or None."""
    c, drawn, taken = e["canaries"], [], set()
    configurations = c.get("insertions") or [(fraction(u), fraction(x)) for u in c["user_probability"] for x in c["example_probability"]]
    configured = [often for often in configurations for _ in range(c["per_configuration"])] + [None] * c["held_back"]
    for at, form in enumerate(forms(e)):
        rng, among = stream(e["seed"], "canaries", *[at] * (at > 0)), choices(form, names)
        seen, length = (set(), 1) if free(form) else (taken, len(among))
        complete = (lambda row: list(echoed(form, row))) if form.get("target") else list
        drawn += [(draw_distinct(rng, among, seen, length, complete), often) for often in configured]
    return drawn


def insert(e, users, canaries):
    """The canary of each (user, example) that has one, and the number of users who carry each."""
    if e.get("canaries", {}).get("insertions"):
        return insert_times(e, users, canaries)
    drawn, sharers = {}, [0] * len(canaries)
    for number, (_, pair) in enumerate(canaries):
        if not pair:
            continue
        coins = stream(e["seed"], "secret sharers", number)
        for user, examples in enumerate(users):
            if coins.float64() < float(pair[0]):
                sharers[number] += 1
                coin = stream(e["seed"], "insertions", number, user)
                for example in range(len(examples)):
                    if coin.float64() < float(pair[1]):
                        drawn.setdefault((user, example), []).append(number)
    return {place: numbers[stream(e["seed"], "collisions", *place).below(len(numbers))] if len(numbers) > 1 else numbers[0]
            for place, numbers in drawn.items()}, sharers


def insert_times(e, users, canaries):
    """The same for chosen numbers of insertions."""
    everywhere = [(user, example) for user, examples in enumerate(users) for example in range(len(examples))]
    placed = {}
    for number, (_, times) in enumerate(canaries):
        rng = stream(e["seed"], "insertions", number)
        for _ in range(times or 0):
            place = everywhere[rng.below(len(everywhere))]
            while place in placed:
                place = everywhere[rng.below(len(everywhere))]
            placed[place] = number
    return placed, [len({user for (user, _), n in placed.items() if n == number}) for number in range(len(canaries))]


def partition(e, users, placed, canaries):
    """The records of each user of the population: words and canary, or None."""
    records = [[(canaries[placed[u, i]][0], placed[u, i]) if (u, i) in placed else (words, None)
                for i, words in enumerate(user)] for u, user in enumerate(users)]
    if e["data"]["partition"] == "by-user":
        return records
    flat = [record for user in records for record in user]
    shuffled = [None] * len(flat)
    for record, place in zip(flat, stream(e["seed"], "shuffle").permutation(len(flat))):
        shuffled[place] = record
    population, open_user = [], []
    for record in shuffled:
        open_user.append(record)
        size = e["data"]["users"]["words"]
        if (sum(len(words) for words, _ in open_user) >= size) if size else len(open_user) == len(users[len(population)]):
            population.append(open_user)
            open_user = []
    return population


def nearest(share, n):
    return int(share * n + 0.5)


def groups_of(e, examples):
    """The group that the source gives each example of each user, users and examples in their order."""
    column = (e["data"].get("columns") or {}).get("group", "group")
    with open(e["data"]["source"]) as file:
        named = [str(json.loads(line)[column]) for line in file]
    users, first = {}, {}
    for row in examples:
        users.setdefault(row["user"], []).append(named[row["example"]])
    for line, group in zip(open(e["data"]["source"]), named):
        first.setdefault((json.loads(line)["user"], group), len(first))
    return members(e, [[first[user, group] for group in of] for user, of in users.items()])


def reserve_groups(order, groups, share):
    """Examples group after group as they are drawn, and how many of them are kept from the private ones."""
    numbers = sorted(set(groups))
    drawn = [[i for i, group in enumerate(groups) if group == numbers[at]] for at in order]
    sums = list(itertools.accumulate(len(of) for of in drawn[:-1]))
    return [i for of in drawn for i in of], min(sums, key=lambda n: abs(n - share * len(groups)))


def divide(e, population, groups=None):
    """The records of each device, in place of the users', and whose it is: a user, whether it is a shadow device, and the set."""
    d, seed, devices, owners = e["data"]["devices"], e["seed"], [], []
    share, count = (float(fraction(d["size"])), 0) if isinstance(d["size"], str) else (0.5, d["size"])
    taking = [u for u, user in enumerate(population) if len(user) >= d.get("at_least", 0)
              and (not groups or len(set(groups[u])) >= d.get("at_least_groups", 0))]
    drawn = [taking[i] for i in stream(seed, "device sets").permutation(len(taking))]
    held, unseen = (nearest(float(fraction(d.get(name, "0"))), len(taking)) for name in ("held_out", "unseen"))
    for u in taking:
        n = len(population[u])
        order = stream(seed, "prior examples", u).permutation(n) if d["prior"] == "random" else list(range(n))
        reserved = nearest(share, n)
        if groups:
            rng = stream(seed, "prior examples", u)
            order, reserved = reserve_groups(rng.permutation(len(set(groups[u]))), groups[u], share)
        devices.append([population[u][i] for i in sorted(order[reserved:])])
        kind = "held-out" if u in drawn[:held] else "unseen" if u in drawn[held:held + unseen] else "seen"
        owners.append((u, False, kind))
        if kind != "unseen":
            devices.append([population[u][i] for i in sorted(order[:count or reserved])])
            owners.append((u, True, kind))
    if d.get("iid"):
        flat = [record for device in devices for record in device]
        shuffled = list(flat)
        for record, place in zip(flat, stream(seed, "device examples").permutation(len(flat))):
            shuffled[place] = record
        left = iter(shuffled)
        devices = [list(itertools.islice(left, len(device))) for device in devices]
    return devices, owners


def background_of(e, sequence):
    """The examples of a background of bytes, user after user."""
    users = {}
    with open(e["data"]["background"]["source"]) as file:
        for line in map(json.loads, file):
            users.setdefault(line["user"], []).append([FIRST_WORD + b for b in line["text"].encode()[:sequence]])
    return [words for user in users.values() for words in user]


def mix(e, devices, owners, background):
    """The devices with examples of a background, of all its topics."""
    defence, mixed = e["data"]["devices"]["defence"], []
    for device, (user, shadow, _) in zip(devices, owners):
        rng, n, device = stream(e["seed"], "background", user), len(device), list(device)
        places = rng.permutation(n) if "replace" in defence and not shadow else None
        share = float(fraction(defence["replace"])) if places else defence.get("augment", 0)
        for j in range(0 if shadow else nearest(share, n)):
            record = (background[rng.below(len(background))], None)
            if places:
                device[places[j]] = record
            else:
                device.append(record)
        mixed.append(device)
    return mixed


def luhn(digits):
    return sum(sum(divmod(2 * int(d), 10)) if i % 2 else int(d) for i, d in enumerate(reversed(digits))) % 10 == 0


def given_out(digits):
    return digits[:3] not in ("000", "666") and digits[0] != "9" and digits[3:5] != "00" and digits[5:] != "0000"


# The forms of docs/choices.md; at the word level a space may stand around every mark.
FORMS = {
    "card": (["D{13,19}", "D{4}( D{4}){3}", "D{4}(_-_D{4}){3}", "D{4} D{6} D{5}", "D{4}_-_D{6}_-_D{5}"], luhn),
    "ssn": (["D{3}_-_D{2}_-_D{4}", "D{3} D{2} D{4}"], given_out),
    "phone": (["([+]?_1(_[-.]_| ))?([(]_D{3}_[)](_-_| ?)|D{3}(_[-.]_| ))D{3}(_[-.]_| )D{4}", "[+]_D((_[-.]_| )?D){7,14}"], None),
    "email": (["[A-Za-z0-9]+(_[._%+-]_[A-Za-z0-9]+)*_@_[A-Za-z0-9]+(_[.-]_[A-Za-z0-9]+)*_[.]_[A-Za-z]{2,}"], None),
}


def find(sanitize, text, spaced):
    """The places in a text that have a form: (start, end) in order, none across another."""
    found = []
    for order, name in enumerate(sanitize.get("patterns", [])):
        alternatives, valid = FORMS[name]
        form = "|".join(alternatives).replace("[._%", "[.\0%").replace("_", " ?" if spaced else "").replace("\0", "_").replace("D", "[0-9]")
        at = 0
        while match := re.compile(form).search(text, at):
            start, end = match.span()
            alone = not re.search("[A-Za-z0-9]$", text[:start]) and not re.match("[A-Za-z0-9]", text[end:])
            good = alone and (valid is None or valid(re.sub("[^0-9]", "", match.group())))
            if good:
                found.append((start, start - end, order, end))
            at = end if good else start + 1
    for order, own in enumerate(sanitize.get("own", []), len(FORMS)):
        found += [(m.start(), m.start() - m.end(), order, m.end()) for m in re.finditer(own, text)]
    kept, last = [], 0
    for start, _, _, end in sorted(found):
        if start >= last:
            kept.append((start, end))
            last = end
    return kept


def sanitize_words(sanitize, words, names):
    """What is left of the tokens of a sentence; None if nothing was found."""
    if len(names) == 260 and names[FIRST_WORD:FIRST_WORD + 1] == ["<0x00>"]:
        text = bytes(w - FIRST_WORD for w in words).decode("latin-1")
        spans = find(sanitize, text, False)
        masked = [FIRST_WORD + 35 if any(s <= i < e for s, e in spans) and re.match("[A-Za-z0-9\x80-\xff]", text[i]) else w
                  for i, w in enumerate(words)]
    else:
        texts = [names[w] for w in words]
        spans, starts = find(sanitize, " ".join(texts), True), [0]
        for text in texts:
            starts.append(starts[-1] + len(text) + 1)
        masked = [1 if any(s < starts[i] + len(texts[i]) and e > starts[i] for s, e in spans) else w for i, w in enumerate(words)]
    return (masked if sanitize["remove"] == "match" else []) if spans else None


def sanitized(e, population, names):
    """The population without what patterns find, and which canaries were caught."""
    after, caught = [], {}
    for user in population:
        after.append([])
        for words, canary in user:
            left = sanitize_words(e["data"]["sanitize"], words, names)
            if canary is not None:
                caught[canary] = left is not None
            if left is None:
                after[-1].append((words, canary))
            elif left:
                after[-1].append((left, None))
    return after, caught


def without_disagreement(e, population, kept, theirs):
    """The population as two models left it, and whether the report on them is what was done.

    Their losses are no part of an export. Which sentences are left is read from there;
    equal sentences have equal losses, so that all copies of one go, or none.
    """
    coins, copies, gone, of, after = stream(e["seed"], "halves"), {}, {}, 0, []
    sentences = set()
    for user, left in zip(population, kept):
        after.append([])
        for words, canary in user:
            half, stays = coins.uint64() & 1, len(after[-1]) < len(left) and (list(words), canary) == left[len(after[-1])]
            if stays:
                after[-1].append((words, canary))
            if canary is None:
                of += 1
                sentences.add((tuple(words), stays))
            else:
                copies.setdefault(canary, [0, 0])[half] += 1
            gone.setdefault(canary, []).append(not stays)
    ordinary = gone.pop(None, [])
    same = len(sentences) == len({words for words, _ in sentences}) and theirs["sentences"] == {"removed": sum(ordinary), "of": of}
    same = same and all(c["removed"] == (abs(c["losses"][0] - c["losses"][1]) > theirs["threshold"]) for c in theirs["canaries"])
    same = same and {c["number"]: (c["copies"], [c["removed"]] * sum(c["copies"])) for c in theirs["canaries"]} == {
        canary: (copies[canary], gone[canary]) for canary in copies}
    return after, same


def toss_one_run(e, population, canaries, names):
    """Lays out a one-run audit in the population; returns its coins."""
    o, seed, first = e["audit"]["one_run"], e["seed"], len(canaries)
    free = [u for u, user in enumerate(population) if all(canary is None for _, canary in user)]
    carriers, words = stream(seed, "one-run units"), stream(seed, "one-run canaries")
    coins, places, taken = stream(seed, "one-run coins"), stream(seed, "one-run units", 1), set()
    form = forms(e)[0] if "canaries" in e else {}
    among = choices({"words": o["words"], **{field: form[field] for field in ("alphabet", "symbols") if "alphabet" in form and field in form}}, names)
    by_record, poisson = e["training"]["algorithm"] == "sgd", e["training"].get("sampling") == "poisson"
    for i in range(o["canaries"]):
        j = i + carriers.below(len(free) - i)
        free[i], free[j] = free[j], free[i]
    tossed = {}
    for number, user in zip(range(first, first + o["canaries"]), free):
        canaries.append((draw_distinct(words, among, taken, len(among)), None))
        included = coins.uint64() & 1 == 1
        example = places.below(len(population[user])) if by_record else -1
        tossed[number] = {"user": user, "example": example, "included": included}
        if included:
            population[user] = [(canaries[number][0], number) if example in (-1, i) else record
                                for i, record in enumerate(population[user])]
        elif poisson:
            population[user] = []
    return tossed


def references_of(e, form, names, canaries):
    """What the canaries of a form are ranked against."""
    audit, among = e["audit"]["random_sampling"], choices(form, names)
    prefix = given(form, audit["prefix"])
    return references(stream(e["seed"], "references", len(among) - prefix), audit["references"], among[prefix:], {t[prefix:] for t in canaries},
                      (lambda row: echoed(form, row, prefix)) if form.get("target") else tuple)


def framed(words, sequence):
    return [2] + words + [END] * (len(words) < sequence)


def unframed(tokens):
    return tokens[1:-1] if tokens[-1] == END else tokens[1:]


def initial(e, tensors):
    """The tensors of the initial model, drawn one after another."""
    m, rng = e["model"], stream(e["seed"], "initial weights")
    if m["kind"] in ("cnn", "cnn-tagger", "gan"):
        yield from initial_of_images(tensors, rng)
        return
    for whole, shape in tensors:
        name = whole.removeprefix("encoder.")
        layer, kind = name.partition(".")[::2]
        n, size = m["units"], math.prod(shape)
        if kind.endswith("bias"):
            values = [0.0] * size
            if layer.startswith("cell") and m["kind"] == "cifg-lstm":
                values[:n] = [-1.0] * n
            if layer.startswith("cell") and m["kind"] == "lstm":
                values[n:2 * n] = [1.0] * n
        else:
            columns = n if layer.startswith("cell") else shape[1]
            bound = math.sqrt(3 / shape[1] if name in ("embedding", "output.weights") else 6 / (shape[0] + columns))
            if kind == "kernel":
                bound = math.sqrt(6 / (shape[0] * shape[1]))
            values = [float32(bound * (2 * rng.float64() - 1)) for _ in range(size)]
        yield whole, values


def initial_of_images(tensors, rng):
    """The same of a network for images."""
    for name, shape in tensors:
        values = [1.0 if name.endswith((".variance", ".initial_share")) else 0.0] * math.prod(shape)
        if name.endswith(".kernel"):
            bound = math.sqrt(6 / (math.prod(shape[:-2]) * (shape[-2] + shape[-1])))
            values = [float32(bound * (2 * rng.float64() - 1)) for _ in values]
        yield name, values


def order_of_images():
    """The names of tensors of networks for images, as docs/model.md has them."""
    parts, statistics = ("kernel", "bias"), ("beta", "mean", "variance")
    classifier = [f"{layer}.{part}" for layer in ("conv1", "conv2", "conv3", "dense1", "dense2") for part in parts]
    discriminator = [f"{layer}.{part}" for layer in ("conv1", "conv2") for part in parts] + ["dense1.kernel"]
    discriminator += [f"norm.{part}" for part in statistics] + [f"dense2.{part}" for part in parts]
    generator = []
    for i, layer in enumerate(("dense1", "dense2", "conv1", "conv2"), 1):
        generator += [f"{layer}.kernel"] + [f"norm{i}.{part}" for part in statistics]
    generator += ["norm.initial_share", "conv3.kernel", "conv3.bias"]
    return classifier + ["discriminator." + n for n in discriminator] + ["generator." + n for n in generator]


def read_tensors(path):
    with open(path, "rb") as file:
        header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
        data = file.read()
    header.pop("__metadata__")
    order = ["embedding", "cell.input", "cell.recurrent", "cell.kernel", "cell.bias", "cell.candidate_bias", "projection"]
    order += [n.replace("cell", f"cell{i}").replace("projection", f"projection{i}") for i in (2, 3, 4) for n in order[1:]]
    order += ["output.weights", "output.bias"] + ["encoder." + name for name in order] + order_of_images()
    return [(n, header[n]["shape"], struct.unpack(f"<{math.prod(header[n]['shape'])}f", data[slice(*header[n]["data_offsets"])]))
            for n in order if n in header]


def result(directory):
    """The results of the exported cell."""
    name = json.load(open(f"{directory}/experiment.json"))["cells"][0]["name"]
    return next(c for c in json.load(open(f"{directory}/results.json"))["cells"] if c["cell"] == name)


def check(directory):
    e = json.load(open(f"{directory}/experiment.json"))["cells"][0]["experiment"]
    names, examples = [row["text"] for row in rows(directory, "vocabulary")], rows(directory, "parts")
    sequence = e["data"].get("sequence") or (100 if e["data"].get("level") == "byte" else 20)
    if e["data"].get("pairs"):
        sequence = 2 * sequence + 1
    found = {}

    # The export has no splits: it is taken at its word about parts that are one.
    split = [part for part in ("test", "validation") if e["data"][part].get("split")]
    own = {row["example"]: row["part"] for row in examples if row["part"] in split}
    drawn = list(draw_parts(e, 1 + max(row["example"] for row in examples), own))
    found["parts"] = all(row["part"] == drawn[row["example"]] for row in examples)
    users = balance(e, [row for row in examples if row["part"] == "train"])
    canaries = draw_canaries(e, names) if "canaries" in e else []
    of_audit = [tuple(tokens) for tokens, _ in canaries]
    placed, sharers = insert(e, users, canaries)
    population = partition(e, users, placed, canaries)
    if e["data"].get("sanitize"):
        population, caught = sanitized(e, population, names)
        found["what sanitization caught"] = {c["number"]: c["caught"] for c in result(directory)["sanitized"]["canaries"]} == caught
    if e["data"].get("disagreement"):
        kept = [[] for _ in population]
        for row in rows(directory, "population"):
            kept[row["user"]].append((unframed(row["tokens"]), row["canary"]))
        population, found["what two models removed"] = without_disagreement(e, population, kept, result(directory)["disagreement"])
    if e["data"].get("devices"):
        grouped = e["data"]["devices"]["prior"] == "groups"
        population, owners = divide(e, population, groups_of(e, [row for row in examples if row["part"] == "train"]) if grouped else None)
        if e["data"]["devices"].get("defence"):
            population = mix(e, population, owners, background_of(e, sequence))
        found["devices"] = rows(directory, "devices") == [
            {"device": n, "user": user, "shadow": shadow, "set": kind, "examples": len(population[n])}
            for n, (user, shadow, kind) in enumerate(owners)]
    one_run = e.get("audit") and e["audit"].get("one_run")
    coins = toss_one_run(e, population, canaries, names) if one_run else {}
    found["population"] = rows(directory, "population") == [
        {"user": u, "example": i, "canary": canary, "tokens": framed(words, sequence)}
        for u, user in enumerate(population) for i, (words, canary) in enumerate(user)]
    if canaries:
        copies = [[] for _ in canaries]
        for u, user in enumerate(population):
            for i, (_, canary) in enumerate(user):
                if canary is not None:
                    copies[canary].append({"user": u, "example": i})
        found["canaries"] = [(r["tokens"], r["copies"], r["coin"]) for r in rows(directory, "canaries")] == [
            (tokens, copies[n], coins.get(n)) for n, (tokens, _) in enumerate(canaries)]
        found["sharers"] = [r["sharers"] for r in rows(directory, "canaries")][:len(sharers)] == sharers
    if os.path.exists(f"{directory}/references.jsonl"):
        redrawn = itertools.chain(*(references_of(e, form, names, of_audit) for form in forms(e)))
        found["references"] = all(tuple(row["tokens"]) == redraw for row, redraw in
                                  itertools.zip_longest(rows(directory, "references"), redrawn, fillvalue={"tokens": []}))
    if os.path.exists(f"{directory}/cohorts.jsonl"):
        t = e["training"]
        found["cohorts"] = [row["users"] for row in rows(directory, "cohorts")] == [
            cohort(stream(e["seed"], "cohort", r), len(population), t["cohort"], t["sampling"]) for r in range(1, t["rounds"] + 1)]
    if os.path.exists(f"{directory}/initial.safetensors"):
        tensors = read_tensors(f"{directory}/initial.safetensors")
        found["initial weights"] = all(list(values) == redrawn for (_, _, values), (_, redrawn) in
                                       zip(tensors, initial(e, [(n, shape) for n, shape, _ in tensors])))
    print(f"{directory}: " + ", ".join(f"{what} {'drawn again' if same else 'DIFFER'}" for what, same in found.items()))
    return all(found.values())


if __name__ == "__main__":
    failed = [d for d in sys.argv[1:] if not check(d)]
    sys.exit(f"not the same: {', '.join(failed)}" if failed else 0)
