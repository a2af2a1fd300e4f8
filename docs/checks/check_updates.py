#!/usr/bin/env python3
"""Reads recorded updates, and draws again what was done to them, from docs/deanonymization.md
and docs/random-streams.md alone.

  check_updates.py show SHARD
  check_updates.py mean SHARD BEFORE AFTER   rounds of one model: what the server made of the updates
                                             of all layers, clipped, with the server at sgd and rate 1
  check_updates.py projected SEED WHOLE SHARD
  check_updates.py noise SEED SIGMA CLEAN SHARD
  check_updates.py rounded SEED BITS CLEAN SHARD
  check_updates.py shares DIR CLEAN ROUND BEFORE AFTER SEED SIGMA   of updates that `coalmine data export` has
                                             written to DIR, and without noise to CLEAN: SIGMA is that of a
                                             device's share, and their mean is what the server adds
  check_updates.py tables DIR ROUND BEFORE AFTER   the same as mean, of updates that `coalmine data export`
                                             has written to DIR as lines, not clipped: weighted by examples

WHOLE and CLEAN are shards of the same round without projection, noise or rounding, of all
layers in the model's order; BEFORE and AFTER are models as `coalmine export` writes them.
Prints the largest difference, and exits with status 1 where it is above float32's rounding.
"""
import array
import json
import math
import struct
import sys

import check_streams

MAGIC = b"coalmine updates 1\n"


def read(path):
    """The layout of a shard, and its updates: (round, device, values)."""
    data = open(path, "rb").read()
    assert data.startswith(MAGIC), path
    at, length, shift = len(MAGIC), 0, 0
    while True:
        byte = data[at]
        length |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            break
    layout, at = json.loads(data[at:at + length]), at + length
    values = sum(layer["values"] for layer in layout["layers"])
    form = f"<II{values}{'e' if layout.get('precision') == 'float16' else 'f'}"
    return layout, [(u[0], u[1], u[2:]) for u in struct.iter_unpack(form, data[at:])]


def model(path):
    """The values of a safetensors file of float32, by tensor."""
    data = open(path, "rb").read()
    n = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + n])
    tensors = {}
    for name, tensor in header.items():
        if name != "__metadata__":
            tensors[name] = array.array("f", data[8 + n + tensor["data_offsets"][0]:8 + n + tensor["data_offsets"][1]])
    return tensors


def layers(layout, values):
    """Each layer with its values."""
    at = 0
    for layer in layout["layers"]:
        yield layer, values[at:at + layer["values"]]
        at += layer["values"]


def float32(x):
    return struct.unpack("<f", struct.pack("<f", x))[0]


def mean(updates, before, after):
    layout, list_ = read(updates)
    old, new, worst, largest = model(before), model(after), 0, 0
    sums = [math.fsum(column) / len(list_) for column in zip(*(u[2] for u in list_))]
    for layer, values in layers(layout, sums):
        for v, x, y in zip(values, old[layer["name"]], new[layer["name"]]):
            worst, largest = max(worst, abs(y - x - v)), max(largest, abs(y))
    return worst, largest * 2 ** -23


def tables(directory, round_, before, after):
    """The server adds the mean of the updates, weighted by the examples that their devices have."""
    lines = lambda table: map(json.loads, open(f"{directory}/{table}.jsonl"))
    examples = {d["device"]: d["examples"] for d in lines("devices")}
    senders = next(c["users"] for c in lines("cohorts") if c["round"] == int(round_))
    sent = {}
    for row in lines("updates"):
        if row["round"] == int(round_):
            sent.setdefault(row["layer"], {})[row["device"]] = row["values"]
    old, new, worst, largest = model(before), model(after), 0, 0
    assert sent.keys() == old.keys(), f"updates of {sorted(sent)}, a model of {sorted(old)}"
    for layer, of in sent.items():
        assert sorted(of) == senders, f"{layer} was sent by {sorted(of)}, the cohort is {senders}"
        total = sum(examples[d] for d in of)
        for i, (x, y) in enumerate(zip(old[layer], new[layer], strict=True)):
            mean_ = math.fsum(examples[d] * values[i] for d, values in of.items()) / total
            worst, largest = max(worst, abs(y - x - mean_)), max(largest, abs(y))
    return worst, largest * 2 ** -23


