/* The .sw file: a safetensors container with one program, as docs/file-format.md specifies it.
 *
 * Nothing is trusted: lengths are checked before they are used, and the tensors must fill the file without gaps. What the
 * operations mean, and whether they fit together, the native code checks again, operation by operation. */

const LARGEST_HEADER = 2 ** 24;
const LARGEST_LISTS = 2 ** 17;
const LARGEST_VALUES = 2 ** 19;
const LARGEST_OPERATIONS = 4096;
const LARGEST_ENDS = 256;
const VERSIONS = [1, 2];
const BYTES = { F32: 4, U8: 1 };

/** A file that is damaged, or is no .sw file at all. */
export class FormatError extends Error {
  name = "FormatError";
}

/**
 * Parse a file.
 *
 * @param {ArrayBuffer | Uint8Array} data
 * @returns {{ about: Record<string, string>, inputs: { shape: number[], type: string }[], outputs: number[],
 *             ops: Record<string, unknown>[], tensors: Map<string, { dtype: string, shape: number[], data: Uint8Array }> }}
 */
export function parse(data) {
  const bytes = data instanceof Uint8Array ? data : new Uint8Array(data);
  if (bytes.length < 8) throw new FormatError(`too short for a .sw file: ${bytes.length} bytes`);
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const length = Number(view.getBigUint64(0, true));
  if (length > LARGEST_HEADER) {
    throw new FormatError(`not a .sw file: a header of ${length} bytes, the limit is ${LARGEST_HEADER}`);
  }
  if (length > bytes.length - 8) {
    throw new FormatError(`cut short: the header needs ${length} bytes, the file has ${bytes.length - 8} after its first 8`);
  }
  const header = parseJson(bytes.subarray(8, 8 + length), "the header");
  const text = header.__metadata__?.signwise;
  if (typeof text !== "string") throw new FormatError("a safetensors file without a program: made by signwise compile?");
  delete header.__metadata__;
  return { ...readDocument(parseJson(text, "the program")), tensors: readTensors(header, bytes.subarray(8 + length)) };
}

function parseJson(source, what) {
  let text;
  try {
    text = typeof source === "string" ? source : new TextDecoder("utf-8", { fatal: true }).decode(source);
  } catch {
    throw new FormatError(`not a .sw file: ${what} is not UTF-8 text`);
  }
  let lists = 0, values = 0;
  for (let i = 0; i < text.length; ++i) {
    const character = text.charCodeAt(i);
    if (character === 0x5b || character === 0x7b) ++lists;
    else if (character === 0x2c) ++values;
  }
  if (lists > LARGEST_LISTS || values > LARGEST_VALUES) throw new FormatError(`${what} has more parts than any program`);
  let parsed;
  try {
    parsed = JSON.parse(text);
  } catch (error) {
    throw new FormatError(`not a .sw file: ${what} is not valid JSON (${error.message})`);
  }
  if (!isObject(parsed)) throw new FormatError(`not a .sw file: ${what} must be a JSON object`);
  return parsed;
}

const isObject = (value) => typeof value === "object" && value !== null && !Array.isArray(value);
const isSize = (value) => Number.isSafeInteger(value) && value >= 0;

function readTensors(header, data) {
  const tensors = new Map();
  let expected = 0;
  const entries = Object.entries(header).sort(([, a], [, b]) => (a?.data_offsets?.[0] ?? 0) - (b?.data_offsets?.[0] ?? 0));
  for (const [name, entry] of entries) {
    const width = Object.hasOwn(BYTES, entry?.dtype ?? "") ? BYTES[entry.dtype] : undefined;
    if (width === undefined) throw new FormatError(`tensor ${name} must have dtype F32 or U8, got ${entry?.dtype}`);
    const { shape, data_offsets: offsets } = entry;
    if (!Array.isArray(shape) || !shape.every(isSize) || !Array.isArray(offsets) || !offsets.every(isSize)) {
      throw new FormatError(`tensor ${name} has no proper shape and place`);
    }
    const [begin, end] = offsets;
    const size = shape.reduce((product, value) => product * value, width);
    if (offsets.length !== 2 || begin !== expected || end - begin !== size || end > data.length) {
      throw new FormatError(`damaged or cut short: tensor ${name} of ${size} bytes is not at [${offsets}] of ${data.length}`);
    }
    expected = end;
    tensors.set(name, { dtype: entry.dtype, shape, data: data.subarray(begin, end) });
  }
  if (expected !== data.length) throw new FormatError(`damaged: ${data.length - expected} bytes belong to no tensor`);
  return tensors;
}

function readDocument(document) {
  const { version, about, ops } = document;
  if (document.kind === "integers") {
    throw new FormatError("a program in integers alone, which microcontrollers run: load the file that it was made from");
  }
  if (!VERSIONS.includes(version)) {
    throw new FormatError(`the file has version ${version}, this runtime reads versions up to ${VERSIONS.at(-1)}: update it`);
  }
  // Version 1 has one input, in float32, and one output.
  const inputs = version === 1 ? [{ shape: document.input?.shape, type: "float32" }] : document.inputs;
  const outputs = version === 1 ? [document.output] : document.outputs;
  for (const [name, list] of Object.entries({ inputs, outputs })) {
    if (!Array.isArray(list) || list.length < 1 || list.length > LARGEST_ENDS) {
      throw new FormatError(`${name} must be a list of 1 to ${LARGEST_ENDS}`);
    }
  }
  for (const input of inputs) {
    if (!Array.isArray(input?.shape) || !input.shape.every((size) => isSize(size) && size > 0)) {
      throw new FormatError(`an input must have a shape, got ${JSON.stringify(input)}`);
    }
    if (input.type !== "float32" && input.type !== "int32") {
      throw new FormatError(`an input must be float32 or int32, got ${input.type}`);
    }
  }
  if (!outputs.every(isSize)) throw new FormatError(`outputs must be numbers of values, got ${JSON.stringify(outputs)}`);
  if (!Array.isArray(ops) || ops.length > LARGEST_OPERATIONS || !ops.every(isObject)) {
    throw new FormatError(`ops must be a list of at most ${LARGEST_OPERATIONS} operations`);
  }
  return { about: isObject(about) ? about : {}, inputs, outputs, ops };
}
