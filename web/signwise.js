/* Networks with one bit per weight, in the browser or in Node: load a .sw file, run it on Float32Arrays.
 *
 *   import { load } from "./signwise.js";
 *   const model = await load("lenet5-mnist-1bit.sw");
 *   const scores = model.run(pixels);       // Float32Array in, Float32Array out
 *   model.close();
 *
 * The runtime is signwise.wasm, the C++ kernels of the Python package built for WebAssembly with SIMD. Every model has an
 * instance of it, with a memory of its own: closing the model gives all of it back, and a file that fails leaves nothing. */

import { FormatError, parse } from "./file.js";
import { writeOperation } from "./operations.js";

export { FormatError } from "./file.js";

const INTERFACE = 3;
const TYPES = { float32: 0, int32: 4 };
const LARGEST_RANK = 6;

/** A call that the runtime refuses, or an error inside of it. */
export class SignwiseError extends Error {
  name = "SignwiseError";
}

/** @type {Promise<WebAssembly.Module> | undefined} */
let runtime;

/**
 * Name or hand over signwise.wasm, where it does not lie beside this file. Must come before the first load.
 *
 * @param {string | URL | BufferSource | WebAssembly.Module} source
 */
export function setRuntime(source) {
  runtime = source instanceof WebAssembly.Module ? Promise.resolve(source) : compile(source);
}

async function compile(source) {
  return WebAssembly.compile(await fetchBytes(source));
}

async function fetchBytes(source) {
  if (source instanceof ArrayBuffer || ArrayBuffer.isView(source)) return source;
  const url = new URL(source, globalThis.location?.href ?? import.meta.url);
  if (url.protocol === "file:") {
    const { readFile } = await import("node:fs/promises");
    return readFile(url);
  }
  const response = await fetch(url);
  if (!response.ok) throw new SignwiseError(`cannot load ${url}: ${response.status} ${response.statusText}`);
  return response.arrayBuffer();
}

/**
 * Load a model.
 *
 * @param {string | URL | ArrayBuffer | Uint8Array} source where the .sw file is, or its bytes
 * @returns {Promise<Model>}
 */
export async function load(source) {
  runtime ??= compile(new URL("./signwise.wasm", import.meta.url));
  const [module, data] = await Promise.all([runtime, fetchBytes(source)]);
  const bytes = ArrayBuffer.isView(data)
    ? new Uint8Array(data.buffer, data.byteOffset, data.byteLength) : new Uint8Array(data);
  return new Model(await Instance.create(module), parse(bytes), bytes.length);
}

/** The runtime with one program in it. After an error nothing in it can be relied on, and it refuses every call. */
class Instance {
  static async create(module) {
    const made = new Instance();
    const instance = await WebAssembly.instantiate(module, {
      signwise: { fail: (address, length) => made.#fail(address, length) },
      wasi_snapshot_preview1: new Proxy({}, { get: (_, name) => (...values) => made.#system(name, values) }),
    });
    made.exports = instance.exports;
    made.call("_initialize");
    const found = made.call("signwise_interface");
    if (found !== INTERFACE) {
      throw new SignwiseError(`signwise.wasm has interface ${found}, signwise.js needs ${INTERFACE}: take both from one version`);
    }
    return made;
  }

  get view() {
    return new DataView(this.exports.memory.buffer);
  }

  /** Call a function of the runtime; a SignwiseError tells what went wrong. */
  call(name, ...values) {
    if (this.broken) throw new SignwiseError(`the model cannot be used any more: ${this.broken}`);
    try {
      return this.exports[name](...values);
    } catch (error) {
      this.broken = error instanceof WebAssembly.RuntimeError ? `out of memory, or an internal error (${error.message})` : error.message;
      throw error instanceof SignwiseError ? error : new SignwiseError(this.broken);
    }
  }

  allocate(bytes) {
    const address = this.call("malloc", bytes);
    if (address === 0) throw new SignwiseError(`out of memory: ${bytes} bytes more are not to be had`);
    return address >>> 0;
  }

  /** Addresses and sizes as C arrays, for one call. */
  write(type, numbers) {
    const address = this.allocate(Math.max(numbers.length, 1) * (type === "i64" ? 8 : 4));
    const view = this.view;
    numbers.forEach((value, i) => (type === "i64"
      ? view.setBigInt64(address + 8 * i, BigInt(value), true) : view.setInt32(address + 4 * i, value, true)));
    return address;
  }

  #fail(address, length) {
    throw new SignwiseError(new TextDecoder().decode(new Uint8Array(this.exports.memory.buffer, address, length)));
  }

  // What the C library asks the system for. There are no files, arguments or environment variables.
  #system(name, values) {
    if (name === "clock_time_get") {
      this.view.setBigUint64(values[2], BigInt(Math.round(performance.now() * 1e6)), true);
      return 0;
    }
    if (name === "environ_sizes_get" || name === "args_sizes_get") {
      values.forEach((address) => this.view.setUint32(address, 0, true));
      return 0;
    }
    if (name === "environ_get" || name === "args_get") return 0;
    if (name === "proc_exit") throw new SignwiseError("the runtime ended itself");
    return 52; // not supported
  }
}

/** A loaded network. */
export class Model {
  #instance;
  #program;
  #room = { batch: 0, inputs: [], outputs: [], inputList: 0, outputList: 0, freed: [] };

