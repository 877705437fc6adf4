/** Kafka's primitive types on the wire, as far as our own requests need them: big-endian, classic and compact forms. */

/** Builds a request body. */
export class WireWriter {
  readonly #parts: Buffer[] = []

  int8(value: number): this {
    return this.#fixed(1, (b) => b.writeInt8(value))
  }

  int16(value: number): this {
    return this.#fixed(2, (b) => b.writeInt16BE(value))
  }

  int32(value: number): this {
    return this.#fixed(4, (b) => b.writeInt32BE(value))
  }

  int64(value: bigint): this {
    return this.#fixed(8, (b) => b.writeBigInt64BE(value))
  }

  boolean(value: boolean): this {
    return this.int8(value ? 1 : 0)
  }

  string(value: string): this {
    const bytes = Buffer.from(value)
    this.int16(bytes.length).#parts.push(bytes)
    return this
  }

  compactString(value: string): this {
    const bytes = Buffer.from(value)
    this.unsignedVarint(bytes.length + 1).#parts.push(bytes)
    return this
  }

  array<T>(values: readonly T[] | null, write: (writer: this, value: T) => void): this {
    this.int32(values === null ? -1 : values.length)
    for (const value of values ?? []) write(this, value)
    return this
  }

  compactArray<T>(values: readonly T[] | null, write: (writer: this, value: T) => void): this {
    this.unsignedVarint(values === null ? 0 : values.length + 1)
    for (const value of values ?? []) write(this, value)
    return this
  }

  bytes(value: Uint8Array): this {
    this.#parts.push(Buffer.from(value))
    return this
  }

  unsignedVarint(value: number): this {
    let rest = value
    for (; rest > 0x7f; rest >>>= 7) this.#fixed(1, (b) => b.writeUInt8((rest & 0x7f) | 0x80))
    return this.#fixed(1, (b) => b.writeUInt8(rest))
  }

  /** No tagged fields: we send none. */
  noTags(): this {
    return this.unsignedVarint(0)
  }

  toBuffer(): Buffer {
    return Buffer.concat(this.#parts)
  }

  #fixed(size: number, write: (buffer: Buffer) => void): this {
    const buffer = Buffer.alloc(size)
    write(buffer)
    this.#parts.push(buffer)
    return this
  }
}

/** Reads a response body from front to back. @throws RangeError where the body ends too early. */
export class WireReader {
  readonly #buffer: Buffer
  #at = 0

  constructor(buffer: Buffer) {
    this.#buffer = buffer
  }

  int8(): number {
    return this.#buffer.readInt8(this.#skip(1))
  }

  int16(): number {
    return this.#buffer.readInt16BE(this.#skip(2))
  }

  int32(): number {
    return this.#buffer.readInt32BE(this.#skip(4))
  }

  int64(): bigint {
    return this.#buffer.readBigInt64BE(this.#skip(8))
  }

  boolean(): boolean {
    return this.int8() !== 0
  }

  nullableString(): string | null {
    return this.#text(this.int16())
  }

  compactNullableString(): string | null {
    return this.#text(this.unsignedVarint() - 1)
  }

  array<T>(read: (reader: this) => T): T[] {
    return this.#list(this.int32(), read)
  }

  compactArray<T>(read: (reader: this) => T): T[] {
    return this.#list(this.unsignedVarint() - 1, read)
  }

  bytes(length: number): Buffer {
    const start = this.#skip(length)
    return this.#buffer.subarray(start, start + length)
  }

  unsignedVarint(): number {
    let value = 0
    for (let shift = 0; shift < 35; shift += 7) {
      const byte = this.#buffer.readUInt8(this.#skip(1))
      value += (byte & 0x7f) * 2 ** shift
      if (byte < 0x80) return value
    }
    throw new RangeError('a variable-length number has more than five bytes')
  }

  /** Tagged fields are extensions that an older client may pass over. */
  skipTags(): void {
    for (let left = this.unsignedVarint(); left > 0; left -= 1) {
      this.unsignedVarint()
      this.#skip(this.unsignedVarint())
    }
  }

  rest(): Buffer {
    return this.#buffer.subarray(this.#at)
  }

  #text(length: number): string | null {
    return length < 0 ? null : this.bytes(length).toString('utf8')
  }

  #list<T>(length: number, read: (reader: this) => T): T[] {
    // Every element takes at least one byte, so a longer list is damage and not a reason to allocate.
    if (length > this.#buffer.length - this.#at) throw new RangeError(`a list of ${length} elements does not fit`)
    const values: T[] = []
    for (let i = 0; i < length; i += 1) values.push(read(this))
    return values
  }

  #skip(length: number): number {
    const start = this.#at
    if (length < 0 || start + length > this.#buffer.length) throw new RangeError('the answer is cut off')
    this.#at = start + length
    return start
  }
}
