/**
 * Where the checksum and LZ4 come from: from native modules, or from this folder where they cannot be loaded. A bundle without
 * them, another libc, another processor: each is decided by itself, once, and the answers are the same.
 */
import { createRequire } from 'node:module'
import { pureCrc32c } from './crc32c.ts'
import { decompressLz4Frame, type Lz4Frame } from './lz4-frame.ts'

export interface Codecs {
  /** CRC-32C, unsigned. */
  crc32c(bytes: Uint8Array): number
  /** Decompresses a frame that was measured: `bytes` is the frame and nothing more. Throws what it likes where it is damaged. */
  lz4(bytes: Buffer, frame: Lz4Frame): Buffer
}

export const pureCodecs: Codecs = { crc32c: pureCrc32c, lz4: decompressLz4Frame }

/** @param require as Node's; a test passes one that fails. */
export function loadCodecs(require: (name: string) => unknown = createRequire(import.meta.url)): Codecs {
  const crc32c = functionIn('crc32c', () => require('@node-rs/crc32'))
  const lz4 = functionIn('decompressFrameSync', () => require('lz4-napi'))
  return {
    // What they take and answer is what their own declarations say.
    crc32c: crc32c === null ? pureCodecs.crc32c : (crc32c as Codecs['crc32c']),
    lz4: lz4 === null ? pureCodecs.lz4 : (lz4 as Codecs['lz4']),
  }
}

function functionIn(name: string, load: () => unknown): ((...parameters: never) => unknown) | null {
  try {
    const found = load()
    const value: unknown = Object(found) === found ? Reflect.get(found as object, name) : null
    return typeof value === 'function' ? (value as (...parameters: never) => unknown) : null
  } catch {
    return null // whatever keeps it from loading, the pure one does the same
  }
}
