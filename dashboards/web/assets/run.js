// One run: how it stands, what it waits for, what came of it.
import { ask, bar, byId, duration, el, follow, notice, number, redraw, session, state, when } from './common.js';

const name = decodeURIComponent(location.pathname.split('/')[2]);
const path = '/runs/' + encodeURIComponent(name);
let operator = false;
let reopen = () => {};

function show(status) {
  document.title = `${status.run} (${status.state}) – Coalmine`;
  byId('name').textContent = status.run;
  redraw('state', status.state, (phase) => byId('state').replaceChildren(state(phase)));
  redraw('facts', facts(status), drawFacts);
  section('reasons', status.error ? [status.error, ...(status.reasons ?? [])] : status.reasons, (reason) => el('li', {}, reason));
  byId('reasons-title').textContent = status.error ? 'Why it failed' : 'Why it waits';
  section('failures', status.failures, failure);
  section('cells', status.cells, cell);
  section('running', status.running, running);
  section('workers', status.workers, worker);
  redraw('commands', [operator, status.state, Boolean(status.failures?.length) || status.state === 'failed'], drawCommands);
  const ended = status.cells.filter((c) => c.state === 'done' || c.state === 'failed').map((c) => c.cell);
  if (ended.length) redraw('results', [ended, status.state], loadResults);
  redraw('pictures', status.cells.slice(0, chartedCells).map((c) => [c.cell, c.label, c.state, twentieth(c)]), loadPictures);
  redraw('privacy', status.cells.slice(0, chartedCells).map((c) => [c.cell, c.label, twentieth(c)]), loadPrivacy);
}

/** section shows a list in its place, and nothing of it if it is empty. */
function section(id, list, item) {
  redraw(id, list ?? [], (items) => {
    const whole = byId(id + '-section');
    if (whole) whole.hidden = items.length === 0;
    byId(id).replaceChildren(...items.map(item));
  });
}

function facts(s) {
  const live = s.state === 'running';
  const n = s.nodes;
  return [
    ['Experiment', s.experiment],
    ['Submitted', s.submitted, 'time'],
    s.finished ? ['Finished', s.finished, 'time'] : ['Time left', live ? duration(s.seconds_left) : '–'],
    ['Cells done', `${s.cells.filter((c) => c.state === 'done').length} of ${s.cells.length}`],
    ...(n.total ? [['Tasks now', `${n.running} running, ${n.ready} ready, ${n.waiting} waiting`]] : []),
    ...(live ? [['Tokens/s', number(Math.round(s.tokens_per_second))]] : []),
  ];
}

function drawFacts(list) {
  byId('facts').replaceChildren(...list.map(([term, value, kind]) =>
    el('div', {}, el('dt', {}, term), el('dd', {}, kind === 'time' ? when(value) : value))));
}

function cell(c) {
  return el('tr', {},
    el('th', { scope: 'row' }, c.cell),
    el('td', {}, c.label),
    el('td', {}, state(c.state)),
    el('td', { class: 'wide' }, c.steps ? bar(c.step, c.steps, `${c.unit ?? 'round'}s of ${c.cell}`) : ''),
    el('td', {}, c.now ?? ''));
}

function running(r) {
  return el('tr', {},
    el('th', { scope: 'row' }, r.label), el('td', {}, r.kind), el('td', { class: 'number' }, r.attempt),
    el('td', { class: 'mono' }, r.worker ?? ''), el('td', { class: 'number' }, duration(r.seconds)),
    el('td', {}, r.total ? bar(r.done ?? 0, r.total, r.label) : ''));
}

function worker(w) {
  return el('tr', {},
    el('th', { scope: 'row', class: 'mono' }, w.id), el('td', {}, w.host),
    el('td', { class: 'number' }, `${w.running}/${w.slots}`), el('td', { class: 'number' }, memory(w)), el('td', {}, w.draining ? 'draining' : 'ready'));
}

function memory(w) {
  const gib = (bytes) => (bytes / 2 ** 30).toFixed(1);
  if (!w.memory_bytes) return '';
  return w.memory_limit_bytes ? `${gib(w.memory_bytes)} of ${gib(w.memory_limit_bytes)} GiB` : `${gib(w.memory_bytes)} GiB`;
}

