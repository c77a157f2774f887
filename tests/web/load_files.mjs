// node load_files.mjs FILE...: tries to load each file and prints a JSON list of error names and messages, null for none.
import { readFile } from "node:fs/promises";
import { load } from "../../web/signwise.js";

const found = [];
for (const path of process.argv.slice(2)) {
  try {
    (await load(await readFile(path))).close();
    found.push(null);
  } catch (error) {
    found.push([error.name, error.message]);
  }
}
console.log(JSON.stringify(found));
