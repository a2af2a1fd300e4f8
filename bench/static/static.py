#!/usr/bin/env python3
"""What llvm-mca makes of the kernels' inner loops, on processors not at hand.

It compiles internal/kernels, cuts the innermost loops out of the machine code,
and simulates each for a processor. Its table gives, for one pass of a loop:

  elements    that the pass works on: of a vector; for a tile, values of k
  instr       instructions; a compare or decrement and its jump count as one
  FLOP        additions, multiplications, divisions; a multiply-add is two
  cycles      that llvm-mca predicts, with all data in the first-level cache
  measured    (--measure) cycles on this machine, in units of its own peak loop
  % peak      FLOP per cycle, of what the set's peak loop does on the same model
  load store  bytes per cycle between the registers and the first-level cache
  busiest     units of the processor, and the share of the cycles they work
  waits       share of the cycles in which an operand held something up

Needs Go and LLVM (Debian: llvm-19; another version by --llvm: old ones know less
of the processors). Nothing of Coalmine needs this program. See README.md beside it.
"""

import argparse
import re
import subprocess
import sys
import tempfile

PACKAGE = "coalmine/internal/kernels"
HOT = (
    "peak|tile8x[123]AVX512|tile[56]x2AVX2|tile6x1AVX2|expColumns4|dotRows4|cifgGates|mulTanh|cifgBackward|"
    "sumExp|expSum|exp|sigmoid|tanh|axpy|scale|add|dot|transpose8"
)
PASSES = 200


def run(*command):
    try:
        done = subprocess.run(command, capture_output=True, text=True)
    except FileNotFoundError:
        sys.exit(f"static.py: no program {command[0]}: install Go and LLVM, or name LLVM's version by --llvm")
    if done.returncode != 0:
        sys.exit(f"static.py: {' '.join(command[:3])} ...:\n{done.stderr.strip()}")
    return done.stdout


def kernels(llvm):
    """The lines of every kernel, compiled and disassembled."""
    with tempfile.TemporaryDirectory() as folder:
        binary = folder + "/kernels.test"
        run("go", "test", "-c", "-o", binary, "./internal/kernels")
        return disassemble("llvm-objdump" + llvm, binary)


def disassemble(objdump, binary):
    """The lines of every kernel, its jump targets as labels."""
    symbols = sorted(set(re.findall(rf"{PACKAGE}\.\w+AVX\d+\.abi0", run("go", "tool", "nm", binary))))
    text = run(
        objdump, "-d", "--no-show-raw-insn", "--no-leading-addr", "--symbolize-operands",
        "--disassemble-symbols=" + ",".join(symbols), binary,
    )
    found = {}
    for line in text.splitlines():
        line = re.sub(r"\s*#.*", "", line)
        if begin := re.match(rf"<{re.escape(PACKAGE)}\.(\w+)\.abi0>:", line):
            lines = found[begin.group(1)] = []
        elif line.strip() and "Disassembly" not in line and "file format" not in line:
            lines.append(operands(line.strip()))
    return found


def operands(line):
    """Undoes what objdump makes of labels and constants: an empty operand, the name at the end."""
    line = re.sub(r"<(L\d+)>", r"\1", line)
    if constant := re.match(r"(.*\s)(,.*) <(\w+)>$", line):
        return f"{constant.group(1)}{constant.group(3)}(%rip){constant.group(2)}"
    return line


def innermost(lines):
    """The loops without a loop inside, label and jump included."""
    at, loops = {}, []
    for end, line in enumerate(lines):
        if label := re.fullmatch(r"(L\d+):", line):
            at[label.group(1)] = end
        elif (jump := re.match(r"j\w+\s+(L\d+)", line)) and jump.group(1) in at:
            begin = at[jump.group(1)]
            if not any(inner >= begin for inner, _ in loops):
                loops.append((begin, end))
    return [lines[begin : end + 1] for begin, end in loops]


class Loop:
    """One pass of an innermost loop, as its instructions tell."""

    def __init__(self, name, lines):
        self.name, self.lines = name, lines
        self.instructions = [line for line in lines if not re.fullmatch(r"L\d+:", line)]
        self.fused = len(self.instructions) - 1
        self.elements = next((int(m.group(1), 0) for line in lines if (m := re.match(r"subq\s+\$(\w+)", line))), 1)
        self.flop = sum(map(flop, self.instructions))
        self.loaded = sum(traffic(i)[0] for i in self.instructions)
        self.stored = sum(traffic(i)[1] for i in self.instructions)


def width(instruction):
    """Bytes of the widest register."""
    return max([{"x": 16, "y": 32, "z": 64}[kind] for kind in re.findall(r"%([xyz])mm", instruction)], default=0)


def flop(instruction):
    operation = re.match(r"v(fn?madd\d+|add|sub|mul|div)p([sd])", instruction)
    if not operation:
        return 0
    lanes = width(instruction) // (4 if operation.group(2) == "s" else 8)
    return lanes * (2 if operation.group(1).startswith("f") else 1)


