/** value reads the number at the beginning of a text, the text itself where there is none. */
export function value(text: string): number | string {
  const found = /^[-−]?[\d,]*\.?\d+(e[-+]?\d+)?/i.exec(text.trim());
  return found ? Number(found[0].replace(/,/g, '').replace('−', '-')) : text;
}

/** sorted orders items by a key, "-name" downwards; numbers stand before texts. */
export function sorted<T>(items: T[], order: string, key: (item: T, name: string) => number | string): T[] {
  if (!order) return items;
  const [sign, name] = order.startsWith('-') ? [-1, order.slice(1)] : [1, order];
  return [...items].sort((a, b) => sign * compare(key(a, name), key(b, name)));
}

function compare(a: number | string, b: number | string): number {
  if (typeof a === 'number' && typeof b === 'number') return a - b;
  if (typeof a !== typeof b) return typeof a === 'number' ? -1 : 1;
  return String(a).localeCompare(String(b), 'en', { numeric: true });
}
