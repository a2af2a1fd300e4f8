// The columns of results with their explanations, which every measure on the page shares with tables and commands.
import { ask } from './api';

interface Column { name?: string; path?: string; audit?: string; rows?: string[]; about: string }

let columns: Column[] = $state.raw([]);
let asked = false;

function known(): Column[] {
  if (!asked) {
    asked = true;
    void ask<{ columns: Column[] }>('/columns').then((a) => (columns = a.columns), () => (asked = false));
  }
  return columns;
}

/** columnAbout explains a column of a table of results: of cells, canaries or rounds. */
export const columnAbout = (rows: 'cells' | 'canaries' | 'rounds', name: string) =>
  known().find((c) => c.name === name && c.rows?.includes(rows))?.about;

/** measureAbout explains a number by its place in results or in the rounds of a curve: audit.random_sampling.memorized, loss. */
export function measureAbout(metric: string): string | undefined {
  const [block, part, ...rest] = metric.split('.');
  if (part === undefined) return columnAbout('rounds', metric) ?? columnAbout('cells', metric);
  const own = known().find((c) => c.path === metric.replace(/^audit[.]/, ''));
  if (own) return own.about;
  if (block !== 'audit') return columnAbout('cells', [part, ...rest].join('_'));
  const member = rest.join('_');
  return known().find((c) => c.audit === part && c.rows?.includes('cells') && (c.name === `${part}_${member}` || c.name === member))?.about;
}
