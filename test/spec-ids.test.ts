/**
 * test/spec-ids.tsv lists what the project is measured by: id, state, one line. `done` rows are cited by a test that proves
 * them, `later` rows wait for a part that is not built, `no` rows do not apply. The list and the citations must agree.
 */
import { readFileSync, readdirSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { describe, expect, it } from 'vitest'

const folder = resolve(import.meta.dirname)
const rows = readFileSync(join(folder, 'spec-ids.tsv'), 'utf8')
  .trimEnd()
  .split('\n')
  .map((line) => line.split('\t'))

const cited = new Set(
  readdirSync(folder, { recursive: true, encoding: 'utf8' })
    .filter((file) => file.endsWith('.test.ts') && !file.endsWith('spec-ids.test.ts'))
    .flatMap((file) => readFileSync(join(folder, file), 'utf8').match(/\b[KEBPX]\d{1,3}\b/g) ?? [])
)

describe('spec ids', () => {
  it('have an id, a state and a line each, no id twice', () => {
    expect(
      rows.filter(
        ([id, state, line]) => !/^[KEBPX]\d+$/.test(id ?? '') || !/^(done|later|no)$/.test(state ?? '') || !line
      )
    ).toEqual([])
    expect(new Set(rows.map(([id]) => id)).size).toBe(rows.length)
  })

  it('marked done are cited, and cited ones are marked done', () => {
    const done = rows.flatMap(([id, state]) => (state === 'done' ? [id] : []))
    expect(done.filter((id) => !cited.has(id ?? ''))).toEqual([])
    const known = new Map(rows.map(([id, state]) => [id, state]))
    expect([...cited].filter((id) => known.get(id) !== 'done')).toEqual([])
  })
})
