import { createHash } from 'node:crypto'
import { gzipSync, zstdCompressSync } from 'node:zlib'
import * as fc from 'fast-check'
import { compressFrameSync } from 'lz4-napi'
import { compress as compressSnappy } from 'snappyjs'
import { describe, expect, test } from 'vitest'
import { crc32c, decompress } from '../../src/kafka/codecs.ts'
import { measureLz4Frame } from '../../src/kafka/lz4-frame.ts'
import { DamagedBytes, UnsupportedBytes } from '../../src/kafka/refusal.ts'
import { codecNames, compress } from '../support/record-batch-encoder.ts'
import lz4Frames from './lz4-frames.json' with { type: 'json' }

const GZIP = 1
const SNAPPY = 2
const LZ4 = 3
const ZSTD = 4
const ids = { none: 0, gzip: GZIP, snappy: SNAPPY, 'snappy-raw': SNAPPY, lz4: LZ4, zstd: ZSTD }
const compressing = codecNames.filter((codec) => codec !== 'none')

const hexBytes = (hex: string): Buffer => Buffer.from(hex.replaceAll(' ', ''), 'hex')

test('the checksum is CRC-32C', () => {
  // The check value of the catalogue of parametrised CRC algorithms.
  expect(crc32c(Buffer.from('123456789'))).toBe(0xe3069283)
})

describe.each(compressing)('%s', (codec) => {
  test('round trip, with blocks that compress and blocks that do not', () => {
    const content = fc.array(
      fc.oneof(
        fc.uint8Array({ maxLength: 3000 }),
        fc
          .tuple(fc.uint8Array({ minLength: 1, maxLength: 9 }), fc.nat({ max: 20_000 }))
          .map(([unit, n]) => Buffer.alloc(n, Buffer.from(unit)))
      ),
      { maxLength: 5 }
    )
    fc.assert(
      fc.property(content, (parts) => {
        const bytes = Buffer.concat(parts)
        expect(decompress(ids[codec], compress(codec, bytes)).equals(bytes)).toBe(true)
      }),
      { numRuns: 60 }
    )
  })

  test('the limit is what may come out', () => {
    const compressed = compress(codec, Buffer.alloc(100_000, 'abc'))
    // lz4's bound is whole blocks: 4 MiB is what this encoder's blocks are.
    const needed = codec === 'lz4' ? measureLz4Frame(compressed).bound : 100_000
    expect(decompress(ids[codec], compressed, needed)).toHaveLength(100_000)
    expect(() => decompress(ids[codec], compressed, needed - 1)).toThrow(UnsupportedBytes)
  })

  test('cut off anywhere it is damaged', () => {
    const compressed = compress(codec, Buffer.concat([Buffer.alloc(500, 'abc'), Buffer.from('the end')]))
    const damaged = (n: number): boolean => {
      try {
        decompress(ids[codec], compressed.subarray(0, n))
        return false
      } catch (e) {
        return e instanceof DamagedBytes
      }
    }
    const lengths = Array.from({ length: compressed.length }, (_, n) => n)
    // In xerial's framing a header alone is a whole stream of nothing, and nothing marks a stream's end.
    expect(lengths.filter((n) => !damaged(n))).toEqual(codec === 'snappy' ? [16] : [])
  })
})

describe('lz4 frames of the lz4 command', () => {
  test.each(Object.entries(lz4Frames))('%s', (_name, { frame }) => {
    const bytes = Buffer.from(frame, 'base64')
    const content = decompress(LZ4, bytes)
    expect(createHash('sha256').update(content).digest('hex')).toBe(
      createHash('sha256').update(repeatedUnit()).digest('hex')
    )
    // What follows the frame is not the frame's.
    expect(measureLz4Frame(Buffer.concat([bytes, Buffer.from('more')])).size).toBe(bytes.length)
  })

  test('linked blocks refer to the block before, independent ones do not', () => {
    const size = (name: keyof typeof lz4Frames) => Buffer.from(lz4Frames[name].frame, 'base64').length
    expect(size('linked blocks, content checksum')).toBeLessThan(size('independent blocks') - 900)
  })

  test.each(['high compression, all checksums', 'linked blocks, content checksum'] as const)(
    'a byte that changes the content breaks a checksum: %s',
    (name) => {
      const bytes = Buffer.from(lz4Frames[name].frame, 'base64')
      // In the literals of the first block.
      bytes[200] = (bytes[200] ?? 0) ^ 1
      expect(() => decompress(LZ4, bytes)).toThrow(DamagedBytes)
    }
  )

  test('a block that would come out larger than the frame allows is damaged', () => {
    const large = compressFrameSync(Buffer.alloc(1_000_000))
    // The header of a frame with blocks of 64 KiB before a block that stands for a million bytes.
    const lying = Buffer.concat([hexBytes('04224d18 60 40 82'), large.subarray(7)])
    expect(() => decompress(LZ4, lying)).toThrow(DamagedBytes)
  })

  test.each([
    ['another magic', '05224d18 60 40 82 00000000'],
    ['another version', '04224d18 a0 40 82 00000000'],
    ['no block size', '04224d18 60 30 82 00000000'],
    ['a wrong header checksum', '04224d18 60 40 83 00000000'],
    ['a block above the block size', '04224d18 60 40 82 01000100 00'],
    ['a skippable frame', '502a4d18 03000000 aabbcc'],
  ])('%s is damaged', (_name, hex) => {
    expect(() => decompress(LZ4, hexBytes(hex))).toThrow(DamagedBytes)
  })
})

