#!/usr/bin/env python3
"""Turns folders of mails into a source for Coalmine, as those of Enron are
(enron_mail_20150507.tar.gz, https://www.cs.cmu.edu/~enron/):

    python3 mails.py maildir/somebody-s > enron.jsonl

Writes one JSON line per line of a mail, {"user": "...", "text": "..."}; the user is the sender.
Only what the sender wrote is kept: no attachments, no quoted lines, nothing from "Original
Message" or "Forwarded by" on. A mail that lies in several folders counts once. Python alone is needed.
"""
import email
import email.policy
import email.utils
import json
import os
import re
import sys

EARLIER = re.compile(r"^[ >]*-{2,}.*(Original Message|Forwarded by)", re.IGNORECASE)


def written(mail):
    """The lines that the sender wrote."""
    body = mail.get_body(preferencelist=("plain",))
    for line in (body.get_content() if body else "").splitlines():
        if EARLIER.match(line):
            return
        line = " ".join(line.split())
        if line and not line.startswith(">"):
            yield line


def mails(folder):
    for directory, inside, names in os.walk(folder):
        inside.sort()
        for name in sorted(names):
            with open(os.path.join(directory, name), "rb") as file:
                yield email.message_from_binary_file(file, policy=email.policy.default)


def main(folders):
    if not folders:
        sys.exit(__doc__)
    seen = set()
    for folder in folders:
        for mail in mails(folder):
            sender = email.utils.parseaddr(str(mail["from"] or ""))[1]
            lines = tuple(written(mail))
            if not sender or (sender, lines) in seen:
                continue
            seen.add((sender, lines))
            for text in lines:
                print(json.dumps({"user": sender, "text": text}, ensure_ascii=False))


if __name__ == "__main__":
    main(sys.argv[1:])
