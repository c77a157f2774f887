/* A drawing area for one digit, for mouse, pen, finger and keyboard, and its picture in the form of the MNIST images. */

const PEN = 20;
const STEP = 10;

// Digits as strokes on a square of 100, for whoever wants to see one without drawing.
const EXAMPLES = [
  [[50, 15, 30, 25, 24, 50, 30, 76, 50, 86, 70, 76, 76, 50, 70, 25, 50, 15]],
  [[38, 28, 53, 15, 53, 86]],
  [[27, 32, 36, 18, 55, 15, 70, 26, 68, 42, 48, 62, 27, 84, 74, 84]],
  [[28, 20, 52, 14, 68, 25, 64, 42, 46, 48, 66, 55, 72, 70, 58, 85, 28, 82]],
  [[58, 14, 26, 60, 78, 60], [62, 38, 62, 88]],
  [[70, 16, 36, 16, 32, 46, 55, 43, 70, 55, 68, 74, 52, 86, 28, 80]],
  [[64, 14, 42, 32, 30, 58, 36, 80, 54, 86, 70, 74, 66, 58, 48, 54, 33, 64]],
  [[26, 18, 74, 18, 56, 50, 44, 86]],
  [[50, 48, 34, 38, 36, 22, 50, 15, 65, 22, 66, 38, 50, 48, 32, 62, 34, 80, 50, 86, 67, 80, 68, 62, 50, 48]],
  [[68, 32, 56, 16, 38, 20, 31, 36, 42, 50, 60, 46, 68, 32, 66, 60, 58, 86]],
];

export class Sketch {
  #canvas;
  #context;
  #changed;
  #cursor = null;
  #penDown = false;
  #shown = -1;

  /** @param {HTMLCanvasElement} canvas @param {() => void} changed called after every stroke */
  constructor(canvas, changed) {
    this.#canvas = canvas;
    this.#changed = changed;
    this.#context = canvas.getContext("2d", { willReadFrequently: true });
    Object.assign(this.#context, { lineWidth: PEN, lineCap: "round", lineJoin: "round", strokeStyle: "#fff" });
    this.#blank();
    this.#followPointer();
    canvas.addEventListener("keydown", (event) => this.#followKeys(event));
    canvas.addEventListener("blur", () => {
      this.#penDown = false;
      this.#showPen(false);
    });
  }

  clear() {
    this.#blank();
    this.#changed();
  }

  /** Draw the next of ten digits. */
  example() {
    this.#blank();
    this.#shown = (this.#shown + 1) % EXAMPLES.length;
    const scale = this.#canvas.width / 100;
    for (const stroke of EXAMPLES[this.#shown]) {
      for (let i = 2; i < stroke.length; i += 2) {
        this.#line([stroke[i - 2] * scale, stroke[i - 1] * scale], [stroke[i] * scale, stroke[i + 1] * scale]);
      }
    }
    this.#changed();
  }

  /**
   * The drawing as MNIST's images are made: the ink fits a box of 20 by 20 pixels, and its centre of mass is the centre.
   *
   * @returns {Float32Array | null} gray values from 0 to 255, or null where there is no ink
   */
  pixels(width, height) {
    const { width: w, height: h } = this.#canvas;
    const { data } = this.#context.getImageData(0, 0, w, h);
    let [left, top, right, bottom, mass, x, y] = [w, h, -1, -1, 0, 0, 0];
    for (let row = 0; row < h; ++row) {
      for (let column = 0; column < w; ++column) {
        const ink = data[4 * (row * w + column)];
        if (ink === 0) continue;
        [left, right] = [Math.min(left, column), Math.max(right, column)];
        [top, bottom] = [Math.min(top, row), Math.max(bottom, row)];
        [mass, x, y] = [mass + ink, x + ink * (column + 0.5), y + ink * (row + 0.5)];
      }
    }
    if (mass === 0) return null;
    const scale = (20 / 28) * Math.min(width, height) / Math.max(right - left + 1, bottom - top + 1);
    // Halving twice at most before the last step: browsers average over two pixels each way, not over ten.
    let [source, factor] = [this.#canvas, scale];
    for (; factor < 0.5; factor *= 2) source = resized(source, source.width / 2, source.height / 2);
    const small = surface(width, height);
    small.fillRect(0, 0, width, height);
    small.setTransform(factor, 0, 0, factor, width / 2 - (x / mass) * scale, height / 2 - (y / mass) * scale);
    small.imageSmoothingQuality = "high";
    small.drawImage(source, 0, 0);
    const gray = small.getImageData(0, 0, width, height).data;
    return Float32Array.from({ length: width * height }, (_, i) => gray[4 * i]);
  }

  #blank() {
    this.#context.fillStyle = "#000";
    this.#context.fillRect(0, 0, this.#canvas.width, this.#canvas.height);
    this.#cursor = null;
    this.#penDown = false;
  }

  #line([x0, y0], [x1, y1]) {
    this.#context.beginPath();
    this.#context.moveTo(x0, y0);
    this.#context.lineTo(x1, y1);
    this.#context.stroke();
  }

  #followPointer() {
    const canvas = this.#canvas;
    let last = null;
    const place = (event) => {
      const box = canvas.getBoundingClientRect();
      return [(event.clientX - box.left) * canvas.width / box.width, (event.clientY - box.top) * canvas.height / box.height];
    };
    canvas.addEventListener("pointerdown", (event) => {
      canvas.setPointerCapture(event.pointerId);
      this.#showPen(false);
      last = place(event);
      this.#line(last, last);
      this.#changed();
    });
    canvas.addEventListener("pointermove", (event) => {
      if (last === null) return;
      const next = place(event);
      this.#line(last, next);
      last = next;
      this.#changed();
    });
    for (const end of ["pointerup", "pointercancel"]) canvas.addEventListener(end, () => (last = null));
  }

  #followKeys(event) {
    const moves = { ArrowLeft: [-STEP, 0], ArrowRight: [STEP, 0], ArrowUp: [0, -STEP], ArrowDown: [0, STEP] };
    const { width, height } = this.#canvas;
    this.#cursor ??= [width / 2, height / 4];
    if (event.key === " ") {
      this.#penDown = !this.#penDown;
      if (this.#penDown) this.#line(this.#cursor, this.#cursor);
    } else if (event.key === "Delete" || event.key === "Backspace") {
      this.#blank();
    } else if (moves[event.key]) {
      const [dx, dy] = moves[event.key];
      const next = [Math.min(Math.max(this.#cursor[0] + dx, 0), width), Math.min(Math.max(this.#cursor[1] + dy, 0), height)];
      if (this.#penDown) this.#line(this.#cursor, next);
      this.#cursor = next;
    } else {
      return;
    }
    event.preventDefault();
    this.#showPen(this.#cursor !== null);
    this.#changed();
  }

  // Where the pen of the keyboard is, above the drawing and no part of it.
  #showPen(visible) {
    const pen = this.#canvas.parentElement.querySelector(".pen");
    pen.hidden = !visible;
    pen.classList.toggle("down", this.#penDown);
    if (!visible) return;
    pen.style.left = `${(100 * this.#cursor[0]) / this.#canvas.width}%`;
    pen.style.top = `${(100 * this.#cursor[1]) / this.#canvas.height}%`;
  }
}

function surface(width, height) {
  const canvas = document.createElement("canvas");
  Object.assign(canvas, { width, height });
  return canvas.getContext("2d", { willReadFrequently: true });
}

function resized(source, width, height) {
  const context = surface(width, height);
  context.drawImage(source, 0, 0, width, height);
  return context.canvas;
}
