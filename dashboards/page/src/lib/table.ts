// The displayed rows of a table, their order, and the columns.
import type { Snippet } from 'svelte';
import { digits } from './format';

export interface Column<T> {
  /** name stands in the address and in queries, label at the header, where about explains it. */
  name: string; label: string; about?: string | undefined;
  /** value orders rows and is searched. It is shown unless there is a text or a drawing. */
  value?: (row: T) => number | string | null | undefined;
  text?: (row: T) => string;
  draw?: Snippet<[T]>;
  number?: boolean; wide?: boolean;
  /** folded columns are shown only if chosen. */
  folded?: boolean;
}

/** textOf is the text of a row in a column without a drawing. */
export function textOf<T>(c: Column<T>, row: T): string {
  if (c.text) return c.text(row);
  const v = c.value?.(row);
  return typeof v === 'number' ? digits(v) : (v ?? '');
}

/** slugs are names for the address: words of letters and digits, each name once. */
export function slugs(names: string[]): string[] {
  const plain = names.map((n) => n.toLowerCase().replace(/[^\p{L}\p{N}]+/gu, '-').replace(/^-|-$/g, '') || 'column');
  return plain.map((n, i) => (plain.indexOf(n) === i ? n : `${n}-${i}`));
}

/** leading is the number at the beginning of a text; the text itself if there is none. */
export function leading(text: string): number | string {
  const found = /^[-−+]?[\d,]*\.?\d+(e[-+]?\d+)?/i.exec(text.trim());
  return found ? Number(found[0].replace(/,/g, '').replace('−', '-')) : text;
}

/** sorted orders items by a key, "-name" downwards; numbers stand before texts, and texts before nothing. */
export function sorted<T>(items: T[], order: string, key: (item: T, name: string) => number | string | null | undefined): T[] {
  if (!order) return items;
  const [sign, name] = order.startsWith('-') ? [-1, order.slice(1)] : [1, order];
  return [...items].sort((a, b) => compare(key(a, name), key(b, name), sign));
}

type Key = number | string | null | undefined;

function compare(a: Key, b: Key, sign: number): number {
  const rank = (k: Key) => (typeof k === 'number' ? 0 : k ? 1 : 2);
  if (rank(a) !== rank(b)) return rank(a) - rank(b);
  return sign * (typeof a === 'number' && typeof b === 'number' ? a - b : String(a ?? '').localeCompare(String(b ?? ''), 'en', { numeric: true }));
}

const condition = /^([\p{L}\p{N}-]+)(:|=|!=|<=|>=|<|>)(.+)$/u;

/**
 * narrowed are the rows that a query fits. Each of its words stands in some column of the row,
 * or is a condition of one: state:failed where it has the text, seed=2, perplexity<60.
 */
export function narrowed<T>(rows: T[], columns: Column<T>[], query: string): T[] {
  const tests = query.toLowerCase().split(/\s+/).filter(Boolean).map((word): ((row: T) => boolean) => {
    const [, name, sign, wanted] = condition.exec(word) ?? [];
    const column = columns.find((c) => c.name === name);
    if (column && sign && wanted) return (row) => holds(column.value?.(row), sign, wanted);
    return (row) => columns.some((c) => String(c.value?.(row) ?? '').toLowerCase().includes(word) || textOf(c, row).toLowerCase().includes(word));
  });
  return tests.length === 0 ? rows : rows.filter((row) => tests.every((fits) => fits(row)));
}

function holds(value: Key, sign: string, wanted: string): boolean {
  const [text, number, limit] = [String(value ?? '').toLowerCase(), typeof value === 'number' ? value : NaN, Number(wanted)];
  switch (sign) {
    case ':': return text.includes(wanted);
    case '=': return text === wanted || number === limit;
    case '!=': return text !== wanted && number !== limit;
    case '<': return number < limit;
    case '>': return number > limit;
    case '<=': return number <= limit;
    default: return number >= limit;
  }
}

/** shownBy are the displayed columns of a choice, which names columns to show and, after "-", to hide. */
export const shownBy = <T>(columns: Column<T>[], choice: string[]) =>
  columns.filter((c, i) => i === 0 || choice.includes(c.name) || !(c.folded || choice.includes('-' + c.name)));
