// The list of runs.
import { bar, byId, duration, el, follow, notice, number, redraw, session, state, when } from './common.js';

function row(run) {
  const done = run.cells.filter((c) => c.state === 'done').length;
  return el('tr', {},
    el('th', { scope: 'row' }, el('a', { href: '/runs/' + encodeURIComponent(run.run) }, run.run)),
    el('td', {}, run.experiment),
    el('td', {}, state(run.state)),
    el('td', {}, bar(done, run.cells.length, `cells of ${run.run} that are done`)),
    el('td', { class: 'number' }, run.state === 'running' ? number(Math.round(run.tokens_per_second)) : ''),
    el('td', { class: 'number' }, run.state === 'running' ? duration(run.seconds_left) : ''),
    el('td', {}, when(run.submitted)));
}

follow('/events', ({ runs }) => redraw('runs', runs, () => {
  byId('empty').hidden = runs.length > 0;
  byId('table').hidden = runs.length === 0;
  byId('runs').replaceChildren(...runs.map(row));
}));
session().catch((e) => notice(e.message));
