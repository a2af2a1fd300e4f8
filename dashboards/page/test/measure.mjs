// Measures the page in a real browser, and a server with many pages open, and prints a table.
// Its arguments: the folder of the built page (dashboards/web), and, for the second part, the
// address that logs in, the run and the process id of a server.
//   - the first paint, the median of seven loads, and how smoothly grids of 300 and 1,000 cells scroll
//   - how smoothly a curve of 8,000 rounds follows the pointer and zooms
//   - the share of a core and the memory that 100 open pages cost the server
import { setMaxListeners } from 'node:events';
import { readFileSync } from 'node:fs';
import http from 'node:http';
import { chromium } from 'playwright-core';

const [web, login, run, pid] = process.argv.slice(2);
const pages = 100;
const seconds = 30; // for which pages stay open
const rows = [];
const row = (what, value, asked) => rows.push([what, value, asked]);

/** made is a server of answers that are made up: a run of n cells, one of which has many rounds. */
function made(n, rounds) {
  const name = (i) => 'c' + String(i + 1).padStart(4, '0');
  const cells = [...Array(n).keys()].map((i) => ({ cell: name(i), label: `partition ${i % 25}, rate ${i}`, state: i % 3 ? 'done' : 'running', step: 100, steps: rounds, unit: 'round' }));
  const status = { run: 'big', experiment: 'big', state: 'running', cells, nodes: { total: 9, done: 1, running: 1, ready: 1, waiting: 1, failed: 0 }, tokens_per_second: 5, seconds_left: 9, workers: [], submitted: '2026-01-01T00:00:00Z' };
  const outcome = (c, i) => ({ cell: c.cell, label: c.label, axes: { rate: i % 40, partition: Math.floor(i / 40) }, status: 'done', utility: { recall_at_1: i / n, perplexity: 80 + (i % 7) }, audit: { random_sampling: { memorized: i % 5, of: 9 } } });
  const curve = { run: 'big', cell: name(0), label: 'x', axes: {}, unit: 'round', steps: rounds, audited: [], clock: [], rounds: [...Array(rounds).keys()].map((i) => ({ round: i + 1, examples: 10, tokens: 100, loss: 4 + Math.sin(i / 50) + ((i * 7919) % 100) / 100, update_norm: 1 / (i + 1) })) };
  const answers = {
    '/api/v1/runs/big': status, '/results': { run: 'big', experiment: 'big', cells: cells.map(outcome) }, '/figures': { figures: [] }, '/pictures': { pictures: [] }, '/curve': curve,
    '/table': { header: ['setting', 'perplexity'], abouts: ['', ''], rows: cells.map((c) => ({ cell: c.cell, status: c.state, texts: [c.label, '80'] })), notes_once: [], formats: [] },
    '/history': { run: 'big', events: [], dropped: 0 }, '/session': { role: 'operator', login: false }, '/privacy': { rounds: [] }, '/canaries': { canaries: [], rounds: [] },
  };
  return http.createServer((req, res) => {
    const path = new URL(req.url, 'http://x').pathname;
    if (!path.startsWith('/api')) return file(res, /^\/(app|assets)\//.test(path) ? path : '/app/index.html');
    if (path.endsWith('/events')) return void res.writeHead(200, { 'Content-Type': 'text/event-stream' }).write(`event: status\ndata: ${JSON.stringify(status)}\n\n`);
    const found = Object.keys(answers).find((end) => path.endsWith(end));
    res.writeHead(found ? 200 : 404, { 'Content-Type': 'application/json' }).end(JSON.stringify(found ? answers[found] : { error: 'there is no ' + path }));
  });
}

const types = { js: 'text/javascript', css: 'text/css', html: 'text/html', svg: 'image/svg+xml' };
const file = (res, path) => res.writeHead(200, { 'Content-Type': types[path.split('.').pop()] ?? 'text/plain' }).end(readFileSync(web + path));
const listening = (server) => new Promise((done) => server.listen(0, '127.0.0.1', () => done(server.address().port)));

/** frames counts those that are drawn while something goes on. */
async function frames(page, go) {
  await page.evaluate(() => {
    const times = (window.times = []);
    const next = (t) => { times.push(t); window.next = requestAnimationFrame(next); };
    requestAnimationFrame(next);
  });
  await go();
  return page.evaluate(() => {
    cancelAnimationFrame(window.next);
    const gaps = window.times.slice(1).map((t, i) => t - window.times[i]).sort((a, b) => a - b);
    return { rate: (1000 * gaps.length) / gaps.reduce((a, b) => a + b, 0), slow: gaps[Math.floor(0.95 * gaps.length)] };
  });
}
/** loaded opens a run of n cells, and says when what could be seen. */
async function loaded(page, at, n) {
  await page.goto(at);
  const now = () => page.evaluate(() => performance.now());
  await page.getByRole('heading', { name: 'big' }).waitFor();
  const head = await now();
  await page.locator('.place').nth(n - 1).waitFor({ state: 'attached' });
  const grid = await now();
  return { head, grid, paint: await page.evaluate(() => performance.getEntriesByName('first-contentful-paint')[0].startTime) };
}

const smooth = (f) => `${f.rate.toFixed(0)} frames/s, 95% within ${f.slow.toFixed(0)} ms`;

const browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium', args: ['--no-sandbox'] });
for (const n of [300, 1000]) {
  const server = made(n, 8000);
  const at = `http://127.0.0.1:${await listening(server)}/runs/big`;
  const page = await browser.newPage({ viewport: { width: 1280, height: 900 } });
  const loads = [];
  for (let i = 0; i < 7; i++) loads.push(await loaded(page, at, n));
  const median = (of) => loads.map(of).sort((a, b) => a - b)[3].toFixed(0);
  row(`${n} cells: first paint`, `${median((l) => l.paint)} ms; how the run stands after ${median((l) => l.head)} ms, the whole grid after ${median((l) => l.grid)} ms`, n === 300 ? 'under 1,000 ms' : '');
  row(`${n} cells: scrolling`, smooth(await frames(page, async () => {
    for (let i = 0; i < 60; i++) await page.mouse.wheel(0, 200).then(() => page.waitForTimeout(16));
  })), '30 frames/s');
  if (n === 1000) {
    await page.goto(at + '/cells/c0001?metrics=loss');
    const plot = page.locator('.u-over').first();
    await plot.waitFor();
    await plot.scrollIntoViewIfNeeded();
    const box = await plot.boundingBox();
    row('8,000 rounds: crosshair and zoom', smooth(await frames(page, async () => {
      for (let i = 0; i < 60; i++) await page.mouse.move(box.x + 10 + i * 5, box.y + 50).then(() => page.waitForTimeout(16));
      await page.mouse.move(box.x + 50, box.y + 60);
      await page.mouse.down();
      await page.mouse.move(box.x + 300, box.y + 60, { steps: 20 });
      await page.mouse.up();
      await page.waitForTimeout(300);
    })), '30 frames/s');
  }
  await page.close();
  server.closeAllConnections();
  server.close();
}
await browser.close();

/** used is what a process has taken: seconds of a core, and MiB of memory. */
function used() {
  const ticks = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1].split(' ');
  return { cpu: (Number(ticks[11]) + Number(ticks[12])) / 100, memory: Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))[1]) / 1024 };
}

