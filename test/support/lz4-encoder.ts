/** LZ4 frames by hand: any course of literals and copies, also such as no encoder would choose. */
import { xxh32 } from '../../src/kafka/xxh32.ts'

/** Literals, then a copy of `length` + 4 bytes. An offset beyond what is there is cut to it; where nothing is, nothing is copied. */
export interface Step {
  readonly literals: Uint8Array
  readonly offset: number
  readonly length: number
}

export type Block =
  | { readonly kind: 'packed'; readonly steps: readonly Step[] }
  | { readonly kind: 'stored'; readonly bytes: Uint8Array }
  /** A compressed block's own bytes, sound or not. */
  | { readonly kind: 'raw'; readonly bytes: Uint8Array }

export interface Frame {
  readonly blocks: readonly Block[]
  readonly isLinked: boolean
  readonly blockChecksums: boolean
  readonly contentChecksum: boolean
  readonly contentSize: boolean
}

/** In blocks of 64 KiB. */
export function frameOf(frame: Frame): Buffer {
  const content: number[] = []
  const blocks = frame.blocks.map((block) => {
    const from = frame.isLinked ? 0 : content.length
    const bytes = block.kind === 'packed' ? packed(block.steps, content, from) : block.bytes
    if (block.kind === 'stored') content.push(...block.bytes)
    const word = number32(bytes.length + (block.kind === 'stored' ? 0x80000000 : 0))
    return Buffer.concat([word, bytes, frame.blockChecksums ? number32(xxh32(bytes)) : none])
  })
  const bytes = Uint8Array.from(content)
  const flags =
    0x40 |
    (frame.isLinked ? 0 : 0x20) |
    (frame.blockChecksums ? 0x10 : 0) |
    (frame.contentSize ? 0x08 : 0) |
    (frame.contentChecksum ? 0x04 : 0)
  const size = frame.contentSize ? Buffer.concat([number32(bytes.length), number32(0)]) : none
  const descriptor = Buffer.concat([Buffer.from([flags, 0x40]), size])
  const checksum = Buffer.from([(xxh32(descriptor) >>> 8) & 255])
  const end = frame.contentChecksum ? number32(xxh32(bytes)) : none
  return Buffer.concat([number32(0x184d2204), descriptor, checksum, ...blocks, number32(0), end])
}

/** What should come out of a frame without raw blocks. */
export function contentOf({ blocks, isLinked }: Pick<Frame, 'blocks' | 'isLinked'>): Buffer {
  const content: number[] = []
  for (const block of blocks) {
    if (block.kind === 'packed') packed(block.steps, content, isLinked ? 0 : content.length)
    else content.push(...block.bytes)
  }
  return Buffer.from(content)
}

/** A block that says the steps; what it says is appended to the content, of which it may copy from `from` on. */
function packed(steps: readonly Step[], content: number[], from: number): Buffer {
  const parts: number[] = []
  let literals: number[] = []
  for (const step of steps) {
    literals.push(...step.literals)
    content.push(...step.literals)
    const offset = Math.min(step.offset, content.length - from)
    if (offset === 0) continue
    parts.push((Math.min(15, literals.length) << 4) | Math.min(15, step.length), ...lengthBytes(literals.length))
    parts.push(...literals, offset & 255, offset >>> 8, ...lengthBytes(step.length))
    for (let i = 0; i < step.length + 4; i++) content.push(content[content.length - offset] ?? 0)
    literals = []
  }
  parts.push(Math.min(15, literals.length) << 4, ...lengthBytes(literals.length), ...literals)
  return Buffer.from(parts)
}

const lengthBytes = (length: number): number[] =>
  length < 15 ? [] : [...Array.from({ length: Math.floor((length - 15) / 255) }, () => 255), (length - 15) % 255]

const none = Buffer.alloc(0)

function number32(value: number): Buffer {
  const bytes = Buffer.alloc(4)
  bytes.writeUInt32LE(value)
  return bytes
}
