// The nodes of a cell as they become known: what may have changed since, and how that is taken in.
import type { Attempt, Node } from './api';

const asked = 100; // nodes that are asked for at a time, as many as the server takes
const keptSteps = 2000; // tasks of steps that are remembered

/** Frontier is what may have changed of nodes: standing ones that could be made by now, and steps after one. */
export interface Frontier { keys: string[]; after: number }

/** frontier begins at another of the open nodes with each turn, so that those which nobody makes hold up none. */
export function frontier(nodes: Node[], turn: number): Frontier {
  const made = new Map(nodes.map((n) => [n.key, n.committed]));
  const open = nodes.filter((n) => !n.step && !n.committed && n.inputs.every((i) => made.get(i.key) !== false));
  const first = open.length > asked ? (turn * asked) % open.length : 0;
  return { keys: [...open.slice(first), ...open.slice(0, first)].slice(0, asked).map((n) => n.key.slice(0, 16)), after: lastStep(nodes) };
}

/** lastStep is the last step of the training that is known, of several trainings of the one that is less far. */
function lastStep(nodes: Node[]): number {
  const last = new Map<string, number>();
  for (const n of nodes) if (n.step) last.set(n.kind + JSON.stringify(n.params), n.step);
  return last.size > 0 ? Math.min(...last.values()) : 0;
}

/** merged are nodes with those that were asked for again; the same ones where nothing is new. */
export function merged(before: Node[], again: Node[]): Node[] {
  const known = new Map(before.map((n) => [n.key, n]));
  const fresh = again.filter((n) => known.get(n.key)?.committed !== n.committed);
  if (fresh.length === 0) return before;
  const changed = new Map(fresh.map((n) => [n.key, n]));
  return bounded([...before.map((n) => changed.get(n.key) ?? n), ...fresh.filter((n) => !known.has(n.key))]);
}

/** bounded leaves out the first of the steps where there are too many. */
function bounded(nodes: Node[]): Node[] {
  let left = nodes.filter((n) => n.step).length - keptSteps;
  return left > 0 ? nodes.filter((n) => !n.step || left-- <= 0) : nodes;
}

/** atWork are the attempts of a run at tasks of a cell. */
export const atWork = (running: Attempt[], cell: string, standing: (key: string) => boolean) => running.filter((a) => a.cells?.includes(cell) || standing(a.key));
