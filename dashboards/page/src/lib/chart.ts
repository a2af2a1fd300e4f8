// Options of uPlot, and drawings that it lacks: dots that share a place, boxes,
// marks, and axes of names.
import type uPlot from 'uplot';
import { quartiles, type Points, type Series } from './curves';
import { digits } from './format';

/** Mark is a line across at a place of the x axis, or with up of the y axis. */
export interface Mark { at: number; label: string; up?: boolean }

/** Span is a stretch of the x axis in a lane, counted from 0; one that failed is crossed out, one at work is pale. */
export interface Span { lane: number; from: number; to: number; failed?: boolean; running?: boolean }

export interface Chart {
  series: Series[]; x: string; y: string;
  /** wide spreads x so that 0, 1 and 1000 can all be seen, of what is never negative; a logarithmic y has room for what is positive. */
  wide?: boolean; logY?: boolean;
  sync?: string; marks?: Mark[];
  /** names stand at 0, 1, 2 and so on of the x axis, in place of numbers. */
  names?: string[];
  /** lanes stand one above the other in place of the y axis, and have spans. */
  lanes?: string[]; spans?: Span[];
  /** range of the x axis that is shown, and who is told of another that is dragged. */
  range?: [number, number]; onrange?: (from: number, to: number) => void;
  /** onspan is called with a clicked span. */
  onspan?: (span: Span) => void;
}

const light = ['#8a5a00', '#1f5fa8', '#1a6b36', '#a3211b', '#6b3fa0', '#00706b', '#9c3d74', '#4a4e57'];
const bright = ['#f2b632', '#7fb4ff', '#7fd79a', '#ff9a8f', '#c9a6ff', '#5fd4cc', '#f59ac8', '#c0c3c9'];
const most = 8; // series that have a colour, and a name in the legend
const height = 280;

/** heightOf is that of the drawing in pixels. */
export const heightOf = (chart: Chart) => (chart.lanes ? 70 + 28 * chart.lanes.length : chart.names ? 380 : height);

/** options are uPlot's for a chart in a box, in its colours. */
export function options(plot: typeof uPlot, chart: Chart, box: HTMLElement, dark: boolean): uPlot.Options {
  const style = getComputedStyle(box);
  const [stroke, grid] = [style.getPropertyValue('--faint'), style.getPropertyValue('--line')] as const;
  const colours = dark ? bright : light;
  const coloured = chart.series.filter((s) => !s.faint).slice(0, most);
  const colour = (s: Series) => (coloured.includes(s) ? colours[coloured.indexOf(s)]! : stroke + '77');
  const labelled = chart.names ? [] : coloured.filter((s) => s.kind === undefined && coloured.length > 1);
  const labels = labelled.length > 0 ? shortened(labelled.map((s) => s.label), box.clientWidth / 5 / letter) : [];
  const axis = { stroke, grid: { stroke: grid, width: 1 }, ticks: { stroke: grid, width: 1 }, font: '12px system-ui', labelFont: '12px system-ui' };
  const paths = { line: undefined, dots: () => null, boxes: () => null, bars: plot.paths.bars!({ size: [0.95] }), after: plot.paths.stepped!({ align: 1 }), before: plot.paths.stepped!({ align: -1 }) };
  const { names, lanes, marks = [], series } = chart;
  const whole = series.length > 0 && series.every((s) => s.points.every(([x]) => Number.isInteger(x)));
  const byHand = series.map((s) => (u: uPlot) => (s.kind === 'dots' ? dots(u, s, colour(s)) : s.kind === 'boxes' ? boxes(u, s.points, colour(s)) : undefined));
  const bands = series.map((s) => (u: uPlot) => s.band && band(u, s.band, colour(s)));
  return {
    width: box.clientWidth, height: heightOf(chart), legend: { show: series.length > 0 && series.length <= most },
    ...(labels.length > 0 && { padding: [null, 8 + letter * Math.max(...labels.map((l) => l.length)), null, null] }),
    select: { show: true, left: 0, top: 0, width: 0, height: 0 },
    cursor: { sync: chart.sync ? { key: chart.sync } : undefined, drag: { x: !names, y: false } },
    scales: { x: { time: false, distr: chart.wide ? 4 : 1, ...rangeX(chart) }, y: { distr: chart.logY ? 3 : 1, ...rangeY(chart) } },
    axes: [
      { ...axis, label: chart.x, labelSize: 20, size: 36, ...(whole && { incrs }), ...(chart.wide && decades), ...(names && { splits: () => names.map((_, i) => i), ...standing(names), grid: { show: true, stroke: grid, width: 1 } }) },
      { ...axis, label: chart.y, labelSize: 20, size: 64, ...(lanes && { labelSize: 0, size: 116, splits: () => lanes.map((_, i) => i), values: () => lanes.map((l) => (l.length > 14 ? '…' + l.slice(-12) : l)) }) },
    ],
    series: [{ label: chart.x, value: (_: uPlot, v: number | null) => (v === null ? '–' : names ? (names[v] ?? '') : digits(v)) }, ...series.map((s): uPlot.Series => ({
      label: s.label, stroke: colour(s), width: s.faint ? 1 : 1.5, spanGaps: true, paths: paths[s.kind ?? 'line'],
      fill: s.kind === 'bars' ? colour(s) + '55' : undefined, points: { show: s.kind === undefined && s.points.length < 12 && !s.faint, size: 6, fill: colour(s) },
      value: (u, v, _, at) => (v === null || v === undefined ? '–' : `${digits(v)} ${s.about?.(u.data[0][at ?? 0] ?? NaN, v) ?? ''}`),
    }))],
    hooks: {
      setSelect: chart.onrange ? [(u) => u.select.width > 2 && chart.onrange?.(u.posToVal(u.select.left, 'x'), u.posToVal(u.select.left + u.select.width, 'x'))] : [],
      init: chart.onspan ? [(u) => u.over.addEventListener('click', (e) => pick(u, chart, e))] : [],
      drawAxes: bands,
      draw: [...byHand, ...(chart.spans ? [(u: uPlot) => spans(u, chart.spans ?? [], colours)] : []), ...marks.map((m) => (u: uPlot) => line(u, m, stroke)), (u) => named(u, labelled, labels, colour)],
    },
  };
}

