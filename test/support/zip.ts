/** A zip archive in memory, for functions' bundles. */
import { readFileSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { crc32, deflateRawSync } from 'node:zlib'

const DEFLATED = 8
const VERSION = 20

/** All files of a folder, without subfolders. */
export function zipFolder(folder: string): Buffer {
  const entries = readdirSync(folder).map((name) => ({ name, body: readFileSync(join(folder, name)) }))
  const parts: Buffer[] = []
  const directory: Buffer[] = []
  let at = 0
  for (const { name, body } of entries) {
    const packed = deflateRawSync(body)
    const head = headOf(name, body, packed)
    const local = Buffer.concat([number32(0x04034b50), head, Buffer.from(name), packed])
    // version made by, head, no comment, disk, attributes: a file that all may read
    const central = [number32(0x02014b50), number16(VERSION | (3 << 8)), head, Buffer.alloc(2 + 2 + 2)]
    directory.push(...central, number32((0o100644 << 16) >>> 0), number32(at), Buffer.from(name))
    parts.push(local)
    at += local.length
  }
  const index = Buffer.concat(directory)
  const count = number16(entries.length)
  const end = [number32(0x06054b50), number16(0), number16(0), count, count, number32(index.length), number32(at)]
  return Buffer.concat([...parts, index, ...end, number16(0)])
}

/** What the local and the central head share: version, flags, method, time, sizes, length of the name, no extra field. */
const headOf = (name: string, body: Buffer, packed: Buffer): Buffer =>
  Buffer.concat([
    number16(VERSION),
    number16(0),
    number16(DEFLATED),
    number16(0),
    number16(0x21), // 1 January 1980, the first there is
    number32(crc32(body)),
    number32(packed.length),
    number32(body.length),
    number16(Buffer.byteLength(name)),
    number16(0),
  ])

function number16(value: number): Buffer {
  const bytes = Buffer.alloc(2)
  bytes.writeUInt16LE(value)
  return bytes
}

function number32(value: number): Buffer {
  const bytes = Buffer.alloc(4)
  bytes.writeUInt32LE(value)
  return bytes
}
