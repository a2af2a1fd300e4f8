// The models that are stored of a cell's training, and how the command line audits one again.
import type { Json, JsonObject, Node } from './api';

/** Checkpoint is a model after a round, or a step of SGD. */
export interface Checkpoint { round: number; bytes: number }

/** checkpoints are those that are stored, the newest first. */
export const checkpoints = (nodes: Node[]): Checkpoint[] => nodes.flatMap(stored).sort((a, b) => b.round - a.round);

function stored(node: Node): Checkpoint[] {
  const [model, round] = [node.blobs.find((b) => b.name === 'model' && b.stored), roundOf(node)];
  return model && round !== undefined ? [{ round, bytes: model.bytes }] : [];
}

/** roundOf is after how much of the training a node has its model: the initial one, one of its steps, or the last of SGD, which are fewer. */
function roundOf({ kind, step, params }: Node): number | undefined {
  if (step) return step * Number(params.steps_per_task ?? 1);
  if (/^training\/(client-)?initial$/.test(kind)) return 0;
  return /^training\/(dp-)?sgd$/.test(kind) ? Number(params.first ?? 0) + Number(params.steps) : undefined;
}

const object = (x: Json | undefined): JsonObject => (typeof x === 'object' && x !== null && !Array.isArray(x) ? x : {});

/** quoted is a word as a shell takes it. */
const quoted = (word: string) => (/^[\w./:-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`);

/**
 * auditAgain are the commands that audit a checkpoint of a cell as its experiment says; none
 * where the model is of no texts of ours, or its canaries are not of one format.
 */
export function auditAgain(run: string, cell: string, round: number, experiment: JsonObject): string {
  const [canaries, model, audit] = [object(experiment.canaries), object(experiment.model), object(experiment.audit)];
  const texts = ['cifg-lstm', 'lstm', 'gru', 'conv'].includes(String(model.kind));
  if (!texts || !experiment.canaries || canaries.formats || canaries.target) return '';
  const bytes = object(experiment.data).level === 'byte';
  const [file, list, blank] = [quoted(`${cell}-${round}.safetensors`), quoted(`${cell}-canaries`), bytes ? '' : ' '];
  return [
    `coalmine export ${run} ${cell} --round ${round} -o ${file}`,
    `coalmine data export ${run} ${cell} --only canaries -o ${list}`,
    `jq -r '.words | join("${blank}")' ${list}/canaries.jsonl > ${list}.txt`,
    ['coalmine audit', file, '--canaries', `${list}.txt`, ...flags(canaries, audit, bytes), '--seed', experiment.seed].join(' '),
  ].join('\n');
}

/** flags say what the experiment says of its canaries, and of how they are looked for. */
function flags(canaries: JsonObject, audit: JsonObject, bytes: boolean): Json[] {
  const [sampling, beam] = [object(audit.random_sampling), object(audit.beam_search)];
  const { format, symbols, alphabet } = canaries;
  return [
    '--references', sampling.references ?? 0, ...(sampling.prefix ? ['--prefix', sampling.prefix] : []), ...(sampling.exact ? ['--exact'] : []), '--beam-width', beam.width ?? 0,
    ...(format ? ['--format', quoted(String(format))] : []),
    ...(symbols ? ['--symbols', quoted(Array.isArray(symbols) ? symbols.join(' ') : String(symbols))] : bytes && alphabet ? ['--alphabet', alphabet] : []),
  ];
}
