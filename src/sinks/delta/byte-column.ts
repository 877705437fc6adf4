/** Byte strings and texts into Parquet pages: one copy, from the buffer that they came in. */
import { isByteSpans } from '../../schema.ts'
import type { ByteSpans } from '../../schema.ts'
import type { EndedChunk, FlatColumn } from './flat-column.ts'
import type { Intake } from './intake.ts'
import { PageBytes } from './page-bytes.ts'
import type { ChunkPages, ChunkTarget } from './chunk-pages.ts'
import { compareText } from './stats.ts'

/** A page ends before the value that would pass this. */
const pageBytes = 2 ** 20
/** Below this a loop is faster than a call. */
const shortBytes = 16
const shortText = 40

/** Plain values: a length of four bytes and the bytes. Whoever adds one tells the pages after it. */
class PlainPage {
  readonly #pages: ChunkPages
  readonly #page = new PageBytes()
  /** Of the row group, ended pages included. */
  total = 0

  constructor(pages: ChunkPages) {
    this.#pages = pages
  }

  addBytes(bytes: Uint8Array, at: number, length: number): void {
    const to = this.#begin(length, length)
    const page = this.#page.bytes
    if (length > shortBytes && Buffer.isBuffer(bytes)) bytes.copy(page, to, at, at + length)
    else if (length > shortBytes) page.set(bytes.subarray(at, at + length), to)
    else for (let k = 0; k < length; k++) page[to + k] = bytes[at + k] ?? 0
    this.#end(to, length)
  }

  /** A lone surrogate has no UTF-8 form and becomes U+FFFD. Answers whether the text is ASCII. */
  addText(text: string): boolean {
    const { length } = text
    const to = this.#begin(length, 3 * length)
    const page = this.#page.bytes
    let k = length > shortText ? -1 : 0
    while (k >= 0 && k < length) {
      const unit = text.charCodeAt(k)
      page[to + k] = unit
      k = unit < 128 ? k + 1 : -1
    }
    const size = k < 0 ? page.write(text, to) : length
    this.#end(to, size)
    return size === length
  }

  /** Where the bytes of a value go, of about `length` bytes and at most `room`. */
  #begin(length: number, room: number): number {
    if (this.#page.used > 0 && this.#page.used + 4 + length > pageBytes) this.end()
    this.#page.reserve(4 + room)
    return this.#page.used + 4
  }

  #end(to: number, size: number): void {
    const { bytes } = this.#page
    bytes[to - 4] = size
    bytes[to - 3] = size >>> 8
    bytes[to - 2] = size >>> 16
    bytes[to - 1] = size >>> 24
    this.#page.used = to + size
    this.total += 4 + size
  }

  end(): void {
    if (this.#pages.pageValues > 0) this.#pages.endPage('PLAIN', this.#page.content)
    this.#page.used = 0
  }

  free(): void {
    this.#page.free()
  }
}

export class BinaryColumn implements FlatColumn {
  readonly #pages: ChunkPages
  readonly #plain: PlainPage
  readonly #intake: Intake
  #nulls = 0

  constructor(pages: ChunkPages, intake: Intake) {
    this.#pages = pages
    this.#plain = new PlainPage(pages)
    this.#intake = intake
  }

  get bytes(): number {
    return this.#plain.total
  }

  append(source: ArrayLike<unknown> | ByteSpans, from: number, until: number): void {
    if (isByteSpans(source)) return this.#appendSpans(source, from, until)
    for (let i = from; i < until; i++) {
      const value = source[i]
      if (value instanceof Uint8Array) this.#add(value, 0, value.length)
      else if (this.#intake.isNull(value)) this.#addNull()
      else this.#intake.reject(value)
    }
  }

  #appendSpans({ bytes, cells, first, stride }: ByteSpans, from: number, until: number): void {
    for (let i = from, cell = first + from * stride; i < until; i++, cell += stride) {
      const length = cells[cell + 1] ?? -1
      if (length >= 0) this.#add(bytes, cells[cell] ?? 0, length)
      else if (this.#intake.isNull(null)) this.#addNull()
    }
  }

  #add(bytes: Uint8Array, at: number, length: number): void {
    this.#plain.addBytes(bytes, at, length)
    this.#pages.addValue()
  }

