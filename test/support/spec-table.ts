/**
 * `spec-ids.tsv` and where its ids are cited, and the tables of README files that are made from code. As a program (`npm run
 * spec-table`) it writes these tables; tests hold them against their sources.
 */
import { readFileSync, readdirSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { kafkaOptionsTable } from './kafka-options-table.ts'

const tests = resolve(import.meta.dirname, '..')
const root = resolve(tests, '..')

export interface SpecId {
  readonly id: string
  readonly state: string
  readonly line: string
}

export const specIds = (): SpecId[] =>
  readFileSync(join(tests, 'spec-ids.tsv'), 'utf8')
    .trimEnd()
    .split('\n')
    .map((row) => {
      const [id = '', state = '', line = ''] = row.split('\t')
      return { id, state, line }
    })

/** The test files that cite each id, as whole words, by their names; the suites of ports are among them. */
export function citations(): ReadonlyMap<string, readonly string[]> {
  const files = readdirSync(tests, { recursive: true, encoding: 'utf8' })
    .filter((file) => /^conformance\/.*\.ts$|\.test\.ts$/.test(file) && !file.endsWith('spec-ids.test.ts'))
    .toSorted()
  const cited = new Map<string, string[]>()
  for (const file of files)
    for (const id of new Set(readFileSync(join(tests, file), 'utf8').match(/\b[KEBPX]\d{1,3}\b/g)))
      cited.set(id, [...(cited.get(id) ?? []), file])
  return cited
}

/** Every id with its state and the tests that prove it. */
export function specTable(): string {
  const cited = citations()
  const rows = specIds().map(({ id, state }) => {
    const files = (cited.get(id) ?? []).map((file) => `\`${file.replace(/\.test\.ts$/, '')}\``)
    return `| ${id} | ${state} | ${files.join(', ')} |`
  })
  return ['| id | state | tests |', '|---|---|---|', ...rows].join('\n')
}

/** A table and the lines around it in its README. */
interface GeneratedTable {
  readonly file: string
  readonly name: string
  make(): string
}

export const generatedTables: readonly GeneratedTable[] = [
  { file: 'README.md', name: 'client settings', make: kafkaOptionsTable },
  { file: 'test/README.md', name: 'ids', make: specTable },
]

/** The README's text with the table as it is now. */
export function withTable({ file, name, make }: GeneratedTable): string {
  const text = readFileSync(join(root, file), 'utf8')
  const [start, end] = [`<!-- table: ${name}, by npm run spec-table -->\n`, `\n<!-- end of table: ${name} -->`]
  const [from, to] = [text.indexOf(start), text.indexOf(end)]
  if (from < 0 || to < from) throw new Error(`${file} has no place for its table '${name}'`)
  return text.slice(0, from + start.length) + make() + text.slice(to)
}

export const storedText = ({ file }: GeneratedTable): string => readFileSync(join(root, file), 'utf8')

if (import.meta.main) for (const table of generatedTables) writeFileSync(join(root, table.file), withTable(table))
