// Drives the page in a real browser, as people do, against a server whose one run goes on or
// is done. Its arguments: the address that logs in, the run, a cell of it, and a folder for
// screenshots ('' for none). It ends with a line for each thing that was found wrong.
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { chromium } from 'playwright-core';

const [login, run, cell, folder] = process.argv.slice(2);
const first = 'c01';
const origin = new URL(login).origin;
process.on('uncaughtException', (e) => {
  for (const w of wrong) console.log('WRONG ' + w);
  console.error(e);
  process.exit(2);
});
const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
const wrong = [];
const expect = (what, holds) => holds || wrong.push(what);

const browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium', args: ['--no-sandbox'] });
const context = await browser.newContext({ viewport: { width: 1280, height: 900 } });
const page = await context.newPage();
page.setDefaultTimeout(60_000);
page.on('console', (m) => m.type() === 'error' && !m.text().includes('Failed to load resource') && wrong.push(`${page.url()} says on the console: ${m.text()}`));
page.on('pageerror', (e) => wrong.push(`${page.url()}: ${e.message}`));

/** stands waits for a parameter of the address, null for none. */
const stands = async (name, value) => {
  try {
    await page.waitForURL((u) => u.searchParams.get(name) === value, { timeout: 20_000 });
  } catch {
    wrong.push(`${page.url()} does not have ${name} ${value}`);
  }
};
const asked = (name) => new URL(page.url()).searchParams.get(name);
const text = (selector) => page.locator(selector).first().innerText();
const shows = async (what) => {
  try {
    await page.getByText(what).first().waitFor({ timeout: 20_000 });
  } catch {
    wrong.push(`${page.url()} does not show ${what}`);
  }
};

/** inspect looks for what keeps people out, in both themes and at both widths. */
async function inspect(name) {
  console.log('looks at ' + name);
  for (const scheme of ['light', 'dark']) {
    for (const width of [1280, 400]) {
      await page.emulateMedia({ colorScheme: scheme });
      await page.setViewportSize({ width, height: 900 });
      await page.waitForTimeout(150);
      const overflow = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
      expect(`${name}, ${scheme}, ${width}: the page is ${overflow} pixels wider than its window`, overflow <= 0);
      const wide = await page.evaluate(() => [...document.querySelectorAll('.scroll:has(> table)')].filter((e) => e.scrollWidth > e.clientWidth + 1).map((e) => e.ariaLabel));
      expect(`${name}, ${scheme}: at 1280 pixels there is no room for ${wide}`, width < 1280 || wide.length === 0);
      if (folder) await page.screenshot({ path: `${folder}/${name}-${scheme}-${width}.png`, fullPage: true });
    }
    // By the browser's protocol: the policy of the page allows no script but its own.
    const session = await context.newCDPSession(page);
    await session.send('Runtime.evaluate', { expression: axe });
    const { result } = await session.send('Runtime.evaluate', { expression: 'axe.run().then((r) => JSON.stringify(r.violations))', awaitPromise: true, returnByValue: true });
    for (const v of JSON.parse(result.value)) wrong.push(`${name}, ${scheme}: ${v.impact}: ${v.help}: ${v.nodes.map((n) => n.target).slice(0, 3).join('; ')}`);
    await session.detach();
  }
  await page.emulateMedia({ colorScheme: 'light' });
  await page.setViewportSize({ width: 1280, height: 900 });
}

// Who is not known is asked for a token.
await page.goto(origin);
await shows('Token');
await inspect('login');

// Runs: found, sorted, and the state is in the address.
await page.goto(login);
await shows(run);
await page.getByRole('searchbox').fill('no such thing');
await shows('0 of 1');
await page.reload();
await shows('0 of 1');
await page.getByRole('searchbox').fill(run.slice(0, 4));
await shows('1 of 1');
await shows(' ago');
await page.getByRole('button', { name: 'Submitted' }).click();
await stands('sort', 'submitted');
await inspect('runs');
await page.locator('summary', { hasText: 'Steer' }).click();
await page.getByRole('button', { name: 'Pin', exact: true }).waitFor();
await stands('steer', run);
await page.reload();
await page.getByRole('button', { name: 'Pin', exact: true }).waitFor();
await inspect('runs-steer');
await page.locator('summary', { hasText: 'Steer' }).click();
await page.getByRole('button', { name: 'Pin', exact: true }).waitFor({ state: 'hidden' });
await stands('steer', null);
// What the address asks for and there is not is said.
await page.goto(`${origin}/?sort=-nonsense&columns=recall,nothing&steer=gone`);
await shows('an order by “-nonsense”');
await shows('a column “nothing”');
await shows('the run “gone”');
await inspect('runs-astray');
await page.goto(origin);

