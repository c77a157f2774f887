/** Numbers of an input or output: the shape of one example, batch aside, and their type. */
export interface Value {
  readonly shape: readonly number[];
  readonly type: "float32" | "int32";
}

/** A loaded network. */
export class Model {
  private constructor();
  /** What the file says about itself, by keyword. */
  readonly about: Readonly<Record<string, string>>;
  /** Bytes of the file. */
  readonly bytes: number;
  readonly inputs: readonly Value[];
  readonly outputs: readonly Value[];
  /** The shapes of the first input and output. */
  readonly inputShape: readonly number[];
  readonly outputShape: readonly number[];
  /** Bytes of memory that the model takes, its weights and the runtime included. */
  readonly memory: number;

  /** Compute one or several examples, whose numbers follow each other; the result has as many. */
  run(input: Float32Array): Float32Array;
  /** The same for a model with several inputs or outputs, or with inputs of integers. */
  run(inputs: readonly (Float32Array | Int32Array)[]): (Float32Array | Int32Array)[];

  /** Give the memory back; the model cannot run any more. */
  close(): void;
}

/** Load a model from a URL, or from the bytes of a .sw file. */
export function load(source: string | URL | ArrayBuffer | Uint8Array): Promise<Model>;

/** Name or hand over signwise.wasm, where it does not lie beside signwise.js. Must come before the first load. */
export function setRuntime(source: string | URL | BufferSource | WebAssembly.Module): void;

/** The probabilities of scores: exp(x) / sum of exp(x). */
export function softmax(scores: Float32Array): Float32Array;

/** A call that the runtime refuses, or an error inside of it. */
export class SignwiseError extends Error {}

/** A file that is damaged, or is no .sw file. */
export class FormatError extends Error {}
