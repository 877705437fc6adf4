/**
 * How an entry's text is held (P6). DynamoDB takes 400 KB an item, so a text above the limit is compressed, and what is
 * still too large is cut into parts under keys of its own. Only the head, the item at the entry's key, is put
 * conditionally; it names the parts' uuid and count and the SHA-256 of the whole text, which readers verify.
 */
import type { AttributeValue } from '@aws-sdk/client-dynamodb'
import { createHash, randomUUID } from 'node:crypto'
import { promisify } from 'node:util'
import { gunzip, gzip } from 'node:zlib'
import { SluiceError, reasonOf } from '../errors.ts'

/** Bytes of text or of compressed text in one item; the rest of the 400 KB is for keys and the other attributes. */
export const MAX_BODY_BYTES = 380 * 1024

/** An item as the client gives and takes it. */
export type Item = Record<string, AttributeValue>

export interface PartsName {
  readonly uuid: string
  readonly count: number
}

/** `attributes` go into the head; `parts` are put before it, under `name`. */
export interface EntryBody {
  readonly attributes: Item
  readonly name: PartsName | null
  readonly parts: readonly Uint8Array[]
}

export async function encodeBody(text: string): Promise<EntryBody> {
  const bytes = Buffer.from(text, 'utf8')
  if (bytes.length <= MAX_BODY_BYTES) return { attributes: { entry: { S: text } }, name: null, parts: [] }
  const packed = await promisify(gzip)(bytes)
  const facts = { bytes: { N: String(bytes.length) }, sha256: { S: sha256(bytes) } }
  if (packed.length <= MAX_BODY_BYTES) return { attributes: { gzip: { B: packed }, ...facts }, name: null, parts: [] }
  const parts = cut(packed)
  const name = { uuid: randomUUID(), count: parts.length }
  return {
    attributes: { parts: { S: name.uuid }, partCount: { N: String(name.count) }, ...facts },
    name,
    parts,
  }
}

/** The parts that a head names; null for an entry that fits into its item. */
export function partsOf(head: Item): PartsName | null {
  const uuid = head['parts']?.S
  return uuid === undefined ? null : { uuid, count: Number(head['partCount']?.N) }
}

/**
 * The text of a head and, where it names any, its parts in order.
 * @throws LOG_ENTRY_UNREADABLE
 */
export async function decodeBody(entry: string, head: Item, parts: readonly Uint8Array[]): Promise<string> {
  const text = head['entry']?.S
  if (text !== undefined) return text
  const packed = partsOf(head) === null ? head['gzip']?.B : Buffer.concat(parts)
  if (packed === undefined) throw new SluiceError('LOG_ENTRY_UNREADABLE', { entry, reason: 'its item holds no text' })
  const bytes = await unpack(entry, packed)
  if (sha256(bytes) !== head['sha256']?.S)
    throw new SluiceError('LOG_ENTRY_UNREADABLE', { entry, reason: 'its text does not match its digest' })
  return bytes.toString('utf8')
}

async function unpack(entry: string, packed: Uint8Array): Promise<Buffer> {
  try {
    return await promisify(gunzip)(packed)
  } catch (e) {
    throw new SluiceError(
      'LOG_ENTRY_UNREADABLE',
      { entry, reason: `its compressed text is damaged (${reasonOf(e)})` },
      e
    )
  }
}

const cut = (bytes: Uint8Array): Uint8Array[] =>
  Array.from({ length: Math.ceil(bytes.length / MAX_BODY_BYTES) }, (_, k) =>
    bytes.subarray(k * MAX_BODY_BYTES, (k + 1) * MAX_BODY_BYTES)
  )

const sha256 = (bytes: Uint8Array): string => createHash('sha256').update(bytes).digest('hex')
