/**
 * Records as text, for `sluice read`: JSON lines and CSV. Bytes that are UTF-8 stand as text under their own name (`key`,
 * `value`); others in base64 under a name that says so (`keyBase64`, `valueBase64`). Timestamps are milliseconds since the epoch.
 */
import { isUtf8 } from 'node:buffer'
import type { Header, RecordBatch } from '../ports.ts'

/** Lines of one batch of records. */
export type RecordLines = (batch: RecordBatch) => string

const quoted = (text: string): string => JSON.stringify(text)
const textOf = (bytes: Uint8Array): string => Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString('utf8')
const base64Of = (bytes: Uint8Array): string =>
  Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString('base64')

/** `"key":"text"`, `"key":null` or `"keyBase64":"..."`. */
function member(name: string, bytes: Uint8Array | null): string {
  if (bytes === null) return `"${name}":null`
  return isUtf8(bytes) ? `"${name}":${quoted(textOf(bytes))}` : `"${name}Base64":"${base64Of(bytes)}"`
}

const headersOf = (headers: readonly Header[] | null): string =>
  headers === null ? 'null' : `[${headers.map((h) => `{"key":${quoted(h.key)},${member('value', h.value)}}`).join()}]`

/** One JSON object a line, members in the order of Spark's columns. */
export const jsonLines =
  (includeHeaders: boolean): RecordLines =>
  (batch) => {
    const { topic, partition, timestampType } = batch
    const place = `"topic":${quoted(topic)},"partition":${partition},"offset":`
    let lines = ''
    for (let i = 0; i < batch.length; i++) {
      const headers = includeHeaders ? `,"headers":${headersOf(batch.headers(i))}` : ''
      lines +=
        `{${member('key', batch.key(i))},${member('value', batch.value(i))},${place}${batch.offset(i)},` +
        `"timestamp":${batch.timestamp(i)},"timestampType":${timestampType}${headers}}\n`
    }
    return lines
  }

/** The first line of a CSV file. */
export const csvHeader = (includeHeaders: boolean): string =>
  `key,keyBase64,value,valueBase64,topic,partition,offset,timestamp,timestampType${includeHeaders ? ',headers' : ''}\n`

/** Null is an empty field, an empty text is `""`. */
const field = (text: string | null): string =>
  text === null ? '' : text === '' || /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text

/** The two fields of bytes: text and base64, at most one of them filled. */
const fields = (bytes: Uint8Array | null): string =>
  bytes === null ? ',' : isUtf8(bytes) ? `${field(textOf(bytes))},` : `,${base64Of(bytes)}`

/** RFC 4180; headers as the JSON that JSON lines have. */
export const csvLines =
  (includeHeaders: boolean): RecordLines =>
  (batch) => {
    const { topic, partition, timestampType } = batch
    let lines = ''
    for (let i = 0; i < batch.length; i++) {
      const headers = batch.headers(i)
      const last = includeHeaders ? `,${field(headers === null ? null : headersOf(headers))}` : ''
      lines +=
        `${fields(batch.key(i))},${fields(batch.value(i))},${topic},${partition},${batch.offset(i)},` +
        `${batch.timestamp(i)},${timestampType}${last}\n`
    }
    return lines
  }