/** incrs are the tick steps of an axis of integers, such as rounds. */
const incrs = Array.from({ length: 15 }, (_, power) => [1, 2, 5].map((n) => n * 10 ** power)).flat();

/** decades are 0, 1, 10 and so on along a wide axis. */
const decades: Partial<uPlot.Axis> = {
  splits: (_, __, low, high) => [0, ...Array.from({ length: Math.floor(Math.log10(Math.max(1, high))) + 1 }, (_, i) => 10 ** i)].filter((at) => at >= low),
  filter: (_, splits) => splits, values: (_, splits) => splits.map(digits),
};

/** standing has names below an axis, and the room that they take there. */
const standing = (names: string[]): Partial<uPlot.Axis> => ({
  values: (u) => fitting(names, u.width).texts, size: (u) => fitting(names, u.width).height, rotate: (u) => (fitting(names, u.width).upright ? 90 : 0),
});

const letter = 7; // pixels that one is wide, at most
const longest = 26; // letters of a name that stands upright

/** fitting are the differing parts of names, a word per line, or upright if a word does not fit. */
function fitting(names: string[], width: number): { texts: string[]; height: number; upright: boolean } {
  const own = differing(names);
  const lines = own.map((n) => wrapped(n, (width - 70) / names.length / letter - 1));
  const height = 20 + 16 * Math.max(...lines.map((l) => l.length));
  if (lines.every((l) => l.length > 0 && l.length <= 4)) return { texts: lines.map((l) => l.join('\n')), height, upright: false };
  const texts = shortened(own, longest);
  return { texts, height: 14 + letter * Math.max(...texts.map((t) => t.length)), upright: true };
}

/** shortened are the differing parts of names, of a limited number of letters. */
export const shortened = (names: string[], letters: number) => differing(names).map((n) => (n.length > letters ? n.slice(0, Math.max(3, letters - 1)) + '…' : n));

/** differing removes the common parts of names such as "iid, SGD, b=10". */
function differing(names: string[]): string[] {
  const parts = names.map((n) => n.split(', '));
  const own = parts[0]?.map((_, i) => i).filter((i) => new Set(parts.map((p) => p[i])).size > 1) ?? [];
  return own.length > 0 && parts.every((p) => p.length === parts[0]!.length) ? parts.map((p) => own.map((i) => p[i]).join(', ')) : names;
}

