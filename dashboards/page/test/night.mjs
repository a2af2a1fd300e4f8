// Leaves the page of a run open for a night, faster, and prints what it and the server hold at ten
// points. Its arguments: the address of a server, the run, and how many minutes the night may take.
//
// The server is a real one, with a run that goes on. What a night of ten hours has of its
// events goes to each page through a proxy, which opens as many streams as the night is faster and
// hands on the events of all of them. The timers and clocks of the page run as much faster, so that
// it asks for results and history as often as in a night. The proxy breaks connections off, and
// refuses new ones for a while. The last row is of the same pages opened anew: what a run that has
// come further takes is in there too, and no growth.
import http from 'node:http';
import { chromium } from 'playwright-core';

const [server, run, given] = process.argv.slice(2);
const hours = 10;
const minutes = Number(given ?? 6);
const speed = Math.round((60 * hours) / minutes);
const points = 10;
const cutEvery = 600; // s of the night
const refusedFor = 60; // s of the night, after every second cut
let started; // ms
const night = () => ((Date.now() - started) * speed) / 1000; // s

let refusing = false;
const told = { events: 0, requests: 0, cuts: 0 };
const open = new Set(); // streams to pages

/** proxy hands everything on, and multiplies streams of events. */
const proxy = http.createServer((req, res) => {
  if (refusing) return void res.writeHead(503).end();
  const ask = { headers: req.headers, method: req.method, agent };
  if (req.url.endsWith('/events')) return stream(req, res, ask);
  told.requests++;
  const up = http.request(server + req.url, ask, (from) => {
    res.writeHead(from.statusCode, from.headers);
    from.pipe(res);
  });
  up.on('error', () => res.destroy());
  res.on('error', () => up.destroy());
  req.pipe(up);
});
const agent = new http.Agent({ keepAlive: true });

/** stream sends the events of many streams as one. A browser comes back after 3 s, of the night too. */
function stream(req, res, ask) {
  res.writeHead(200, { 'Content-Type': 'text/event-stream' }).write(`retry: ${Math.ceil(3000 / speed)}\n\n`);
  const ups = [...Array(speed)].map((_, i) => setTimeout(() => (ups[i] = follow(req.url, ask, res)), (i * 500) / speed));
  open.add(res);
  res.on('close', () => {
    open.delete(res);
    for (const up of ups) up.destroy ? up.destroy() : clearTimeout(up);
  });
}

/** follow hands on the whole events of one stream. */
function follow(url, ask, res) {
  const up = http.request(server + url, { ...ask, agent: undefined }, (from) => {
    let rest = '';
    from.setEncoding('utf8').on('error', () => {}).on('data', (text) => {
      const whole = (rest + text).split('\n\n');
      rest = whole.pop();
      for (const event of whole) {
        told.events += event.includes('event: status') ? 1 : 0;
        res.write(event + '\n\n');
      }
    });
  });
  up.on('error', () => {}).end();
  return up;
}

/** cut breaks all streams off, by turns for a moment and for a while. */
function cut() {
  told.cuts++;
  refusing = told.cuts % 2 === 0;
  setTimeout(() => (refusing = false), (1000 * refusedFor) / speed);
  for (const res of open) res.destroy();
}

/** faster runs in the page before all else. */
function faster(speed) {
  const began = [Date.now(), performance.now()];
  const [timeout, interval, date, now] = [setTimeout, setInterval, Date.now, performance.now.bind(performance)];
  window.setTimeout = (f, ms, ...rest) => timeout(f, (ms ?? 0) / speed, ...rest);
  window.setInterval = (f, ms, ...rest) => interval(f, (ms ?? 0) / speed, ...rest);
  Date.now = () => began[0] + (date() - began[0]) * speed;
  performance.now = () => began[1] + (now() - began[1]) * speed;
}

/** Watched is an open page, and what it holds. */
class Watched {
  async open(browser, name, address) {
    this.name = name;
    this.page = await browser.newPage({ viewport: { width: 1280, height: 900 } });
    this.page.on('crash', () => console.error(`${name}: the page has crashed`));
    await this.page.addInitScript(faster, speed);
    await this.page.goto(address);
    await this.live();
    this.devtools = await this.page.context().newCDPSession(this.page);
    await this.devtools.send('Performance.enable');
    return this;
  }

  /** live waits until events come. */
  async live() {
    await this.page.getByText('live', { exact: true }).first().waitFor();
  }

  async reload() {
    await this.page.reload();
    await this.live();
    await this.page.waitForLoadState('networkidle', { timeout: 5000 }).catch(() => {}); // it goes on asking
  }

  async holds() {
    await this.devtools.send('HeapProfiler.collectGarbage');
    const { metrics } = await this.devtools.send('Performance.getMetrics');
    const of = (name) => metrics.find((m) => m.name === name).value;
    return [(of('JSHeapUsedSize') / 2 ** 20).toFixed(1), of('Nodes'), of('JSEventListeners')];
  }
}

/** serves is what the server says of itself: MiB of memory, goroutines. */
async function serves() {
  const text = await (await fetch(server + '/metrics')).text();
  const of = (name) => Number(new RegExp(`^${name} (.*)$`, 'm').exec(text)[1]);
  return [(of('process_resident_memory_bytes') / 2 ** 20).toFixed(0), of('go_goroutines')];
}

const state = async () => await (await fetch(`${server}/api/v1/runs/${run}`)).json();
const { cells, run: id } = await state();
await new Promise((done) => proxy.listen(0, '127.0.0.1', done));
const at = `http://127.0.0.1:${proxy.address().port}/runs/${id}`;
const browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium', args: ['--no-sandbox'] });
const pages = [
  await new Watched().open(browser, 'run', at),
  await new Watched().open(browser, 'cell', `${at}/cells/${cells[0].cell}`),
];
console.log(`| hours | events | requests | cuts | ${pages.map((p) => `${p.name}: heap, MiB | nodes | listeners`).join(' | ')} | server: MiB | goroutines |`);
console.log('|---'.repeat(6 + 3 * pages.length) + '|');
started = Date.now();
let cuts;
setTimeout(() => (cuts = setInterval(cut, (1000 * cutEvery) / speed)), (500 * cutEvery) / speed); // between the points
async function print(first) {
  const row = [first, told.events / pages.length, told.requests, told.cuts];
  for (const page of pages) row.push(...(await page.holds()));
  console.log(`| ${[...row, ...(await serves())].join(' | ')} |`);
}
for (let i = 1; i <= points; i++) {
  await new Promise((done) => setTimeout(done, started + (i * minutes * 60_000) / points - Date.now()));
  await print((night() / 3600).toFixed(1));
}
clearInterval(cuts);
await Promise.all(pages.map((p) => p.live()));
const { state: stands } = await state();
await Promise.all(pages.map((p) => p.reload()));
await print('opened anew');
console.log(`\nThe run is ${stands}, and both pages were live in the morning. The events are those of a page.`);
await browser.close();
process.exit(0);
