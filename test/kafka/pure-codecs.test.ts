/** The checksum and LZ4 without native modules: the same answers as those, on sound bytes and on damaged ones. */
import { crc32c as nativeCrc32c } from '@node-rs/crc32'
import * as fc from 'fast-check'
import { compressFrameSync, decompressFrameSync } from 'lz4-napi'
import { describe, expect, test } from 'vitest'
import { decompress } from '../../src/kafka/codecs.ts'
import { pureCrc32c } from '../../src/kafka/crc32c.ts'
import { measureLz4Frame } from '../../src/kafka/lz4-frame.ts'
import { loadCodecs, pureCodecs } from '../../src/kafka/native-codecs.ts'
import { DamagedBytes, UnsupportedBytes } from '../../src/kafka/refusal.ts'
import { xxh32 } from '../../src/kafka/xxh32.ts'
import lz4Frames from './lz4-frames.json' with { type: 'json' }
import { contentOf, frameOf, type Block, type Frame, type Step } from '../support/lz4-encoder.ts'

const LZ4 = 3
const pure = (bytes: Buffer, limit?: number): Buffer => decompress(LZ4, bytes, limit, pureCodecs)
const native = (bytes: Buffer): Buffer => decompressFrameSync(bytes.subarray(0, measureLz4Frame(bytes).size))

describe('the loader', () => {
  const notFound = (): never => {
    throw new Error('Cannot find module')
  }

  test('takes what is installed', () => {
    const codecs = loadCodecs()
    expect(codecs.crc32c).toBe(nativeCrc32c)
    expect(codecs.lz4).toBe(decompressFrameSync)
  })

  test.each<[string, (name: string) => unknown]>([
    ['cannot be loaded', notFound],
    ['are something else', () => ({ crc32c: 1 })],
    ['are nothing', () => null],
  ])('takes its own where they %s', (_what, require) => {
    expect(loadCodecs(require)).toEqual(pureCodecs)
  })

  test('decides about each by itself', () => {
    const onlyCrc = loadCodecs((name) => (name === '@node-rs/crc32' ? { crc32c: nativeCrc32c } : notFound()))
    expect(onlyCrc).toEqual({ crc32c: nativeCrc32c, lz4: pureCodecs.lz4 })
  })
})

describe('CRC-32C', () => {
  test('of the catalogue', () => {
    expect(pureCrc32c(Buffer.from('123456789'))).toBe(0xe3069283)
    expect(pureCrc32c(Buffer.alloc(0))).toBe(0)
  })

  test('is the native one', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 300 }), fc.nat({ max: 9 }), (bytes, from) => {
        expect(pureCrc32c(bytes.subarray(from))).toBe(nativeCrc32c(bytes.subarray(from)))
      })
    )
  })
})

test.each([
  ['', 0x02cc5d05],
  ['abc', 0x32d153ff],
  ['Nobody inspects the spammish repetition', 0xe2293b2f],
])('xxHash of %j', (text, hash) => {
  expect(xxh32(Buffer.from(text))).toBe(hash)
})

/** Any course of literals and copies. No block without content: lz4-napi takes it for the frame's end. */
const block = fc.oneof(
  { weight: 4, arbitrary: steps().map((all): Block => ({ kind: 'packed', steps: all })) },
  {
    weight: 1,
    arbitrary: fc.uint8Array({ minLength: 1, maxLength: 200 }).map((bytes): Block => ({ kind: 'stored', bytes })),
  }
)
const anyFrame: fc.Arbitrary<Frame> = fc.record({
  blocks: fc.array(block, { maxLength: 5 }),
  isLinked: fc.boolean(),
  blockChecksums: fc.boolean(),
  contentChecksum: fc.boolean(),
  contentSize: fc.boolean(),
})

function steps(): fc.Arbitrary<Step[]> {
  const length = fc.oneof(fc.nat({ max: 40 }), fc.constantFrom(14, 15, 16, 18, 19, 20, 269, 270, 271, 3000))
  const offset = fc.oneof(fc.integer({ min: 1, max: 70 }), fc.integer({ min: 1, max: 65_535 }))
  const literals = fc
    .tuple(length, fc.uint8Array({ minLength: 1, maxLength: 30 }))
    .map(([size, unit]) => Buffer.alloc(size, unit))
  return fc
    .array(fc.record({ literals, offset, length }), { minLength: 1, maxLength: 6 })
    .filter((all) => all.some((step) => step.literals.length > 0))
}