/** wrapped are the lines of a text in a width; none if a word does not fit. */
function wrapped(text: string, room: number): string[] {
  const lines: string[] = [];
  for (const word of text.split(' ')) {
    if (word.length > room) return [];
    const longer = `${lines.at(-1)} ${word}`;
    if (lines.length > 0 && longer.length <= room) lines[lines.length - 1] = longer;
    else lines.push(word);
  }
  return lines;
}

/** rangeX has room for marks, for names, and for dots beside the outermost. */
function rangeX({ names, marks = [], series, wide, spans, range }: Chart): Pick<uPlot.Scale, 'range'> {
  if (names) return { range: [-0.5, names.length - 0.5] };
  if (range && !wide) return { range };
  if (spans) return { range: widened(0, Math.max(...spans.map((s) => s.to)), false) };
  if (wide) return { range: (_, low, high) => [Math.max(0, low), 1.3 * high || 1] };
  const own = marks.filter((m) => !m.up).map((m) => m.at);
  const bars = series.find((s) => s.kind === 'bars')?.points ?? [];
  if (bars.length > 1) {
    const half = (bars[1]![0] - bars[0]![0]) / 2;
    return { range: [least(own, bars[0]![0] - half), greatest(own, bars.at(-1)![0] + half)] };
  }
  own.push(...series.flatMap((s) => (s.spreads ?? []).flatMap(([dx], i) => [s.points[i]![0] - dx, s.points[i]![0] + dx])));
  if (own.length === 0 && !series.some((s) => s.kind === 'dots')) return {};
  return { range: (_, low, high) => widened(least(own, low), greatest(own, high), true) };
}

/** rangeY has room for marks and for all that is drawn by hand. */
function rangeY({ series, marks = [], logY, lanes }: Chart): Pick<uPlot.Scale, 'range' | 'dir'> {
  if (lanes) return { range: [-0.7, lanes.length - 0.3], dir: -1 };
  const hand = [
    ...series.filter((s) => s.kind === 'dots' || s.kind === 'boxes').flatMap((s) => s.points.flatMap(([, y], i) => [y - (s.spreads?.[i]?.[1] ?? 0), y + (s.spreads?.[i]?.[1] ?? 0)])),
    ...series.flatMap((s) => (s.band ?? []).flatMap(([, low, high]) => [low, high])),
  ];
  const own = [...hand, ...marks.filter((m) => m.up).map((m) => m.at)];
  return own.length === 0 || logY ? {} : { range: (_, low, high) => widened(least(own, low), greatest(own, high), false) };
}
const least = (all: number[], first: number | null) => all.reduce((a, b) => Math.min(a, b), first ?? Infinity);
const greatest = (all: number[], first: number | null) => all.reduce((a, b) => Math.max(a, b), first ?? -Infinity);

function widened(low: number, high: number, both: boolean): [number, number] {
  const spare = (high - low || Math.abs(high) || 1) / 20;
  return [both || low !== 0 ? low - spare : 0, high + spare];
}

/** aligned has the points of every series at all places of any. */
export function aligned(plot: typeof uPlot, { series, logY }: Chart): uPlot.AlignedData {
  if (series.length === 0) return [[]];
  const tables = series.map((s): uPlot.AlignedData => {
    const points = s.points.filter(([, y]) => !logY || y > 0).sort((a, b) => a[0] - b[0]);
    return [points.map((p) => p[0]), points.map((p) => p[1])];
  });
  return plot.join(tables);
}

function drawing(u: uPlot, stroke: string, draw: (pixel: number) => void) {
  const pixel = devicePixelRatio || 1;
  u.ctx.save();
  u.ctx.beginPath();
  const edge = 6 * pixel; // what stands on an axis is whole
  u.ctx.rect(u.bbox.left - edge, u.bbox.top - edge, u.bbox.width + 2 * edge, u.bbox.height + 2 * edge);
  u.ctx.clip();
  u.ctx.strokeStyle = u.ctx.fillStyle = stroke;
  u.ctx.lineWidth = 1.5 * pixel;
  draw(pixel);
  u.ctx.restore();
}

