// node browser.mjs URL CHROMIUM FOLDER: draws digits on the page, reads the answers, takes pictures, prints what it saw.
import { createRequire } from "node:module";

const [url, chromium, folder] = process.argv.slice(2);
const { chromium: driver } = createRequire(`${process.env.SIGNWISE_NODE_MODULES}/`)("playwright-core");
const browser = await driver.launch({ executablePath: chromium, args: ["--no-sandbox"] });
const problems = [], requested = new Set();

async function open(width, height, path = "") {
  const page = await browser.newPage({ viewport: { width, height }, deviceScaleFactor: 1 });
  page.on("pageerror", (error) => problems.push(String(error)));
  page.on("console", (message) => message.type() === "error" && problems.push(message.text()));
  page.on("request", (request) => requested.add(new URL(request.url()).origin));
  await page.goto(url + path);
  await page.waitForFunction(() => document.documentElement.dataset.ready === "true");
  return page;
}

const answer = (page) => page.locator(".answer").first().textContent();

async function draw(page, points) {
  const box = await page.locator(".pad").boundingBox();
  const at = ([x, y]) => [box.x + x * box.width, box.y + y * box.height];
  await page.mouse.move(...at(points[0]));
  await page.mouse.down();
  for (const point of points.slice(1)) await page.mouse.move(...at(point), { steps: 6 });
  await page.mouse.up();
}

const seen = { examples: [] };
const desktop = await open(1100, 760);
seen.empty = await answer(desktop);
await draw(desktop, [[0.28, 0.2], [0.75, 0.2], [0.58, 0.5], [0.45, 0.88]]);
seen.seven = await answer(desktop);
seen.figures = await desktop.locator(".figures").first().textContent();
seen.shares = await desktop.locator("#panel-0 .share").allTextContents();
await desktop.screenshot({ path: `${folder}/desktop.png` });
await desktop.getByRole("button", { name: "Clear" }).click();
seen.cleared = await answer(desktop);

// The keyboard alone: to the drawing area by Tab, pen down, a line downwards.
await desktop.locator(".pad").focus();
await desktop.keyboard.press("Space");
for (let i = 0; i < 15; ++i) await desktop.keyboard.press("ArrowDown");
seen.keyboard = await answer(desktop);
await desktop.keyboard.press("Delete");
for (let i = 0; i < 10; ++i) {
  await desktop.getByRole("button", { name: "Show an example" }).click();
  seen.examples.push(await answer(desktop));
}

const phone = await open(360, 740);
await phone.getByRole("button", { name: "Show an example" }).click();
seen.phoneOverflow = await phone.evaluate(() => document.documentElement.scrollWidth - innerWidth);
seen.tabs = await phone.locator("[role=tab]").allTextContents();
seen.tabsShown = await phone.locator("#tabs").isVisible();
await phone.screenshot({ path: `${folder}/phone.png`, fullPage: true });

const dropped = phone.locator("input[type=file]");
if (await dropped.count()) {
  await phone.locator("[role=tab]").nth(1).click();
  await dropped.setInputFiles(`${folder}/photo.png`);
  await phone.waitForFunction(() => /%/.test(document.querySelectorAll(".answer")[1].textContent));
  seen.photo = await phone.locator(".answer").nth(1).textContent();
  seen.photoOverflow = await phone.evaluate(() => document.documentElement.scrollWidth - innerWidth);
  await phone.screenshot({ path: `${folder}/phone-photo.png`, fullPage: true });
}
await browser.close();
console.log(JSON.stringify({ ...seen, problems, origins: [...requested] }));
