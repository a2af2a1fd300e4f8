#!/usr/bin/env python3
"""Makes images with several tags of the shipped digits.

    python3 digit_pairs.py handwriting.jsonl.gz | gzip > digit-pairs.jsonl.gz

Writes one JSON line for every two digits of a writer that follow each other, side by side in an
image of 56 x 28 pixels: {"user": "2100", "tags": ["three", "seven"], "pixels": "..."}. Two
equal digits are one tag. The last digit of a writer with an odd number of them is left out.
"""
import base64
import gzip
import json
import sys

SIDE = 28
NAMES = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]


def beside(left, right):
    """Two images row by row."""
    rows = range(0, SIDE * SIDE, SIDE)
    return b"".join(left[r : r + SIDE] + right[r : r + SIDE] for r in rows)


def main(paths):
    if len(paths) != 1:
        sys.exit(__doc__)
    waiting = {}  # the digit of each writer that has no neighbour yet
    with gzip.open(paths[0], "rt") as lines:
        for line in lines:
            digit = json.loads(line)
            pixels = base64.b64decode(digit["pixels"])
            if digit["user"] not in waiting:
                waiting[digit["user"]] = digit["label"], pixels
                continue
            label, left = waiting.pop(digit["user"])
            tags = [NAMES[n] for n in dict.fromkeys((label, digit["label"]))]
            both = base64.b64encode(beside(left, pixels)).decode()
            print(json.dumps({"user": digit["user"], "tags": tags, "pixels": both}))


if __name__ == "__main__":
    main(sys.argv[1:])
