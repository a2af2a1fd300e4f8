// The known nodes of a cell: which may have changed, and how new ones are merged.
import type { Attempt, Node } from './api';

const asked = 100; // nodes that are asked for at a time, as many as the server takes
const keptSteps = 2000; // tasks of steps that are remembered

/** Frontier names the nodes that may have changed: open ones that could be committed by now, and later steps. */
export interface Frontier { keys: string[]; after: number }

/** frontier begins at another open node in each turn, so that nodes that nobody makes delay no other. */
export function frontier(nodes: Node[], turn: number): Frontier {
  const made = new Map(nodes.map((n) => [n.key, n.committed]));
  const open = nodes.filter((n) => !n.step && !n.committed && n.inputs.every((i) => made.get(i.key) !== false));
  const first = open.length > asked ? (turn * asked) % open.length : 0;
  return { keys: [...open.slice(first), ...open.slice(0, first)].slice(0, asked).map((n) => n.key.slice(0, 16)), after: lastStep(nodes) };
}

/** lastStep is the last known step of the training, of several trainings the least. */
function lastStep(nodes: Node[]): number {
  const last = new Map<string, number>();
  for (const n of nodes) if (n.step) last.set(n.kind + JSON.stringify(n.params), n.step);
  return last.size > 0 ? Math.min(...last.values()) : 0;
}

/** merged are the nodes with those read again; the same array if nothing is new. */
export function merged(before: Node[], again: Node[]): Node[] {
  const known = new Map(before.map((n) => [n.key, n]));
  const fresh = again.filter((n) => known.get(n.key)?.committed !== n.committed);
  if (fresh.length === 0) return before;
  const changed = new Map(fresh.map((n) => [n.key, n]));
  return bounded([...before.map((n) => changed.get(n.key) ?? n), ...fresh.filter((n) => !known.has(n.key))]);
}

/** bounded leaves out the first steps if there are too many. */
function bounded(nodes: Node[]): Node[] {
  let left = nodes.filter((n) => n.step).length - keptSteps;
  return left > 0 ? nodes.filter((n) => !n.step || left-- <= 0) : nodes;
}

/** atWork are the running attempts of a cell. */
export const atWork = (running: Attempt[], cell: string, standing: (key: string) => boolean) => running.filter((a) => a.cells?.includes(cell) || standing(a.key));
