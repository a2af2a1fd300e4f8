// The epsilons that audits measure, beside the proved and the claimed one.
import type { Json, JsonObject, ResultCell } from './api';
import { digits } from './format';

/** Finding is the result of one audit of a cell's training. */
export interface Finding { audit: string; found: string; delta: number | undefined; refutes: string; refuted: boolean; powerless?: boolean }

const object = (x: Json | undefined) => (typeof x === 'object' && x !== null && !Array.isArray(x) ? x : undefined);
const number = (x: Json | undefined) => (typeof x === 'number' ? x : undefined);

/** findings are those of the audits of a cell that measure epsilon. */
export const findings = (cell: ResultCell): Finding[] => [...oneRun(object(cell.audit?.one_run), cell), ...oneShot(object(cell.audit?.one_shot))];

function oneRun(verdict: JsonObject | undefined, cell: ResultCell): Finding[] {
  if (!verdict) return [];
  const [least, delta, curve] = [number(verdict.epsilon_lower), number(verdict.delta), object(verdict.trade_off)];
  const refuted = curve ? curve.epsilon_refuted === true : isAbove(verdict, cell.privacy);
  const powerless = !refuted && isPowerless(verdict, cell.privacy);
  const refutes = refuted ? 'the proved epsilon' : powerless ? 'nothing: POWERLESS' : 'nothing';
  const bound: Finding = { audit: 'one-run', found: `at least ${digits(least)}`, delta, refutes, refuted, powerless };
  return curve ? [bound, byCurve(curve, delta)] : [bound];
}

/** isAbove reports whether a bound is above the proved epsilon at the same delta and neighbouring relation. */
function isAbove(verdict: JsonObject, privacy: JsonObject | undefined) {
  const [least, proved] = [number(verdict.epsilon_lower), number(privacy?.epsilon_proved)];
  const same = verdict.delta === privacy?.delta && verdict.neighbouring === privacy?.neighbouring;
  return same && least !== undefined && proved !== undefined && least > proved;
}

/** isPowerless reports whether a bound would not exceed the proved epsilon even with every guess right. */
function isPowerless(verdict: JsonObject, privacy: JsonObject | undefined) {
  const [most, proved] = [number(verdict.epsilon_largest_canaries), number(privacy?.epsilon_proved)];
  return most !== undefined && proved !== undefined && most < proved;
}

/** byCurve is the finding on the noise: with that noise multiplier the guesses are too improbable. */
function byCurve(curve: JsonObject, delta: number | undefined): Finding {
  const refuted = curve.refuted === true && curve.claimed === true;
  const noise = number(curve.noise_multiplier_refuted);
  const refutes = refuted ? 'the claimed noise' : noise === undefined ? 'nothing' : `a noise multiplier of ${digits(noise)} and more`;
  return { audit: 'one-run, by trade-off curve', found: `at least ${curve.epsilon_lower === null ? '∞' : digits(number(curve.epsilon_lower))}`, delta, refutes, refuted };
}

function oneShot(verdict: JsonObject | undefined): Finding[] {
  return (['final', 'all_iterates'] as const).flatMap((by): Finding[] => {
    const estimate = object(verdict?.[by]);
    if (!estimate) return [];
    const found = `about ${digits(number(estimate.epsilon))} ± ${digits(number(estimate.standard_error))}`;
    return [{ audit: by === 'final' ? 'one-shot, by the final model' : 'one-shot, by all rounds', found, delta: number(verdict?.delta), refutes: 'no bound', refuted: false }];
  });
}
