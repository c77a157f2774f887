// node onnx.mjs MODEL INPUTS OUTPUTS: runs an exported model in onnxruntime-web, as a browser would.
import { readFile, writeFile } from "node:fs/promises";
import { createRequire } from "node:module";

const [model, inputs, outputs] = process.argv.slice(2);
const ort = createRequire(`${process.env.SIGNWISE_NODE_MODULES}/`)("onnxruntime-web");
ort.env.wasm.numThreads = 1;
const session = await ort.InferenceSession.create(await readFile(model), { executionProviders: ["wasm"] });
const bytes = await readFile(inputs);
const numbers = new Float32Array(bytes.buffer, bytes.byteOffset, bytes.length / 4);
const given = new ort.Tensor("float32", numbers, [numbers.length / 784, 1, 28, 28]);
const result = await session.run({ [session.inputNames[0]]: given });
await writeFile(outputs, Buffer.from(result[session.outputNames[0]].data.buffer));
console.log(JSON.stringify({ shape: result[session.outputNames[0]].dims }));
process.exit(0);
