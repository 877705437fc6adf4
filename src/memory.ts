/**
 * Large buffers are given back when they are done with. Megabytes that wait for the garbage collector make it run again and
 * again, over a heap of which they are no part: that took more time than reading the records.
 */

/** Frees the memory of an array that has a buffer of its own; it is empty then. Others, parts of Node's pool too, stay as they are. */
export function giveBack({ buffer, byteLength }: ArrayBufferView): void {
  const isWhole = byteLength > 0 && byteLength === buffer.byteLength && byteLength !== Buffer.poolSize
  if (isWhole && buffer instanceof ArrayBuffer) buffer.transfer(0)
}
