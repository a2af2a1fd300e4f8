import type { Json, JsonObject, ResultCell } from './api';
import { digits } from './format';

const isObject = (x: Json | undefined): x is JsonObject => typeof x === 'object' && x !== null && !Array.isArray(x);

/** numbers are all numbers of an object by their paths, down to a depth. */
export function numbers(x: Json | undefined, prefix = '', depth = 2): [string, number][] {
  if (!isObject(x)) return [];
  return Object.entries(x).flatMap(([name, value]) => {
    const path = prefix ? `${prefix}.${name}` : name;
    if (typeof value === 'number') return [[path, value] as [string, number]];
    return depth > 1 ? numbers(value, path, depth - 1) : [];
  });
}

/** metricsOf are the metrics of a cell, by name. */
export function metricsOf(cell: ResultCell): Map<string, number> {
  const found = [...numbers(cell.utility, 'utility'), ...numbers(cell.audit, 'audit')];
  for (const name of ['epsilon_proved', 'epsilon']) {
    const value = cell.privacy?.[name];
    if (typeof value === 'number') found.push([`privacy.${name}`, value]);
  }
  return new Map(found);
}

const told = ['perplexity', 'recall_at_1', 'random_sampling.memorized', 'exposure.highest']; // of a measurement so far

/** soFar is the last measurement of a cell that still trains: "so far: round 300 of 800: perplexity 62.2". */
export function soFar({ so_far }: ResultCell): string {
  if (!so_far) return '';
  const found = new Map([...numbers(so_far.measured.utility), ...numbers(so_far.audit)]);
  const texts = told.flatMap((name) => (found.has(name) ? [`${label(name)} ${digits(found.get(name))}`] : []));
  return [`so far: ${so_far.unit} ${digits(Number(so_far.measured.round))} of ${digits(so_far.steps)}`, ...(texts.length > 0 ? [texts.join(', ')] : [])].join(': ');
}

/** namesOf are the names of all metrics of some cells, in the order in which they come. */
export const namesOf = (cells: ResultCell[]) => [...new Set(cells.flatMap((c) => [...metricsOf(c).keys()]))];

/** preferred is the first wanted name that exists. */
export const preferred = (names: string[], ...wanted: string[]) => wanted.find((w) => names.includes(w)) ?? names[0] ?? '';

/** axisText is a value of an axis, short. */
export function axisText(value: Json | undefined): string {
  if (value === undefined) return '–';
  if (value === null) return 'none';
  if (typeof value === 'number' && value !== 0 && Math.abs(value) < 1e-4) return digits(value);
  if (isObject(value)) return Object.entries(value).map(([k, v]) => `${k} ${axisText(v)}`).join(', ');
  return Array.isArray(value) ? value.map(axisText).join(', ') : String(value);
}

/** withUnit is the title of the y axis of a metric along some trainings. */
export function withUnit(name: string, curves: { loss_unit?: string }[]): string {
  const units = new Set(/(^|_)loss$/.test(name) ? curves.flatMap((c) => c.loss_unit ?? []) : []);
  return units.size > 0 ? `${label(name)} (${[...units].join(', ')})` : label(name);
}

/** label names a metric in words. */
export const label = (name: string) => name.replace(/^(utility|audit)\./, '').replace(/[._]/g, ' ');
