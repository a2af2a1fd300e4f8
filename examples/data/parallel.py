#!/usr/bin/env python3
"""Makes parallel text of the tldr pages: English and Spanish descriptions of commands.

    git clone https://github.com/tldr-pages/tldr
    python3 parallel.py tldr es | gzip -9n > tldr-en-es.jsonl.gz

A page describes one command by a few examples, each a sentence and a command line. A
translated page is taken if it has the same command lines in the same order, what stands in
{{braces}} aside, so that its sentences are those of the English page. Each pair becomes a
line with "user", the command, "text" and "target".
"""

import json
import pathlib
import re
import sys

PLACEHOLDER = re.compile(r"\{\{.*?\}\}(?!\})")


def examples(page):
    """The sentences of a page, and their command lines without placeholders."""
    sentences, lines = [], []
    for line in page.read_text(encoding="utf-8").splitlines():
        if line.startswith("- "):
            sentences.append(line[2:].strip().rstrip(":").strip())
        elif line.startswith("`") and line.endswith("`"):
            lines.append(PLACEHOLDER.sub("{{}}", line))
    return sentences, lines


def pairs(root, language):
    """Command, English sentence and its translation, page after page by name."""
    for translated in sorted((root / ("pages." + language)).glob("*/*.md")):
        original = root / "pages" / translated.parent.name / translated.name
        if not original.exists():
            continue
        sentences, lines = examples(original)
        translations, same = examples(translated)
        if lines != same or len(sentences) != len(translations):
            continue
        for text, target in zip(sentences, translations):
            if text and target and text != target:
                yield translated.stem, text, target


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    root, seen = pathlib.Path(sys.argv[1]), set()
    for user, text, target in pairs(root, sys.argv[2]):
        if (text, target) not in seen:  # some commands have pages for several systems
            seen.add((text, target))
            print(json.dumps({"user": user, "text": text, "target": target}, ensure_ascii=False))


if __name__ == "__main__":
    main()
