// Cells by their metrics: against each other, by their replicates, and by their axes.
import type { Json } from './api';
import { shortened } from './chart';
import { front, type Points, type Series } from './curves';
import { digits } from './format';
import { axisText, label } from './metrics';
import { moments, named, values, type Setting } from './settings';

/** better says whether more of a utility is better; of what audits find, less is. */
export const moreIsBetter = (name: string) => /recall|accuracy|auc/.test(name) && name.startsWith('utility');

const most = 12; // settings that are named beside their dots

/** scatter has settings by the means of two of their metrics, their seeds, and the Pareto front of the means. */
export function scatter(all: Setting[], x: string, y: string): Series[] {
  const found = all.flatMap((s) => {
    const [mx, my] = [moments(values(s, x)), moments(values(s, y))];
    return mx && my ? [{ setting: s, at: [mx.mean, my.mean] as [number, number], spread: [mx.spread ?? 0, my.spread ?? 0] as [number, number] }] : [];
  });
  const seeds = found.flatMap(({ setting }) => (setting.cells.length > 1 ? setting.seeds : [])).flatMap((m): Points => (m.has(x) && m.has(y) ? [[m.get(x)!, m.get(y)!]] : []));
  const about = (px: number, py: number) => found.filter(({ at }) => at[0] === px && at[1] === py).slice(0, 3).map(({ setting }) => named(setting.label, setting.cells.length)).join(', ');
  return [
    ...(seeds.length > 0 ? [{ label: 'seeds', kind: 'dots', faint: true, points: seeds } as Series] : []),
    { label: 'settings', kind: 'dots', points: found.map((f) => f.at), spreads: found.map((f) => f.spread), about, names: found.length > most ? [] : shortened(found.map((f) => f.setting.label), 24) },
    { label: 'Pareto front', kind: moreIsBetter(x) ? 'before' : 'after', points: front(found.map((f) => f.at), moreIsBetter(x), moreIsBetter(y)), about },
  ];
}

/** replicates are the values of a metric by setting of several seeds, at 0, 1, 2 and so on, and the settings' labels. */
export function replicates(all: Setting[], metric: string): { names: string[]; points: Points } {
  const repeated = all.filter((s) => s.cells[0]?.row && values(s, metric).length > 0);
  return { names: repeated.map((s) => s.label), points: repeated.flatMap((s, i) => values(s, metric).map((v): [number, number] => [i, v])) };
}

/** Parallel is every setting as a line over upright axes, each from 0 to 1. */
export interface Parallel { names: string[]; ends: string[]; series: Series[] }

/** parallel has the axes in which settings differ, and the means of metrics; the settings of the front stand out. */
export function parallel(all: Setting[], x: string, y: string): Parallel {
  const found = all.flatMap((setting) => {
    const [mx, my] = [moments(values(setting, x))?.mean, moments(values(setting, y))?.mean];
    return mx === undefined || my === undefined ? [] : [{ setting, at: [mx, my] as [number, number] }];
  });
  const axes = [...new Set(found.flatMap(({ setting }) => Object.keys(setting.axes)))].map((name) => scale(name, found.map(({ setting }) => setting.axes[name])));
  const columns = [...axes.filter((a) => a.distinct > 1), scale(label(x), found.map(({ at }) => at[0])), scale(label(y), found.map(({ at }) => at[1]))];
  const best = new Set(front(found.map(({ at }) => at), moreIsBetter(x), moreIsBetter(y)).map(String));
  const series = found.map(({ setting, at }, i): Series => ({
    label: named(setting.label, setting.cells.length), faint: !best.has(String(at)), points: columns.map((c, place) => [place, c.places[i]!]), about: (place) => columns[place]?.texts[i] ?? '',
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
