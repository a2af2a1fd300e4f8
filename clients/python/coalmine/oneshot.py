"""Canary clients for audit.one_shot: docs/contracts/train.md, "Canary clients". Needs NumPy.

    canaries = Canaries(job, dimension)             # dimension: the number of trained parameters
    for round in ...:
        updates = [train(user) for user in sampled]
        updates += [canaries.update(i, 10 * clip) for i in sampled_canaries]    # of range(canaries.count)
        mean = noised_mean_of_clipped(updates)      # one vector, as it is released
        canaries.follow(mean)
        job.save("state", ...)                      # canaries.largest belongs to it
    canaries.tell(parameters - initial)

The training samples, clips and counts a canary like a user.
"""
import json
import os

import numpy

KEPT = 1 << 28  # how many numbers of all directions are kept rather than drawn again: 1 GiB


class Canaries:
    """count canaries, numbered from 0, and behind them unseen directions that nobody sends."""

    def __init__(self, job, dimension, unit="user"):
        asked = job.one_shot
        if not asked:
            raise ValueError("the job has no one_shot; expected audit.one_shot in the experiment file")
        self.count, self.unseen, self.final = asked["canaries"], asked.get("unseen", 0), asked.get("final", False)
        self.dimension, self.unit = dimension, unit
        self.largest = numpy.full(self.count + self.unseen, -1.0)  # cosines so far: a part of your checkpoint
        self._seed, self._path, self._kept = job.seed, job.files["one_shot"], {}

    def direction(self, i):
        """The unit vector of direction i: [dimension], float32. It follows from the seed of the job."""
        if i not in self._kept:
            drawn = numpy.random.default_rng([self._seed, i]).standard_normal(self.dimension, dtype=numpy.float32)
            drawn /= numpy.linalg.norm(drawn)
            if (len(self._kept) + 1) * self.dimension > KEPT:
                return drawn
            self._kept[i] = drawn
        return self._kept[i]

    def update(self, i, norm):
        """What canary i sends, of that L2 norm: above the clip norm it is clipped as any other update."""
        return norm * self.direction(i)

    def cosines(self, vector, count):
        """Those of the first directions with a vector [dimension]."""
        vector = numpy.asarray(vector, dtype=numpy.float32).ravel()
        if vector.size != self.dimension:
            raise ValueError(f"a vector of {vector.size} numbers; expected the {self.dimension} trained parameters")
        length = float(numpy.linalg.norm(vector)) or 1.0
        return numpy.array([float(self.direction(i) @ vector) / length for i in range(count)])

    def follow(self, released):
        """Keeps the largest cosines with what a round has released: the mean update with its noise."""
        if self.unseen:
            self.largest = numpy.maximum(self.largest, self.cosines(released, self.count + self.unseen))

    def tell(self, change):
        """Writes out/one_shot.json. change is the last parameters less the first."""
        told = {"dimension": self.dimension, "unit": self.unit}
        if self.final:
            told["final"] = self.cosines(change, self.count).tolist()
        if self.unseen:
            told["largest"], told["unseen"] = self.largest[: self.count].tolist(), self.largest[self.count :].tolist()
        with open(self._path + ".new", "w", encoding="utf-8") as file:
            json.dump(told, file, allow_nan=False)
        os.replace(self._path + ".new", self._path)