/** opened asks for all that an open page of a run asks for, and again when a cell has come further, at most every five seconds; and for its history every 15. */
async function opened(origin, cookie, until) {
  const get = (path) => fetch(`${origin}/api/v1/runs/${run}${path}`, { headers: { cookie }, signal: until });
  let [stage, last, text] = ['', -Infinity, ''];
  const look = async () => {
    for (const path of ['/results', '/table', '/pictures', '/history']) await (await get(path)).arrayBuffer();
    const { figures } = await (await get('/figures')).json();
    for (const f of figures.slice(0, 4)) await (await get('/figures/' + f.number)).arrayBuffer(); // those in sight
  };
  const told = setInterval(() => get('/history').then((r) => r.arrayBuffer()).catch(() => {}), 15_000);
  try {
    for await (const part of (await get('/events')).body.pipeThrough(new TextDecoderStream())) {
      text = (text + part).split('\n\n').slice(-2).join('\n\n');
      const newest = /^data: (\{"run".*)$/m.exec(text)?.[1];
      const now = newest && JSON.parse(newest).cells.map((c) => `${c.state} ${Math.floor((20 * c.step) / (c.steps || 1))}`).join();
      if (!now || now === stage || performance.now() - last < 5000) continue;
      [stage, last] = [now, performance.now()];
      asked++;
      await look();
    }
  } catch (e) {
    if (!until.aborted) throw e;
  } finally {
    clearInterval(told);
  }
}
let asked = 0;

if (pid) {
  const first = await fetch(login, { redirect: 'manual' });
  const cookie = first.headers.getSetCookie().map((c) => c.split(';')[0]).join('; ');
  const [stop, before, began] = [new AbortController(), used(), Date.now()];
  setMaxListeners(0, stop.signal);
  const open = [...Array(pages)].map(() => opened(new URL(login).origin, cookie, stop.signal));
  let most = before.memory;
  const watch = setInterval(() => (most = Math.max(most, used().memory)), 250);
  await new Promise((done) => setTimeout(done, 1000 * seconds));
  const [after, took] = [used(), (Date.now() - began) / 1000];
  clearInterval(watch);
  stop.abort();
  await Promise.all(open);
  row(`${pages} pages open for ${seconds} s, which looked ${asked} times at all results: server's share of a core`, `${(100 * (after.cpu - before.cpu) / took).toFixed(0)}%`, 'under 100%');
  row(`${pages} pages open: server's memory`, `${most.toFixed(0)} MiB, ${before.memory.toFixed(0)} MiB before`, 'under 200 MB more');
}

console.log('| measured | is | asked for |\n|---|---|---|');
for (const r of rows) console.log(`| ${r.join(' | ')} |`);