/** dots are drawn one by one: several may share a place on the x axis. Their spreads are lines to both sides. */
function dots(u: uPlot, { points, spreads, faint, names }: Pick<Series, 'points' | 'spreads' | 'faint' | 'names'>, stroke: string) {
  drawing(u, stroke, (pixel) => {
    u.ctx.font = `${12 * pixel}px system-ui`;
    u.ctx.textAlign = 'center';
    points.forEach(([x, y], i) => {
      if (u.scales.y!.distr === 3 && !(y > 0)) return;
      const [dx, dy] = spreads?.[i] ?? [0, 0];
      const [across, up] = [u.valToPos(x, 'x', true), u.valToPos(y, 'y', true)];
      u.ctx.beginPath();
      u.ctx.arc(across, up, (faint ? 2 : 3.5) * pixel, 0, 2 * Math.PI);
      u.ctx.stroke();
      if (names?.[i]) beside(u, names[i], across, up - 8 * pixel, pixel);
      u.ctx.beginPath();
      if (dx > 0) stroked(u, u.valToPos(x - dx, 'x', true), up, u.valToPos(x + dx, 'x', true), up);
      if (dy > 0) stroked(u, across, u.valToPos(lowest(u, y - dy), 'y', true), across, u.valToPos(y + dy, 'y', true));
      u.ctx.stroke();
    });
  });
}

/** beside writes a name above a place, readable on what else is there. */
function beside(u: uPlot, name: string, x: number, y: number, pixel: number) {
  const within = Math.min(x, u.bbox.left + u.bbox.width - u.ctx.measureText(name).width / 2);
  u.ctx.save();
  u.ctx.strokeStyle = getComputedStyle(u.root).getPropertyValue('--card');
  u.ctx.lineWidth = 4 * pixel;
  u.ctx.lineJoin = 'round';
  u.ctx.strokeText(name, within, y);
  u.ctx.fillText(name, within, y);
  u.ctx.restore();
}

function stroked(u: uPlot, x: number, y: number, toX: number, toY: number) {
  u.ctx.moveTo(x, y);
  u.ctx.lineTo(toX, toY);
}

/** lowest keeps a value within a logarithmic axis, which ends above 0. */
const lowest = (u: uPlot, y: number) => (u.scales.y!.distr === 3 ? Math.max(y, u.scales.y!.min ?? y) : y);

/** band is filled, pale. */
function band(u: uPlot, places: NonNullable<Series['band']>, stroke: string) {
  drawing(u, stroke, () => {
    u.ctx.globalAlpha = 0.2;
    u.ctx.beginPath();
    for (const [x, low] of places) u.ctx.lineTo(u.valToPos(x, 'x', true), u.valToPos(lowest(u, low), 'y', true));
    for (const [x, , high] of [...places].reverse()) u.ctx.lineTo(u.valToPos(x, 'x', true), u.valToPos(lowest(u, high), 'y', true));
    u.ctx.fill();
  });
}

/** boxes stand at each place of the x axis: the quartiles of the points there, lines to the ends, and the points. */
function boxes(u: uPlot, points: Points, stroke: string) {
  const half = Math.min(24, u.valToPos(1, 'x') - u.valToPos(0, 'x')) / 4;
  for (const at of new Set(points.map((p) => p[0]))) {
    const own = points.filter((p) => p[0] === at);
    const [low, first, middle, third, high] = quartiles(own.map((p) => p[1])).map((v) => u.valToPos(v, 'y', true)) as [number, number, number, number, number];
    drawing(u, stroke, (pixel) => {
      const [x, w] = [u.valToPos(at, 'x', true), half * pixel];
      u.ctx.beginPath();
      u.ctx.rect(x - w, third, 2 * w, first - third);
      for (const [from, to] of [[low, first], [third, high]] as const) stroked(u, x, from, x, to);
      u.ctx.stroke();
      u.ctx.lineWidth = 3 * pixel;
      u.ctx.beginPath();
      u.ctx.moveTo(x - w, middle);
      u.ctx.lineTo(x + w, middle);
      u.ctx.stroke();
    });
    dots(u, { points: own }, stroke);
  }
}

const red = 3; // of the colours: what failed

