// Charts for download: as the server draws figures for papers, and as numbers.
import { quartiles, type Points, type Series } from './curves';
import type { Chart } from './chart';

const marked = 24; // places of a line at which its band is drawn

/** Sent is a series as POST /figures has it; a point has x, y, and the intervals of y and of x. */
interface Sent { name: string; kind: 'line' | 'dots' | 'bars' | 'intervals'; grey?: boolean; plain?: boolean; width?: number; points: number[][] }

/** figureOf is a chart as POST /figures has it. */
export function figureOf(title: string, chart: Chart) {
  const { names, lanes, marks = [] } = chart;
  const level = (up: boolean) => marks.find((m) => (m.up ?? false) === up)?.at;
  const series = [...chart.series.flatMap(sent), ...spans(chart)].map((s) => ({
    ...s, points: s.points.filter((p) => p.every(Number.isFinite) && (!chart.logY || p[1]! > 0)).map((p) => (names ? [p[0]! + 1, ...p.slice(1)] : p)),
  }));
  return {
    title, series,
    x: { title: chart.x, scale: chart.wide ? 'log-from-zero' : 'linear', level: level(false), labels: names },
    y: { title: chart.y, scale: chart.logY ? 'log' : 'linear', level: level(true), labels: lanes },
  };
}

function sent(s: Series): Sent[] {
  const name = s.faint && s.kind !== 'dots' ? '' : s.label;
  const grey = s.faint ?? false;
  switch (s.kind) {
    case 'boxes': return boxes(s.points);
    case 'bars': return [{ name, kind: 'bars', width: s.points.length > 1 ? s.points[1]![0] - s.points[0]![0] : 1, points: s.points }];
    case 'dots': return [{ name, kind: 'dots', grey, points: s.points.map(([x, y], i) => { const [dx, dy] = s.spreads?.[i] ?? [0, 0]; return [x, y, y - dy, y + dy, x - dx, x + dx]; }) }];
    case 'after': case 'before': return [{ name, kind: 'line', grey, plain: true, points: stairs(s.points, s.kind) }];
    default: {
      const every = Math.ceil(s.points.length / marked);
      return [{ name, kind: 'line', grey, points: s.points.map(([x, y], i) => (s.band?.[i] && i % every === 0 ? [x, y, s.band[i][1], s.band[i][2]] : [x, y])) }];
    }
  }
}

/** stairs has the corners of a step line, level after each of its points or before it. */
const stairs = (points: Points, kind: 'after' | 'before'): Points =>
  points.flatMap(([x, y], i) => {
    const [px, py] = points[i - 1] ?? [x, y];
    return i === 0 ? [[x, y]] : [kind === 'after' ? [x, py] : [px, y], [x, y]];
  });

/** boxes are the medians and quartiles at each place, and the points. */
function boxes(points: Points): Sent[] {
  const places = [...new Set(points.map((p) => p[0]))];
  const middle = places.map((at) => {
    const [, first, median, third] = quartiles(points.filter((p) => p[0] === at).map((p) => p[1])) as [number, number, number, number, number];
    return [at, median, first, third];
  });
  return [{ name: 'median and quartiles', kind: 'dots', points: middle }, { name: 'seeds', kind: 'dots', grey: true, points }];
}

/** spans are one series for those that failed, and one for the others. */
function spans({ spans = [] }: Chart): Sent[] {
  return [false, true].flatMap((failed): Sent[] => {
    const own = spans.filter((s) => (s.failed ?? false) === failed);
    return own.length === 0 ? [] : [{ name: failed ? 'failed' : 'attempts', kind: failed ? 'dots' : 'intervals', points: own.map((s) => [(s.from + s.to) / 2, s.lane + 1, 0, 0, s.from, s.to]) }];
  });
}

/** csv has a row for each point, with its spreads or its band where there are some, or for each span. */
export function csv({ series, x, y, names, lanes, spans }: Chart): string {
  const cell = (v: string | number | undefined) => (typeof v === 'string' && /[",\n]/.test(v) ? `"${v.replace(/"/g, '""')}"` : String(v ?? ''));
  const text = (rows: (string | number | undefined)[][]) => rows.map((r) => r.map(cell).join(',') + '\n').join('');
  if (spans) return text([['lane', 'from', 'to', 'failed'], ...spans.map((s) => [lanes?.[s.lane], s.from, s.to, String(s.failed ?? false)])]);
  const rows = series.flatMap((s) => s.points.map(([px, py], i) => [s.label, names?.[px] ?? px, py, s.spreads?.[i]?.[0], s.spreads?.[i]?.[1] ?? (s.band?.[i] ? s.band[i][2] - py : undefined)]));
  return text([['series', x, y, `standard deviation of ${x}`, `standard deviation of ${y}`], ...rows]);
}