describe('LZ4 frames', () => {
  test.each(Object.entries(lz4Frames))('of the lz4 command: %s', (_name, { frame }) => {
    const bytes = Buffer.from(frame, 'base64')
    expect(pure(bytes).equals(native(bytes))).toBe(true)
  })

  test('of any course of literals and copies, in linked and independent blocks, with any checksums', () => {
    fc.assert(
      fc.property(anyFrame, (frame) => {
        const bytes = frameOf(frame)
        const content = contentOf(frame)
        expect(pure(bytes).equals(content)).toBe(true)
        expect(native(bytes).equals(content)).toBe(true) // so the encoder is right, and its checksums are
      }),
      { numRuns: 300 }
    )
  })

  test('linked blocks reach back over 64 KiB, and no further', () => {
    const first = {
      kind: 'stored',
      bytes: Buffer.from(Array.from({ length: 65_536 }, (_, i) => (i * 7) & 255)),
    } as const
    const second = { kind: 'packed', steps: [{ literals: Buffer.from('x'), offset: 65_535, length: 50 }] } as const
    const frame = { blocks: [first, second], isLinked: true, ...noChecks }
    expect(pure(frameOf(frame)).equals(contentOf(frame))).toBe(true)
    expect(contentOf(frame).subarray(65_537, 65_540)).toEqual(first.bytes.subarray(2, 5))
  })

  test('an independent block does not reach into the one before', () => {
    const reaching = Buffer.from([0x10, 0x78, 0x02, 0x00, 0x10, 0x79]) // x, four bytes from two before, y
    const blocks: Block[] = [
      { kind: 'stored', bytes: Buffer.from('abc') },
      { kind: 'raw', bytes: reaching },
    ]
    const frame = { blocks, ...noChecks }
    expect(pure(frameOf({ ...frame, isLinked: true })).toString()).toBe('abcxcxcxy')
    expect(() => pure(frameOf({ ...frame, isLinked: false }))).toThrow(DamagedBytes)
  })

  test.each([
    ['literals beyond its end', '3061'],
    ['a length without its end', 'f0ff'],
    ['half an offset', '106101'],
    ['the offset 0', '1061000010 62'],
    ['an offset before the content', '1061020010 62'],
    ['a copy as its last part', '10610100'],
    ['a copy whose length has no end', '1f6101 00ff'],
    ['more than a block holds', `1f610100${'ff'.repeat(300)}0010 62`],
  ])('a block with %s is damaged', (_what, hex) => {
    const bytes = Buffer.from(hex.replaceAll(' ', ''), 'hex')
    const blocks: Block[] = [{ kind: 'raw', bytes }]
    expect(() => pure(frameOf({ blocks, isLinked: true, ...noChecks }))).toThrow(DamagedBytes)
  })

  test.each([
    ['reserved bits of the flags', '04224d18 62 40 00 00000000'],
    ['reserved bits of the block size', '04224d18 60 41 00 00000000'],
    ['a dictionary', '04224d18 61 40 01000000 00 00000000'],
  ])('%s are refused', (_what, hex) => {
    const bytes = Buffer.from(hex.replaceAll(' ', ''), 'hex')
    const end = bytes.length - 5
    bytes[end] = (xxh32(bytes.subarray(4, end)) >>> 8) & 255
    expect(() => pure(bytes)).toThrow(DamagedBytes)
  })

  test('a content size that is not so is damage', () => {
    const bytes = frameOf({
      blocks: [{ kind: 'stored', bytes: Buffer.from('abc') }],
      isLinked: true,
      ...noChecks,
      contentSize: true,
    })
    bytes[6] = 4
    bytes[14] = (xxh32(bytes.subarray(4, 14)) >>> 8) & 255
    expect(() => pure(bytes)).toThrow(DamagedBytes)
  })
})

const noChecks = { blockChecksums: false, contentChecksum: false, contentSize: false }

describe('damaged LZ4 frames', () => {
  /** The content, or null where it is refused; any other failure is the test's. */
  const answerOf = (work: () => Buffer): Buffer | null => {
    try {
      return work()
    } catch (e) {
      if (e instanceof DamagedBytes || e instanceof UnsupportedBytes) return null
      throw e
    }
  }
  const nativeAnswer = (bytes: Buffer): Buffer | null => answerOf(() => decompress(LZ4, bytes, LIMIT, loadCodecs()))
  const LIMIT = 8 * 1024 * 1024

  const changes = fc.array(fc.tuple(fc.nat(), fc.nat({ max: 255 })), { maxLength: 3 })
  const sound = fc.oneof(
    anyFrame.map((frame) => frameOf(frame)),
    fc.uint8Array({ maxLength: 500 }).map((bytes) => Buffer.from(compressFrameSync(Buffer.from(bytes))))
  )

  test('bits flipped, bytes cut off or random: refused or answered as by the native one, within the limit', () => {
    let [answered, refused, short] = [0, 0, 0]
    const damaged = fc.tuple(sound, changes, fc.nat()).map(([bytes, flips, cut]) => {
      const copy = Buffer.from(bytes.subarray(0, flips.length === 3 ? cut % bytes.length : bytes.length))
      for (const [at, bits] of flips) if (copy.length > 0) copy[at % copy.length] = (copy[at % copy.length] ?? 0) ^ bits
      return copy
    })
    fc.assert(
      fc.property(fc.oneof({ weight: 9, arbitrary: damaged }, { weight: 1, arbitrary: fc.uint8Array() }), (bytes) => {
        const found = answerOf(() => pure(Buffer.from(bytes), LIMIT))
        const expected = nativeAnswer(Buffer.from(bytes))
        // lz4-napi ends at a block whose content a flip made empty.
        const isShort = found !== null && expected !== null && expected.length < found.length
        if (isShort) short += Number(found.subarray(0, expected.length).equals(expected))
        expect(isShort ? expected : found).toEqual(expected)
        if (found === null) refused += 1
        else answered += 1
      }),
      { numRuns: 1500 }
    )
    expect(Math.min(answered, refused)).toBeGreaterThan(100) // both kinds were met
    expect(short).toBeLessThan(15)
  })

  test('what a block stands for does not come out beyond the limit, and takes no more than is there', () => {
    const bytes = Buffer.from(compressFrameSync(Buffer.alloc(3_000_000)))
    expect(() => pure(bytes, 1_000_000)).toThrow(UnsupportedBytes)
    const found = pure(Buffer.from(compressFrameSync(Buffer.from('abc'))))
    expect([found.toString(), found.buffer.byteLength <= 64 * 1024]).toEqual(['abc', true])
  })
})
