import type { Curve, JsonObject } from './api';
import { numbers } from './metrics';

export type Points = [x: number, y: number][];
export interface Series { label: string; points: Points; kind?: 'line' | 'dots' | 'bars' | 'after' | 'before' }

const told = (rounds: JsonObject[], name: string): Points =>
  rounds.flatMap((r) => (typeof r[name] === 'number' && typeof r.round === 'number' ? [[r.round, r[name]] as [number, number]] : []));

const measured = (audited: JsonObject[], name: string): Points =>
  audited.flatMap((p) => {
    const value = numbers(p).find(([path]) => path === name)?.[1];
    return value === undefined || typeof p.round !== 'number' ? [] : [[p.round, value] as [number, number]];
  });

/** metricsOf are the names of what is known along some curves, those of rounds first. */
export function metricsOf(curves: Curve[]): string[] {
  const names = curves.flatMap((c) => [
    ...c.rounds.slice(-1).flatMap((r) => Object.keys(r)),
    ...c.rounds.slice(0, 1).flatMap((r) => Object.keys(r)),
    ...c.audited.flatMap((p) => numbers(p).map(([path]) => path)),
  ]);
  const plain = ['round', 'clients', 'stopped', 'epsilon_infinite'];
  return [...new Set(names)].filter((n) => !plain.includes(n));
}

/** pointsOf are a metric along a curve, by round or, with share, by the part of the training in percent. */
export function pointsOf(curve: Curve, name: string, share: boolean): Points {
  const found = told(curve.rounds, name);
  const points = found.length > 0 ? found : measured(curve.audited, name);
  return share ? points.map(([x, y]) => [(100 * x) / Math.max(1, curve.steps), y]) : points;
}

/** smooth is an exponential mean over about so many points; 1 and less leave them as they are. */
export function smooth(points: Points, over: number): Points {
  if (!(over > 1)) return points;
  const weight = 2 / (over + 1);
  let mean = points[0]?.[1] ?? 0;
  return points.map(([x, y]) => [x, (mean += weight * (y - mean))]);
}

/** histogram counts values in so many bins of equal width; a bin stands at its middle. */
export function histogram(values: number[], bins: number): Points {
  const [low, high] = [Math.min(...values), Math.max(...values)];
  if (!(high > low)) return values.length > 0 ? [[low, values.length]] : [];
  const width = (high - low) / bins;
  const counts = new Array<number>(bins).fill(0);
  for (const v of values) counts[Math.min(bins - 1, Math.floor((v - low) / width))]!++;
  return counts.map((n, i) => [low + (i + 0.5) * width, n]);
}

/**
 * front are the points that no other is better than in both: more is better in x where
 * moreX says so and in y where moreY does. They come in the order of x.
 */
export function front(points: Points, moreX: boolean, moreY: boolean): Points {
  const better = (a: number, b: number, more: boolean) => (more ? a >= b : a <= b);
  const beats = (a: [number, number], b: [number, number]) =>
    better(a[0], b[0], moreX) && better(a[1], b[1], moreY) && (a[0] !== b[0] || a[1] !== b[1]);
  return points.filter((p) => !points.some((other) => beats(other, p))).sort((a, b) => a[0] - b[0]);
}