function failure(f) {
  const tries = f.attempts === 1 ? 'one attempt' : `${f.attempts} attempts`;
  const retry = operator ? [el('button', { onclick: () => steer({ kind: 'retried', keys: [f.key] }) }, 'Retry this')] : [];
  return el('article', { class: 'card failure' },
    el('div', { class: 'row' }, el('h3', {}, f.label), el('span', {}, `${(f.cells ?? []).join(', ')} · ${tries} ·`), when(f.time), ...retry),
    el('pre', {}, f.error),
    el('details', { ontoggle: showLogs(f.key) }, el('summary', {}, 'Logs of its attempts'), el('div')));
}

function showLogs(key) {
  return async (event) => {
    const place = event.target.lastChild;
    if (!event.target.open || place.childNodes.length) return;
    place.replaceChildren('loading …');
    try {
      const { logs } = await ask(`${path}/logs?node=${encodeURIComponent(key)}`);
      place.replaceChildren(...(logs.length ? logs.flatMap((l) => [`attempt ${l.attempt}`, el('pre', {}, l.text)]) : ['There are none.']));
    } catch (e) {
      place.replaceChildren(e.message);
    }
  };
}

function drawCommands([allowed, phase, failed]) {
  byId('commands').hidden = !allowed;
  for (const button of byId('commands').children) {
    button.hidden = button.dataset.states ? !button.dataset.states.split(' ').includes(phase) : !failed;
  }
}

async function steer(command) {
  try {
    await ask(path + '/steer', { method: 'POST', headers: { 'Content-Type': 'application/json' }, body: JSON.stringify(command) });
    notice('');
    reopen(); // a finished run may go on
  } catch (e) {
    notice(e.message);
  }
}

byId('commands').addEventListener('click', async ({ target }) => {
  const { command, confirm } = target.dataset;
  if (!command || (confirm && !window.confirm(confirm))) return;
  target.disabled = true;
  await steer({ kind: command });
  target.disabled = false;
});

async function loadResults() {
  try {
    drawResults(await ask(path + '/table'));
    drawFigures((await ask(path + '/figures')).figures);
  } catch (e) {
    notice(e.message);
  }
}

/** drawResults shows the table that coalmine results prints, and its notes. */
function drawResults(table) {
  byId('results-head').replaceChildren(heads([...table.header, 'model']));
  byId('results').replaceChildren(...table.rows.map(result));
  byId('legends').replaceChildren(table.legends.join(' '));
  drawDifferences(table.differences);
  byId('notes').hidden = table.notes.length === 0;
  byId('notes').replaceChildren(...table.notes.map((n) => el('li', {}, n)));
  byId('exports').replaceChildren('Download: ', ...table.formats.map((f) =>
    el('a', { href: `/api/v1${path}/results?format=${f.name}`, title: f.description }, f.name)));
  byId('results-section').hidden = false;
}

const heads = (names) => el('tr', {}, ...names.map((h, i) => el('th', { scope: 'col', class: i ? 'number' : '' }, h)));

/** drawDifferences shows what rows of replicates differ in; there is nothing without them. */
function drawDifferences(table) {
  byId('differences-section').hidden = !table;
  if (!table) return;
  byId('differences-head').replaceChildren(heads(table.header));
  byId('differences').replaceChildren(...table.rows.map((row) => line(row.texts)));
  byId('differences-legends').replaceChildren(table.legends.join(' '));
}

const line = ([label, ...values]) => el('tr', {}, el('th', { scope: 'row' }, label), ...values.map((v) => el('td', { class: 'number' }, v)));

/** result is the line of a cell, or of a row of replicates, with the models of all that are done. */
function result(row) {
  const done = row.cells ?? (row.cell && row.status === 'done' ? [row.cell] : []);
  const models = done.map((cell) => el('a', { href: `/api/v1${path}/cells/${encodeURIComponent(cell)}/model`, 'aria-label': `safetensors, model of ${cell}` }, row.cells ? cell : 'safetensors'));
  return line([...row.texts, el('span', {}, ...models.flatMap((m, i) => (i ? [' ', m] : [m])))]);
}

