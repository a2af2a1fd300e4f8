import type { Curve, JsonObject } from './api';
import { numbers } from './metrics';

export type Points = [x: number, y: number][];

/** Series is drawn as a line unless its kind says otherwise. */
export interface Series {
  label: string; points: Points; kind?: 'dots' | 'bars' | 'boxes' | 'after' | 'before';
  /** faint lines and dots stand behind the others. */
  faint?: boolean;
  /** spreads are those of dots, to both sides; a band stands behind a line. */
  spreads?: [x: number, y: number][]; band?: [x: number, low: number, high: number][];
  /** names stand at dots, in their order. */
  names?: string[];
  /** about describes a place. */
  about?: (x: number, y: number) => string;
}

/** told are the numbers at a path of the rounds' rows or of measurements. */
const told = (rows: JsonObject[], name: string): Points =>
  rows.flatMap((r) => {
    const value = numbers(r).find(([path]) => path === name)?.[1];
    return value === undefined || typeof r.round !== 'number' ? [] : [[r.round, value] as [number, number]];
  });

/** metricsOf are the names of the metrics of some curves, those of rounds first. */
export function metricsOf(curves: Curve[]): string[] {
  const names = curves.flatMap((c) => [
    ...[...c.rounds.slice(-1), ...c.rounds.slice(0, 1), ...c.audited].flatMap((p) => numbers(p).map(([path]) => path)),
  ]);
  const plain = ['round', 'clients', 'stopped', 'epsilon_infinite'];
  return [...new Set(names)].filter((n) => !plain.includes(n));
}

/** places are the possible x axes of a metric. */
export const places = { rounds: 'rounds', share: '% of the training', examples: 'examples', tokens: 'tokens', time: 'minutes since the training began' };
export type By = keyof typeof places;

/** pointsOf are the points of a metric along a curve, without those before the first known place. */
export function pointsOf(curve: Curve, name: string, by: By = 'rounds'): Points {
  const found = told(curve.rounds, name);
  const points = found.length > 0 ? found : told(curve.audited, name);
  const place = placer(curve, by);
  return points.flatMap(([round, y]) => {
    const x = place(round);
    return x === undefined ? [] : [[x, y] as [number, number]];
  });
}

function placer(curve: Curve, by: By): (round: number) => number | undefined {
  switch (by) {
    case 'rounds': return (round) => round;
    case 'share': return (round) => (100 * round) / Math.max(1, curve.steps);
    case 'time': {
      const start = Date.parse(curve.clock[0]?.time ?? '');
      return between(curve.clock.map((t) => [t.round, (Date.parse(t.time) - start) / 60_000]));
    }
    default: return between(sums(curve.rounds, by));
  }
}

/** sums are cumulative sums over rounds. Omitted rounds count as the next one. */
function sums(rounds: JsonObject[], name: string): Points {
  const each = Number(rounds[0]?.round ?? 1);
  let [before, sum] = [0, 0];
  return [[0, 0], ...told(rounds, name).map(([round, n]): [number, number] => {
    sum += n * Math.max(1, (round - before) / each);
    before = round;
    return [round, sum];
  })];
}

/** between reads off a line through points, which ascend; undefined outside of them. */
function between(points: Points): (x: number) => number | undefined {
  return (x) => {
    let [i, above] = [0, points.length];
    while (i < above) {
      const middle = (i + above) >> 1;
      if (points[middle]![0] < x) i = middle + 1;
      else above = middle;
    }
    const [end, start] = [points[i], points[i - 1]];
    if (!end || (i === 0 && end[0] !== x)) return undefined;
    return start ? start[1] + ((end[1] - start[1]) * (x - start[0])) / (end[0] - start[0]) : end[1];
  };
}

/** smooth is an exponential mean over about over points; 1 and less change nothing. */
export function smooth(points: Points, over: number): Points {
  if (!(over > 1)) return points;
  const weight = 2 / (over + 1);
  let mean = points[0]?.[1] ?? 0;
  return points.map(([x, y]) => [x, (mean += weight * (y - mean))]);
}

/** histogram counts values in bins of equal width; a bin stands at its middle. */
export function histogram(values: number[], bins: number): Points {
  const [low, high] = [Math.min(...values), Math.max(...values)];
  if (!(high > low)) return values.length > 0 ? [[low, values.length]] : [];
  const width = (high - low) / bins;
  const counts = new Array<number>(bins).fill(0);
  for (const v of values) counts[Math.min(bins - 1, Math.floor((v - low) / width))]!++;
  return counts.map((n, i) => [low + (i + 0.5) * width, n]);
}

/** bins are those of a histogram that the server has counted, each at its middle. */
export const bins = (h: { from: number; width: number; counts: number[] }): Points => h.counts.map((n, i) => [h.from + (i + 0.5) * h.width, n]);

/** quartiles are the least, the quartiles and the greatest of some values, between two by their shares. */
export function quartiles(values: number[]): number[] {
  const sorted = [...values].sort((a, b) => a - b);
  return [0, 0.25, 0.5, 0.75, 1].map((share) => {
    const place = share * (sorted.length - 1);
    const [low, high] = [sorted[Math.floor(place)] ?? NaN, sorted[Math.ceil(place)] ?? NaN];
    return low + (high - low) * (place - Math.floor(place));
  });
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
