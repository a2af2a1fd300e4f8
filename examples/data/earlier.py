#!/usr/bin/env python3
"""Writes the addresses up to 1920, which stand for public text in examples/augenstein-2020/task6-small.yaml:

    python3 examples/data/earlier.py examples/data/state-of-the-union.jsonl.gz | gzip -n > public.jsonl.gz

These are the first 33,500 lines of the file. Python alone is needed.
"""
import gzip
import itertools
import sys

LINES = 33_500


def main(paths):
    if len(paths) != 1:
        sys.exit(__doc__)
    with gzip.open(paths[0]) as lines:
        sys.stdout.buffer.writelines(itertools.islice(lines, LINES))


if __name__ == "__main__":
    main(sys.argv[1:])
