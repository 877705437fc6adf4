import { describe, expect, test } from 'vitest'
import { t } from '../../../src/schema.ts'
import type { Field } from '../../../src/schema.ts'
import { ColumnBuffer } from '../../../src/sinks/delta/column-buffer.ts'

function stored(field: Field<unknown>, values: ArrayLike<unknown>): unknown[] {
  const buffer = new ColumnBuffer({ c: field })
  buffer.append({ length: values.length, columns: [values] }, 0, values.length)
  return buffer.take()[0] ?? []
}

describe('values that fit', () => {
  test.for([
    ['string', t.string, ['a', '', null]],
    ['int', t.int, [2 ** 31 - 1, -(2 ** 31), 0, null]],
    ['long', t.long, [2n ** 63n - 1n, -(2n ** 63n), null]],
    ['double', t.double, [1.5, NaN, Infinity, null]],
    ['boolean', t.boolean, [true, false, null]],
    ['timestamp', t.timestamp, [-1n, null]],
    ['date', t.date, [-1, null]],
    ['array', t.array(t.int), [[1, null], [], null]],
    ['struct', t.struct({ a: t.int, b: t.string }), [{ a: 1, b: null }, null]],
  ] as const)('%s', ([, field, values]) => {
    expect(stored(field, values)).toEqual(values)
  })

  test('typed arrays serve int, long and timestamp', () => {
    expect(stored(t.int.notNull(), Int32Array.of(1, -1))).toEqual([1, -1])
    expect(stored(t.long, BigInt64Array.of(2n ** 60n))).toEqual([2n ** 60n])
    expect(stored(t.timestamp, BigInt64Array.of(5n))).toEqual([5n])
  })

  test('bytes are copied: the buffer they came in may be used again', () => {
    const buffer = Buffer.from([1, 2])
    const [copy, large, nested] = [
      stored(t.binary, [buffer])[0],
      stored(t.binary, [Buffer.alloc(2 ** 20, 7)])[0],
      stored(t.array(t.struct({ v: t.binary })), [[{ v: buffer }]])[0],
    ]
    buffer.fill(9)
    expect(copy).toEqual(Uint8Array.of(1, 2))
    expect((large as Uint8Array).every((b) => b === 7)).toBe(true)
    expect(nested).toEqual([{ v: Uint8Array.of(1, 2) }])
  })

  test('a missing member is null, a member too many is left out, a lone surrogate becomes U+FFFD', () => {
    expect(stored(t.struct({ a: t.int }), [{ b: 1 }])).toEqual([{ a: null }])
    expect(stored(t.string, ['a\ud800'])).toEqual(['a\ufffd'])
  })

  test('only the asked-for rows are taken, and the buffer starts anew', () => {
    const buffer = new ColumnBuffer({ c: t.int, d: t.string })
    const batch = {
      length: 4,
      columns: [
        [1, 2, 3, 4],
        ['a', 'b', 'c', 'd'],
      ],
    }
    buffer.append(batch, 1, 3)
    expect(buffer.rows).toBe(2)
    expect(buffer.bytes).toBeGreaterThan(0)
    expect(buffer.take()).toEqual([
      [2, 3],
      ['b', 'c'],
    ])
    expect([buffer.rows, buffer.bytes, buffer.take()]).toEqual([0, 0, [[], []]])
  })
})

describe('values that do not fit are refused with column and kind, never the value', () => {
  test.for([
    [t.string, 5, "Column 'c': a string column takes a string, a row holds a number."],
    [t.int, 2 ** 31, 'an int column takes a whole number of 32 bits, a row holds a number beyond 32 bits'],
    [t.int, 1.5, 'a row holds a number with a fraction'],
    [t.int, 5n, 'a row holds a bigint'],
    [t.long, 5, 'a long column takes a bigint of 64 bits, a row holds a number'],
    [t.long, 2n ** 63n, 'a row holds a bigint beyond 64 bits'],
    [t.timestamp, new Date(0), 'a row holds an object (Date)'],
    [t.double, '1', 'a row holds a string'],
    [t.boolean, 1, 'a row holds a number'],
    [t.binary, 'secret', 'a binary column takes a Uint8Array, a row holds a string'],
    [t.date, 2 ** 40, 'a number beyond 32 bits'],
    [t.array(t.int), new Uint8Array(1), 'an array column takes an array, a row holds an object (Uint8Array)'],
    [t.struct({ a: t.int }), [1], 'a struct column takes an object, a row holds an array'],
    [t.int.notNull(), null, "Column 'c': it is NOT NULL and a row holds no value for it."],
    [t.int.notNull(), undefined, 'NOT NULL'],
    [t.array(t.int.notNull()), [1, null], "Column 'c.element': it is NOT NULL"],
    [t.struct({ a: t.int.notNull() }), {}, "Column 'c.a': it is NOT NULL"],
  ] as const)('%#', ([field, value, message]) => {
    const attempt = () => stored(field, [value])
    expect(attempt).toThrow(message)
    expect(attempt).toThrow(expect.objectContaining({ name: 'ROW_INVALID', retryable: false }))
    expect(attempt).not.toThrow('secret')
  })

  test('a batch without the column', () => {
    const buffer = new ColumnBuffer({ a: t.int, b: t.int })
    expect(() => buffer.append({ length: 1, columns: [[1]] }, 0, 1)).toThrow("Column 'b'")
  })
})