  #addNull(): void {
    this.#nulls++
    this.#pages.addNull()
  }

  end(target: ChunkTarget): EndedChunk {
    this.#plain.end()
    // No reader of Delta skips by bounds of these.
    const summary = { nulls: this.#nulls, min: null, max: null, hasNaN: false }
    this.#nulls = 0
    this.#plain.total = 0
    return { chunk: this.#pages.end(target, summary), summary }
  }

  free(): void {
    this.#plain.free()
  }
}

/** Values after which a dictionary must have halved their bytes. */
const trialValues = 1024
/** A dictionary is full at whichever comes first; later values are plain then. */
const dictionaryLimit = { values: 32_768, bytes: 2 ** 19 }

export class TextColumn implements FlatColumn {
  readonly #pages: ChunkPages
  readonly #plain: PlainPage
  readonly #intake: Intake
  #dictionary: TextDictionary | null = new TextDictionary()
  #nulls = 0
  #min: string | null = null
  #max: string | null = null
  #isAscii = true
  #indexBytes = 0

  constructor(pages: ChunkPages, intake: Intake) {
    this.#pages = pages
    this.#plain = new PlainPage(pages)
    this.#intake = intake
  }

  get bytes(): number {
    return this.#plain.total + this.#indexBytes + (this.#dictionary?.bytes ?? 0)
  }

  append(source: ArrayLike<unknown> | ByteSpans, from: number, until: number): void {
    if (isByteSpans(source)) return this.#intake.reject(source.bytes)
    for (let i = from; i < until; i++) {
      const value = source[i]
      if (typeof value === 'string') this.#addText(value)
      else if (!this.#intake.isNull(value)) this.#intake.reject(value)
      else {
        this.#nulls++
        this.#pages.addNull()
      }
    }
  }

  #addText(text: string): void {
    const dictionary = this.#dictionary
    if (dictionary === null) this.#widen(text, this.#plain.addText(text))
    else if (dictionary.add(text) === 'new') this.#widen(text, isAscii(text))
    this.#pages.addValue()
    if (dictionary !== null) this.#judge(dictionary)
  }

  #judge(dictionary: TextDictionary): void {
    if (dictionary.count === trialValues && 2 * dictionary.entryBytes > dictionary.plainBytes) {
      // Its values lie in the page under way, nulls between them: only their form changes.
      for (const text of dictionary.texts()) this.#plain.addText(text)
      this.#dictionary = null
    } else if (dictionary.size >= dictionaryLimit.values || dictionary.entryBytes >= dictionaryLimit.bytes)
      this.#endDictionary(dictionary)
  }

  #endDictionary(dictionary: TextDictionary): void {
    this.#indexBytes = dictionary.bytes
    this.#dictionary = null
    if (dictionary.size === 0) return this.#plain.end()
    this.#pages.endPage('RLE_DICTIONARY', dictionary.indexes())
    this.#pages.setDictionary(dictionary.entries, dictionary.size)
  }

  #widen(text: string, hasAsciiOnly: boolean): void {
    this.#isAscii &&= hasAsciiOnly
    const stored = hasAsciiOnly ? text : text.toWellFormed()
    if (this.#min === null || this.#max === null) this.#min = this.#max = stored
    else if (this.#isAbove(stored, this.#max)) this.#max = stored
    else if (this.#isAbove(this.#min, stored)) this.#min = stored
  }

  /** The order of UTF-16, which the engine compares by, is that of UTF-8 for ASCII. */
  #isAbove(a: string, b: string): boolean {
    return this.#isAscii ? a > b : compareText(a, b) > 0
  }

  end(target: ChunkTarget): EndedChunk {
    if (this.#dictionary === null) this.#plain.end()
    else this.#endDictionary(this.#dictionary)
    const summary = { nulls: this.#nulls, min: this.#min, max: this.#max, hasNaN: false }
    this.#dictionary = new TextDictionary()
    this.#nulls = this.#indexBytes = this.#plain.total = 0
    this.#min = this.#max = null
    this.#isAscii = true
    return { chunk: this.#pages.end(target, summary), summary }
  }

  free(): void {
    this.#plain.free()
  }
}

function isAscii(text: string): boolean {
  for (let k = 0; k < text.length; k++) if (text.charCodeAt(k) > 127) return false
  return true
}

/** Texts of a row group by their place in a dictionary. */
class TextDictionary {
  readonly #places = new Map<string, number>()
  readonly #entries = new PageBytes()
  #indexes = new Int32Array(16)
  #previous = ''
  #previousPlace = -1
  /** Texts added, and the bytes that they would take without a dictionary. */
  count = 0
  plainBytes = 0

  get size(): number {
    return this.#places.size
  }

  get entryBytes(): number {
    return this.#entries.used
  }

  /** About what the two pages take. */
  get bytes(): number {
    return this.#entries.used + this.count
  }

  add(text: string): 'new' | 'known' {
    let place = text === this.#previous ? this.#previousPlace : (this.#places.get(text) ?? -1)
    const isNew = place < 0
    if (isNew) {
      place = this.#places.size
      this.#places.set(text, place)
      this.#addEntry(Buffer.from(text))
    }
    this.#previous = text
    this.#previousPlace = place
    if (this.count === this.#indexes.length) {
      const grown = new Int32Array(2 * this.count)
      grown.set(this.#indexes)
      this.#indexes = grown
    }
    this.#indexes[this.count++] = place
    this.plainBytes += 4 + text.length
    return isNew ? 'new' : 'known'
  }

  #addEntry(bytes: Buffer): void {
    const entries = this.#entries
    entries.reserve(4 + bytes.length)
    entries.used = entries.bytes.writeUInt32LE(bytes.length, entries.used)
    entries.append(bytes)
  }

  /** Every text that was added. */
  *texts(): Generator<string> {
    const all = [...this.#places.keys()]
    for (let i = 0; i < this.count; i++) yield all[this.#indexes[i] ?? 0] ?? ''
  }

  get entries(): Uint8Array {
    return this.#entries.content
  }

  /** A data page's content: the width and the indexes, as one run or packed. */
  indexes(): Uint8Array {
    const page = new PageBytes()
    const width = 32 - Math.clz32(this.#places.size - 1)
    page.byte(width)
    if (width === 0) page.run(0, this.count, 0)
    else page.packed(this.#indexes, 0, this.count, width)
    return page.content
  }
}
