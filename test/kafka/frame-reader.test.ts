/** Frames come out whole and in order however the socket cuts them; a length that lies costs no memory. */
import * as fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { FrameReader, MAX_FRAME_BYTES } from '../../src/kafka/frame-reader.ts'
import type { FrameBuffers } from '../../src/kafka/frame-reader.ts'

/** Feeds the bytes in reads of these sizes, in turn. */
function feed(reader: FrameReader, bytes: Uint8Array, reads: readonly number[]): void {
  for (let at = 0, turn = 0; at < bytes.length; turn++) {
    const room = reader.room()
    const count = Math.min(room.length, bytes.length - at, reads[turn % reads.length] ?? 1)
    room.set(bytes.subarray(at, at + count))
    reader.received(count)
    at += count
  }
}

function framed(size: number, seed: number): Buffer {
  const frame = Buffer.alloc(4 + size)
  frame.writeInt32BE(size)
  for (let i = 0; i < size; i++) frame[4 + i] = (i * 31 + seed) & 255
  return frame
}

const size = fc.oneof(
  fc.nat({ max: 40 }),
  fc.integer({ min: 4080, max: 4110 }),
  fc.integer({ min: 8180, max: 8200 }),
  fc.nat({ max: 100_000 }),
  fc.integer({ min: 2 ** 20 - 5, max: 2 ** 20 + 5 })
)
const readSize = fc.oneof(fc.integer({ min: 1, max: 5 }), fc.integer({ min: 4000, max: 70_000 }), fc.constant(2 ** 22))

test('frames come out as they went in, however they are cut', () => {
  fc.assert(
    fc.property(
      fc.array(size, { maxLength: 5 }),
      fc.array(readSize, { minLength: 1, maxLength: 4 }).filter((all) => all.some((n) => n > 1000)),
      fc.constantFrom('default', 'too small', 'too large'),
      (sizes, reads, kind) => {
        const frames = sizes.map((bytes, i) => framed(bytes, i))
        const seen: Buffer[] = []
        const factor = { default: 1, 'too small': 0.3, 'too large': 3 }[kind]
        const buffers: FrameBuffers = (bytes) => Buffer.alloc(Math.max(5000, Math.floor(bytes * factor)))
        const reader = new FrameReader((frame) => {
          seen.push(Buffer.from(frame))
          reader.expect(kind === 'default' ? undefined : buffers)
        })
        reader.expect(kind === 'default' ? undefined : buffers)
        feed(reader, Buffer.concat(frames), reads)
        expect(seen.map((frame) => frame.toString('latin1'))).toEqual(frames.map((frame) => frame.toString('latin1')))
      }
    ),
    { numRuns: 200 }
  )
})

describe('where a frame goes', () => {
  test('is the given buffer, once', () => {
    const seen: Buffer[] = []
    const reader = new FrameReader((frame) => seen.push(frame))
    const given = Buffer.alloc(100_000)
    reader.expect(() => given)
    const [first, second] = [framed(50_000, 1), framed(50_000, 2)]
    feed(reader, Buffer.concat([first, second]), [10_000])
    expect(seen).toEqual([first, second])
    expect(seen.map((frame) => frame.buffer === given.buffer)).toEqual([true, false])
  })

  test('a tiny answer leaves what was expected to no later one', () => {
    const seen: Buffer[] = []
    const reader = new FrameReader((frame) => seen.push(frame))
    const given = Buffer.alloc(100_000)
    reader.expect(() => given)
    feed(reader, framed(10, 1), [14])
    reader.expect(undefined)
    feed(reader, framed(50_000, 2), [10_000])
    expect(seen.some((frame) => frame.buffer === given.buffer)).toBe(false)
  })
})

describe('a length that no frame has', () => {
  test.for([-1, -(2 ** 31), MAX_FRAME_BYTES - 3, 2 ** 31 - 1])('%d is refused', (length) => {
    const reader = new FrameReader(() => {})
    const head = Buffer.alloc(4)
    head.writeInt32BE(length)
    expect(() => feed(reader, head, [4])).toThrow(RangeError)
  })

  test('that is large takes memory for what arrives alone', () => {
    const reader = new FrameReader(() => {})
    const head = Buffer.alloc(4)
    head.writeInt32BE(MAX_FRAME_BYTES - 4)
    feed(reader, Buffer.concat([head, Buffer.alloc(100_000)]), [65_536])
    expect(reader.room().buffer.byteLength).toBeLessThan(2 ** 21)
  })

  test('any bytes are frames, a part of one, or refused', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 300 }), readSize, (noise, read) => {
        const reader = new FrameReader((frame) => {
          if (frame.readInt32BE(0) !== frame.length - 4) throw new Error('a frame of another length')
        })
        try {
          feed(reader, noise, [read])
        } catch (e) {
          if (!(e instanceof RangeError)) throw e
        }
      }),
      { numRuns: 1000 }
    )
    expect.assertions(0)
  })
})
