// llama_cpp.mjs MODEL THREADS: the stock llama.cpp of node-llama-cpp, one JSON request per line in, one reply per line out.
//
//   {"continue": "text", "count": 50}   {"tokens": [...], "made": [...], "seconds": ...}   the likeliest continuation
//   {"scores": [tokens]}                {"scores": [[...], ...]}          of every next token, after each of the tokens
//
// "seconds" is what llama.cpp itself counts for the steps after the prompt, without the time of this script.
import {createRequire} from "node:module";
import {createInterface} from "node:readline";
import {pathToFileURL} from "node:url";

const resolve = createRequire(process.env.NODE_LLAMA_CPP + "/").resolve;
const {getLlama} = await import(pathToFileURL(resolve("node-llama-cpp")).href);
const [path, threads] = process.argv.slice(2);
let log = "";
const logger = (level, text) => { log += text; };
const llama = await getLlama({gpu: false, build: "never", progressLogs: false, logLevel: "info", logger});
const model = await llama.loadModel({modelPath: path});

async function answer(request) {
    const context = await model.createContext({
        contextSize: model.trainContextSize, threads: Number(threads), performanceTracking: true,
    });
    try {
        const sequence = context.getSequence();
        if (request.scores !== undefined) {
            const wanted = request.scores.map((token) => [token, {generateNext: {logits: true}}]);
            const found = await sequence.controlledEvaluate(wanted);
            const scores = found.map(({next}) => [...next.logits].sort((a, b) => a[0] - b[0]).map(([, score]) => score));
            return {scores};
        }
        const tokens = model.tokenize(request.continue), made = [];
        for await (const token of sequence.evaluate(tokens, {temperature: 0, yieldEogToken: true})) {
            made.push(token);
            if (made.length >= request.count) break;
        }
        log = "";
        await context.printTimings();
        const counted = log.match(/ eval time =\s+([\d.]+) ms \/\s+(\d+) runs/);
        return {tokens, made, seconds: counted === null ? null : Number(counted[1]) / 1000, steps: Number(counted?.[2])};
    } finally {
        await context.dispose();
    }
}

for await (const line of createInterface({input: process.stdin})) {
    try {
        console.log(JSON.stringify(await answer(JSON.parse(line))));
    } catch (error) {
        console.log(JSON.stringify({error: String(error)}));
    }
}
process.exit(0);
