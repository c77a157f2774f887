// node misuse.mjs MODEL: prints the messages of wrong calls, and the result of a right call after them.
import { readFile } from "node:fs/promises";
import { load } from "../../web/signwise.js";

const model = await load(await readFile(process.argv[2]));
const message = (call) => {
  try {
    call();
    return null;
  } catch (error) {
    return error.message;
  }
};
const size = model.inputShape.reduce((product, one) => product * one, 1);
const refused = [
  message(() => model.run(new Float32Array(size + 1))),
  message(() => model.run(new Float32Array(0))),
  message(() => model.run(new Float64Array(size))),
  message(() => model.run([new Float32Array(size), new Float32Array(size)])),
];
const classes = model.run(new Float32Array(size)).length;
model.close();
refused.push(message(() => model.run(new Float32Array(size))));
console.log(JSON.stringify({ refused, classes, memory: model.memory }));
