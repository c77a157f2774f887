// generate.mjs MODEL COUNT < PROMPTS: greedy continuations by the stock llama.cpp. Prompts and results are JSON.
import {readFileSync} from "node:fs";
import {createRequire} from "node:module";
import {pathToFileURL} from "node:url";

const resolve = createRequire(process.env.NODE_LLAMA_CPP + "/").resolve;
const {getLlama} = await import(pathToFileURL(resolve("node-llama-cpp")).href);
const [path, count] = process.argv.slice(2);
const llama = await getLlama({gpu: false, build: "never", progressLogs: false, logLevel: "error"});
const model = await llama.loadModel({modelPath: path});
const results = [];
for (const prompt of JSON.parse(readFileSync(0, "utf8"))) {
    const context = await model.createContext({contextSize: 128, threads: 1});
    const tokens = model.tokenize(prompt);
    const made = [];
    for await (const token of context.getSequence().evaluate(tokens, {temperature: 0})) {
        made.push(token);
        if (made.length >= Number(count)) break;
    }
    results.push({tokens, made});
    await context.dispose();
}
console.log(JSON.stringify(results));
process.exit(0);
