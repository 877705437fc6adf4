/** The example of README's section on JSON, run as it stands there. */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import { afterAll, expect, test } from 'vitest'
import type { KafkaRecord } from '../../src/mapping.ts'
import type { Query } from '../../src/query.ts'

const root = resolve(import.meta.dirname, '../..')
const folder = mkdtempSync(join(tmpdir(), 'sluice-readme-'))
afterAll(() => {
  rmSync(folder, { recursive: true })
})

/** The first block of code under the heading, as a module beside the project's own. */
function exampleUnder(heading: string): string {
  const [, section = ''] = readFileSync(join(root, 'README.md'), 'utf8').split(`\n## ${heading}\n`)
  const code = /```ts\n([\s\S]*?)```/.exec(section)?.[1] ?? ''
  const file = join(folder, 'query.ts')
  writeFileSync(file, code.replace("'sluice'", `'${pathToFileURL(join(root, 'src/index.ts')).href}'`))
  return pathToFileURL(file).href
}

const recordOf = (json: string): KafkaRecord => ({
  key: null,
  value: new TextEncoder().encode(json),
  topic: 'orders',
  partition: 0,
  offset: 7n,
  timestamp: 0n,
  timestampType: 0,
  headers: null,
})

test('the example maps records to rows, broken ones too', async () => {
  // What a module exports as its default is a query, as in every query module.
  const { default: query } = (await import(exampleUnder('JSON'))) as { readonly default: Query }
  const rowOf = (json: string): unknown => query.mapping?.map(recordOf(json))
  expect(rowOf('{"id":"o1","amount":12.5,"at":"2026-01-01T01:00:00","lines":[{"sku":"a","count":2}]}')).toEqual({
    id: 'o1',
    amount: 12.5,
    at: 1_767_225_600_000_000n,
    lines: [{ sku: 'a', count: 2 }],
    _corrupt_record: null,
    offset: 7n,
  })
  const broken = '{"id":"o2","amount":"12.5"}'
  expect(rowOf(broken)).toMatchObject({ id: 'o2', amount: null, _corrupt_record: broken, offset: 7n })
  expect(rowOf('')).toBeNull()
})