describe('snappy', () => {
  test.each([
    ['nothing', '00', ''],
    ['a literal', '03 08 616263', 'abc'],
    ['a literal with a length of one byte', `3d f0 3c ${'61'.repeat(61)}`, 'a'.repeat(61)],
    ['a literal with a length of four bytes', '03 fc 02000000 616263', 'abc'],
    ['a copy that overlaps itself', '09 00 61 11 01', 'aaaaaaaaa'],
    ['a copy with two bytes of offset', '06 08 616263 0a 0300', 'abcabc'],
    ['a copy with four bytes of offset', '06 08 616263 0b 03000000', 'abcabc'],
  ])('%s', (_name, hex, text) => {
    expect(decompress(SNAPPY, hexBytes(hex)).toString()).toBe(text)
  })

  test.each([
    ['a length of six bytes', '808080808000'],
    ['a length of 33 bits', '8080808010'],
    ['more than its length', '02 08 616263'],
    ['less than its length', '04 08 616263'],
    ['a literal beyond the bytes', '03 08 6162'],
    ['a literal of 4 GiB', '0a fc faffffff 000000'],
    ['a copy from before the block', '08 00 61 11 02'],
    ['a copy with the offset 0', '08 00 61 11 00'],
    ['a copy beyond the length', '05 00 61 11 01'],
    ['a copy without its offset', '06 08 616263 0a 03'],
    ['a far copy with an offset of 4 GiB', '06 08 616263 0b ffffffff'],
  ])('%s is damaged', (_name, hex) => {
    expect(() => decompress(SNAPPY, hexBytes(hex))).toThrow(DamagedBytes)
  })

  const header = hexBytes('82534e4150505900 00000001 00000001')
  const block = (text: string): Buffer => {
    const bytes = Buffer.from(compressSnappy(Buffer.from(text)))
    return Buffer.concat([hexBytes('000000'), Buffer.from([bytes.length]), bytes])
  }

  test('xerial blocks follow one another, also with headers between them', () => {
    const stream = Buffer.concat([header, block('one '), block('two '), header, block('three')])
    expect(decompress(SNAPPY, stream).toString()).toBe('one two three')
  })

  test('a copy does not reach into the block before', () => {
    const reaching = Buffer.concat([header, block('one '), hexBytes('00000003 04 01 01')])
    expect(() => decompress(SNAPPY, reaching)).toThrow(DamagedBytes)
  })

  test.each([
    ['beyond the bytes', '00000009 00'],
    ['negative', 'ffffffff 00'],
    ['cut off', '0000'],
  ])('a xerial block with a length %s is damaged', (_name, hex) => {
    expect(() => decompress(SNAPPY, Buffer.concat([header, hexBytes(hex)]))).toThrow(DamagedBytes)
  })

  test('the limit counts all blocks together', () => {
    const stream = Buffer.concat([header, block('12345'), block('67890')])
    expect(decompress(SNAPPY, stream, 10)).toHaveLength(10)
    expect(() => decompress(SNAPPY, stream, 9)).toThrow(UnsupportedBytes)
  })
})

describe('streams of several parts', () => {
  const one = Buffer.alloc(70_000, 'first ')
  const two = Buffer.from('second')

  test('gzip members', () => {
    const bytes = decompress(GZIP, Buffer.concat([gzipSync(one), gzipSync(two)]))
    expect(bytes.equals(Buffer.concat([one, two]))).toBe(true)
  })

  test('zstd frames, skippable ones between them', () => {
    const skippable = hexBytes('502a4d18 03000000 aabbcc')
    const bytes = decompress(ZSTD, Buffer.concat([zstdCompressSync(one), skippable, zstdCompressSync(two)]))
    expect(bytes.equals(Buffer.concat([one, two]))).toBe(true)
  })

  test('the limit counts zstd frames together', () => {
    const bytes = Buffer.concat([zstdCompressSync(one), zstdCompressSync(two)])
    expect(decompress(ZSTD, bytes, one.length + two.length)).toHaveLength(one.length + two.length)
    expect(() => decompress(ZSTD, bytes, one.length + two.length - 1)).toThrow(UnsupportedBytes)
  })

  test('rubbish after a zstd frame is damage', () => {
    expect(() => decompress(ZSTD, Buffer.concat([zstdCompressSync(two), Buffer.from('rubbish')]))).toThrow(DamagedBytes)
  })
})

test.each([5, 6, 7, -1])('codec %s is unknown', (codec) => {
  expect(() => decompress(codec, Buffer.alloc(1))).toThrow(UnsupportedBytes)
})

/** What the lz4 command was given: a thousand bytes that do not compress, 140 times. */
function repeatedUnit(): Buffer {
  let state = 7
  const unit = Buffer.alloc(1000)
  for (let i = 0; i < unit.length; i++) {
    state = (state * 1103515245 + 12345) % 2147483648
    unit[i] = (state >>> 16) & 255
  }
  return Buffer.concat(Array.from({ length: 140 }, () => unit))
}
