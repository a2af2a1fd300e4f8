"""Says how often each audit of privacy finds what is claimed of a training refuted: of trainings
that are broken on purpose its power, of right ones its rate of false alarms.

    coalmine run examples/controls-small.yaml --set grid.replicates=20
    coalmine results RUN --format json > results.json
    python3 docs/checks/power_of_audits.py results.json [cells.csv]

A row is of all seeds of a control and a claim. Each of the four columns on the right has the mean,
the largest value, and the number of seeds in which the audit contradicts the claim:

- Steinke et al.: the lower bound is above epsilon_proved;
- trade-off curve: the noise multiplier that is claimed is refuted;
- the two estimates by canary clients, which are no bounds: so much above epsilon_proved that their
  standard errors would give one of twenty, 1.645 of them.

It needs no library. Cells that are not done are left out. cells.csv, if named, gets a row of each cell.
"""
import csv
import json
import statistics
import sys

DEVIATIONS = 1.645


def value(x):
    return float("inf") if x in ("infinite", "inf", "Infinity") else float(x)


def judge(cell):
    """What each audit says of a cell: a value, and whether it contradicts the claim."""
    proved, audit = value(cell["privacy"]["epsilon_proved"]), cell["audit"]
    run, shot = audit["one_run"], audit["one_shot"]
    yield value(run["epsilon_lower"]), value(run["epsilon_lower"]) > proved
    yield value(run["trade_off"]["epsilon_lower"]), run["trade_off"]["p_value"] <= 1 - run["confidence"]
    for statistic in ("final", "all_iterates"):
        e = shot[statistic]
        yield e["epsilon"], e["epsilon"] - DEVIATIONS * e["standard_error"] > proved


def groups(cells):
    found = {}
    for cell in cells:
        if cell["state"] == "done":
            control = cell["privacy"].get("control") or "none"
            found.setdefault((control, cell["training"]["noise_multiplier"]), []).append(cell)
    return found


AUDITS = ("steinke", "trade_off", "estimate_final", "estimate_all_rounds")


def write(path, cells):
    with open(path, "w", newline="") as file:
        out = csv.writer(file, lineterminator="\n")
        out.writerow(["control", "noise_multiplier", "cell", "epsilon_proved", *AUDITS, *(name + "_contradicts" for name in AUDITS)])
        for (control, z), group in groups(cells).items():
            for cell in group:
                values, against = zip(*judge(cell))
                out.writerow([control, z, cell["cell"], cell["privacy"]["epsilon_proved"], *values, *(str(a).lower() for a in against)])


def main(path, rows=None):
    with open(path) as file:
        cells = json.load(file)["cells"]
    if rows:
        write(rows, cells)
    print("| control | z | `epsilon_proved` | Steinke et al. | trade-off curve | estimate, final | estimate, all rounds |")
    print("|---|---|---|---|---|---|---|")
    for (control, z), group in groups(cells).items():
        proved = statistics.mean(value(c["privacy"]["epsilon_proved"]) for c in group)
        texts = []
        for results in zip(*map(judge, group)):
            values = [v for v, _ in results]
            texts.append(f"{statistics.mean(values):.3g} (to {max(values):.3g}), {sum(against for _, against in results)}/{len(group)}")
        print(f"| {control} | {z:g} | {proved:.3g} | {' | '.join(texts)} |")


if __name__ == "__main__":
    main(*sys.argv[1:])