def sent(directory, round_):
    """What each device has sent in a round: its layers one after another, with their names."""
    updates, names = {}, {}
    for row in map(json.loads, open(f"{directory}/updates.jsonl")):
        if row["round"] == int(round_):
            updates.setdefault(row["device"], []).extend(row["values"])
            names[row["layer"]] = len(row["values"])
    return updates, names


def shares(directory, clean, round_, before, after, seed, sigma):
    """Each update has its share of the noise of a round, and the server adds their mean."""
    (noisy, names), (updates, _) = sent(directory, round_), sent(clean, round_)
    assert noisy.keys() == updates.keys() and noisy, f"{sorted(noisy)} have sent noise, {sorted(updates)} updates"
    worst = 0
    for device, values in updates.items():
        rng = check_streams.stream(int(seed), "noise share", int(round_), device)
        worst = max(worst, *(abs(float32(v + float(sigma) * rng.normal()) - w) for v, w in zip(values, noisy[device], strict=True)))
    sums, old, new = [math.fsum(column) / len(noisy) for column in zip(*noisy.values())], model(before), model(after)
    largest, at = 0, 0
    for layer, n in names.items():
        for v, x, y in zip(sums[at:at + n], old[layer], new[layer], strict=True):
            worst, largest = max(worst, abs(y - x - v)), max(largest, abs(y))
        at += n
    return worst, largest * 2 ** -23


def projected(seed, whole, shard):
    (full, wholes), (layout, list_) = read(whole), read(shard)
    number = {layer["name"]: i for i, layer in enumerate(full["layers"])}
    worst = largest = 0
    for (_, _, x), (_, _, y) in zip(wholes, list_):
        vectors = {layer["name"]: values for layer, values in layers(full, x)}
        for layer, values in layers(layout, y):
            want = vectors[layer["name"]]
            if "of" in layer:
                rng = check_streams.stream(int(seed), "projection", number[layer["name"]])
                want = [v / 2 for v in check_streams.placed(rng, want, layer["values"])]
            worst = max(worst, *(abs(a - b) for a, b in zip(want, values)))
            largest = max(largest, *map(abs, values))
    return worst, largest * (2 ** -10 if layout.get("precision") else 2 ** -23)


def noise(seed, sigma, clean, shard):
    worst = 0
    for (round_, device, x), (_, _, y) in zip(read(clean)[1], read(shard)[1]):
        rng = check_streams.stream(int(seed), "client noise", round_, device)
        worst = max(worst, *(abs(float32(v + float(sigma) * rng.normal()) - w) for v, w in zip(x, y)))
    return worst, 1e-9


def rounded(seed, bits, clean, shard):
    layout, cleans = read(clean)
    levels, worst = 2 ** (int(bits) - 1) - 1, 0
    for (round_, device, x), (_, _, y) in zip(cleans, read(shard)[1]):
        rng = check_streams.stream(int(seed), "client rounding", round_, device)
        want = []
        for _, values in layers(layout, x):
            step = max(map(abs, values)) / levels
            for v in values:
                if step:
                    steps = v / step
                    whole = math.floor(steps) + (rng.float64() < steps - math.floor(steps))
                    v = float32(max(-levels, min(whole, levels)) * step)
                want.append(v)
        worst = max(worst, *(abs(a - b) for a, b in zip(want, y)))
    return worst, 0


def main(command, *arguments):
    if command == "show":
        layout, list_ = read(arguments[0])
        print(json.dumps(layout), len(list_), "updates of rounds", sorted({u[0] for u in list_}))
        return 0
    worst, allowed = {"mean": mean, "tables": tables, "projected": projected, "noise": noise, "shares": shares, "rounded": rounded}[command](*arguments)
    print(f"{command}: differs by {worst:.3g}, allowed is {allowed:.3g}")
    return worst > allowed


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
