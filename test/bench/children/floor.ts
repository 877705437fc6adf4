/**
 * node floor.ts BOOTSTRAP TOPIC: the floor of a bronze table: every record read and decoded, its key, value, offset and
 * timestamp copied once into pages of a mebibyte, each page compressed at the sink's level. No hash, no log, no file.
 */
import { constants, zstdCompressSync } from 'node:zlib'
import { offsetAt } from '../../../src/offsets.ts'
import { parseOptions } from '../../../src/options.ts'
import { createOffsetReader } from '../../../src/kafka/offset-reader.ts'
import { createRangeReader } from '../../../src/kafka/range-reader.ts'
import type { ByteSpans } from '../../../src/schema.ts'

const PAGE = 2 ** 20
const params = { [constants.ZSTD_c_compressionLevel]: 1 }

class Page {
  readonly bytes = Buffer.allocUnsafeSlow(2 * PAGE)
  used = 0
  compressed = 0

  room(more: number): number {
    if (this.used + more > PAGE) this.end()
    const at = this.used
    this.used += more
    return at
  }

  end(): void {
    const chunkSize = this.used + (this.used >>> 8) + 256
    const output = zstdCompressSync(this.bytes.subarray(0, this.used), { params, chunkSize })
    this.compressed += output.length
    if (output.buffer instanceof ArrayBuffer && output.buffer.byteLength === chunkSize) output.buffer.transfer(0)
    this.used = 0
  }

  spans({ bytes, cells, first, stride }: ByteSpans, count: number): void {
    for (let i = 0, cell = first; i < count; i++, cell += stride) {
      const at = cells[cell] ?? 0
      const length = cells[cell + 1] ?? 0
      const to = this.room(4 + length)
      this.bytes.writeInt32LE(length, to)
      this.bytes.set(bytes.subarray(at, at + length), to + 4)
    }
  }

  numbers(values: BigInt64Array, count: number): void {
    const bytes = new Uint8Array(values.buffer, values.byteOffset, 8 * count)
    this.bytes.set(bytes, this.room(8 * count))
  }
}

const [bootstrap = '', topic = ''] = process.argv.slice(2)
const options = parseOptions({ 'kafka.bootstrap.servers': bootstrap, subscribe: topic }, () => undefined)
const { signal } = new AbortController()
const offsets = createOffsetReader(options)
const ranges = createRangeReader({ ...options, reusesBuffers: true })
const { partitions } = await offsets.assigned(signal)
const [earliest, latest] = [await offsets.earliest(partitions, signal), await offsets.latest(partitions, signal)]
const [keys, values, places, times] = [new Page(), new Page(), new Page(), new Page()]
let records = 0
for (const one of partitions) {
  const range = { ...one, from: offsetAt(earliest, one) ?? 0n, until: offsetAt(latest, one) ?? 0n }
  for await (const { bulk, length } of ranges.read(range, 'read_uncommitted', signal)) {
    if (bulk === undefined) throw new Error('there is no bulk form')
    records += length
    keys.spans(bulk.keys, length)
    values.spans(bulk.values, length)
    places.numbers(bulk.offsets, length)
    times.numbers(bulk.timestamps, length)
  }
}
const pages = [keys, values, places, times]
for (const page of pages) page.end()
await Promise.all([offsets.close(), ranges.close()])
process.stdout.write(`${records} ${pages.reduce((sum, page) => sum + page.compressed, 0)}\n`)
