// node run_model.mjs MODEL OUTPUTS INPUT...: runs the model on a file of raw numbers per input, in batches of 1 and of all
// the others, and writes the outputs one after the other, each with all examples.
import { readFile, writeFile } from "node:fs/promises";
import { load } from "../../web/signwise.js";

const [path, outputs, ...inputs] = process.argv.slice(2);
const model = await load(await readFile(path));
const given = await Promise.all(model.inputs.map(async ({ type }, i) => {
  const bytes = await readFile(inputs[i]);
  return new (type === "int32" ? Int32Array : Float32Array)(bytes.buffer, bytes.byteOffset, bytes.length / 4);
}));
const sizes = model.inputs.map(({ shape }) => shape.reduce((product, size) => product * size, 1));
const parts = [model.run(given.map((numbers, i) => numbers.subarray(0, sizes[i])))];
if (given[0].length > sizes[0]) parts.push(model.run(given.map((numbers, i) => numbers.subarray(sizes[i]))));
const results = model.outputs.flatMap((_, i) => parts.map((part) => Buffer.from(part[i].buffer)));
await writeFile(outputs, Buffer.concat(results));
console.log(JSON.stringify({ outputs: model.outputs, memory: model.memory }));