// The run, by its link, with the keyboard alone.
await page.getByRole('link', { name: run }).focus();
await page.keyboard.press('Enter');
await page.getByRole('heading', { name: 'Events' }).waitFor();
await shows('submitted by');
await page.locator('h1 + [role=status]').getByText('done').waitFor({ timeout: 150_000 }); // nobody reloads
await shows('finished');
await page.getByRole('heading', { name: 'Results' }).waitFor();
const { cells } = await (await page.request.get(`${origin}/api/v1/runs/${run}`)).json();
await page.getByRole('link', { name: /^safetensors, model of/ }).nth(cells.length - 1).waitFor(); // the table has come to the end, too
expect('the title does not name the run', (await page.title()).includes(run));
await page.getByLabel('Colour').selectOption({ index: 1 });
expect('the colour is not in the address', asked('colour') !== null);
await page.getByLabel('Only columns that differ').check();
const heads = page.getByRole('region', { name: 'Results, table' }).locator('thead th');
const all = await heads.allInnerTexts();
const menu = (name) => page.locator('.tools', { has: page.getByLabel(`Find in ${name}`) }).locator('details.menu');
await menu('results').locator('summary').click();
await menu('results').getByLabel('perplexity').uncheck();
const columns = await heads.allInnerTexts();
await stands('results.columns', '-perplexity');
await page.reload();
await page.getByRole('heading', { name: 'Results' }).waitFor();
expect(`columns are ${await heads.allInnerTexts()} after a reload, and were ${columns} of ${all}`, (await heads.allInnerTexts()).join() === columns.join());
// Another visit remembers it, without a word in the address.
await page.goto(`${origin}/runs/${run}?differing=1`);
await heads.first().waitFor();
expect(`the next visit has the columns ${await heads.allInnerTexts()}`, (await heads.allInnerTexts()).join() === columns.join());
await menu('results').locator('summary').click();
await menu('results').getByLabel('perplexity').check();
await page.goto(`${origin}/runs/${run}`);
// A header says what its column means, to the keyboard too; Escape takes that away.
const header = page.getByRole('region', { name: 'Results, table' }).getByRole('button', { name: 'accuracy %' });
await header.waitFor();
await page.keyboard.press('Tab');
await header.focus();
await page.locator('.tip:popover-open', { hasText: 'recall@1' }).waitFor();
expect('what a column means is not said of its header', (await header.evaluate((e) => document.getElementById(e.getAttribute('aria-describedby'))?.textContent ?? '')).includes('recall@1'));
await page.keyboard.press('Escape');
expect('Escape does not take the explanation away', (await page.locator('.tip:popover-open').count()) === 0);
// Words and conditions narrow a table, and a column orders it.
const cellsTable = page.getByRole('region', { name: 'Cells, table', exact: true });
await page.getByLabel('Find in cells').fill(`cell=${first} state:done steps>=1`);
await stands('cells.q', `cell=${first} state:done steps>=1`);
await page.reload();
await cellsTable.getByRole('link').first().waitFor();
expect('a condition does not leave its cell', (await cellsTable.getByRole('link').allInnerTexts()).join() === first);
await page.getByLabel('Find in cells').fill('');
await cellsTable.getByRole('button', { name: 'Cell', exact: true }).click();
await cellsTable.getByRole('button', { name: 'Cell', exact: true }).click();
await stands('cells.sort', '-cell');
expect('cells are not in the order asked for', (await cellsTable.getByRole('link').first().innerText()) === cells.at(-1).cell);
await page.locator('summary', { hasText: /^Notes \(/ }).click();
expect('what holds of all cells is said of each', (await page.getByRole('list', { name: 'About the numbers' }).getByRole('listitem').count()) === (await (await page.request.get(`${origin}/api/v1/runs/${run}/table`)).json()).notes_once.length);
await page.getByRole('button', { name: 'Add a note or tags' }).click();
const script = '<img src=x onerror="document.title=\'broken in\'">';
await page.getByLabel('Note').fill(script);
await page.getByLabel('Tags').fill('paper table-1');
await page.getByRole('button', { name: 'Save' }).click();
await shows(script);
await shows('table-1');
await shows('note set to');
expect('a note is run as a script', !(await page.title()).includes('broken in'));
await page.getByRole('button', { name: 'Pin', exact: true }).click();
await page.getByRole('button', { name: 'Unpin' }).waitFor();
let question = '';
page.once('dialog', (d) => {
  question = d.message();
  void d.dismiss();
});
await page.getByRole('button', { name: 'Unpin' }).click();
expect('unpinning asks nothing', question.includes('Unpin'));
await page.getByRole('button', { name: 'Show resolved config' }).click();
await shows('# c01: ');
await stands('file', '1');
await page.getByRole('button', { name: 'Copy' }).click();
expect('what is copied is not selected', (await page.evaluate(() => getSelection().toString())).includes('# c01: '));
await inspect('run');

await page.goto(`${origin}/runs/${run}?rows=x&colour=y&chosen=c99&results.sort=2&results.columns=-x3`);
await shows('rows by “x”');
await shows('the cell “c99”');
await shows('an order by “2”');
// A cell that still trains says of which round its numbers are, among replicates below its row.
await page.route('**/results', async (r) => {
  const outcome = await (await r.fetch()).json();
  outcome.cells[0].row = { name: 'r1', label: 'x' };
  outcome.cells[0].so_far = { unit: 'round', steps: 9, measured: { round: 3, utility: { perplexity: 61.5 } }, audit: {} };
  await r.fulfill({ json: outcome });
});
await page.route('**/table', async (r) => {
  const table = await (await r.fetch()).json();
  const { texts } = table.rows[0];
  table.rows = [{ cell: first, status: 'running', so_far: 'so far: round 3 of 9', texts: ['a cell (so far: round 3 of 9)', ...texts.slice(1)] }, { cell: '', row: 'r1', cells: [], status: 'pending', texts: ['replicates', ...texts.slice(1)] }];
  table.best = 'Best at equal utility: replicates (r1) has the least mean of RS memorized, 1.0 of 9.';
  await r.fulfill({ json: table });
});
await page.goto(`${origin}/runs/${run}`);
await shows('a cell (so far: round 3 of 9)');
await shows('Best at equal utility: replicates (r1)');
await shows('so far: round 3 of 9: perplexity 61.5');
await inspect('run-so-far');
await page.unroute('**/results');
await page.unroute('**/table');
await page.reload();
await page.getByRole('heading', { name: 'Grid' }).waitFor();

// Privacy: epsilon with what it rests on, while a run without noise says that it has none.
await page.getByRole('link', { name: 'Privacy', exact: true }).click();
await shows('Assumptions');
await shows('Not covered');
await shows('Valid only while the experiment');
await page.locator('.uplot').first().waitFor();
await page.locator('label', { hasText: /^Count/ }).locator('select').selectOption('papers');
await stands('convention', 'papers');
await page.route('**/results', async (r) => {
  const outcome = await (await r.fetch()).json();
  const curve = { noise_multiplier_refuted: 0.71, epsilon_lower: 9.5, p_value: 0.001, claimed: true, refuted: true, epsilon_refuted: false };
  outcome.cells.at(-1).audit.one_run = { epsilon_lower: 2.5, epsilon_largest_canaries: 0, delta: 1e-5, trade_off: curve };
  outcome.cells.at(-1).audit.one_shot = { final: { epsilon: 1.5, standard_error: 0.2 }, delta: 1e-5 };
  await r.fulfill({ json: outcome });
});
await page.reload();
const audited = page.getByRole('region', { name: 'Audits of privacy, table' });
await audited.waitFor();
const rows = await audited.locator('tbody tr').allInnerTexts();
const told = [/one-run.*at least 2\.5.*nothing: POWERLESS/s, /trade-off.*at least 9\.5.*the claimed noise/s, /one-shot.*about 1\.5 ± 0\.2.*no bound/s];
expect(`audits of privacy are told as ${rows}`, rows.length === 3 && told.every((t, i) => t.test(rows[i])));
await shows('use more canaries');
await inspect('privacy');
await page.unroute('**/results');
await page.goto(`${origin}/runs/${run}/privacy?cells=${first}`);
await shows('none of its cells has a finite epsilon');
// A training without rounds on record has its epsilon in the results.
await page.route('**/cells/*/privacy', async (r) => r.fulfill({ json: { ...(await (await r.fetch()).json()), rounds: [] } }));
await page.goto(`${origin}/runs/${run}/privacy`);
const total = page.getByRole('region', { name: 'Privacy of ended trainings, table' });
await total.waitFor();
expect('an epsilon without rounds is not shown', (await total.locator('tbody tr').evaluateAll((rows) => rows.map((r) => r.querySelector('td.number').textContent))).some((t) => /\d/.test(t)));
await page.unroute('**/cells/*/privacy');
// A setting without a finite epsilon has the greatest.
await page.route('**/results', async (r) => {
  const outcome = await (await r.fetch()).json();
  outcome.cells[0].privacy = { epsilon: null, epsilon_proved: null, infinite: true };
  await r.fulfill({ json: outcome });
});
await page.goto(`${origin}/?columns=epsilon`);
await shows('∞');
await page.unroute('**/results');
await page.goto(`${origin}/runs/${run}`);
await page.getByRole('heading', { name: 'Grid' }).waitFor();

// Two cells compared, chosen in the grid; back leads back.
const boxes = page.getByRole('region', { name: 'Grid of cells, table' }).getByRole('checkbox');
await boxes.nth(0).check();
await boxes.nth(1).check();
await page.getByRole('link', { name: 'Compare 2 cells' }).click();
await page.locator('.uplot').first().waitFor();
/** explains is the text that explains what has the focus. */
const explains = (at) => at.evaluate((e) => document.getElementById(e.getAttribute('aria-describedby'))?.textContent ?? '');
for (const [picker, says] of [[/^Show/, 'Mean training loss'], [/^x axis/, 'Exponential of the mean loss'], [/^y axis/, 'Inserted canaries memorized']]) {
  const measure = page.locator('label', { hasText: picker }).locator('select');
  await measure.and(page.locator('[aria-describedby]')).waitFor();
  expect(`the measure of ${picker} is explained as ${await explains(measure)}`, (await explains(measure)).includes(says));
}
expect('a chip does not say what its cell is', (await page.getByRole('list', { name: 'Cells' }).innerText()).includes(cells[0].label));
await page.getByLabel('Logarithmic').check();
await page.getByLabel('Smooth over').fill('5');
await page.getByLabel('Smooth over').press('Tab');
await page.locator('.uplot .u-over').first().hover();
expect('there are not two curves', (await page.locator('.uplot').first().locator('.u-legend .u-series').count()) === 3);
const against = page.locator('label', { hasText: /^against/ }).locator('select');
for (const place of ['examples', 'time']) {
  await against.selectOption(place);
  await page.reload();
  expect(`the axis forgets ${place}`, (await against.inputValue()) === place);
  await page.locator('.uplot').first().waitFor();
}
await page.getByText('Over the grid').first().waitFor();
expect('there are boxes without replicates', (await page.getByText('by replicates').count()) === 0);
await page.route('**/results', async (r) => {
  const outcome = await (await r.fetch()).json();
  outcome.cells.forEach((c, i) => (c.row = { name: `r${i % 2}`, label: `row ${i % 2}` }));
  await r.fulfill({ json: outcome });
});
await page.reload();
await shows('by replicates');
await inspect('compare');
await page.unroute('**/results');
await page.goBack();
await page.getByRole('heading', { name: 'Grid' }).waitFor();
// Seeds of one setting are one curve, a mean with a band, until they are shown one by one.
await page.route('**/results', async (r) => {
  const outcome = await (await r.fetch()).json();
  outcome.cells.forEach((c) => (c.row = { name: 'r0', label: 'one setting' }));
  await r.fulfill({ json: outcome });
});
await page.goto(`${origin}/compare?cells=${run}/${cells[0].cell},${run}/${cells[1].cell}`);
const folded = page.locator('figure.plot').first();
await folded.getByText('one setting (2 seeds)').waitFor();
expect('two seeds are not one curve', (await folded.locator('.u-legend .u-series').count()) === 2);
const savedAs = async (format) => {
  const [file] = await Promise.all([page.waitForEvent('download'), folded.getByRole('button', { name: format }).click()]);
  return readFileSync(await file.path(), 'latin1');
};
const csv = (await savedAs('CSV')).split('\n');
for (const [format, begin] of [['SVG', '<svg '], ['PDF', '%PDF-'], ['PNG', '\x89PNG']]) expect(`a chart is not saved as ${format}`, (await savedAs(format)).startsWith(begin));
expect('a saved chart does not name its lines', (await savedAs('SVG')).includes('one setting (2 seeds)'));
expect(`the numbers of a band are ${csv[0]} and ${csv[1]}`, csv[0].includes('standard deviation of') && /^one setting \(2 seeds\),.*,[0-9.e-]+$/.test(csv[1]));
await page.getByRole('checkbox', { name: 'Each seed' }).check();
await stands('seeds', '1');
await page.waitForFunction(() => document.querySelector('figure.plot').querySelectorAll('.u-legend .u-series').length === 3);
await page.unroute('**/results');
// A cell that there is not leaves the others.
await page.goto(`${origin}/compare?cells=${run}/${first},${run}/c99`);
await page.locator('.uplot').first().waitFor();
await shows(`${run}/c99: `);
expect('the cell that there is has no curve', (await page.locator('.uplot').first().locator('.u-legend .u-series').count()) === 2);
await page.goto(`${origin}/compare`);
await shows('Choose cells in the grid');
await inspect('compare-empty');
// The list of runs has what came out of them, as its address says.
await page.goto(origin);
await page.locator('summary', { hasText: 'Columns' }).click();
await page.getByLabel('Best perplexity').check();
await page.getByLabel('Most memorized').check();
const list = page.getByRole('region', { name: 'Runs, table' });
const headlines = async () => {
  await list.locator('td.number').filter({ hasText: /^\d/ }).first().waitFor();
  return list.locator('tbody tr').first().locator('td.number').allInnerTexts();
};
expect(`headlines are ${await headlines()}`, (await headlines()).every((t) => /^\d/.test(t)));
await page.reload();
expect('the headlines that were chosen are forgotten by a reload', (await headlines()).length === 2);
await inspect('runs-headlines');
await page.goto(`${origin}/runs/${run}`);
await page.getByRole('heading', { name: 'Grid' }).waitFor();
await page.getByRole('heading', { name: 'Grid' }).waitFor();

// A cell: curves, canaries, tasks; and one that there is not.
await page.goto(`${origin}/runs/${run}/cells/${cell}`);
await page.locator('h2', { hasText: 'Task graph' }).waitFor();
await page.getByRole('heading', { name: 'Result', exact: true }).waitFor();
const tall = await page.evaluate(() => document.documentElement.scrollHeight);
console.log(`a cell's page is ${tall} pixels high`);
expect(`the page of a cell is ${tall} pixels high`, tall <= 1800);
expect('a cell does not begin with its result', (await page.getByRole('heading').nth(1).innerText()) === 'Result' && /accuracy %/.test(await text('.answer')));
await inspect('cell-folded');
const unfold = async (name) => {
  await page.locator('details.fold > summary', { hasText: name }).click();
};
await unfold('Canaries');
await unfold('Training curves');
await page.locator('.uplot').first().waitFor();
// A canary's life, and the canary among its references; its text only when asked for.
await page.getByRole('heading', { name: 'Canaries over the training' }).waitFor();
const canaries = page.getByRole('region', { name: 'Canaries, table' });
expect('texts of canaries are shown unasked', (await canaries.getByRole('button', { name: 'Text' }).count()) === 0);
await page.getByRole('button', { name: "Show the canaries' texts" }).click();
expect('the text of a canary is not shown', /\w \w/.test(await canaries.locator('tbody td').nth(1).innerText()));
// A range of rounds is chosen by dragging, for all curves.
const curve = page.locator('figure.plot', { hasText: 'loss' }).first().locator('.u-over');
const drag = async (over, y) => {
  await over.scrollIntoViewIfNeeded();
  const { width } = await over.boundingBox();
  await over.dragTo(over, { sourcePosition: { x: width / 4, y }, targetPosition: { x: (3 * width) / 4, y } });
};
await drag(curve, 40);
await page.getByRole('button', { name: 'Whole training' }).waitFor();
await page.reload();
await page.getByRole('button', { name: 'Whole training' }).waitFor();
expect('texts of canaries that were shown are forgotten by a reload', /\w \w/.test(await canaries.locator('tbody td').nth(1).innerText()));
await page.getByRole('button', { name: 'Whole training' }).click();
await stands('zoom', null);
await canaries.getByRole('checkbox').first().check();
await shows('among random sequences');
await page.reload();
await shows('among random sequences');
await page.getByRole('button', { name: 'The most exposed' }).click();
await page.locator('label', { hasText: /^Show/ }).locator('select').selectOption('log_perplexity');
// The checkpoints that are stored, each with what audits it again.
await unfold('Model and data');
await page.getByRole('button', { name: 'List checkpoints' }).click();
const stored = page.getByRole('region', { name: 'Checkpoints, table' });
await stored.getByText('0 (initial)').waitFor();
const [model] = await Promise.all([page.waitForEvent('download'), stored.getByRole('link').first().click()]);
expect(`a checkpoint is saved as ${model.suggestedFilename()}`, model.suggestedFilename().endsWith('.safetensors'));
await stored.locator('tbody').getByRole('button').first().click();
await shows(/coalmine export .* --round \d+ -o/);
await page.reload();
await shows(/coalmine audit .*--references \d+/);
await unfold('Task graph');
await page.getByRole('button', { name: 'Show task graph' }).click();
await page.getByRole('region', { name: 'Tasks, table' }).waitFor();
// An attempt that failed is crossed out, and a click shows its error and log.
await page.route('**/history', async (r) => {
  const told = await (await r.fetch()).json();
  const { nodes } = await (await page.request.get(`${origin}/api/v1/runs/${run}/cells/${cell}/nodes`)).json();
  const { key, label, attempt } = nodes.find((n) => n.attempt);
  const event = { kind: 'attempt failed', text: 'x', key, label, error: 'out of memory <b>', attempts: 1, worker: attempt.worker, seconds: 1, time: new Date(Date.parse(attempt.started) + 3000) };
  told.events.push(event, { ...event, worker: 'w9' }); // equal: numbers begin anew with the coordinator
  await r.fulfill({ json: told });
});
await page.route('**/logs?node=*', (r) => r.fulfill({ json: { logs: [{ node: 'k', label: 'x', attempt: '1.w8', text: 'log of w8' }, { node: 'k', label: 'x', attempt: '1.w9', text: 'log of w9' }] } }));
await page.reload();
const attempts = page.getByRole('region', { name: 'Attempts that failed, table' }).locator('tbody').getByRole('button');
await attempts.nth(1).waitFor(); // both are listed
await attempts.first().click();
await shows('No log is stored.');
await attempts.last().click();
await shows('log of w9');
expect('an attempt has the log of another', (await page.getByText('log of w8').count()) === 0);
await shows('out of memory <b>');
await page.locator('figure', { hasText: 'Tasks of each worker' }).locator('.u-over').waitFor();
await inspect('cell-attempts');
await page.getByRole('button', { name: 'Close' }).click();
await page.unroute('**/logs?node=*');
// The plan, by keyboard; a task with what it rests on; what was made in a range of time.
const plan = page.getByRole('region', { name: 'Plan of the cell, drawn' });
await plan.getByRole('button', { name: /^audits.random-sampling \d/ }).focus();
await page.keyboard.press('Enter');
await stands('kind', 'audits/random-sampling');
await page.getByRole('region', { name: 'Tasks, table' }).locator('tbody').getByRole('button').first().click();
await shows('Made by');
await page.reload();
await shows('It depends on');
await page.locator('.dag .box.lit').first().waitFor();
await page.locator('.lineage').getByRole('button').first().click();
const lanes = page.locator('figure', { hasText: 'Tasks of each worker' }).locator('.u-over');
await lanes.waitFor();
await drag(lanes, 8);
await shows(/\d+ of \d+ attempts from second/);
await page.reload();
await page.getByRole('region', { name: 'Attempts in the range, table' }).waitFor();
await inspect('cell');
await page.unroute('**/history');
await page.goto(`${origin}/runs/${run}/cells/${cell}?tasks=1&node=ab&kind=x&range=9-1&metrics=nothing&life=x&canary=999&zoom=x`);
for (const what of ['the task “ab”', 'tasks of the kind “x”', 'the seconds “9-1”', 'a drawing of “nothing”', 'canaries by “x”', 'the canary “999”']) await shows(what);
await inspect('cell-astray');
// What a task has made is read in other cells, whose tasks are one click away.
await page.goto(`${origin}/runs/${run}/cells/${cell}?tasks=1`);
await page.getByRole('region', { name: 'Tasks, table' }).locator('tbody').getByRole('button').first().click();
const lineage = page.locator('.lineage');
await lineage.getByText(`${cells.length} cells: `).waitFor();
await inspect('cell-lineage');
const node = asked('node');
await lineage.locator('dd', { hasText: `${cells.length} cells: ` }).getByRole('link', { name: first }).click();
await page.getByRole('heading', { name: new RegExp(`^${first}`) }).waitFor();
await lineage.getByText('Made by').waitFor();
expect('a cell is not shown with the task that led there', page.url().includes(`/cells/${first}?`) && asked('node') === node);
await lineage.getByRole('link', { name: cell }).first().waitFor();
await page.goto(`${origin}/runs/${run}/cells/c99`);
await shows('There is no cell c99');
await page.goto(`${origin}/runs/no-such-run`);
await shows('no such run');
await shows('To the runs');
await inspect('no-run');
await page.goto(`${origin}/workers`);
await shows('No task runs or waits for a slot');
await page.getByRole('region', { name: 'Workers, table' }).locator('tbody tr').first().waitFor();
await inspect('workers-idle');
const streamed = (pattern, value) => page.route(pattern, (r) => r.fulfill({ contentType: 'text/event-stream', body: `event: status\ndata: ${JSON.stringify(value)}\n\nevent: end\ndata: {}\n\n` }));
await streamed('**/workers/events', { workers: [], queues: [], waits: [{ cause: 'no-worker', detail: 'no worker is alive; start one with: coalmine worker' }] });
await page.reload();
await shows('no worker is alive');
await inspect('workers-none');
await page.unroute('**/workers/events');
const worker = (id, rate) => ({ id, host: 'h', slots: 4, running: 1, memory_bytes: 2 ** 28, memory_limit_bytes: 2 ** 30, attempts: 12, takeovers: 2, tokens: 12345, tokens_per_second: rate, cache_hits: 30, cache_misses: 10 });
const atWork = {
  run, experiment: 'x', state: 'running', cells: [], workers: [worker('w1', 100), worker('w2', 300)], tokens_per_second: 400, seconds_left: 9, nodes: { total: 9, done: 1, running: 1, ready: 3, waiting: 4, failed: 0 },
  queues: [{ class: 'compute', slots: 8, ready: 3, queued: 2, running: 1, retrying: 0, parked: 0 }], running: [{ key: 'k', label: 'round 3', kind: 'x', attempt: 1, worker: 'w1', seconds: 3 }],
};
const fleet = { workers: [{ ...worker('w1', 100), classes: ['compute'], tasks: [{ run, ...atWork.running[0] }] }, { ...worker('w2', 300), classes: ['compute'], tasks: [] }], queues: atWork.queues, waits: [] };
await streamed('**/workers/events', fleet);
await page.reload();
await shows('75%');
await shows(/round 3, attempt 1, for 3 s/);
await page.getByRole('button', { name: 'Tokens/s' }).click();
await stands('sort', '-rate');
expect('workers are not in the order of their rate', (await page.getByRole('region', { name: 'Workers, table' }).locator('tbody th').first().innerText()).includes('w2'));
await page.getByRole('button', { name: 'Depth' }).waitFor();
await inspect('workers-busy');
await page.unroute('**/workers/events');

// Models of images count examples.
await streamed(`**/runs/${run}/events`, { ...atWork, rate_unit: 'examples' });
await page.goto(`${origin}/runs/${run}`);
await shows('Examples/s');
await page.unroute(`**/runs/${run}/events`);

// Long tables: the first rows at once, all of them when asked for; and whatever is wide has room.
const many = [...Array(300).keys()].map((i) => ({ ...atWork, run: `run-${i}`, experiment: 'a-long-name-of-an-experiment', state: i % 3 ? 'done' : 'failed', workers: [], running: [], note: 'a note of some length, about what was looked for', tags: ['one', 'two'], submitted: new Date(), cells: [...Array(4).keys()].map((c) => ({ cell: `c0${c + 1}`, label: 'x', state: 'done' })) }));
await streamed('**/api/v1/events', { runs: many });
await page.goto(origin);
await page.getByRole('button', { name: 'Show all 300' }).waitFor();
await inspect('runs-long');
await page.getByRole('searchbox').fill('state:failed run-29');
await shows('3 of 300');
await page.unroute('**/api/v1/events');
await streamed(`**/runs/${run}/events`, { ...atWork, state: 'failed', cells: [...Array(400).keys()].map((i) => ({ cell: `c${i + 1}`, label: `by-user, DP-FedAvg, b=10, learning rate ${i}, seed ${i}`, state: i % 2 ? 'done' : 'failed', step: i, steps: 1000, unit: 'round', breaches: i % 5 ? [] : ['x'] })) });
await page.goto(`${origin}/runs/${run}?cells.sort=-cell`);
await page.getByRole('button', { name: 'Show all 400' }).click();
await page.getByRole('region', { name: 'Cells, table', exact: true }).locator('tbody tr').nth(399).waitFor();
await inspect('run-long');
await page.unroute(`**/runs/${run}/events`);

// The server does not answer for a while, which the page says, and then it does again.
await page.goto(origin);
await shows(run);
await page.route('**/api/**', (r) => r.abort());
await page.evaluate(() => document.dispatchEvent(new Event('visibilitychange'))); // looks again
await shows('the server does not answer');
await page.locator('.connection', { hasText: 'not connected' }).waitFor();
await inspect('server-away');
await page.unroute('**/api/**');
await page.getByText('the server does not answer').waitFor({ state: 'hidden', timeout: 20_000 });
await shows('live');

await page.route('**/api/v1/events', (r) => r.fulfill({ contentType: 'text/event-stream', body: 'event: status\ndata: {"runs": []}\n\nevent: end\ndata: {}\n\n' }));
await page.reload();
await shows('No run yet');
await inspect('runs-empty');
await page.unroute('**/api/v1/events');

// A cell at work is looked at again, whether it comes further or not.
const working = { ...atWork, cells: [{ cell, label: 'x', state: 'running', step: 3, steps: 9, unit: 'round', now: 'round 4' }] };
await page.route('**/events', (r) => r.fulfill({ contentType: 'text/event-stream', body: `event: status\ndata: ${JSON.stringify(working)}\n\nevent: end\ndata: {}\n\n` }));
await page.goto(`${origin}/runs/${run}/cells/${cell}`);
await shows('Now: round 4');
await page.locator('.uplot').first().waitFor();
await page.waitForRequest('**/curve?*');
await inspect('cell-running');
await page.unroute('**/events');

// Text of others is shown whole and does nothing: markup is text, and characters without a shape
// of their own are escaped, among them marks that would turn the rest of a line around.
const hostile = '<img src=x onerror="document.title=\'broken in\'">\u202egnp.exe\u2066\u200b\u0007\u001b[31m\ufe0f<script>document.title="broken in"</script>';
const harmless = '<img src=x onerror="document.title=\'broken in\'">\\u202egnp.exe\\u2066\\u200b\\u0007\\u001b[31m\\ufe0f<script>';
const among = { ...atWork, experiment: hostile, note: hostile, tags: [hostile], workers: [worker(hostile, 1)], waits: [{ cause: hostile, detail: hostile }], reasons: [hostile], cells: [{ cell, label: hostile, state: 'running', step: 3, steps: 9, unit: hostile, now: hostile }], running: [{ ...atWork.running[0], label: hostile, kind: hostile, worker: hostile }], failures: [{ key: 'k', label: hostile, cells: [cell], attempts: 1, error: hostile }] };
const torn = { run: hostile, experiment: '', state: 'failed', unreadable: true, error: hostile, cells: [], workers: [], nodes: atWork.nodes, tokens_per_second: 0, seconds_left: null };
const unharmed = async (view) => {
  await shows(harmless);
  const seen = (await page.locator('body').innerText()) + (await page.evaluate(() => [...document.querySelectorAll('*')].flatMap((e) => [...e.attributes].map((a) => a.value)).join('\n')));
  expect(`${view}: text of others is shown with characters that have no shape`, !/[\u202e\u2066\u200b\u0007\u001b\ufe0f]/.test(seen));
  expect(`${view}: text of others has become markup`, (await page.locator('img[src=x]').count()) === 0);
  expect(`${view}: text of others is run as a script`, !(await page.title()).includes('broken in'));
};
await streamed('**/api/v1/events', { runs: [among, torn] });
await page.goto(origin);
await shows('unreadable');
await unharmed('runs');
await inspect('runs-hostile');
await page.unroute('**/api/v1/events');
await streamed('**/workers/events', { ...fleet, workers: [{ ...worker(hostile, 1), host: hostile, classes: [hostile], tasks: [{ run, ...among.running[0] }] }], waits: among.waits });
await page.goto(`${origin}/workers`);
await unharmed('workers');
await inspect('workers-hostile');
await page.unroute('**/workers/events');
await streamed('**/events', among);
for (const [view, address] of [['run', `${origin}/runs/${run}`], ['cell', `${origin}/runs/${run}/cells/${cell}`]]) {
  await page.goto(address);
  await unharmed(view);
  await inspect(`${view}-hostile`);
}
await page.unroute('**/events');

// Tasks of a cell follow the stream: what is at work, what has been made since, and what
// failed; nodes are asked for whole once, then those that may have changed.
const { nodes } = await (await page.request.get(`${origin}/api/v1/runs/${run}/cells/${cell}/nodes`)).json();
const report = nodes.find((n) => n.kind.startsWith('reports/'));
const unmade = { ...report, committed: false, blobs: [], attempt: undefined };
const asks = [];
let passed = 0;
await page.route(`**/runs/${run}/events`, (r) => {
  const steps = [
    { ...working, running: [{ key: report.key, label: report.label, kind: report.kind, attempt: 1, worker: 'w1', seconds: 3 }] },
    { ...working, nodes: { ...working.nodes, done: 2 }, running: [], workers: [] },
  ];
  const s = steps[Math.min(passed, 1)];
  return r.fulfill({ contentType: 'text/event-stream', body: `retry: 100\nid: ${passed}\nevent: status\ndata: ${JSON.stringify(s)}\n\n` });
});
await page.route(`**/cells/${cell}/nodes*`, (r) => {
  asks.push(new URL(r.request().url()).search);
  const again = asks.at(-1) !== '';
  return r.fulfill({ json: { nodes: again ? (passed > 0 ? [report] : [unmade]) : nodes.map((n) => (n === report ? unmade : n)) } });
});
await page.route('**/history', (r) => r.fulfill({ json: { run, dropped: 0, events: passed === 0 ? [] : [{ kind: 'attempt failed', text: 'x', key: report.key, label: report.label, error: 'broken', attempts: 1, worker: 'w1', seconds: 1, time: new Date() }] } }));
await page.goto(`${origin}/runs/${run}/cells/${cell}?tasks=1`);
await shows(/1 running, pale/);
await shows('running on w1');
await inspect('cell-tasks-live');
passed = 1;
await page.getByText(/1 running, pale/).waitFor({ state: 'hidden' });
const made = page.getByRole('region', { name: 'Tasks, table' }).locator('tbody tr').filter({ hasText: report.label });
await made.filter({ hasText: / on / }).first().waitFor();
await page.getByRole('region', { name: 'Attempts that failed, table' }).getByText('broken').waitFor();
expect(`nodes were asked for as ${asks}`, asks.filter((q) => q === '').length === 1 && asks.slice(1).every((q) => /^\?keys=([0-9a-f]{16},?)*&after=\d+$/.test(q)) && asks.some((q) => q.includes(report.key.slice(0, 16))));
await page.unroute('**/history');
await page.unroute(`**/cells/${cell}/nodes*`);
await page.unroute(`**/runs/${run}/events`);

// The report, as it is when it is saved.
const saved = await (await page.request.get(`${origin}/api/v1/runs/${run}/results?format=html`)).text();
await page.goto('about:blank');
await page.setContent(saved);
await page.getByRole('heading', { name: 'Memorization' }).waitFor();
await inspect('report');

// A task that failed: its error, its log, and that it is tried again when somebody asks.
const key = 'a'.repeat(64);
const failed = {
  run, experiment: 'x', state: 'failed', cells: [{ cell, label: 'x', state: 'failed', step: 3, steps: 9, unit: 'round' }], workers: [], tokens_per_second: 0, seconds_left: null,
  nodes: { total: 1, done: 0, running: 0, ready: 0, waiting: 0, failed: 1 }, failures: [{ key, label: 'round 3', error: script, attempts: 5, cells: [cell], time: '2026-01-01T00:00:00Z' }],
};
await page.route('**/events', (r) => r.fulfill({ contentType: 'text/event-stream', body: `event: status\ndata: ${JSON.stringify(failed)}\n\nevent: end\ndata: {}\n\n` }));
await page.route('**/logs?node=*', (r) => r.fulfill({ json: { logs: [{ node: key, label: 'round 3', attempt: '5', text: 'out of memory ' + script }] } }));
const steered = [];
await page.route('**/steer', (r) => {
  steered.push(r.request().postDataJSON());
  return r.fulfill({ json: { run } });
});
await page.goto(`${origin}/runs/${run}`);
await page.getByText('Logs of its attempts').click();
await shows('out of memory');
await Promise.all([page.waitForResponse('**/steer'), page.getByRole('button', { name: 'Retry this' }).click()]);
expect(`a retry sends ${JSON.stringify(steered)}`, steered.length === 1 && steered[0].kind === 'retried' && steered[0].keys[0] === key);
expect('an error is run as a script', !(await page.title()).includes('broken in'));
await stands('logs', key.slice(0, 12));
await page.reload();
await shows('out of memory');
await inspect('failed');
// From the failed cell of the grid to error and log is one click.
await page.getByRole('region', { name: 'Cells, table', exact: true }).getByRole('link', { name: cell }).click();
await shows('out of memory');
await page.unrouteAll();

// How soon there is something to see.
await page.goto(`${origin}/runs/${run}`);
await page.getByRole('heading', { name: run }).waitFor();
await page.waitForFunction(() => performance.getEntriesByName('first-contentful-paint').length > 0);
const paint = await page.evaluate(() => Math.round(performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? -1));
console.log(JSON.stringify({ first_paint_ms: paint, headline: await text('h1') }));

// Where nobody leads the page says how old is what it shows, and that grows by itself.
const stale = { ...atWork, workers: [], running: [], queues: [], pace: 'stuck', from_storage: true, age_seconds: 180, last_progress: new Date(Date.now() - 190_000), waits: [{ cause: 'no-coordinator', detail: 'no coordinator reports on it', since: new Date(), tasks: 3 }] };
await page.clock.install();
await streamed(`**/runs/${run}/events`, stale);
await page.goto(`${origin}/runs/${run}`);
await shows(/As of 3 min( \d+ s)? ago, read from storage; no coordinator leads\./);
await shows(/no coordinator reports on it \(since .*, 3 tasks\)/);
await inspect('run-stale');
await page.clock.fastForward(120_000);
await shows(/As of 5 min( \d+ s)? ago/);
await page.unroute(`**/runs/${run}/events`);
await streamed('**/api/v1/events', { runs: [stale] });
await page.goto(origin);
await shows('no coordinator reports on it');
await inspect('runs-stale');
await page.unroute('**/api/v1/events');
await browser.close();
for (const w of wrong) console.log('WRONG ' + w);
process.exit(wrong.length > 0 ? 1 : 0);