/** drawFigures shows the figures of all cells, and those of the first cells one by one. */
function drawFigures(figures) {
  const cells = [...new Set(figures.map((f) => f.cell))].slice(0, chartedCells);
  const shown = figures.filter((f) => cells.includes(f.cell));
  byId('figures-section').hidden = shown.length === 0;
  byId('figures').replaceChildren(...shown.map(figure));
}

function figure(f) {
  const caption = f.cell ? `${f.cell} (${f.label}): ${f.caption}` : f.caption;
  return el('figure', { class: 'card drawn' }, el('img', { src: `/api/v1${path}/figures/${f.number}?at=${Date.now()}`, alt: f.title }), el('figcaption', {}, caption));
}

const digits = (e) => (e === null ? 'infinite' : Number(e.toPrecision(3)).toString());

/** labelled says what an epsilon is: where one user replaces another, two are to be told apart. */
const labelled = (e, proved, neighbouring) => (neighbouring === 'replace-one'
  ? `epsilon ${digits(e)} by the papers' convention, ${digits(proved)} proved (${neighbouring})`
  : `epsilon ${digits(proved)}, proved (${neighbouring})`);

const chartedCells = 24; // of large grids the first
const twentieth = (c) => (c.steps ? Math.floor((20 * c.step) / c.steps) : 0);

/** loadPrivacy draws what each training with noise has cost, round by round. */
async function loadPrivacy(cells) {
  const figures = [];
  for (const [name, label] of cells) {
    const target = `${path}/cells/${encodeURIComponent(name)}/privacy`;
    try {
      const s = await ask(target);
      if (s.rounds.length < 2) continue;
      const last = s.rounds[s.rounds.length - 1];
      const text = `${name} (${label}): ${labelled(last.epsilon, last.epsilon_proved, s.neighbouring)}, at delta ${s.delta} after ${number(last.round)} rounds; unit ${s.unit}, ${s.sampling} sampling, ${s.conversion} conversion`;
      figures.push(el('figure', { class: 'card' }, el('img', { src: `/api/v1${target}?format=svg&after=${last.round}`, alt: text }), el('figcaption', {}, text)));
    } catch (e) {
      notice(e.message);
    }
  }
  byId('privacy-section').hidden = figures.length === 0;
  byId('privacy').replaceChildren(...figures);
}

/** loadPictures shows what the audits of each cell have to look at, of all rounds so far. */
async function loadPictures(cells) {
  const cards = [];
  for (const [name, label] of cells) {
    try {
      const { pictures } = await ask(`${path}/cells/${encodeURIComponent(name)}/pictures`);
      if (pictures.length) cards.push(album(name, label, pictures));
    } catch (e) {
      notice(e.message);
    }
  }
  byId('pictures-section').hidden = cards.length === 0;
  redraw('albums', cards.map(({ seen }) => seen), () => byId('pictures').replaceChildren(...cards.map(({ card }) => card)));
}

/** album is the pictures of one cell: the newest of each title, and small those before it. */
function album(name, label, pictures) {
  const titles = [...new Set(pictures.map((p) => p.title))];
  const series = titles.flatMap((title) => {
    const [newest, ...earlier] = pictures.filter((p) => p.title === title).reverse();
    return [picture(newest), ...(earlier.length ? [el('div', { class: 'earlier' }, ...earlier.reverse().map(picture))] : [])];
  });
  return { seen: pictures.map((p) => [p.cell, p.round, p.number]), card: el('article', { class: 'card' }, el('h3', {}, `${name} (${label})`), ...series) };
}

function picture(p) {
  const source = `/api/v1${path}/cells/${encodeURIComponent(p.cell)}/pictures/${p.round}/${p.number}`;
  return el('figure', {}, el('img', { src: source, alt: p.text }), el('figcaption', {}, `${p.title} after round ${p.round}: ${p.caption}`));
}

async function start() {
  try {
    operator = (await session()).role === 'operator';
  } catch (e) {
    notice(e.message);
  }
  reopen = follow(path + '/events', show);
}
start();
