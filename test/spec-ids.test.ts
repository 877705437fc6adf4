/**
 * test/spec-ids.tsv lists what the project is measured by: id, state, one line. `done` rows are cited by a test that proves
 * them, `later` rows wait for a part that is not built, `no` rows do not apply. The list and the citations must agree.
 */
import { describe, expect, it } from 'vitest'
import { citations, generatedTables, specIds, storedText, withTable } from './support/spec-table.ts'

const rows = specIds()
const cited = citations()

describe('spec ids', () => {
  it('have an id, a state and a line each, no id twice', () => {
    expect(
      rows.filter(({ id, state, line }) => !/^[KEBPX]\d+$/.test(id) || !/^(done|later|no)$/.test(state) || line === '')
    ).toEqual([])
    expect(new Set(rows.map(({ id }) => id)).size).toBe(rows.length)
  })

  it('marked done are cited, and cited ones are marked done', () => {
    const done = rows.flatMap(({ id, state }) => (state === 'done' ? [id] : []))
    expect(done.filter((id) => !cited.has(id))).toEqual([])
    const states = new Map(rows.map(({ id, state }) => [id, state]))
    expect([...cited.keys()].filter((id) => states.get(id) !== 'done')).toEqual([])
  })
})

describe('generated tables', () => {
  it.each(generatedTables)('$name in $file is as npm run spec-table writes it', (table) => {
    expect(storedText(table) === withTable(table)).toBe(true)
  })
})
