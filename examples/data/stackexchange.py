#!/usr/bin/env python3
"""Turns files of a Stack Exchange dump into a source for Coalmine.

    python3 stackexchange.py Posts.xml Comments.xml | zstd > texts.jsonl.zst

Writes one JSON line per sentence of a post or comment, in the order of the files:
{"user": "123", "text": "..."}. The user is the number of the site's account; rows of
deleted accounts have none and are left out, and so are code and quoted blocks, titles
and tags. Memory does not grow with the files.
"""
import html
import json
import re
import sys
import xml.etree.ElementTree as ElementTree

# Who wrote a row, and what: of posts it is HTML, of comments plain text.
FIELDS = {"posts": ("OwnerUserId", "Body"), "comments": ("UserId", "Text")}

LEFT_OUT = re.compile(r"<(pre|blockquote)\b.*?</\1>", re.DOTALL | re.IGNORECASE)
BLOCK = re.compile(r"</?(p|li|ul|ol|h[1-6]|br|hr|div|table|tr|td)\b[^>]*>", re.IGNORECASE)
TAG = re.compile(r"<[^>]*>")
END_OF_SENTENCE = re.compile(r"(?:(?<=[.!?])|(?<=[.!?][\"')\]]))\s+(?=[^a-z\s])")


def plain(body):
    """The text of a post, with a line break where a block ends."""
    return html.unescape(TAG.sub("", BLOCK.sub("\n", LEFT_OUT.sub("\n", body))))


def sentences(text):
    for line in text.splitlines():
        for sentence in END_OF_SENTENCE.split(line):
            sentence = " ".join(sentence.split())
            if any(c.isalnum() for c in sentence):
                yield sentence


def rows(path):
    """The rows of a file with the name of its root, each forgotten once it was used."""
    events = iter(ElementTree.iterparse(path, events=("start", "end")))
    _, root = next(events)
    if root.tag not in FIELDS:
        sys.exit(f"{path}: the root is <{root.tag}>; expected <posts> or <comments>: Posts.xml or Comments.xml of a dump")
    for event, row in events:
        if event == "end" and row.tag == "row":
            yield root.tag, row.attrib
            root.clear()


def main(paths):
    if not paths:
        sys.exit(__doc__)
    for path in paths:
        for kind, row in rows(path):
            user, text = (row.get(field) for field in FIELDS[kind])
            if user is None or text is None:
                continue
            for sentence in sentences(plain(text) if kind == "posts" else text):
                print(json.dumps({"user": user, "text": sentence}, ensure_ascii=False))


if __name__ == "__main__":
    sys.stdout.reconfigure(encoding="utf-8")
    main(sys.argv[1:])
