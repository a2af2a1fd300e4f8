"""Replayed steps of a private training for audit.neighbours: docs/contracts/train.md, "Replayed steps". Needs NumPy.

    replay = Replay(job, parts=[("embedding", 32000), ("output", 34000)], unit="record", noise_multiplier=1.1,
                    sampling="poisson", population=4000, cohort=64, rounds=500, delta=1e-5)
    for step in range(replay.repeats):
        batch = draw(step)                                       # as the training draws it
        release = lambda without, noise: step_of(parameters, [i for i in batch if i != without], step, noise) * cohort / clip
        replay.add(batch, release)
    replay.tell()

step_of is the training's own function of a step; it returns the input of the optimizer.
"""
import json
import os
import random

import numpy

NAMES = ("whole", "inside", "outside", "noisy")


class Replay:
    def __init__(self, job, parts, **claim):
        if not job.replay:
            raise ValueError("the job has no replay; expected audit.neighbours in the experiment file")
        self.repeats, self._paths, self._random = job.replay["repeats"], (job.files["replay"], job.files["replay_tensors"]), random.Random(job.seed)
        self._claim = claim | {"parts": [{"name": name, "size": size} for name, size in parts], "cohorts": []}
        self._rows = {name: [] for name in NAMES}

    def add(self, batch, release):
        """A step of the records in batch. release(without, noise) is the vector that it hands on, in clip norms, without a record or None."""
        batch, population = sorted(batch), self._claim["population"]
        inside = self._random.choice(batch) if batch else None
        out = [i for i in (self._random.randrange(population) for _ in range(20)) if i not in batch]
        for name, without in (("whole", None), ("inside", inside), ("outside", out[0] if out else None)):
            self._rows[name].append(numpy.asarray(release(without, False), dtype="<f4").ravel())
        self._rows["noisy"].append(numpy.asarray(release(None, True), dtype="<f4").ravel())
        self._claim["cohorts"].append([int(i) for i in batch])

    def tell(self):
        """Writes out/replay.json and out/replay.safetensors."""
        arrays = {name: numpy.stack(rows) for name, rows in self._rows.items()}
        header, offset = {}, 0
        for name, array in arrays.items():
            header[name] = {"dtype": "F32", "shape": list(array.shape), "data_offsets": [offset, offset + array.nbytes]}
            offset += array.nbytes
        text = json.dumps(header).encode()
        text += b" " * (-len(text) % 8)
        contents = json.dumps(self._claim, allow_nan=False).encode(), len(text).to_bytes(8, "little") + text + b"".join(a.tobytes() for a in arrays.values())
        for path, content in zip(self._paths, contents):
            with open(path + ".new", "wb") as file:
                file.write(content)
            os.replace(path + ".new", path)
