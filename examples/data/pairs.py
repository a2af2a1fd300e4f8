#!/usr/bin/env python3
"""Turns two texts with a sentence a line, each the translation of the other, into a source of
pairs for Coalmine:

    python3 pairs.py train.en train.vi | gzip -9n > en-vi.jsonl.gz

Writes one JSON line per pair, {"user": "...", "text": "...", "target": "..."}. A pair with an
empty side is left out. The user is a run of a hundred lines, about a talk of a corpus of
talks. Entities such as &apos; become what they stand for. Python alone is needed.
"""
import html
import json
import sys

LINES_OF_A_USER = 100


def pairs(source, target):
    with open(source, encoding="utf-8") as texts, open(target, encoding="utf-8") as targets:
        for number, (text, translation) in enumerate(zip(texts, targets, strict=True)):
            text, translation = (html.unescape(line).strip() for line in (text, translation))
            if any(map(str.isalnum, text)) and any(map(str.isalnum, translation)):
                yield {"user": str(number // LINES_OF_A_USER), "text": text, "target": translation}


def main(paths):
    if len(paths) != 2:
        sys.exit(__doc__)
    for pair in pairs(*paths):
        print(json.dumps(pair, ensure_ascii=False))


if __name__ == "__main__":
    main(sys.argv[1:])
