// Cells by what came out of them: against each other, by their replicates, and by their axes.
import type { Json, ResultCell } from './api';
import { front, type Points, type Series } from './curves';
import { digits } from './format';
import { axisText, label, metricsOf } from './metrics';

/** better says whether more of a utility is better; of what audits find, less is. */
export const moreIsBetter = (name: string) => /recall|accuracy|auc/.test(name) && name.startsWith('utility');

/** scatter are cells by two of their metrics, and the front of those that no other is better than in both. */
export function scatter(cells: ResultCell[], x: string, y: string): Series[] {
  const of = new Map<string, string[]>();
  const points = cells.flatMap((c): Points => {
    const found = metricsOf(c);
    const [px, py] = [found.get(x), found.get(y)];
    if (px === undefined || py === undefined) return [];
    of.set(`${px} ${py}`, [...(of.get(`${px} ${py}`) ?? []), c.cell]);
    return [[px, py]];
  });
  const about = (px: number, py: number) => (of.get(`${px} ${py}`) ?? []).slice(0, 3).join(', ');
  return [
    { label: 'cells', kind: 'dots', points, about },
    { label: 'none is better in both', kind: moreIsBetter(x) ? 'before' : 'after', points: front(points, moreIsBetter(x), moreIsBetter(y)), about },
  ];
}

/** replicates are the values of a metric by row of replicates, at 0, 1, 2 and so on, and the rows' labels. */
export function replicates(cells: ResultCell[], metric: string): { names: string[]; points: Points } {
  const names: string[] = [];
  const points: Points = [];
  for (const c of cells) {
    const value = metricsOf(c).get(metric);
    if (!c.row || value === undefined) continue;
    if (!names.includes(c.row.label)) names.push(c.row.label);
    points.push([names.indexOf(c.row.label), value]);
  }
  return { names, points };
}

/** Parallel is every cell as a line over upright axes, each from 0 to 1. */
export interface Parallel { names: string[]; ends: string[]; series: Series[] }

/** parallel has the axes in which cells differ, and metrics; the cells of the front stand out. */
export function parallel(cells: ResultCell[], x: string, y: string): Parallel {
  const values = cells.map((c) => ({ cell: c, metrics: metricsOf(c) })).filter(({ metrics }) => metrics.has(x) && metrics.has(y));
  const axes = [...new Set(values.flatMap(({ cell }) => Object.keys(cell.axes)))].map((name) => scale(name, values.map(({ cell }) => cell.axes[name])));
  const columns = [...axes.filter((a) => a.distinct > 1), ...[x, y].map((m) => scale(label(m), values.map(({ metrics }) => metrics.get(m))))];
  const best = new Set(front(values.map(({ metrics }) => [metrics.get(x)!, metrics.get(y)!]), moreIsBetter(x), moreIsBetter(y)).map(String));
  const series = values.map(({ cell, metrics }, i): Series => ({
    label: cell.cell, faint: !best.has(String([metrics.get(x), metrics.get(y)])), points: columns.map((c, at) => [at, c.places[i]!]), about: (at) => columns[at]?.texts[i] ?? '',
  }));
  return { names: columns.map((c) => c.name), ends: columns.map((c) => `${c.name}: ${c.ends}`), series: [...series.filter((s) => s.faint), ...series.filter((s) => !s.faint)] };
}

/** scale places values between 0 and 1: numbers by their size, all else in the order in which it comes. */
function scale(name: string, values: (Json | undefined)[]) {
  const texts = values.map((v) => (typeof v === 'number' ? digits(v) : axisText(v)));
  const distinct = [...new Set(texts)];
  const numbers = values.filter((v): v is number => typeof v === 'number');
  if (numbers.length < values.length) {
    const places = texts.map((t) => distinct.indexOf(t) / Math.max(1, distinct.length - 1));
    return { name, texts, places, distinct: distinct.length, ends: distinct.join(', ') };
  }
  const [low, high] = [Math.min(...numbers), Math.max(...numbers)];
  const places = numbers.map((n) => (high > low ? (n - low) / (high - low) : 0.5));
  return { name, texts, places, distinct: distinct.length, ends: `${digits(low)} to ${digits(high)}` };
}
