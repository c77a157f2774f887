/* The demo page: one tab per model of models.json. A model that reads gray images gets a drawing area, one that reads
 * colour images a place to drop them. */

import { load, softmax } from "./signwise.js";
import { Sketch } from "./sketch.js";

const byId = (id) => document.getElementById(id);

/** Shows the scores of a model as bars, with the time that they took. */
class Answer {
  #panel;
  #model;
  #classes;
  #milliseconds = [];
  #runtimeBytes;

  constructor(panel, model, classes, runtimeBytes) {
    [this.#panel, this.#model, this.#runtimeBytes] = [panel, model, runtimeBytes];
    const outputs = model.outputShape.reduce((product, size) => product * size, 1);
    this.#classes = classes?.length === outputs ? classes : Array.from({ length: outputs }, (_, i) => String(i));
    panel.querySelector(".bars")?.replaceChildren(...this.#classes.map((name) => {
      const row = document.createElement("li");
      const [label, track, share] = ["label", "track", "share"].map((part) => {
        const made = document.createElement("span");
        made.className = part;
        return row.appendChild(made);
      });
      label.textContent = name;
      track.appendChild(document.createElement("i"));
      track.setAttribute("aria-hidden", "true");
      share.textContent = "–";
      return row;
    }));
    this.#showFigures();
  }

  /** Run the model on one example. */
  show(pixels) {
    const start = performance.now();
    const scores = this.#model.run(pixels);
    this.#milliseconds.push(performance.now() - start);
    if (this.#milliseconds.length > 20) this.#milliseconds.shift();
    const shares = softmax(scores);
    const best = shares.indexOf(Math.max(...shares));
    this.#panel.querySelectorAll(".bars li").forEach((row, i) => {
      row.classList.toggle("best", i === best);
      row.querySelector("i").style.transform = `scaleX(${shares[i]})`;
      row.querySelector(".share").textContent = `${(100 * shares[i]).toFixed(1)} %`;
    });
    this.say(`${this.#classes[best]} (${(100 * shares[best]).toFixed(0)} %)`);
    this.#showFigures();
  }

  clear(message) {
    this.#panel.querySelectorAll(".bars li").forEach((row) => {
      row.classList.remove("best");
      row.querySelector("i").style.transform = "scaleX(0)";
      row.querySelector(".share").textContent = "–";
    });
    this.say(message);
  }

  say(message) {
    this.#panel.querySelector(".answer").textContent = message;
  }

  #showFigures() {
    const sorted = [...this.#milliseconds].sort((a, b) => a - b);
    const time = sorted.length ? `${sorted[sorted.length >> 1].toFixed(2)} ms per image (median of the last ${sorted.length}), ` : "";
    const kilobytes = (bytes) => `${(bytes / 1000).toFixed(0)} KB`;
    const error = this.#model.about.error ? ` Error: ${this.#model.about.error}.` : "";
    this.#panel.querySelector(".figures").textContent =
      `${time}network ${kilobytes(this.#model.bytes)}, runtime ${kilobytes(this.#runtimeBytes)}.${error}`;
  }
}

function drawPanel(panel, model, answer) {
  const [, height, width] = model.inputShape;
  const sketch = new Sketch(panel.querySelector("canvas"), () => {
    const pixels = sketch.pixels(width, height);
    if (pixels === null) answer.clear("Draw something.");
    else answer.show(pixels);
  });
  panel.querySelector(".clear").addEventListener("click", () => sketch.clear());
  panel.querySelector(".example").addEventListener("click", () => sketch.example());
}

