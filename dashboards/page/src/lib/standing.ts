// How a run stands in words: how old that is, and what it waits for.
import type { Run, Wait } from './api';
import { ago } from './clock.svelte';
import { count, duration, when } from './format';

const causes: Record<string, string> = { 'no-coordinator': 'no coordinator leads', 'queue-away': 'the queue does not answer' };

/** asOf says how old is what was read from storage, '' of what a coordinator tells. */
export function asOf(run: Run): string {
  if (!run.from_storage) return '';
  const cause = causes[run.waits?.[0]?.cause ?? ''] ?? (run.state === 'paused' ? 'it is paused' : 'this server does not lead');
  const age = run.last_progress ? `As of ${duration(ago(run.last_progress))} ago, read` : 'Nothing of it is done yet, as was read';
  return `${age} from storage; ${cause}.`;
}

/** waitText is what a run waits for, since when, and how much of it. */
export function waitText(w: Wait): string {
  const about = [...(w.since ? [`since ${when(w.since)}`] : []), ...((w.tasks ?? 0) > 1 ? [`${count(w.tasks)} tasks`] : [])];
  return about.length > 0 ? `${w.detail} (${about.join(', ')})` : w.detail;
}

/** gravest is the first of what a run waits for, and how many there are besides. */
export function gravest(run: Run): string {
  const [first, ...more] = run.state === 'paused' ? [] : (run.waits ?? []);
  return first ? first.detail + (more.length > 0 ? ` (and ${more.length} more)` : '') : '';
}
