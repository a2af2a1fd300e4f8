"""Reads what results --format mlflow and --format tensorboard wrote, and compares every number with the results.

    coalmine results RUN --json > DIR/results.json
    coalmine results RUN --rows rounds --json > DIR/rounds.json
    coalmine results RUN --format csv -o DIR/cells.csv
    coalmine show RUN --json > DIR/experiment.json
    coalmine results RUN --format mlflow -o DIR/mlruns
    coalmine results RUN --format tensorboard -o DIR/logs
    python3 docs/checks/check_trackers.py DIR ...

Needs Python alone: it is written from mlflow/store/tracking/file_store.py, TensorFlow's record_writer.h,
and event.proto, summary.proto and plugin_data.proto of TensorBoard.
"""
import csv
import glob
import json
import math
import os
import struct
import sys


def leaves(value, path=""):
    """All that is no object within JSON, by its path."""
    if not isinstance(value, dict):
        return {path: value}
    return {p: v for name in value for p, v in leaves(value[name], f"{path}.{name}".strip(".")).items()}


def is_number(x):
    return isinstance(x, (int, float)) and not isinstance(x, bool)


def text(value):
    return value if isinstance(value, str) else json.dumps(value, separators=(",", ":"), ensure_ascii=False)


class Cell:
    """What a tracker has of a cell: metrics by name and step, parameters by path."""

    def __init__(self):
        self.metrics, self.params, self.status = {}, {}, None


def read(path):
    with open(path, encoding="utf-8", newline="") as f:
        return f.read()


def mlflow(directory):
    """The runs of a file store by the tag coalmine.cell."""
    cells = {}
    for meta in glob.glob(f"{directory}/*/*/meta.yaml"):
        about = {line.split(": ", 1)[0]: json.loads(line.split(": ", 1)[1]) for line in read(meta).splitlines()}
        run = os.path.dirname(meta)
        assert about["run_id"] == about["run_uuid"] == os.path.basename(run) and len(about["run_id"]) == 32, about
        assert about["experiment_id"] == os.path.basename(os.path.dirname(run)) and about["experiment_id"].isdigit(), about
        cell = cells[read(f"{run}/tags/coalmine.cell")] = Cell()
        cell.status = {1: "pending", 3: "done", 4: "failed", 5: "cancelled"}[about["status"]]
        cell.params = {name: read(f"{run}/params/{name}") for name in os.listdir(f"{run}/params")}
        for folder, _, names in os.walk(f"{run}/metrics"):
            for name in names:
                path = os.path.join(folder, name)
                lines = [line.split(" ") for line in read(path).splitlines()]
                assert all(int(line[0]) == about["start_time"] for line in lines), path
                cell.metrics[os.path.relpath(path, f"{run}/metrics")] = {int(step): float(value) for _, value, step in lines}
    return cells


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def masked(data):
    crc = crc32c(data)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def records(data):
    while data:
        (length, of_length), data = struct.unpack("<QI", data[:12]), data[12:]
        assert of_length == masked(struct.pack("<Q", length)), "checksum of a length"
        record, (of_data,), data = data[:length], struct.unpack("<I", data[length:length + 4]), data[length + 4:]
        assert of_data == masked(record), "checksum of a record"
        yield record


def varint(data, at):
    number, shift = 0, 0
    while True:
        number |= (data[at] & 127) << shift
        at, shift = at + 1, shift + 7
        if data[at - 1] < 128:
            return number, at


def fields(message):
    """The fields of a message by their numbers, each a list."""
    found, at = {}, 0
    while at < len(message):
        key, at = varint(message, at)
        if key & 7 == 0:
            value, at = varint(message, at)
        elif key & 7 == 1:
            value, at = struct.unpack("<d", message[at:at + 8])[0], at + 8
        elif key & 7 == 5:
            value, at = struct.unpack("<f", message[at:at + 4])[0], at + 4
        else:
            length, at = varint(message, at)
            value, at = message[at:at + length], at + length
        found.setdefault(key >> 3, []).append(value)
    return found


def hparam(value):
    value = fields(value)
    if 3 in value:
        return value[3][0].decode()
    return value[2][0] if 2 in value else bool(value[4][0])


