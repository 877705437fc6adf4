/** from_json of real Spark, case by case. */
import { describe, expect, test } from 'vitest'
import { isSluiceError } from '../../src/errors.ts'
import { fromJson, jsonReader } from '../../src/formats/json.ts'
import { t } from '../../src/schema.ts'
import { cases, expectedOf, inputOf, optionsOf, typeOf } from './json-vectors.ts'
import type { JsonCase } from './json-vectors.ts'

/** Cases with another answer than Spark's, by their schema, and why. */
const differences: Readonly<Record<string, string>> = {
  'v variant': 'there is no variant type: declare the column as t.string, which takes any value as compact JSON',
}

const compared = cases.filter(({ ddl }) => !Object.hasOwn(differences, ddl))

/** The row, or the condition with its subclass as Spark writes it. */
function answerOf(it: JsonCase): unknown {
  try {
    return jsonReader(typeOf(it.ddl), optionsOf(it))(inputOf(it))
  } catch (error) {
    if (!isSluiceError(error)) throw error
    const subclass = 'subclass' in error.parameters ? `.${error.parameters.subclass}` : ''
    return { condition: error.name + subclass }
  }
}

describe('fromJson', () => {
  test('is compared on all cases but those with a stated difference', () => {
    expect([cases.length, compared.length]).toEqual([207, 206])
  })

  test('a variant is read as a string column: the same JSON', () => {
    const [it] = cases.filter(({ ddl }) => Object.hasOwn(differences, ddl))
    if (it === undefined) throw new Error('no such case')
    const read = fromJson({ v: t.string })
    expect(read(inputOf(it))).toEqual({ v: '{"x":1.5}' })
    expect(JSON.stringify(it.row)).toContain(JSON.stringify('VariantVal:{"x":1.5}'))
  })

  test.each(compared.map((it) => [`${it.why}: ${it.ddl}`, it.input ?? it.inputHex, it] as const))(
    'answers as Spark: %s, %s',
    (_why, _hex, it) => {
      expect(answerOf(it)).toEqual(it.error === undefined ? expectedOf(it) : { condition: it.error.condition })
    }
  )
})
