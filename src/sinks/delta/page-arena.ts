/** Memory for the compressed pages of a row group, used again for the next one (see memory.ts). */
import { constants, zstdCompressSync } from 'node:zlib'
import { giveBack } from '../../memory.ts'

/** Level 1: beyond it time grows faster than files shrink. */
const level = { [constants.ZSTD_c_compressionLevel]: 1 }

export const zstd = (bytes: Uint8Array): Uint8Array => zstdCompressSync(bytes, { params: level })

/** Blocks double in size, so that a task of few rows takes little. */
const blockBytes = { least: 2 ** 16, most: 2 ** 22 }

export class PageArena {
  readonly #blocks: Buffer[] = []
  #block = 0
  #used = 0
  #nextBytes = blockBytes.least

  /** Forgets all pages: their memory is written over. */
  reset(): void {
    this.#block = 0
    this.#used = 0
  }

  /** Takes no memory any more. */
  free(): void {
    for (const block of this.#blocks) giveBack(block)
    this.#blocks.length = 0
    this.reset()
  }

  /** A compressed page, good until `reset`. */
  compressed(bytes: Uint8Array): Uint8Array {
    // With room for the worst case zstd works in one pass, without buffers of its own; beyond the pool's size the room is not shared.
    const chunkSize = Math.max(Buffer.poolSize + 1, bytes.length + (bytes.length >>> 8) + 256)
    const output = zstdCompressSync(bytes, { params: level, chunkSize })
    const kept = this.#place(output.length)
    kept.set(output)
    giveBack(new Uint8Array(output.buffer))
    return kept
  }

  #place(length: number): Buffer {
    for (; ; this.#block++, this.#used = 0) {
      const block = (this.#blocks[this.#block] ??= this.#newBlock(length))
      if (this.#used + length <= block.length) return block.subarray(this.#used, (this.#used += length))
    }
  }

  #newBlock(length: number): Buffer {
    const size = Math.max(this.#nextBytes, length)
    this.#nextBytes = Math.min(2 * this.#nextBytes, blockBytes.most)
    return Buffer.allocUnsafeSlow(size)
  }
}