def tensorboard(directory):
    """The cells of a folder by their names."""
    cells = {}
    for path in glob.glob(f"{directory}/*/*/events.out.tfevents.*"):
        cell = cells[os.path.basename(os.path.dirname(path))] = Cell()
        with open(path, "rb") as f:
            events = [fields(record) for record in records(f.read())]
        assert events[0][3] == [b"brain.Event:2"], events[0]
        steps = [event[2][0] for event in events]
        assert steps == sorted(steps), "steps descend"
        for event in events[1:]:
            for value in map(fields, fields(event[5][0])[1]):
                name = value[1][0].decode()
                if 9 not in value:
                    cell.metrics.setdefault(name, {})[event[2][0]] = value[2][0]
                    continue
                plugin = fields(fields(value[9][0])[1][0])
                assert plugin[1] == [b"hparams"], plugin
                content = fields(plugin[2][0])
                if name == "_hparams_/session_start_info":
                    cell.params = {e[1][0].decode(): hparam(e[2][0]) for e in map(fields, fields(content[3][0])[1])}
                else:
                    cell.status = {1: "done", 2: "failed", 3: "pending", 0: "cancelled"}[fields(content[4][0])[1][0]]
    return cells


def expected(directory):
    """What trackers should have, from the results."""
    cells = {}
    rounds = json.loads(read(f"{directory}/rounds.json"))["cells"]
    specs = json.loads(read(f"{directory}/experiment.json"))["cells"]
    table = csv.DictReader(open(f"{directory}/cells.csv", encoding="utf-8", newline=""))
    rows = [{name: value for name, value in row.items() if "." not in name} for row in table]  # without parameters
    for result, rounds, spec, row in zip(json.loads(read(f"{directory}/results.json"))["cells"], rounds, specs, rows):
        assert result["cell"] == rounds["cell"] == spec["name"] == row["cell"]
        cell = cells[result["cell"]] = Cell()
        cell.status = result["status"]
        cell.params = leaves(spec["experiment"])
        cell.params.update({path: None for path, value in spec["axes"].items() if value is None})
        for r in rounds["rounds"]:
            for name, value in r.items():
                if name not in ("round", "tokens_per_second") and value:
                    cell.metrics.setdefault("training/" + name, {})[r["round"]] = float(value)
        for point in result.get("curve", []):
            for name, value in leaves(point).items():
                if name != "round" and is_number(value):
                    cell.metrics.setdefault("audit/" + name, {})[point["round"]] = float(value)
        for name, value in row.items():
            try:
                number = {"true": 1.0, "false": 0.0}.get(value) if value in ("true", "false") else float(value)
            except ValueError:
                continue
            if math.isfinite(number):
                cell.metrics["final/" + name] = {result["training"]["rounds"] if "training" in result else 0: number}
    return cells


def single(x):
    return struct.unpack("<f", struct.pack("<f", x))[0]


def same(have, want):
    """Whether a parameter is what it should be, as a number, a truth value or a text."""
    if is_number(want):
        return float(have) == want
    return have == (want if isinstance(have, bool) else text(want))


def compare(of, have, want, rounded):
    """Rounds say nothing of zeros in JSON; nothing else may be missing or more."""
    compared = 0
    assert have.keys() == want.keys(), (of, have.keys(), want.keys())
    for cell in want:
        h, w = have[cell], want[cell]
        assert h.status == w.status, (of, cell, h.status, w.status)
        assert h.params.keys() == w.params.keys(), (of, cell, h.params.keys() ^ w.params.keys())
        assert all(same(h.params[p], v) for p, v in w.params.items()), (of, cell, h.params, w.params)
        assert h.metrics.keys() == w.metrics.keys(), (of, cell, h.metrics.keys() ^ w.metrics.keys())
        for name, points in w.metrics.items():
            found = {s: v for s, v in h.metrics[name].items() if v or not name.startswith("training/")}
            assert found == {s: rounded(v) for s, v in points.items()}, (of, cell, name, found, points)
            compared += len(points)
    return compared


def main(directory):
    want = expected(directory)
    numbers = compare("mlflow", mlflow(f"{directory}/mlruns"), want, float)
    again = compare("tensorboard", tensorboard(f"{directory}/logs"), want, single)
    assert numbers == again > 0
    print(f"{directory}: {len(want)} cells, {numbers} numbers in both, {sum(len(c.params) for c in want.values())} parameters")


if __name__ == "__main__":
    for d in sys.argv[1:]:
        main(d)
