/**
 * Column chunks of flat columns, written here without an object per value: data pages of version 2, compressed one by one,
 * so that of a row group only its compressed pages are held. hyparquet-writer writes the other columns and the footer.
 */
import type { ColumnChunk, Encoding, SchemaElement } from 'hyparquet'
import type { PageArena } from './page-arena.ts'
import { PageBytes } from './page-bytes.ts'
import type { ColumnSummary } from './stats.ts'

/** Where a row group's bytes go. */
export interface ChunkTarget {
  /** Bytes of the file so far. */
  readonly offset: number
  appendBytes(bytes: Uint8Array): void
}

interface PageHeader {
  readonly values: number
  readonly nulls: number
  readonly encoding: Encoding
  readonly levels: Uint8Array
}

/** Their numbers in Parquet's Thrift definition. */
const encodingIds = { PLAIN: 0, DELTA_BINARY_PACKED: 5, RLE_DICTIONARY: 8 } as const
const pageTypes = { dictionary: 2, data: 3 } as const

type PageEncoding = keyof typeof encodingIds

export class ChunkPages {
  readonly #element: SchemaElement
  readonly #arena: PageArena
  #pieces: Uint8Array[] = []
  #encodings = new Map<PageEncoding, number>()
  #dictionary: Uint8Array[] = []
  #values = 0
  #uncompressed = 0
  // the page under way
  #pageValues = 0
  #pageNulls = 0
  /** A bit a value, 1 where there is one; made with a page's first null. */
  #present: Uint8Array | null = null

  constructor(element: SchemaElement, arena: PageArena) {
    this.#element = element
    this.#arena = arena
  }

  /** Values of the page under way, nulls included. */
  get pageValues(): number {
    return this.#pageValues
  }

  addValue(): void {
    const i = this.#pageValues++
    if (this.#present !== null) this.#mark(i)
  }

  /** So many at once. */
  addValues(count: number): void {
    if (this.#present === null) this.#pageValues += count
    else for (let k = 0; k < count; k++) this.addValue()
  }

  addNull(): void {
    if (this.#present === null) {
      this.#present = new Uint8Array(Math.max(1024, Math.ceil(this.#pageValues / 4)))
      for (let i = 0; i < this.#pageValues; i++) this.#mark(i)
    }
    this.#pageValues++
    this.#pageNulls++
  }

  #mark(i: number): void {
    let present = this.#present ?? new Uint8Array(0)
    if (i >> 3 >= present.length) {
      const grown = new Uint8Array(2 * present.length + 1)
      grown.set(present)
      this.#present = present = grown
    }
    present[i >> 3] = (present[i >> 3] ?? 0) | (1 << (i & 7))
  }

  endPage(encoding: PageEncoding, content: Uint8Array): void {
    const levels = this.#levels()
    const [values, nulls] = [this.#pageValues, this.#pageNulls]
    const compressed = this.#arena.compressed(content)
    const header = dataPageHeader(
      { values, nulls, encoding, levels },
      levels.length + content.length,
      levels.length + compressed.length
    )
    this.#pieces.push(header, levels, compressed)
    this.#encodings.set(encoding, (this.#encodings.get(encoding) ?? 0) + 1)
    this.#uncompressed += header.length + levels.length + content.length
    this.#values += values
    this.#pageValues = 0
    this.#pageNulls = 0
    this.#present = null
  }

  /** Comes before the data pages, whenever it is given. */
  setDictionary(content: Uint8Array, values: number): void {
    const compressed = this.#arena.compressed(content)
    const header = dictionaryPageHeader(values, content.length, compressed.length)
    this.#dictionary = [header, compressed]
    this.#uncompressed += header.length + content.length
  }

  /** Definition levels, one bit a value: a run of one value where no other is needed. */
  #levels(): Uint8Array {
    const levels = new PageBytes()
    const [values, present] = [this.#pageValues, this.#present]
    if (this.#element.repetition_type !== 'OPTIONAL') return levels.content
    if (present === null || this.#pageNulls === values) levels.run(present === null ? 1 : 0, values, 1)
    else {
      const groups = Math.ceil(values / 8)
      levels.varint(2 * groups + 1)
      levels.append(present.length < groups ? Buffer.concat([present], groups) : present.subarray(0, groups))
    }
    return levels.content
  }

  /** Writes the pages and starts anew. */
  end(target: ChunkTarget, { nulls, min, max }: ColumnSummary): ColumnChunk {
    const start = target.offset
    for (const piece of this.#dictionary) target.appendBytes(piece)
    const dataStart = target.offset
    for (const piece of this.#pieces) target.appendBytes(piece)
    const pages = [...this.#encodings].map(([encoding, count]) => ({
      page_type: 'DATA_PAGE_V2' as const,
      encoding,
      count,
    }))
    const hasDictionary = this.#dictionary.length > 0
    const dictionaryPage = { page_type: 'DICTIONARY_PAGE', encoding: 'PLAIN', count: 1 } as const
    const { name, type } = this.#element
    if (type === undefined) throw new TypeError(`${name} has no physical type`)
    const chunk: ColumnChunk = {
      file_offset: BigInt(start),
      meta_data: {
        type,
        encodings: [...new Set<Encoding>([...(hasDictionary ? (['PLAIN'] as const) : []), ...this.#encodings.keys()])],
        path_in_schema: [name],
        codec: 'ZSTD',
        num_values: BigInt(this.#values),
        total_uncompressed_size: BigInt(this.#uncompressed),
        total_compressed_size: BigInt(target.offset - start),
        data_page_offset: BigInt(dataStart),
        ...(hasDictionary && { dictionary_page_offset: BigInt(start) }),
        statistics: {
          null_count: BigInt(nulls),
          ...(min !== null && max !== null && { min_value: min, max_value: max }),
        },
        encoding_stats: hasDictionary ? [dictionaryPage, ...pages] : pages,
      },
    }
    this.#pieces = []
    this.#dictionary = []
    this.#encodings = new Map()
    this.#values = 0
    this.#uncompressed = 0
    return chunk
  }
}

// -- headers in Thrift's compact form: each field has its distance from the one before and its type in a byte

const int32Type = 5
const structType = 12

function dataPageHeader(page: PageHeader & { readonly encoding: PageEncoding }, size: number, compressed: number) {
  const header = pageHeader(pageTypes.data, size, compressed, 8 - 3)
  for (const field of [page.values, page.nulls, page.values, encodingIds[page.encoding], page.levels.length, 0])
    int32Field(header, field)
  return closed(header)
}

function dictionaryPageHeader(values: number, size: number, compressed: number) {
  const header = pageHeader(pageTypes.dictionary, size, compressed, 7 - 3)
  for (const field of [values, encodingIds.PLAIN]) int32Field(header, field)
  return closed(header)
}

function pageHeader(type: number, size: number, compressed: number, structAfter: number): PageBytes {
  const header = new PageBytes()
  for (const field of [type, size, compressed]) int32Field(header, field)
  header.byte((structAfter << 4) | structType)
  return header
}

function int32Field(header: PageBytes, value: number): void {
  header.byte((1 << 4) | int32Type)
  header.zigzag(value)
}

/** Ends the inner struct and the header. */
function closed(header: PageBytes): Uint8Array {
  header.byte(0)
  header.byte(0)
  return header.content
}