  /** @internal */
  constructor(instance, file, bytes) {
    this.#instance = instance;
    /** What the file says about itself. */
    this.about = file.about;
    /** Bytes of the file. */
    this.bytes = bytes;
    this.#program = instance.call("signwise_create", 1);
    for (const { shape, type } of file.inputs) {
      const address = instance.write("i64", shape);
      instance.call("signwise_input", this.#program, TYPES[type], address, shape.length);
    }
    file.ops.forEach((operation, index) => this.#add(operation, index, file.tensors));
    instance.call("signwise_finish", this.#program, instance.write("i32", file.outputs), file.outputs.length);
    /** Shape of one example, and type, of every input and output. */
    this.inputs = file.inputs.map(({ shape, type }) => ({ shape, type }));
    this.outputs = file.outputs.map((_, index) => this.#output(index));
    this.inputShape = this.inputs[0].shape;
    this.outputShape = this.outputs[0].shape;
  }

  #add(operation, index, tensors) {
    const instance = this.#instance, addresses = [];
    const allocate = (bytes) => {
      addresses.push(instance.allocate(bytes));
      return addresses.at(-1);
    };
    try {
      const described = writeOperation(operation, tensors, allocate, () => instance.view);
      instance.call("signwise_add", this.#program, described);
    } catch (error) {
      if (error instanceof FormatError || error instanceof SignwiseError) {
        throw new FormatError(`operation ${index} (${operation.op}): ${error.message}`);
      }
      throw error;
    }
    // The runtime has copied what it needs.
    for (const address of addresses) instance.call("free", address);
  }

  #output(index) {
    const instance = this.#instance;
    const type = instance.allocate(8), shape = instance.allocate(8 * LARGEST_RANK);
    const rank = instance.call("signwise_output", this.#program, index, type, shape);
    const view = instance.view;
    return {
      shape: Array.from({ length: rank }, (_, i) => Number(view.getBigInt64(shape + 8 * i, true))),
      type: view.getInt32(type, true) === TYPES.int32 ? "int32" : "float32",
    };
  }

  /**
   * Compute one or several examples.
   *
   * @param {Float32Array | (Float32Array | Int32Array)[]} input the numbers of a batch, or a list with those of every input
   * @returns {Float32Array | (Float32Array | Int32Array)[]} likewise: an array if one was given, else a list
   */
  run(input) {
    const given = Array.isArray(input) ? input : [input];
    const batch = this.#checkBatch(given);
    const room = this.#reserve(batch), instance = this.#instance, buffer = instance.exports.memory.buffer;
    given.forEach((numbers, i) => new numbers.constructor(buffer, room.inputs[i], numbers.length).set(numbers));
    instance.call("signwise_run", this.#program, BigInt(batch), ...room.inputList, given.length,
                  ...room.outputList, this.outputs.length);
    const results = this.outputs.map(({ shape, type }, i) => {
      const kind = type === "int32" ? Int32Array : Float32Array;
      // Running may have grown the memory, which gives it a new buffer.
      return new kind(instance.exports.memory.buffer, room.outputs[i], batch * count(shape)).slice();
    });
    return Array.isArray(input) ? results : results[0];
  }

  #checkBatch(given) {
    if (this.#instance === undefined) throw new SignwiseError("the model is closed: load it again");
    if (given.length !== this.inputs.length) {
      throw new SignwiseError(`the model has ${this.inputs.length} inputs, got ${given.length}`);
    }
    const batches = given.map((numbers, i) => {
      const { shape, type } = this.inputs[i], kind = type === "int32" ? Int32Array : Float32Array;
      if (!(numbers instanceof kind)) throw new SignwiseError(`input ${i} must be a ${kind.name}`);
      const batch = numbers.length / count(shape);
      if (!Number.isInteger(batch) || batch < 1) {
        throw new SignwiseError(`input ${i} must have a multiple of ${count(shape)} numbers (${shape.join(" x ")}), got ${numbers.length}`);
      }
      return batch;
    });
    if (batches.some((batch) => batch !== batches[0])) throw new SignwiseError(`the inputs have batches of ${batches}`);
    return batches[0];
  }

  // Memory for a batch, kept for the next one of the same size.
  #reserve(batch) {
    if (this.#room.batch === batch) return this.#room;
    const instance = this.#instance;
    for (const address of this.#room.freed) instance.call("free", address);
    this.#room = { batch: 0, freed: [] };
    const sizes = (ends) => ends.map(({ shape }) => batch * count(shape));
    const arrays = (ends) => sizes(ends).map((size) => instance.allocate(4 * size));
    const inputs = arrays(this.inputs), outputs = arrays(this.outputs);
    const inputList = [instance.write("i32", inputs), instance.write("i64", sizes(this.inputs))];
    const outputList = [instance.write("i32", outputs), instance.write("i64", sizes(this.outputs))];
    this.#room = { batch, inputs, outputs, inputList, outputList, freed: [...inputs, ...outputs, ...inputList, ...outputList] };
    return this.#room;
  }

  /** Bytes of memory that the model takes, its weights and the runtime included. */
  get memory() {
    return this.#instance?.exports.memory.buffer.byteLength ?? 0;
  }

  /** Give the memory back. */
  close() {
    this.#instance = undefined;
  }
}

const count = (shape) => shape.reduce((product, size) => product * size, 1);

/** The probabilities of scores: exp(x) / sum of exp(x). */
export function softmax(scores) {
  const largest = scores.reduce((a, b) => Math.max(a, b), -Infinity);
  const powers = scores.map((score) => Math.exp(score - largest));
  const total = powers.reduce((a, b) => a + b, 0);
  return powers.map((power) => power / total);
}
