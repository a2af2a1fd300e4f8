"""Counts the words of samples, and of all sentences of the source, that no user of the public text has written.

    coalmine data example augenstein-2020/task6-small        # writes public.jsonl.gz
    coalmine data export RUN CELL --only vocabulary,parts -o DIR
    coalmine sample RUN CELL --count 5000 > DIR/samples.txt
    python3 docs/checks/later_words.py public.jsonl.gz DIR ...

A line of each DIR: the share of the ordinary words of the samples, and that of the source's. It needs no library.
"""
import gzip
import json
import os
import sys

FIRST_WORD = 4


def rows(folder, table):
    with open(os.path.join(folder, table + ".jsonl")) as file:
        return [json.loads(line) for line in file]


def share(words, public):
    return sum(word not in public for word in words) / len(words)


def main(text, folders):
    with gzip.open(text, "rt") as file:
        users = {json.loads(line)["user"] for line in file}
    print("generated,of the source")
    for folder in folders:
        vocabulary = {row["token"]: row["text"] for row in rows(folder, "vocabulary") if row["token"] >= FIRST_WORD}
        source, public = [], set()
        for row in rows(folder, "parts"):
            words = [vocabulary[token] for token in row["tokens"] if token in vocabulary]
            source += words
            if row["user"] in users:
                public.update(words)
        with open(os.path.join(folder, "samples.txt")) as file:
            generated = [word for word in file.read().split() if word != "<unk>"]
        print(f"{share(generated, public)},{share(source, public)}")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
