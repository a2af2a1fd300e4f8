#!/usr/bin/env python3
"""Turns the Stack Overflow data of TensorFlow Federated into a source for Coalmine.

    xz --decompress --format=lzma stackoverflow.sqlite.lzma
    python3 tff_stackoverflow.py stackoverflow.sqlite | zstd > stackoverflow.jsonl.zst

Writes one JSON line per example of a split, in the order of the file:
{"user": "...", "text": "..."}. The split is train, unless another is named behind the
file: heldout or test. An example is one sentence; its words are taken apart already.
Neither TensorFlow nor anything else beside Python is needed.
"""
import json
import sqlite3
import sys


def varint(data, at):
    """The number at a place, and the place behind it."""
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value, at


def fields(data):
    """The fields of a message of Protocol Buffers that are messages, text or bytes."""
    at = 0
    while at < len(data):
        tag, at = varint(data, at)
        if tag & 7 != 2:
            raise ValueError(f"field {tag >> 3} has wire type {tag & 7}, expected 2")
        length, at = varint(data, at)
        if at + length > len(data):
            raise ValueError("it ends too early")
        yield tag >> 3, data[at : at + length]
        at += length


def text_feature(example, wanted):
    """The value of a feature of a tf.train.Example that is text, None without it.

    message Example  { Features features = 1; }
    message Features { map<string, Feature> feature = 1; }   entries: key = 1, value = 2
    message Feature  { BytesList bytes_list = 1; ... }
    message BytesList { repeated bytes value = 1; }
    """
    for _, features in fields(example):
        for _, entry in fields(features):
            pair = dict(fields(entry))
            if pair.get(1) == wanted:
                return b"".join(value for kind, values in fields(pair[2]) if kind == 1 for _, value in fields(values))
    return None


def main(path, split="train"):
    database = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    query = "SELECT client_id, serialized_example_proto, rowid FROM examples WHERE split_name = ? ORDER BY rowid"
    found = False
    for user, example, row in database.execute(query, (split,)):
        found = True
        try:
            words = text_feature(example, b"tokens")
        except (ValueError, IndexError, KeyError) as fault:
            sys.exit(f"{path}: row {row} of examples is no tf.train.Example: {fault}")
        if words is None:
            sys.exit(f"{path}: row {row} of examples has no feature tokens; expected TensorFlow Federated's Stack Overflow")
        if words.strip():
            print(json.dumps({"user": user, "text": words.decode("utf-8")}, ensure_ascii=False))
    if not found:
        names = [name for (name,) in database.execute("SELECT DISTINCT split_name FROM examples ORDER BY 1")]
        sys.exit(f"{path}: no examples of the split {split!r}; expected one of {', '.join(names)}")


if __name__ == "__main__":
    if not 2 <= len(sys.argv) <= 3:
        sys.exit(__doc__)
    sys.stdout.reconfigure(encoding="utf-8")
    try:
        main(*sys.argv[1:])
    except sqlite3.Error as fault:
        sys.exit(f"{sys.argv[1]}: {fault}; expected the SQLite database of TensorFlow Federated, decompressed")
