// The address of the page, which holds the state of every view.

import { base } from './api';

/** within is a path below that of the server; '' if it is not. */
const within = (path: string) => (path.startsWith(base + '/') ? path.slice(base.length) : '');

/** place is the present address. Views read it and change it by go and by set. */
export const place = $state({ path: within(location.pathname), query: new URLSearchParams(location.search) });

function read() {
  place.path = within(location.pathname);
  place.query = new URLSearchParams(location.search);
}
addEventListener('popstate', read);

/** go leads to another view. */
export function go(target: string) {
  history.pushState(null, '', target);
  read();
  scrollTo(0, 0);
  document.querySelector<HTMLElement>('main')?.focus({ preventScroll: true });
}

/** set changes parameters of this view; empty ones are removed. */
export function set(values: Record<string, string | number | boolean | undefined>) {
  const query = new URLSearchParams(location.search);
  for (const [name, value] of Object.entries(values)) {
    if (value === undefined || value === '' || value === false) query.delete(name);
    else query.set(name, value === true ? '1' : String(value));
  }
  const text = query.toString();
  history.replaceState(null, '', location.pathname + (text ? '?' + text : ''));
  read();
}

/** get is a parameter of this view. */
export const get = (name: string, otherwise = '') => place.query.get(name) ?? otherwise;

/** list is a parameter of several names. */
export const list = (name: string) => get(name).split(',').filter(Boolean);

/** toggled adds a name to a list or removes it. */
export const toggled = (names: string[], name: string, on: boolean) => [...names.filter((n) => n !== name), ...(on ? [name] : [])].join(',');

/** span is a range parameter; undefined if it is not a range. */
export function span(name: string): [number, number] | undefined {
  const ends = /^(-?\d+(?:\.\d+)?)-(-?\d+(?:\.\d+)?)$/.exec(get(name))?.slice(1).map(Number) as [number, number] | undefined;
  return ends && ends[0] < ends[1] ? ends : undefined;
}

/** spanned is a range as span reads it. */
export const spanned = (from: number, to: number) => `${Math.max(0, from).toFixed(2)}-${Math.max(0, to).toFixed(2)}`;

/** Asked is a parameter of the address: fits reports whether a value, or each of several, is valid. */
export interface Asked { name: string; what: string; fits: (value: string) => boolean; several?: boolean; instead: string }

/** astray says of each invalid parameter what is shown instead. */
export function astray(asked: Asked[]): string[] {
  return asked.flatMap(({ name, what, fits, several, instead }) => {
    const wrong = (several ? list(name) : [get(name)]).filter((v) => v !== '' && !fits(v));
    return wrong.length === 0 ? [] : [`Ignored, as unknown: ${what} “${wrong.join(', ')}”; ${instead}.`];
  });
}

/** isOrder reports whether an order such as "-name" is by one of some names. */
export const isOrder = (names: string[]) => (order: string) => names.includes(order.replace(/^-/, ''));

/** follow follows a link within the page without loading it again. */
export function follow(e: MouseEvent) {
  const link = (e.target as Element).closest('a');
  const plain = e.button === 0 && !e.metaKey && !e.ctrlKey && !e.shiftKey && !e.altKey;
  if (!link || !plain || link.target || link.hasAttribute('download') || link.origin !== location.origin) return;
  if (!viewOf(within(link.pathname)) || link.hash) return;
  e.preventDefault();
  go(link.pathname + link.search);
}

export interface View { name: 'runs' | 'run' | 'cell' | 'privacy' | 'compare' | 'workers'; run: string; cell: string }

/** viewOf is the view of a path, if there is one. */
export function viewOf(path: string): View | undefined {
  const [run, cell, spent] = [/^\/runs\/([^/]+)$/, /^\/runs\/[^/]+\/cells\/([^/]+)$/, /^\/runs\/([^/]+)\/privacy$/].map((p) => p.exec(path)?.[1]);
  if (path === '/') return { name: 'runs', run: '', cell: '' };
  if (path === '/compare') return { name: 'compare', run: '', cell: '' };
  if (path === '/workers') return { name: 'workers', run: '', cell: '' };
  if (run) return { name: 'run', run: decode(run), cell: '' };
  if (cell) return { name: 'cell', run: decode(path.split('/')[2] ?? ''), cell: decode(cell) };
  if (spent) return { name: 'privacy', run: decode(spent), cell: '' };
  return undefined;
}

function decode(text: string) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text; // what is no escape stands for itself
  }
}