/** spans are drawn as bars in their lanes, those of a pixel and less as lines; failed ones have a cross. */
function spans(u: uPlot, all: Span[], colours: string[]) {
  const others = colours.filter((_, i) => i !== red);
  drawing(u, colours[red]!, (pixel) => {
    const half = 9 * pixel;
    for (const s of [...all.filter((s) => !s.failed), ...all.filter((s) => s.failed)]) {
      const [from, to, middle] = [u.valToPos(s.from, 'x', true), u.valToPos(s.to, 'x', true), u.valToPos(s.lane, 'y', true)];
      u.ctx.fillStyle = (s.failed ? colours[red]! : others[s.lane % others.length]!) + (s.failed || s.running ? '55' : 'bb');
      u.ctx.fillRect(from, middle - half, Math.max(pixel, to - from), 2 * half);
      if (s.failed) cross(u, (from + to) / 2, middle, half / 2);
    }
  });
}

function cross(u: uPlot, x: number, y: number, half: number) {
  u.ctx.beginPath();
  for (const down of [-half, half]) {
    u.ctx.moveTo(x - half, y - down);
    u.ctx.lineTo(x + half, y + down);
  }
  u.ctx.stroke();
}

/** pick finds the clicked span, failed ones first. */
function pick(u: uPlot, chart: Chart, e: MouseEvent) {
  const [x, lane, near] = [u.posToVal(e.offsetX, 'x'), Math.round(u.posToVal(e.offsetY, 'y')), u.posToVal(6, 'x') - u.posToVal(0, 'x')];
  const meant = (chart.spans ?? []).filter((s) => s.lane === lane && s.from - near <= x && x <= s.to + near);
  const span = meant.find((s) => s.failed) ?? meant[0];
  if (span) chart.onspan?.(span);
}

/** named writes the names of lines at their ends, one below another where they would meet. */
function named(u: uPlot, lines: Series[], names: string[], colour: (s: Series) => string) {
  const pixel = devicePixelRatio || 1;
  const [from, to] = [u.scales.x!.min ?? -Infinity, u.scales.x!.max ?? Infinity];
  const ends = lines.flatMap((s, i) => {
    const last = s.points.filter(([x, y]) => x >= from && x <= to && (u.scales.y!.distr !== 3 || y > 0)).at(-1);
    return last ? [{ name: names[i]!, colour: colour(s), x: u.valToPos(last[0], 'x', true), y: u.valToPos(last[1], 'y', true) }] : [];
  }).sort((a, b) => a.y - b.y);
  const step = 13 * pixel;
  ends.forEach((e, i) => (e.y = Math.max(e.y, i > 0 ? ends[i - 1]!.y + step : u.bbox.top)));
  ends.reverse().forEach((e, i) => (e.y = Math.min(e.y, i > 0 ? ends[i - 1]!.y - step : u.bbox.top + u.bbox.height)));
  u.ctx.save();
  u.ctx.font = `${12 * pixel}px system-ui`;
  u.ctx.textBaseline = 'middle';
  u.ctx.textAlign = 'left';
  for (const e of ends) {
    u.ctx.fillStyle = e.colour;
    u.ctx.fillText(e.name, e.x + 6 * pixel, e.y);
  }
  u.ctx.restore();
}

/** line draws a mark across, with its name at its end. */
function line(u: uPlot, mark: Mark, stroke: string) {
  const { left, top, width, height } = u.bbox;
  const place = u.valToPos(mark.at, mark.up ? 'y' : 'x', true);
  drawing(u, stroke, (pixel) => {
    u.ctx.font = `${12 * pixel}px system-ui`;
    u.ctx.setLineDash([6 * pixel, 4 * pixel]);
    u.ctx.beginPath();
    u.ctx.moveTo(mark.up ? left : place, mark.up ? place : top);
    u.ctx.lineTo(mark.up ? left + width : place, mark.up ? place : top + height);
    u.ctx.stroke();
    const right = !mark.up && place < left + width / 2; // there is more room on that side
    u.ctx.textAlign = right ? 'left' : 'right';
    u.ctx.fillText(mark.label, mark.up ? left + width - 4 * pixel : place + (right ? 4 : -4) * pixel, mark.up ? place - 4 * pixel : top + 12 * pixel);
  });
}
