// Settings: a cell, or the cells that repeat it with other seeds.
import type { JsonObject, ResultCell } from './api';
import type { Points } from './curves';
import { metricsOf } from './metrics';

/** Moments are the mean of some seeds and, of two and more, the standard deviation of one, with n - 1 in the divisor. */
export interface Moments { mean: number; spread?: number }

export interface Setting { label: string; cells: ResultCell[]; axes: JsonObject; seeds: Map<string, number>[] }

/** settingOf names the setting of a cell, with the run where the cell's name has it. */
export const settingOf = (c: ResultCell) => (c.row ? c.cell.slice(0, c.cell.lastIndexOf('/') + 1) + c.row.name : c.cell);

/** grouped are items by a name of each, in the order in which they come. */
export function grouped<T>(items: T[], nameOf: (item: T) => string): T[][] {
  const found = new Map<string, T[]>();
  for (const item of items) found.set(nameOf(item), [...(found.get(nameOf(item)) ?? []), item]);
  return [...found.values()];
}

/** settings groups cells, in the order in which they come. */
export const settings = (all: ResultCell[]): Setting[] =>
  grouped(all, settingOf).map((cells) => ({ label: cells[0]!.row?.label ?? cells[0]!.cell, cells, axes: cells[0]!.axes, seeds: cells.map(metricsOf) }));

/** values are those of a metric by the seeds that have it. */
export const values = (s: Setting, metric: string) => s.seeds.flatMap((m) => m.get(metric) ?? []);

/** named is a setting's label, with the number of its seeds. */
export const named = (label: string, seeds: number) => (seeds > 1 ? `${label} (${seeds} seeds)` : label);

export function moments(values: number[]): Moments | undefined {
  const n = values.length;
  if (n === 0) return undefined;
  const mean = values.reduce((a, b) => a + b, 0) / n;
  return n === 1 ? { mean } : { mean, spread: Math.sqrt(values.reduce((sum, v) => sum + (v - mean) ** 2, 0) / (n - 1)) };
}

/** Band is a stretch upwards at each place. */
export type Band = [x: number, low: number, high: number][];

/** averaged is the mean of some lines at the places that all of them have, and one standard deviation about it. Lines
 * of equally many points are averaged point by point, since trainings by epochs differ in their steps. */
export function averaged(lines: Points[]): { points: Points; band: Band } {
  if (lines.every((l) => l.length === lines[0]!.length)) {
    const places = (lines[0] ?? []).map((_, i) => moments(lines.map((l) => l[i]![0]))!.mean);
    lines = lines.map((l) => l.map(([, y], i) => [places[i]!, y]));
  }
  const others = lines.slice(1).map((l) => new Map(l));
  const at = (lines[0] ?? []).flatMap(([x, y]) => {
    const all = [y, ...others.flatMap((o) => o.get(x) ?? [])];
    return all.length < lines.length ? [] : [{ x, ...moments(all)! }];
  });
  return { points: at.map(({ x, mean }) => [x, mean]), band: at.flatMap(({ x, mean, spread = 0 }) => [[x, mean - spread, mean + spread]]) };
}
