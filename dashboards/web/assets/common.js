// What all pages share. Text from the server only ever becomes text nodes.

/** el makes an element: props are attributes, children nodes or text. */
export function el(tag, props = {}, ...children) {
  const e = document.createElement(tag);
  for (const [name, value] of Object.entries(props)) {
    if (name === 'onclick' || name === 'ontoggle') e.addEventListener(name.slice(2), value);
    else if (value !== undefined && value !== null) e.setAttribute(name, value);
  }
  e.append(...children.map((c) => (c instanceof Node ? c : String(c ?? ''))));
  return e;
}

export const byId = (id) => document.getElementById(id);

/** ask calls the API and returns its JSON, or throws an Error with its message. */
export async function ask(path, options = {}) {
  const answer = await fetch('/api/v1' + path, options);
  if (answer.status === 401) {
    location.assign('/login?next=' + encodeURIComponent(location.pathname));
    throw new Error('not logged in');
  }
  const body = await answer.json();
  if (!answer.ok) throw new Error(body.error);
  return body;
}

export function notice(text) {
  byId('notice').textContent = text;
  byId('notice').hidden = !text;
}

/** session is {role, login}; the log-out button shows if there is a session. */
export async function session() {
  const s = await ask('/session');
  byId('logout').hidden = !s.login;
  return s;
}

const retryAfter = 5000; // ms until a stream that was refused is tried again
const lookAgain = 20000; // ms until a finished run is looked at again

/**
 * follow hands every status event of a stream to show. It rests while nobody
 * looks at the page, since browsers keep few connections to one server.
 */
export function follow(path, show) {
  let source, timer;
  const say = (text) => { byId('connection').textContent = text; };
  const close = () => { clearTimeout(timer); source?.close(); source = undefined; };
  const again = (ms) => { close(); if (!document.hidden) timer = setTimeout(open, ms); };
  function open() {
    close();
    source = new EventSource('/api/v1' + path);
    source.addEventListener('open', () => say('live'));
    source.addEventListener('status', (e) => { say('live'); notice(''); show(JSON.parse(e.data)); });
    source.addEventListener('trouble', (e) => notice(JSON.parse(e.data).error));
    source.addEventListener('end', () => { say('finished'); again(lookAgain); });
    source.addEventListener('error', async () => {
      say('connecting …');
      if (source?.readyState !== EventSource.CLOSED) return; // it reconnects by itself
      again(retryAfter);
      try {
        await ask(path.replace(/\/?events$/, '') || '/runs'); // says why, or that a login is needed
      } catch (e) {
        notice(e.message);
      }
    });
  }
  document.addEventListener('visibilitychange', () => (document.hidden ? close() : open()));
  open();
  return open;
}

/** redraw calls draw only if the data is not what it drew the last time, so that
 * selections and open parts stay. */
const drawn = new Map();
export function redraw(name, data, draw) {
  const text = JSON.stringify(data ?? null);
  if (drawn.get(name) === text) return;
  drawn.set(name, text);
  draw(data);
}

export const state = (phase) => el('span', { class: 'state ' + phase }, phase);

export function bar(value, max, label) {
  return el('div', { class: 'progress' }, el('progress', { value, max: Math.max(max, 1), 'aria-label': label }), `${number(value)}/${number(max)}`);
}

export const number = (n) => Number(n ?? 0).toLocaleString('en');

export function when(time) {
  return time ? el('time', { datetime: time }, new Date(time).toLocaleString(undefined, { dateStyle: 'medium', timeStyle: 'short' })) : '';
}

/** duration is for people: two units at most. */
export function duration(seconds) {
  if (seconds === null || seconds === undefined) return '–';
  const s = Math.max(0, Math.round(seconds));
  const units = [[86400, 'd'], [3600, 'h'], [60, 'min'], [1, 's']];
  const i = units.findIndex(([size]) => s >= size);
  if (i < 0) return '0 s';
  const [size, unit] = units[i];
  const rest = units[i + 1] ? Math.floor((s % size) / units[i + 1][0]) : 0;
  return `${Math.floor(s / size)} ${unit}` + (rest ? ` ${rest} ${units[i + 1][1]}` : '');
}
