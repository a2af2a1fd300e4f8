#!/usr/bin/env python3
"""Turns text with a sentence or paragraph a line into a source for Coalmine, as the Penn Treebank
in Mikolov's preparation and WikiText are:

    python3 lines.py ptb.train.txt > ptb.jsonl
    python3 lines.py wiki.train.tokens | zstd > wikitext-103.jsonl.zst

Writes one JSON line per sentence, {"user": "...", "text": "..."}. A sentence ends at " . " and at
the end of a line. The user is the article, where headings such as " = Title = " name one, and
otherwise the file. Python alone is needed.
"""
import json
import os
import re
import sys

ARTICLE = re.compile(r"^= ([^=].*?) =$")
HEADING = re.compile(r"^=.*=$")


def sentences(path):
    user = os.path.basename(path)
    with open(path, encoding="utf-8") as lines:
        for line in map(str.strip, lines):
            if HEADING.match(line):
                article = ARTICLE.match(line)
                user = article.group(1) if article else user
                continue
            for text in re.split(r"(?<= \.) ", line):
                if text:
                    yield user, text


def main(paths):
    if not paths:
        sys.exit(__doc__)
    for path in paths:
        for user, text in sentences(path):
            print(json.dumps({"user": user, "text": text}, ensure_ascii=False))


if __name__ == "__main__":
    main(sys.argv[1:])
