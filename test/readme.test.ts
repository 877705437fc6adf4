/** README's tables that end in a test: the test is there, under this name. */
import { readFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { describe, expect, test } from 'vitest'

const root = resolve(import.meta.dirname, '..')
const readme = readFileSync(join(root, 'README.md'), 'utf8')

/** The rows of the table under a heading, as their cells. */
function rowsUnder(heading: string): string[][] {
  const [, section = ''] = readme.split(`\n## ${heading}\n`)
  const [text = ''] = section.split('\n## ')
  return text
    .split('\n')
    .filter((line) => line.startsWith('| '))
    .slice(1)
    .map((line) => line.split(' | ').map((cell) => cell.replaceAll(/^\| | \|$/g, '')))
}

describe.each(['What may change between runs', 'Differences from Spark'])('%s', (heading) => {
  const rows = rowsUnder(heading)

  test('has rows of four filled cells, no two alike', () => {
    expect(rows.length).toBeGreaterThan(15)
    expect(rows.filter((cells) => cells.length !== 4 || cells.some((cell) => cell.trim() === ''))).toEqual([])
    expect(new Set(rows.map(([first]) => first)).size).toBe(rows.length)
  })

  test('names a test in each row that is in its file', () => {
    const missing = rows.flatMap((cells) => {
      const [, name = '', file = ''] = /^\[(.+)\]\((test\/[\w./-]+\.test\.ts)\)$/.exec(cells[3] ?? '') ?? []
      return file !== '' && readFileSync(join(root, file), 'utf8').includes(name) ? [] : [cells[3]]
    })
    expect(missing).toEqual([])
  })
})