function dropPanel(panel, model, answer) {
  const [, height, width] = model.inputShape;
  const canvas = panel.querySelector("canvas"), area = panel.querySelector(".drop");
  Object.assign(canvas, { width, height });
  const context = canvas.getContext("2d", { willReadFrequently: true });
  const classify = async (file) => {
    let image;
    try {
      image = await createImageBitmap(file);
    } catch {
      answer.clear(`${file.name} is not an image that this browser can read.`);
      return;
    }
    // The largest square in the middle.
    const side = Math.min(image.width, image.height);
    context.imageSmoothingQuality = "high";
    context.drawImage(image, (image.width - side) / 2, (image.height - side) / 2, side, side, 0, 0, width, height);
    canvas.hidden = false;
    const { data } = context.getImageData(0, 0, width, height);
    // (height, width, rgba) -> (channel, height, width)
    const pixels = new Float32Array(3 * width * height);
    for (let i = 0; i < width * height; ++i) for (let c = 0; c < 3; ++c) pixels[c * width * height + i] = data[4 * i + c];
    answer.show(pixels);
  };
  panel.querySelector("input").addEventListener("change", ({ target }) => target.files[0] && classify(target.files[0]));
  area.addEventListener("dragover", (event) => {
    event.preventDefault();
    area.classList.add("over");
  });
  area.addEventListener("dragleave", () => area.classList.remove("over"));
  area.addEventListener("drop", (event) => {
    event.preventDefault();
    area.classList.remove("over");
    if (event.dataTransfer.files[0]) classify(event.dataTransfer.files[0]);
  });
}

function otherPanel(panel, model, answer) {
  const shapes = (ends) => ends.map(({ shape, type }) => `${type} ${shape.join(" x ") || "number"}`).join(", ");
  answer.say(`Takes ${shapes(model.inputs)}; gives ${shapes(model.outputs)}. Call it from your own code: see signwise.d.ts.`);
}

function panelOf(shape) {
  if (shape.length === 3 && shape[0] === 1) return ["draw", drawPanel];
  if (shape.length === 3 && shape[0] === 3) return ["drop", dropPanel];
  return ["other", otherPanel];
}

function addTab(index, title, panel) {
  const tab = document.createElement("button");
  Object.assign(tab, { type: "button", id: `tab-${index}`, textContent: title });
  tab.setAttribute("role", "tab");
  tab.setAttribute("aria-controls", panel.id);
  panel.setAttribute("role", "tabpanel");
  panel.setAttribute("aria-labelledby", tab.id);
  tab.addEventListener("click", () => select(index));
  tab.addEventListener("keydown", ({ key }) => {
    const tabs = byId("tabs").children.length, step = { ArrowRight: 1, ArrowLeft: -1 }[key];
    if (step) select((index + step + tabs) % tabs).focus();
  });
  byId("tabs").append(tab);
}

function select(index) {
  [...byId("tabs").children].forEach((tab, i) => {
    tab.setAttribute("aria-selected", String(i === index));
    tab.tabIndex = i === index ? 0 : -1;
    byId("panels").children[i].hidden = i !== index;
  });
  return byId("tabs").children[index];
}

async function start() {
  const [listed, runtime] = await Promise.all(["models.json", "signwise.wasm"].map(async (name) => {
    const response = await fetch(name);
    if (!response.ok) throw new Error(`${name} is missing: make the folder with signwise export FILE --to wasm`);
    return response;
  }));
  const runtimeBytes = (await runtime.arrayBuffer()).byteLength;
  const models = await listed.json();
  const loaded = await Promise.all(models.map(({ file }) => load(new URL(file, document.baseURI))));
  // The first calls plan the work and let the browser optimize the code: before anybody waits for them.
  for (const model of loaded) {
    if (model.inputs.length !== 1 || model.inputs[0].type !== "float32") continue;
    const zeros = new Float32Array(model.inputShape.reduce((product, size) => product * size, 1));
    for (let i = 0; i < 3; ++i) model.run(zeros);
  }
  byId("panels").replaceChildren();
  models.forEach(({ title, classes }, index) => {
    const [template, fill] = panelOf(loaded[index].inputShape);
    const panel = document.createElement("div");
    panel.id = `panel-${index}`;
    panel.append(byId(template).content.cloneNode(true));
    byId("panels").append(panel);
    addTab(index, title, panel);
    fill(panel, loaded[index], new Answer(panel, loaded[index], classes, runtimeBytes));
  });
  byId("tabs").hidden = models.length < 2;
  select(0);
  document.documentElement.dataset.ready = "true";
}

start().catch((error) => {
  byId("loading")?.setAttribute("role", "alert");
  (byId("loading") ?? byId("panels")).textContent = `The page cannot start: ${error.message}`;
});
