/** CRC-32C (Castagnoli) in JavaScript, eight bytes at a time, for where no native module can be loaded. */

/** The polynomial, bits reversed. */
const POLYNOMIAL = 0x82f63b78
const SLICES = 8

/** `tables[256 * k + b]`: what the byte b, followed by k zeros, does to the checksum. */
const tables = ((): Uint32Array => {
  const all = new Uint32Array(256 * SLICES)
  for (let byte = 0; byte < 256; byte++) {
    let value = byte
    for (let bit = 0; bit < 8; bit++) value = (value & 1) === 0 ? value >>> 1 : (value >>> 1) ^ POLYNOMIAL
    all[byte] = value
  }
  for (let at = 256; at < all.length; at++) {
    const before = all[at - 256] ?? 0
    all[at] = (before >>> 8) ^ (all[before & 255] ?? 0)
  }
  return all
})()

/** Unsigned. */
export function pureCrc32c(bytes: Uint8Array): number {
  // Every index below is within its array by the loops' bounds and the masks.
  const t = tables
  const end = bytes.length
  let crc = -1
  let at = 0
  for (; at + SLICES <= end; at += SLICES) {
    const low =
      crc ^
      ((bytes[at] ?? 0) | ((bytes[at + 1] ?? 0) << 8) | ((bytes[at + 2] ?? 0) << 16) | ((bytes[at + 3] ?? 0) << 24))
    crc =
      (t[1792 + (low & 255)] ?? 0) ^
      (t[1536 + ((low >>> 8) & 255)] ?? 0) ^
      (t[1280 + ((low >>> 16) & 255)] ?? 0) ^
      (t[1024 + (low >>> 24)] ?? 0) ^
      (t[768 + (bytes[at + 4] ?? 0)] ?? 0) ^
      (t[512 + (bytes[at + 5] ?? 0)] ?? 0) ^
      (t[256 + (bytes[at + 6] ?? 0)] ?? 0) ^
      (t[bytes[at + 7] ?? 0] ?? 0)
  }
  for (; at < end; at++) crc = (crc >>> 8) ^ (t[(crc ^ (bytes[at] ?? 0)) & 255] ?? 0)
  return ~crc >>> 0
}