def traffic(instruction):
    """Bytes loaded and stored, constants and prefetches left out."""
    if not re.match(r"v.*\(%r", instruction) or "(%rip)" in instruction:
        return 0, 0
    if instruction.endswith(")"):
        return 0, width(instruction)
    return (4 if "broadcast" in instruction else width(instruction)), 0


def plain_load(line):
    """A broadcast from memory as any other load, which it is (README.md): LLVM's models add a shuffle."""
    return re.sub(r"^vbroadcastss(\s+[^%]*\()", r"vmovups\1", line)


def simulate(mca, cpu, loops):
    """Fills in what llvm-mca says of the loops; leaves out those that the processor lacks."""
    for loop in loops:
        done = subprocess.run(
            [mca, f"-mcpu={cpu}", f"-iterations={PASSES}", "-bottleneck-analysis"],
            input="\n".join(map(plain_load, loop.lines)), capture_output=True, text=True,
        )
        loop.cycles = None
        if done.returncode != 0:
            refusal = done.stderr
            continue
        report = done.stdout
        loop.cycles = int(re.search(r"Total Cycles:\s+(\d+)", report).group(1)) / PASSES
        loop.busiest = busiest(report, loop.cycles)
        waits = re.search(r"Data Dependencies:\s+\[ ([\d.]+)% \]", report)
        loop.waits = float(waits.group(1)) if waits else 0.0
    able = [loop for loop in loops if loop.cycles]
    if not able:
        sys.exit(f"{mca} simulates nothing on {cpu!r}:\n{refusal}")
    return able


def busiest(report, cycles):
    """The units within a tenth of the busiest, and the share of its cycles."""
    names = dict(re.findall(r"^\[([\d.]+)\]\s+- (\w+)", report, re.M))
    head, values = re.search(r"Resource pressure per iteration:\n(.*)\n(.*)\n", report).groups()
    pressure = [0.0 if v == "-" else float(v) for v in values.split()]
    units = list(zip(re.findall(r"\[([\d.]+)\]", head), pressure))
    most = max(pressure)
    top = [re.sub(r"^(SKX|ICX|SPR|Zn\d)(Port)?", "", names[n]) for n, p in units if p >= 0.9 * most]
    return f"{'+'.join(dict.fromkeys(top))} {100 * most / cycles:.0f}%"


def measure():
    """Multiply-adds at the peak that an element takes on this machine, by kernel."""
    text = run("go", "test", "-run", "^$", "-bench", "Loops", "-benchtime", "0.2s", "./internal/kernels")
    return {name: float(value) for name, value in re.findall(r"BenchmarkLoops/(\w+)\S*\s.*?([\d.]+) fma/element", text)}


def print_table(loops, measured):
    peaks = {set_of(loop): loop for loop in loops if loop.name.startswith("peak")}
    heads = ["elements", "instr", "FLOP", "cycles", "measured", "% peak", "load", "store"]
    print(f"{'loop':22}" + "".join(f"{head:>9}" for head in heads) + "  busiest, waits")
    for loop in loops:
        peak = peaks[set_of(loop)]
        share = 100 * loop.flop / loop.cycles / (peak.flop / peak.cycles)
        cells = [loop.elements, loop.fused, loop.flop, f"{loop.cycles:.1f}", "-", f"{share:.0f}",
                 f"{loop.loaded / loop.cycles:.1f}", f"{loop.stored / loop.cycles:.1f}"]
        if loop.name in measured:
            multiply_add = 2 * (16 if set_of(loop) == "AVX512" else 8) / (peak.flop / peak.cycles)
            cells[4] = f"{measured[loop.name] * loop.elements * multiply_add:.1f}"
        print(f"{loop.name:22}" + "".join(f"{cell:>9}" for cell in cells) + f"  {loop.busiest}, {loop.waits:.0f}%")


def set_of(loop):
    return "AVX512" if "AVX512" in loop.name else "AVX2"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cpu", action="append", help="as llvm-mca names it (default: skylake-avx512, then znver4)")
    parser.add_argument("--kernels", default=HOT, help="regular expression of kernels, with or without the set's name")
    parser.add_argument("--llvm", default="-19", help="ending of LLVM's program names (default: -19)")
    parser.add_argument("--measure", action="store_true", help="run the loops here too, beside the first --cpu")
    options = parser.parse_args()

    wanted = re.compile(rf"({options.kernels})(AVX2|AVX512)?")
    loops = [
        Loop(name, lines)
        for name, body in kernels(options.llvm).items()
        if wanted.fullmatch(name) or name.startswith("peak")
        for lines in innermost(body)
    ]
    measured = measure() if options.measure else {}
    for cpu in options.cpu or ["skylake-avx512", "znver4"]:
        print(f"\n{cpu}")
        print_table(simulate("llvm-mca" + options.llvm, cpu, loops), measured)
        measured = {}


if __name__ == "__main__":
    main()
