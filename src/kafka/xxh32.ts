/** xxHash, 32 bits, seed 0: the checksum of LZ4 frames. */

const P1 = 0x9e3779b1
const P2 = 0x85ebca77
const P3 = 0xc2b2ae3d
const P4 = 0x27d4eb2f
const P5 = 0x165667b1

const rotated = (value: number, bits: number): number => (value << bits) | (value >>> (32 - bits))
const round = (sum: number, word: number): number => Math.imul(rotated((sum + Math.imul(word, P2)) | 0, 13), P1)

/** Unsigned. */
export function xxh32(bytes: Uint8Array): number {
  const end = bytes.length
  const word = (at: number): number =>
    (bytes[at] ?? 0) | ((bytes[at + 1] ?? 0) << 8) | ((bytes[at + 2] ?? 0) << 16) | ((bytes[at + 3] ?? 0) << 24)
  let at = 0
  let hash = P5
  if (end >= 16) {
    let [a, b, c, d] = [(P1 + P2) | 0, P2 | 0, 0, -P1 | 0]
    for (; at + 16 <= end; at += 16) {
      a = round(a, word(at))
      b = round(b, word(at + 4))
      c = round(c, word(at + 8))
      d = round(d, word(at + 12))
    }
    hash = rotated(a, 1) + rotated(b, 7) + rotated(c, 12) + rotated(d, 18)
  }
  hash = (hash + end) | 0
  for (; at + 4 <= end; at += 4) hash = Math.imul(rotated((hash + Math.imul(word(at), P3)) | 0, 17), P4)
  for (; at < end; at++) hash = Math.imul(rotated((hash + Math.imul(bytes[at] ?? 0, P5)) | 0, 11), P1)
  hash = Math.imul(hash ^ (hash >>> 15), P2)
  hash = Math.imul(hash ^ (hash >>> 13), P3)
  return (hash ^ (hash >>> 16)) >>> 0
}
