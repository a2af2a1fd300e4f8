// The part of the API that the page uses; GET /api/v1/openapi.yaml serves the description of all of it.

import { parse } from './visible';

export type Phase = 'queued' | 'running' | 'paused' | 'done' | 'failed' | 'cancelled';

export interface Cell { cell: string; label: string; state: Phase; step: number; steps: number; unit?: 'round' | 'step'; now?: string; breaches?: string[] }
export interface Attempt { key: string; label: string; kind: string; attempt: number; worker?: string; seconds: number; done?: number; total?: number; cells?: string[] }
export interface Failure { key: string; label: string; error: string; attempts: number; cells: string[] | null; time: string }
export interface Worker { id: string; host: string; slots: number; running: number; draining?: boolean; build?: string; cannot_help?: string; memory_bytes?: number; memory_limit_bytes?: number; attempts?: number; takeovers?: number; tokens?: number; tokens_per_second?: number; cache_hits?: number; cache_misses?: number }
export interface Queue { class: string; slots: number; ready: number; queued: number; running: number; retrying: number; parked: number }
export interface Fleet { workers: FleetWorker[]; queues: Queue[]; waits: Wait[] }
export interface FleetWorker extends Worker { classes: string[]; tasks: (Attempt & { run: string })[] }
export interface Wait { cause: string; since?: string; detail: string; tasks?: number }

export interface Run {
  run: string; experiment: string; state: Phase; gate?: 'met' | 'failed'; error?: string;
  submitted?: string; started?: string; finished?: string;
  cells: Cell[]; nodes: { total: number; done: number; running: number; ready: number; waiting: number; failed: number };
  running?: Attempt[]; failures?: Failure[]; tokens_per_second: number; rate_unit?: string; seconds_left: number | null; workers: Worker[]; queues?: Queue[];
  unreadable?: boolean; from_storage?: boolean; age_seconds?: number; pace?: 'working' | 'slow' | 'stuck' | 'paused'; last_progress?: string; waits?: Wait[]; reasons?: string[];
  priority?: number; pinned?: boolean; pinned_cells?: string[]; note?: string; tags?: string[];
}

export interface TableRow { cell: string; row?: string; cells?: string[]; status: string; so_far?: string; texts: string[] }
export interface Table { header: string[]; abouts: string[]; rows: TableRow[]; notes_once: string[]; differences?: Table; best?: string; formats?: { name: string; description: string }[] }
export interface Figure { number: number; cell?: string; label?: string; title: string; caption: string }
export interface Picture { cell: string; label: string; round: number; number: number; title: string; caption: string; text: string }
export interface Event { kind: string; time: string; text: string; key?: string; label?: string; error?: string; attempts?: number; worker?: string; seconds?: number; cells?: string[] }
export interface History { run: string; events: Event[]; dropped: number }
export interface AttemptLog { node: string; label: string; attempt: string; text: string }

/** Json is any value of an answer whose fields the page finds by looking. */
export type Json = null | boolean | number | string | Json[] | { [name: string]: Json };
export type JsonObject = { [name: string]: Json };

export interface Canary {
  words: string[]; users: number; holders: number; insertions: number; user_probability?: number; example_probability?: number;
  log_perplexity?: number; exposure?: number; rank?: number; memorized?: boolean; beam_found?: boolean;
}
export interface CanaryLives { run: string; cell: string; unit: string; canaries: { role: string; canary: Canary }[]; rounds: { round: number; outcomes: JsonObject[] }[] }
export interface Bins { from: number; width: number; counts: number[] }
export interface Surroundings { round: number; canary: number; references: number; log_perplexity: number; exposure: number; error: number; support: number; fit: { histogram: Bins } }
export interface ResultCell {
  cell: string; label: string; axes: JsonObject; parameters?: JsonObject; row?: { name: string; label: string }; status: string; errors?: string[]; gate?: 'met' | 'failed'; breaches?: string[]; unjudged?: string[]; epsilon_underestimates?: boolean;
  utility?: JsonObject; privacy?: JsonObject; audit?: JsonObject; curve?: JsonObject[]; so_far?: SoFar;
}
/** SoFar is the last measurement of a cell that still trains. */
export interface SoFar { unit: 'round' | 'step'; steps: number; measured: JsonObject; audit: JsonObject }
export interface Experiment { name: string; cells: { name: string; experiment: JsonObject }[] }
export interface Results { run: string; experiment: string; cells: ResultCell[] }

