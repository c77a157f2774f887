/* Operations of a file as signwise_operation structures (csrc/signwise.h).
 *
 * Two tables hold everything: the fields of the structure, and which attribute of the file goes to which field. */

import { FormatError } from "./file.js";

// In the order of the header: type, name and, for arrays, how many. Pointers take 4 bytes in wasm32.
const FIELDS = `i32 kind, i32 input_count, ptr inputs, i32 out_type, f32 out_scale, i32 bits, i32 relu,
  i32 count_include_pad, i32 reserved, i64 out_channels, i64 kernel 2, i64 stride 2, i64 padding 4, i64 dilation 2,
  i64 groups, i64 before, i64 after, ptr weight, i64 weight_bytes, ptr scale, i64 scale_count, ptr bias, i64 bias_count,
  i32 function, i32 flags, ptr axes, i32 axis_count, i32 size_count, ptr sizes, f32 numbers 4, ptr table, i64 table_count`;
const WIDTH = { i32: 4, i64: 8, f32: 4, ptr: 4 };

/** Offset, type and length of every field, and the size of the structure. */
export const LAYOUT = (() => {
  const fields = {};
  let end = 0;
  for (const field of FIELDS.split(",")) {
    const [type, name, count = "1"] = field.trim().split(/\s+/);
    const offset = Math.ceil(end / WIDTH[type]) * WIDTH[type];
    fields[name] = { type, offset, count: Number(count) };
    end = offset + WIDTH[type] * Number(count);
  }
  return { fields, size: Math.ceil(end / 8) * 8 };
})();

const WINDOW = "kernel stride padding";
const LAYER = "weight bits relu scale bias";
export const FUNCTIONS = {
  activation: `clip leaky_relu elu silu gelu gelu_tanh sigmoid hardsigmoid hardswish tanh softplus mish abs exp log sqrt
    reciprocal square negate sin cos rsqrt erf floor`,
  arithmetic: "add subtract multiply divide maximum minimum power",
  pad: "constant reflect replicate circular",
  resize: "nearest bilinear bilinear_aligned",
  reduce: "mean sum max min",
  adaptive_pool: "average max",
};

// Number of the kind, and its attributes: "name" fills the field of that name, "name:field" another one, "name:flags.2"
// sets a bit, "name:" is read by nobody. Lists that share a field follow each other. "?" marks what version 1 leaves out.
export const KINDS = {
  conv: [0, `${LAYER} ${WINDOW} dilation groups out_channels`],
  dense: [1, `${LAYER} out_features:out_channels in_features: blocks:? block_scale:table?`],
  affine: [2, "scale bias relu"],
  relu: [3, ""],
  add: [4, "relu"],
  maxpool: [5, WINDOW],
  avgpool: [6, `${WINDOW} count_include_pad`],
  globalpool: [7, ""],
  pad_channels: [8, "before after"],
  flatten: [9, ""],
  concat: [10, "axis:axes?"],
  softmax: [11, "axis:axes? log:flags.1?"],
  activation: [12, "function numbers"],
  prelu: [13, "slope:table"],
  arithmetic: [14, "function operand:table shape:sizes swapped:flags.1 relu"],
  constant: [15, "tensor:table shape:sizes"],
  matmul: [16, "transpose_first:flags.1 transpose_second:flags.2 scale:numbers"],
  normalize: [17, "axes epsilon:numbers centered:flags.1 per_channel:flags.2 groups scale bias"],
  transpose: [18, "axes"],
  reshape: [19, "shape:sizes"],
  slice: [20, "starts:sizes stops:sizes steps:sizes"],
  pad: [21, "before:sizes after:sizes mode:function value:numbers"],
  resize: [22, "size:sizes mode:function ratios:numbers"],
  reduce: [23, "function axes keep:flags.1"],
  adaptive_pool: [24, "size:sizes function"],
  embedding: [25, "weight rows:sizes width:"],
  attention: [26, "scale:numbers causal:flags.1 mask:table mask_shape:sizes"],
  argmax: [27, "axis:axes keep:flags.1"],
  conv_transpose: [28, `${LAYER} ${WINDOW} dilation groups out_channels output_padding:sizes`],
  expand: [29, "shape:sizes"],
  sign: [30, "threshold:table"],
};
const TYPES = { uint8: 1, int8: 2, uint6: 3 };
const TENSORS = new Set(["weight", "scale", "bias", "table"]);
const COUNTS = { axes: "axis_count", sizes: "size_count" };

/**
 * Write an operation into the memory of the runtime.
 *
 * @param {Record<string, any>} operation of the file
 * @param {Map<string, { dtype: string, data: Uint8Array }>} tensors
 * @param {(bytes: number) => number} allocate memory that lives until the operation is added
 * @param {() => DataView} memory which moves whenever something is allocated
 * @returns {number} the address of the structure
 */
