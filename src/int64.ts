/**
 * 64-bit integers as pairs of int32 in the memory of a BigInt64Array (low word first, as on every platform of Node): a
 * bigint for each record of a batch would cost more than all the rest.
 */

const TWO_32 = 2 ** 32

/** The words of the array: the low one of value i at 2i, the high one after it. */
export const wordsOf = (values: BigInt64Array): Int32Array =>
  new Int32Array(values.buffer, values.byteOffset, 2 * values.length)

/** Stores a whole number of at most 53 bits as value i. */
export function setSafe(words: Int32Array, i: number, value: number): void {
  words[2 * i] = value | 0
  words[2 * i + 1] = Math.floor(value / TWO_32)
}

/** Value i, where it is known to have at most 53 bits. */
export const safeAt = (words: Int32Array, i: number): number =>
  (words[2 * i + 1] ?? 0) * TWO_32 + ((words[2 * i] ?? 0) >>> 0)
