export const count = (n: number | undefined) => Number(n ?? 0).toLocaleString('en');

/** digits is a number with four significant digits, as far as it has them. */
export function digits(x: number | null | undefined): string {
  if (x === null || x === undefined) return '–';
  if (Math.abs(x) === Infinity) return x < 0 ? '−∞' : '∞';
  if (Number.isInteger(x) && Math.abs(x) < 1e6) return count(x);
  if (Math.abs(x) >= 1e6 || Math.abs(x) < 1e-4) return x.toExponential(2);
  const short = Number(x.toPrecision(4));
  return Math.abs(short) < 1000 ? String(short) : count(short);
}

export const when = (time: string) => new Date(time).toLocaleString(undefined, { dateStyle: 'medium', timeStyle: 'short' });

/** duration is a duration in two units at most. */
export function duration(seconds: number | null | undefined): string {
  if (seconds === null || seconds === undefined) return '–';
  const s = Math.max(0, Math.round(seconds));
  const units: [number, string][] = [[86400, 'd'], [3600, 'h'], [60, 'min'], [1, 's']];
  const i = units.findIndex(([size]) => s >= size);
  if (i < 0) return '0 s';
  const [size, unit] = units[i]!;
  const [next, name] = units[i + 1] ?? [1, ''];
  const rest = name ? Math.floor((s % size) / next) : 0;
  return `${Math.floor(s / size)} ${unit}` + (rest ? ` ${rest} ${name}` : '');
}

export function bytes(n: number | undefined): string {
  if (!n) return '';
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
  const i = Math.min(units.length - 1, Math.floor(Math.log2(n) / 10));
  return `${(n / 1024 ** i).toFixed(i ? 1 : 0)} ${units[i]}`;
}

/** rateTitle heads the rates of runs: Tokens/s, or Targets/s if their units differ. */
export function rateTitle(runs: { rate_unit?: string }[]): string {
  const units = [...new Set(runs.map((r) => r.rate_unit ?? 'tokens'))];
  const unit = units.length > 1 ? 'targets' : (units[0] ?? 'tokens');
  return `${unit.charAt(0).toUpperCase()}${unit.slice(1)}/s`;
}
