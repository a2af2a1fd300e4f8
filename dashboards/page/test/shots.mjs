// Takes a picture of every view of a server's newest run, in both themes, at 1280 and 400
// pixels. Its arguments: the address that logs in, and a folder.
import { chromium } from 'playwright-core';

const [login, folder] = process.argv.slice(2);
const origin = new URL(login).origin;
const browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium', args: ['--no-sandbox'] });
const context = await browser.newContext({ viewport: { width: 1280, height: 900 }, reducedMotion: 'reduce' });
const page = await context.newPage();
await page.goto(login);

const get = async (path) => (await page.request.get(origin + '/api/v1' + path)).json();
const { run, cells } = (await get('/runs')).runs[0];
const done = cells.filter((c) => c.state === 'done').map((c) => c.cell);
const noisy = cells.find((c) => c.label.includes('DP'))?.cell ?? cells[0].cell;
const some = [...new Set([...done.slice(0, 3), noisy, cells[1]?.cell])].filter(Boolean);
const at = `${origin}/runs/${run}`;
const drawn = async () => {
  await page.locator('.uplot').first().waitFor();
  await page.waitForTimeout(500); // others are drawn after it
};

/** views are what there is to see: where, when it is there, and where its picture begins. */
const views = {
  runs: [`${origin}/?columns=perplexity,memorized,epsilon`, () => page.getByRole('link', { name: run }).waitFor()],
  run: [`${at}?colour=utility.perplexity`, () => page.getByRole('heading', { name: 'Results' }).waitFor()],
  results: [`${at}?differing=1`, () => page.getByRole('heading', { name: 'Figures', exact: true }).waitFor(), 'Results'],
  figures: [`${at}?open=figures`, () => page.getByRole('heading', { name: 'Figures', exact: true }).waitFor(), 'Figures'],
  history: [at, () => page.getByRole('heading', { name: 'Events' }).waitFor(), 'Cells'],
  cell: [`${at}/cells/${done[0] ?? noisy}`, () => page.getByRole('heading', { name: 'Result', exact: true }).waitFor()],
  curves: [`${at}/cells/${done[0] ?? noisy}?open=curves`, drawn, 'Training curves'],
  canaries: [`${at}/cells/${done[0] ?? noisy}?canary=0`, async () => {
    await page.getByText('among random sequences').waitFor({ timeout: 60_000 });
    await drawn();
  }, 'Canaries'],
  checkpoints: [`${at}/cells/${done[0] ?? noisy}?audit=${cells.find((c) => c.cell === (done[0] ?? noisy)).steps}`, () => page.getByRole('region', { name: 'Checkpoints, table' }).waitFor(), 'Model and data'],
  tasks: [`${at}/cells/${done[0] ?? noisy}?kind=audits/random-sampling`, () => page.locator('.dag .box').first().waitFor(), 'Task graph'],
  privacy: [`${at}/privacy`, drawn],
  compare: [`${origin}/compare?cells=${some.map((c) => encodeURIComponent(`${run}/${c}`)).join()}&smooth=5`, drawn],
  outcomes: [`${origin}/compare?cells=${some.map((c) => encodeURIComponent(`${run}/${c}`)).join()}`, drawn, 'Outcomes'],
  workers: [`${origin}/workers`, () => page.getByRole('heading', { name: 'Workers' }).waitFor()],
  report: [`${origin}/api/v1/runs/${run}/results?format=html`, () => page.getByRole('heading', { name: 'Memorization' }).waitFor()],
};

const wanted = process.argv.slice(4);
for (const [name, [address, there, heading]] of Object.entries(views)) {
  if (wanted.length > 0 && !wanted.includes(name)) continue;
  await page.goto(address);
  try {
    await there();
  } catch (e) {
    console.error(`${name}: ${e.message}`);
    continue;
  }
  for (const colorScheme of ['light', 'dark']) {
    for (const width of [1280, 400]) {
      await page.emulateMedia({ colorScheme });
      await page.setViewportSize({ width, height: 900 });
      await page.waitForTimeout(400);
      await page.evaluate(() => scrollTo(0, document.body.scrollHeight)); // figures are loaded as they come into sight
      await page.waitForTimeout(400);
      await page.evaluate(() => scrollTo(0, 0));
      const first = page.getByRole('heading', { name: heading, exact: true });
      if (heading && (await first.count()) > 0) await first.first().evaluate((e) => scrollTo(0, e.getBoundingClientRect().top + scrollY - 12));
      await page.waitForTimeout(300);
      await page.screenshot({ path: `${folder}/${name}-${colorScheme}-${width}.png` });
    }
  }
  await page.setViewportSize({ width: 1280, height: 900 });
}
await browser.close();