export function writeOperation(operation, tensors, allocate, memory) {
  if (!Object.hasOwn(KINDS, operation.op)) throw new FormatError(`op ${operation.op} is unknown: update the runtime`);
  const [kind, attributes] = KINDS[operation.op];
  const values = { kind, out_scale: 1, groups: 1, flags: 0, bits: operation.op === "embedding" ? 32 : 0 };
  const lists = { inputs: integersOf(operation.in, "in"), axes: [], sizes: [] };
  const expected = new Set(["op", "in", "out"]);
  if (operation.out !== null) {
    if (!Object.hasOwn(TYPES, operation.out?.type) || !(operation.out.scale > 0)) throw new FormatError("out has no type and scale");
    [values.out_type, values.out_scale] = [TYPES[operation.out.type], operation.out.scale];
  }
  for (const attribute of attributes.split(" ").filter(Boolean)) {
    const optional = attribute.endsWith("?");
    const [name, field = name] = (optional ? attribute.slice(0, -1) : attribute).split(":");
    expected.add(name);
    const value = operation[name];
    if (value === undefined) {
      if (optional) continue;
      throw new FormatError(`lacks ${name}`);
    }
    if (field.startsWith("flags.")) values.flags |= value === true ? Number(field.slice(6)) : 0;
    else if (field in lists) lists[field].push(...(value === null ? [] : integersOf(value, name)));
    else if (field === "function") values.function = choice(operation.op, name, value);
    else if (TENSORS.has(field)) values[field] = value === null ? null : tensorOf(tensors, name, value);
    else if (field !== "") values[field] = numbersOf(value, name);
  }
  for (const name of Object.keys(operation)) {
    if (!expected.has(name)) throw new FormatError(`has an unknown ${name}: update the runtime`);
  }
  return writeStruct(values, lists, allocate, memory);
}

function numbersOf(value, name) {
  const numbers = (Array.isArray(value) ? value : [value]).map((one) => (typeof one === "boolean" ? Number(one) : one));
  if (!numbers.every(Number.isFinite)) throw new FormatError(`${name} must hold numbers, got ${JSON.stringify(value)}`);
  return numbers;
}

function integersOf(value, name) {
  const numbers = numbersOf(value, name);
  if (!numbers.every((one) => one === (one | 0))) throw new FormatError(`${name} must hold integers, got ${numbers}`);
  return numbers;
}

function choice(kind, name, value) {
  const index = FUNCTIONS[kind].split(/\s+/).indexOf(value);
  if (index < 0) throw new FormatError(`${name} must be one of ${FUNCTIONS[kind]}, got ${value}`);
  return index;
}

function tensorOf(tensors, attribute, name) {
  const tensor = tensors.get(name);
  if (!tensor) throw new FormatError(`${attribute} ${name} is missing from the file`);
  // The native code reads float32 everywhere but in binary weights, which it counts in bytes.
  if (attribute !== "weight" && tensor.dtype !== "F32") throw new FormatError(`${attribute} ${name} must be F32`);
  return tensor;
}

function writeStruct(values, lists, allocate, memory) {
  const fill = (bytes, write) => {
    const address = allocate(Math.max(bytes, 8));
    write(memory(), address);
    return address;
  };
  const pointers = {};
  for (const [name, { data }] of Object.entries(values).filter(([, value]) => value?.data)) {
    pointers[name] = fill(data.length, (view, address) => new Uint8Array(view.buffer).set(data, address));
    values[`${name}_${name === "weight" ? "bytes" : "count"}`] = name === "weight" ? data.length : data.length / 4;
  }
  values.input_count = lists.inputs.length;
  pointers.inputs = fill(4 * lists.inputs.length, (view, address) =>
    lists.inputs.forEach((value, i) => view.setInt32(address + 4 * i, value, true)));
  for (const [name, count] of Object.entries(COUNTS)) {
    values[count] = lists[name].length;
    pointers[name] = fill(8 * lists[name].length, (view, address) =>
      lists[name].forEach((value, i) => view.setBigInt64(address + 8 * i, BigInt(value), true)));
  }
  return fill(LAYOUT.size, (view, address) => {
    new Uint8Array(view.buffer, address, LAYOUT.size).fill(0);
    for (const [name, { type, offset, count }] of Object.entries(LAYOUT.fields)) {
      if (type === "ptr") {
        view.setUint32(address + offset, pointers[name] ?? 0, true);
        continue;
      }
      const numbers = [values[name] ?? []].flat();
      // An absent field is zero; only `numbers` may be filled in part.
      const fits = numbers.length === 0 || numbers.length === count || (name === "numbers" && numbers.length < count);
      if (!fits) throw new FormatError(`${name} must have ${count} numbers, got ${numbers.length}`);
      numbers.forEach((value, i) => {
        const at = address + offset + WIDTH[type] * i;
        if (type === "f32") return view.setFloat32(at, value, true);
        if (!Number.isSafeInteger(value)) throw new FormatError(`${name} must be a whole number, got ${value}`);
        if (type === "i64") return view.setBigInt64(at, BigInt(value), true);
        if (value !== (value | 0)) throw new FormatError(`${name} is out of range: ${value}`);
        return view.setInt32(at, value, true);
      });
    }
  });
}
