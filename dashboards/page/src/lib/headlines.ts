// The main numbers of a run.
import type { ResultCell } from './api';
import { moments, settings, values } from './settings';

/** Headline is the least or the greatest of a metric over the settings of a run, of their means over seeds. */
interface Headline { name: string; label: string; metric: string; least?: boolean }

export const headlines: Headline[] = [
  { name: 'perplexity', label: 'Best perplexity', metric: 'utility.perplexity', least: true },
  { name: 'recall', label: 'Best recall@1', metric: 'utility.recall_at_1' },
  { name: 'memorized', label: 'Most memorized', metric: 'audit.random_sampling.memorized' },
  { name: 'exposure', label: 'Highest exposure', metric: 'audit.exposure.highest' },
  { name: 'epsilon', label: 'Greatest epsilon', metric: 'privacy.epsilon_proved' },
];

/** headlinesOf are the headlines of some cells, by name. */
export function headlinesOf(cells: ResultCell[]): Map<string, number> {
  const all = settings(cells);
  return new Map(headlines.flatMap(({ name, metric, least }): [string, number][] => {
    if (name === 'epsilon' && cells.some((c) => c.privacy?.infinite)) return [[name, Infinity]];
    const means = all.flatMap((s) => moments(values(s, metric))?.mean ?? []);
    return means.length === 0 ? [] : [[name, means.reduce((a, b) => (least ? Math.min(a, b) : Math.max(a, b)))]];
  }));
}
