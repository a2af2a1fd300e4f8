#!/usr/bin/env python3
"""Whether the kernels' machine code says what their assembly says.

The tests interpret the AVX-512 kernels where no processor runs them: they read
the assembly, and take on trust what Go's assembler makes of it. This program
lets LLVM decode the machine code, and compares every vector instruction with
the assembly: its name, operands, mask, and whether it zeroes. Exit 1 if any
differs.

Needs Go and LLVM (Debian: llvm-19; another version by --llvm). Nothing of
Coalmine needs this program. See README.md beside it.
"""

import argparse
import itertools
import re
import sys

import static

SOURCE = "internal/kernels/kernels_amd64.s"
PREDICATES = {"eq": 0x00, "lt_oq": 0x11, "nle_uq": 0x16}  # of VCMPPS, as LLVM names them


def assembly(path):
    """The instructions of every function, as Go writes them."""
    functions = {}
    for line in open(path, encoding="utf-8"):
        line = line.split("//")[0].strip()
        if begin := re.match(r"TEXT ·(\w+)\(SB\)", line):
            lines = functions[begin.group(1)] = []
        elif line and not re.match(r"#|DATA|GLOBL|PCALIGN|.*:$", line):
            lines.append(line)
    return functions


def split(line):
    """Name and operands; commas in brackets do not separate."""
    name, _, rest = re.sub(r"\s+", " ", line).partition(" ")
    return name, re.findall(r"(?:[^,(]|\([^)]*\))+", rest.replace(" ", ""))


def general(register):
    """A general register, whatever its width: ax, r8."""
    return re.sub(r"^(r\d+)[bdw]?$|^[re]?([a-d]x|[sd]i|[sb]p)$", r"\1\2", register.lower())


def memory(displacement, base, index, scale):
    return int(displacement or "0", 0), general(base), general(index or ""), int(scale or 1)


def from_go(line):
    name, operands = split(line)
    return name.removesuffix(".Z").lower(), name.endswith(".Z"), [go_operand(o) for o in operands]


def go_operand(operand):
    if address := re.fullmatch(r"(-?\w*)\((\w+)\)(?:\((\w+)\*(\d)\))?", operand):
        base = address.group(2)
        return "parameter" if base == "FP" else memory(*address.groups())
    if constant := re.fullmatch(r"(\w+)<>\+0\(SB\)", operand):
        return constant.group(1)
    if "(FP)" in operand:
        return "parameter"
    if operand.startswith("$"):
        return int(operand[1:], 0)
    if vector := re.fullmatch(r"([XYZK])(\d+)", operand):
        return {"X": "xmm", "Y": "ymm", "Z": "zmm", "K": "k"}[vector.group(1)] + vector.group(2)
    return general(operand)


def from_llvm(line):
    mask = re.search(r"\{%(k\d)\}", line)
    name, operands = split(re.sub(r"\s*\{[^}]*\}", "", line))
    operands = [llvm_operand(o) for o in operands]
    if mask:
        operands.insert(-1, mask.group(1))
    if comparison := re.fullmatch(r"vcmp(\w+)ps", name):
        name, operands = "vcmpps", [PREDICATES.get(comparison.group(1))] + operands
    return name, "{z}" in line, operands


def llvm_operand(operand):
    if constant := re.fullmatch(r"(\w+)\(%rip\)", operand):
        return constant.group(1)
    if "(%rsp)" in operand:
        return "parameter"
    if address := re.fullmatch(r"(-?\w*)\(%(\w+)(?:,%(\w+)(?:,(\d))?)?\)", operand):
        return memory(*address.groups())
    if operand.startswith("$"):
        return int(operand[1:], 0)
    return general(operand.removeprefix("%"))


def differences(source, decoded):
    """Pairs of vector instructions that differ. Others only have to be as many."""
    decoded = [line for line in decoded if not re.match(r"L\d+:|nop|data16|int3", line)]
    for go, llvm in itertools.zip_longest(source, decoded, fillvalue="nothing"):
        if "nothing" in (go, llvm) or go[0] in "VK" and from_go(go) != from_llvm(llvm):
            yield go, llvm


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--llvm", default="-19", help="ending of LLVM's program names (default: -19)")
    options = parser.parse_args()
    decoded, compared, wrong = static.kernels(options.llvm), 0, 0
    for function, lines in assembly(SOURCE).items():
        compared += sum(line[0] in "VK" for line in lines)
        for go, llvm in differences(lines, decoded[function]):
            wrong += 1
            print(f"{function}: the assembly says {go!r}, the machine code {llvm!r}")
    print(f"{compared} vector instructions compared, {wrong} differ")
    sys.exit(wrong > 0)


if __name__ == "__main__":
    main()
