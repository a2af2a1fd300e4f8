// The status of a run in words: its age and its waits.
import type { Run, Wait } from './api';
import { ago } from './clock.svelte';
import { count, duration, when } from './format';

const causes: Record<string, string> = { 'no-coordinator': 'no coordinator leads', 'queue-away': 'the queue does not answer' };

/** asOf is the age of a status read from storage; '' for one from a coordinator. */
export function asOf(run: Run): string {
  if (!run.from_storage) return '';
  const cause = causes[run.waits?.[0]?.cause ?? ''] ?? (run.state === 'paused' ? 'it is paused' : 'this server does not lead');
  const age = run.last_progress ? `As of ${duration(ago(run.last_progress))} ago, read` : 'No outputs yet, read';
  return `${age} from storage; ${cause}.`;
}

/** waitText describes a wait: its detail, its start and the number of tasks. */
export function waitText(w: Wait): string {
  const about = [...(w.since ? [`since ${when(w.since)}`] : []), ...((w.tasks ?? 0) > 1 ? [`${count(w.tasks)} tasks`] : [])];
  return about.length > 0 ? `${w.detail} (${about.join(', ')})` : w.detail;
}

/** firstWait is the detail of a run's first wait, and the number of further ones. */
export function firstWait(run: Run): string {
  const [first, ...more] = run.state === 'paused' ? [] : (run.waits ?? []);
  return first ? first.detail + (more.length > 0 ? ` (and ${more.length} more)` : '') : '';
}
