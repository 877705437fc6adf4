/**
 * Where a socket's bytes go: each of Kafka's frames (a length of four bytes, then so many) into one buffer of its own, by the
 * reads of the socket themselves. Collecting what a stream hands out and joining it would copy every answer once more and
 * leave twice its size to the garbage collector.
 */

/** Reads that begin a frame are small, so that most of a large frame needs no copy. */
const HEAD_BYTES = 4096
/** Memory is taken for what arrives, not for what a length says: a damaged one may say anything. */
const FIRST_BYTES = 2 ** 20
/** A little more than an answer may hold: see MAX_FETCH_BYTES. */
export const MAX_FRAME_BYTES = 0x2100_0000

/** Gives a buffer for a frame that says it has so many bytes: larger is fine, a smaller one grows as bytes arrive. */
export type FrameBuffers = (bytes: number) => Buffer

const newBuffer: FrameBuffers = (bytes) => Buffer.allocUnsafeSlow(Math.min(bytes, FIRST_BYTES))

export class FrameReader {
  readonly #onFrame: (frame: Buffer) => void
  readonly #head = Buffer.allocUnsafeSlow(HEAD_BYTES)
  #headUsed = 0
  /** The frame under way, once its length is known and it is larger than the head. */
  #frame: Buffer | null = null
  #filled = 0
  #size = 0
  #buffers: FrameBuffers = newBuffer

  /** Frames come with their length, whole and in order. */
  constructor(onFrame: (frame: Buffer) => void) {
    this.#onFrame = onFrame
  }

  /** Where the next frame goes, if it is not tiny. */
  expect(buffers: FrameBuffers | undefined): void {
    this.#buffers = buffers ?? newBuffer
  }

  /** Where the next bytes belong; never empty. */
  room(): Buffer {
    if (this.#frame === null) return this.#head.subarray(this.#headUsed)
    if (this.#filled === this.#frame.length) this.#grow(this.#frame)
    return this.#frame.subarray(this.#filled, Math.min(this.#size, this.#frame.length))
  }

  /** So many bytes were written into `room()`. @throws RangeError for a length that no frame has */
  received(count: number): void {
    if (this.#frame !== null) {
      this.#filled += count
      if (this.#filled === this.#size) this.#finish(this.#frame)
      return
    }
    this.#headUsed += count
    this.#takeFromHead()
  }

  #takeFromHead(): void {
    let at = 0
    while (this.#headUsed - at >= 4 && this.#frame === null) {
      const size = 4 + this.#head.readInt32BE(at)
      if (size < 4 || size > MAX_FRAME_BYTES) throw new RangeError(`an answer says that it has ${size - 4} bytes`)
      const held = this.#headUsed - at
      if (held >= size) {
        this.#onFrame(Buffer.from(this.#head.subarray(at, at + size)))
        at += size
      } else if (size > HEAD_BYTES) {
        this.#begin(size, this.#head.subarray(at, this.#headUsed))
        at = this.#headUsed
      } else break
    }
    this.#head.copyWithin(0, at, this.#headUsed)
    this.#headUsed -= at
  }

  #begin(size: number, held: Buffer): void {
    const given = this.#buffers(size)
    this.#buffers = newBuffer
    held.copy(given)
    this.#frame = given
    this.#filled = held.length
    this.#size = size
  }

  #grow(frame: Buffer): void {
    const grown = Buffer.allocUnsafeSlow(Math.min(2 * frame.length, this.#size))
    frame.copy(grown)
    this.#frame = grown
  }

  #finish(frame: Buffer): void {
    const whole = frame.subarray(0, this.#size)
    this.#frame = null
    this.#onFrame(whole)
  }
}
