// Follows a cluster's run on the page from its submission to its report, with the keyboard
// alone, while others end its only worker and its server. Its argument is the server. It
// prints a word in capitals when something is to happen to the cluster, which
// TestThePageShowsAWorkerThatDies then does, and a line for each thing that was found wrong.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { chromium } from 'playwright-core';

const [origin] = process.argv.slice(2);
const patience = Number(process.env.PATIENCE ?? 120_000); // ms
const wrong = [];
const browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium', args: ['--no-sandbox'] });
const page = await browser.newPage({ viewport: { width: 1280, height: 900 } });
page.setDefaultTimeout(patience);
page.on('pageerror', (e) => wrong.push(`${page.url()}: ${e.message}`));
process.on('uncaughtException', async (e) => {
  console.error(e, page.url(), await page.locator('body').innerText());
  process.exit(2);
});
const workers = page.getByRole('region', { name: 'Workers, table' }).locator('tbody tr');
const running = page.getByRole('region', { name: 'Running tasks, table' }).locator('tbody tr');
const connection = page.locator('.connection');

/** tabTo presses Tab until something has the focus, as who has no mouse does. */
async function tabTo(target) {
  await target.waitFor();
  for (let i = 0; i < 200; i++) {
    if (await target.evaluate((e) => e === document.activeElement)) return;
    await page.keyboard.press('Tab');
  }
  throw new Error(`${page.url()}: Tab does not lead to ${target}`);
}
async function follow(name) {
  await tabTo(page.getByRole('link', { name, exact: true }).first());
  await page.keyboard.press('Enter');
}

/** whileItAdvances waits for a target, beyond the patience if the page shows more steps than before. */
async function whileItAdvances(target) {
  for (let before = ''; ; ) {
    try {
      return await target.waitFor();
    } catch (e) {
      const steps = ((await page.locator('main').innerText()).match(/[\d,]+\/[\d,]+/g) ?? []).join();
      if (steps === before) throw e;
      before = steps;
    }
  }
}

// The run comes by itself to a page that is open.
await page.goto(origin);
await page.getByText('No run yet').waitFor();
console.log('SUBMIT');
const link = page.getByRole('region', { name: 'Runs, table' }).getByRole('link').first();
await link.waitFor();
const run = await link.innerText();
await follow(run);
await running.filter({ hasText: /steps 1 to/ }).waitFor();

// The worker is at work, and then is not.
await follow('Workers');
const first = workers.filter({ hasText: 'steps 1 to' }).first();
const id = (await first.locator('th .mono').innerText()).trim();
console.log('KILL WORKER');
await workers.filter({ hasText: id }).waitFor({ state: 'detached' });
await page.goBack();
await page.getByText('no live worker').first().waitFor();
await page.getByText(`worker ${id} died`).first().waitFor();

// The server goes away, too, and comes back; nobody reloads.
console.log('KILL SERVER');
await page.getByText('the server does not answer').waitFor();
console.log('START SERVER');
await page.getByText('the server does not answer').waitFor({ state: 'hidden' });
await connection.getByText('live').waitFor();

// Another takes over what the first had begun, up to the end. On a busy machine it may seem to
// vanish itself for a while, so that nothing is said of what it is at.
console.log('START WORKER');
await whileItAdvances(page.locator('h1 + [role=status]').getByText('done'));
console.log('DONE');
await page.getByText(`worker ${id} died`).first().waitFor();

// The attempt that was lost stands in the timeline of its cell; its log is one key away.
await follow('c02');
await tabTo(page.locator('details.fold > summary', { hasText: 'Task graph' }));
await page.keyboard.press('Enter');
await tabTo(page.getByRole('button', { name: 'Show task graph' }));
await page.keyboard.press('Enter');
await page.getByRole('img', { name: /in [2-9] lanes/ }).waitFor();
await tabTo(page.getByRole('region', { name: 'Attempts that failed, table' }).locator('tbody').getByRole('button').first());
await page.keyboard.press('Enter');
await page.getByText('the worker died during this attempt').first().waitFor();
await page.reload();
await page.getByText('the worker died during this attempt').first().waitFor();
await page.goBack();

// The report opens as it is, and once saved without a server.
await tabTo(page.getByRole('link', { name: 'Report', exact: true }));
const [shown] = await Promise.all([page.context().waitForEvent('page'), page.keyboard.press('Enter')]);
await shown.getByRole('heading', { name: 'Memorization' }).waitFor();
const width = await shown.locator('body').evaluate((e) => getComputedStyle(e).maxWidth);
if (width !== '1200px') wrong.push(`the report has no style: it may be ${width} wide`);
await shown.close();
await tabTo(page.getByRole('link', { name: 'Save the report' }));
const [report] = await Promise.all([page.waitForEvent('download'), page.keyboard.press('Enter')]);
const file = join(mkdtempSync(join(tmpdir(), 'report-')), report.suggestedFilename());
await report.saveAs(file);
await page.goto('file://' + file);
await page.getByRole('heading', { name: 'Memorization' }).waitFor();
rmSync(dirname(file), { recursive: true });
await browser.close();
for (const w of wrong) console.log('WRONG ' + w);
process.exit(wrong.length > 0 ? 1 : 0);
