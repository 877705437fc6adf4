/** Checksum and compression of record batches: Kafka's codec ids 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd. */
import { gunzipSync, zstdDecompressSync } from 'node:zlib'
import { reasonOf } from '../errors.ts'
import { giveBack } from '../memory.ts'
import { measureLz4Frame } from './lz4-frame.ts'
import { loadCodecs, type Codecs } from './native-codecs.ts'
import { DamagedBytes, UnsupportedBytes } from './refusal.ts'
import { decompressSnappy } from './snappy.ts'

/**
 * The most that one batch may decompress to. A batch on the wire is as large as the topic's max.message.bytes (1 MiB by
 * default), but zstd can make gigabytes of it: the limit keeps such a batch from taking the process.
 */
export const MAX_DECOMPRESSED_BYTES = 256 * 1024 * 1024

const codecs: Codecs = loadCodecs()

/** CRC-32C (Castagnoli), unsigned. */
export const crc32c = codecs.crc32c

/**
 * Decompresses the records of one batch; codec 0 answers the bytes themselves.
 * @throws DamagedBytes, or UnsupportedBytes for an unknown codec and for more than `limit` bytes.
 */
export function decompress(
  codec: number,
  bytes: Buffer,
  limit: number = MAX_DECOMPRESSED_BYTES,
  { lz4 }: Pick<Codecs, 'lz4'> = codecs
): Buffer {
  switch (codec) {
    case 0:
      return bytes
    case 1:
      return inflated('gzip', limit, () => gunzipSync(bytes, { maxOutputLength: limit, chunkSize: chunkFor(bytes) }))
    case 2:
      return decompressSnappy(bytes, limit)
    case 3:
      return decompressLz4(bytes, limit, lz4)
    case 4:
      return decompressZstd(bytes, limit)
    default:
      throw new UnsupportedBytes(`its compression codec has the unknown id ${codec}`)
  }
}

function decompressLz4(bytes: Buffer, limit: number, lz4: Codecs['lz4']): Buffer {
  const frame = measureLz4Frame(bytes)
  if (frame.bound > limit) throw tooLarge(limit)
  return inflated('lz4', limit, () => lz4(bytes.subarray(0, frame.size), frame))
}

/** Node stops after the first frame, while the format lets frames follow one another. */
function decompressZstd(bytes: Buffer, limit: number): Buffer {
  const frames: Buffer[] = []
  let left = limit
  for (let at = 0; at < bytes.length || frames.length === 0;) {
    const rest = bytes.subarray(at)
    const { buffer, engine } = inflated('zstd', limit, () => zstdFrame(rest, left))
    if (engine.bytesWritten === 0) throw new DamagedBytes('zstd: no frame')
    at += engine.bytesWritten
    left -= buffer.length
    frames.push(buffer)
  }
  const [first] = frames
  return frames.length === 1 && first !== undefined ? first : Buffer.concat(frames)
}

/** `bytesWritten` counts the input consumed. */
interface ZstdFrame {
  readonly buffer: Buffer
  readonly engine: { readonly bytesWritten: number }
}

function zstdFrame(bytes: Buffer, limit: number): ZstdFrame {
  // maxOutputLength must be at least 1; a byte too many is caught by the next frame or by the count of records.
  const options = { maxOutputLength: Math.max(1, limit), chunkSize: chunkFor(bytes), info: true }
  // Node's types do not know what `info` changes.
  return zstdDecompressSync(bytes, options) as unknown as ZstdFrame
}

/** Large enough that a usual batch comes out in one or two pieces, and so that none lies in the memory that small buffers share. */
const chunkFor = (bytes: Buffer): number => Math.max(Buffer.poolSize + 1, Math.min(4 * bytes.length, 1024 * 1024))

/** Gives the memory of decompressed bytes back, where it is theirs alone: they are empty then. */
export const release = ({ buffer }: Buffer): void => giveBack(new Uint8Array(buffer))

function inflated<T>(codec: string, limit: number, run: () => T): T {
  try {
    return run()
  } catch (e) {
    if (e instanceof Error && 'code' in e && e.code === 'ERR_BUFFER_TOO_LARGE') throw tooLarge(limit)
    throw new DamagedBytes(`${codec}: ${reasonOf(e)}`, { cause: e })
  }
}

const tooLarge = (limit: number): UnsupportedBytes =>
  new UnsupportedBytes(`it decompresses to more than ${limit} bytes`)
