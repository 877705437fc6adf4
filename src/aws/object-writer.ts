/**
 * An object written piece by piece: one put while it is small (decision 15), parts from 32 MB on. A part is on its way while
 * the next one fills, in two blocks of memory that take turns.
 */
import { SluiceError } from '../errors.ts'
import type { ObjectWriter } from '../ports.ts'
import type { S3Object } from './bucket-call.ts'
import { abortUploads, startUpload } from './multipart-upload.ts'
import type { MultipartUpload } from './multipart-upload.ts'

const partBytes = 16 * 2 ** 20
const leastBytes = 64 * 1024

/** Grows to a part's size. */
class Block {
  #bytes = Buffer.alloc(0)
  #used = 0

  /** Copies what has room of `bytes[at, end)`; answers how much that was. */
  take(bytes: Uint8Array, at: number): number {
    const count = Math.min(bytes.length - at, partBytes - this.#used)
    if (this.#used + count > this.#bytes.length) {
      const wanted = Math.max(leastBytes, 2 * this.#bytes.length, this.#used + count)
      const grown = Buffer.allocUnsafeSlow(Math.min(wanted, partBytes))
      this.#bytes.copy(grown, 0, 0, this.#used)
      this.#bytes = grown
    }
    this.#bytes.set(bytes.subarray(at, at + count), this.#used)
    this.#used += count
    return count
  }

  get isFull(): boolean {
    return this.#used === partBytes
  }

  get content(): Buffer {
    return this.#bytes.subarray(0, this.#used)
  }

  clear(): void {
    this.#used = 0
  }
}

/** Nothing is visible before `close`. `put` sends the whole of a small object, if its name is free. */
export function objectWriter(
  object: S3Object,
  put: (body: Uint8Array) => Promise<'created' | 'exists'>,
  signal: AbortSignal
): ObjectWriter {
  let filling = new Block()
  let full: Block | null = null
  let upload: MultipartUpload | 'starting' | null = null
  let sending: Promise<void> = Promise.resolve()
  const started = (): MultipartUpload => {
    if (upload !== null && upload !== 'starting') return upload
    throw new SluiceError('OBJECT_STORE_FAILED', { object: object.address, reason: 'its upload was not started' })
  }
  /** Waits for the part before: one is on its way at a time. */
  const send = async (block: Block) => {
    await sending
    sending = started().part(block.content, signal)
    sending.catch(() => {}) // heard by whoever comes next
  }
  const start = async () => {
    upload = 'starting'
    upload = await startUpload(object, signal)
  }
  /** The block is full: the one before it goes out, and its memory takes what comes. */
  const turn = async () => {
    const before = full
    full = filling
    if (before === null) {
      filling = new Block()
      return
    }
    if (upload === null) {
      await start()
      await send(before)
    }
    await send(full)
    filling = before
    filling.clear()
  }
  return {
    write: async (bytes) => {
      for (let at = 0; at < bytes.length;) {
        at += filling.take(bytes, at)
        if (filling.isFull) await turn()
      }
    },
    close: async () => {
      if (upload !== null) {
        await sending
        if (filling.content.length > 0) await started().part(filling.content, signal)
        await started().complete(signal)
        return
      }
      const body = full === null ? filling.content : Buffer.concat([full.content, filling.content])
      if ((await put(body)) === 'exists')
        throw new SluiceError('OBJECT_STORE_FAILED', { object: object.address, reason: 'the name is taken' })
    },
    abort: async () => {
      await sending.catch(() => {})
      if (upload === 'starting') await abortUploads(object)
      else await upload?.abort()
    },
  }
}