export interface Curve { run: string; cell: string; label: string; axes: JsonObject; unit: 'round' | 'step'; loss_unit?: string; steps: number; rounds: JsonObject[]; audited: JsonObject[]; clock: { round: number; time: string }[] }
export interface Node {
  key: string; kind: string; label: string; cells: string[]; params: JsonObject; step?: number; inputs: { name: string; key: string }[]; committed: boolean;
  blobs: { name: string; bytes: number; sha256: string; stored: boolean }[]; attempt?: { id: string; worker: string; host: string; started: string; seconds: number };
}
export interface Reader { key: string; kind: string; label: string; input: string; training?: boolean; cells: string[]; cells_total: number; committed: boolean }
export interface Ancestry { node: Node; readers: Reader[]; readers_total: number }
export interface Spending { cell: string; delta: number; sampling: string; neighbouring: string; conversion: string; unit: string; budget?: { epsilon: number; delta: number }; assumptions: string[] | null; not_covered: string[] | null; validity?: string; rounds: { round: number; epsilon: number | null; epsilon_proved: number | null }[] | null }

/** base is the server's path behind a proxy; '' for the root. */
export const base = document.querySelector<HTMLMetaElement>('meta[name="base"]')?.content ?? '';

export const api = base + '/api/v1';

/** at joins the segments of a path, escaped. */
export const at = (...segments: (string | number)[]) => segments.map((s) => '/' + encodeURIComponent(s)).join('');

/** to is a link to a view of the page, of segments as at has them. */
export const to = (...segments: (string | number)[]) => base + at(...segments);

/** ask calls the API and returns its JSON, or throws an Error with its message. */
export async function ask<T>(path: string, options: RequestInit = {}): Promise<T> {
  return parse(await (await call(path, options)).text());
}

/** read calls the API and returns its text. */
export const read = async (path: string) => (await call(path)).text();

const patience = 130_000; // ms for an answer: the server gives up after two minutes

async function call(path: string, options: RequestInit = {}) {
  // A question on a connection that is lost unnoticed would never end.
  const signal = options.method ? null : AbortSignal.timeout(patience);
  const answer = await fetch(api + path, { signal, ...options });
  if (answer.status === 401) {
    location.assign(base + '/login?next=' + encodeURIComponent(location.pathname.slice(base.length) + location.search));
    throw new Error('not logged in');
  }
  if (!answer.ok) throw new Error(errorIn(await answer.text()) ?? `the server answered ${answer.status}`);
  return answer;
}

function errorIn(body: string): string | undefined {
  try {
    return parse(body).error;
  } catch {
    return undefined;
  }
}

export const post = <T>(path: string, body: unknown) =>
  ask<T>(path, { method: 'POST', headers: { 'Content-Type': 'application/json' }, body: JSON.stringify(body) });

/** drawn is a figure of the client's numbers as the server draws it for papers. */
export const drawn = async (figure: unknown, format: string) =>
  (await call(`/figures?format=${format}`, { method: 'POST', headers: { 'Content-Type': 'application/json' }, body: JSON.stringify(figure) })).blob();

export const steer = (run: string, command: JsonObject) => post(at('runs', run, 'steer'), command);

/** message is the text of an error. */
export const message = (e: unknown) => (e instanceof TypeError ? 'the server does not answer (coalmine page opens the page of a home again)' : e instanceof Error ? e.message : String(e));
