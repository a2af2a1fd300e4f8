// The plan of a cell as a drawing: nodes of one kind folded into one box, the rounds of a
// training into another, laid out by dagre.
import type { Node } from './api';

export interface Box { name: string; detail: string; nodes: Node[]; x: number; y: number; width: number; height: number }
export interface Drawing { boxes: Box[]; edges: { from: string; to: string; points: { x: number; y: number }[] }[]; left: number; top: number; width: number; height: number }

/** rounds is the box of all steps of trainings. */
export const rounds = 'rounds of the training';

/** boxOf names the box that a node is folded into. */
export const boxOf = (n: Node) => (n.step ? rounds : n.kind);

/** lay places the boxes from the left to the right, edges from what is read to what reads it. */
export async function lay(nodes: Node[]): Promise<Drawing> {
  const { Graph, layout } = await import('@dagrejs/dagre');
  const folded = new Map<string, Node[]>();
  for (const n of nodes) folded.set(boxOf(n), [...(folded.get(boxOf(n)) ?? []), n]);
  const graph = new Graph().setGraph({ rankdir: 'LR', nodesep: 14, ranksep: 36, marginx: 8, marginy: 8 }).setDefaultEdgeLabel(() => ({}));
  for (const [name, all] of folded) graph.setNode(name, { width: 18 + 6.6 * Math.max(name.length, detailOf(all).length), height: 44 });
  const byKey = new Map(nodes.map((n) => [n.key, n]));
  for (const n of nodes) {
    for (const i of n.inputs) {
      const from = byKey.get(i.key);
      if (from && boxOf(from) !== boxOf(n)) graph.setEdge(boxOf(from), boxOf(n));
    }
  }
  layout(graph);
  const edges = graph.edges().map((e) => ({ from: e.v, to: e.w, points: graph.edge(e).points ?? [] }));
  return {
    ...around(edges.flatMap((e) => e.points), graph.graph()), edges,
    boxes: [...folded].map(([name, all]) => ({ name, detail: detailOf(all), nodes: all, ...graph.node(name) }) as Box),
  };
}

/** around is the margin for points, beside the boxes that dagre counts. */
function around(points: { x: number; y: number }[], { width = 0, height = 0 }: { width?: number; height?: number }) {
  const [xs, ys] = [points.map((p) => p.x), points.map((p) => p.y)];
  const [left, top] = [Math.min(0, ...xs), Math.min(0, ...ys)];
  return { left, top, width: Math.max(width, ...xs) - left, height: Math.max(height, ...ys) - top };
}

function detailOf(nodes: Node[]): string {
  const done = nodes.filter((n) => n.committed).length;
  if (nodes[0]?.step) return `to ${Math.max(...nodes.map((n) => n.step ?? 0))}; ${nodes.length} records kept`;
  if (nodes.length === 1) return nodes[0]!.committed ? 'made' : 'not yet';
  return `${done} of ${nodes.length} made`;
}

/** stateOf is the progress of a box's nodes; of a training, its last step counts. */
export function stateOf(nodes: Node[]): 'done' | 'running' | 'waiting' {
  const last = nodes.reduce((a, b) => ((b.step ?? 0) >= (a.step ?? 0) ? b : a));
  if (last.step ? last.committed : nodes.every((n) => n.committed)) return 'done';
  return nodes.some((n) => n.committed) ? 'running' : 'waiting';
}

/** reached are the keys of all nodes reachable from one by next. */
export function reached(from: string, next: (key: string) => string[]): Set<string> {
  const found = new Set<string>();
  const open = [from];
  for (let key = open.pop(); key !== undefined; key = open.pop()) {
    for (const k of next(key)) {
      if (!found.has(k)) {
        found.add(k);
        open.push(k);
      }
    }
  }
  return found;
}
