/** cdk/README.md against the template and the catalogue of errors. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { errorConditions } from '../../src/errors.ts'
import { pictureOf } from '../support/stack-picture.ts'
import { synthesized } from '../support/synthesized-query.ts'

const readme = readFileSync(join(import.meta.dirname, '../../cdk/README.md'), 'utf8')

describe('cdk/README.md', () => {
  it('shows and lists what is created', { timeout: 60_000 }, () => {
    const { template } = synthesized()
    const picture = /```mermaid\n([\s\S]*?)\n```/.exec(readme)?.[1]
    expect(picture).toBe(pictureOf(template)) // to correct it: take what was received
    const types = new Set(Object.values(template.Resources).map(({ Type }) => Type))
    expect([...types].filter((type) => !readme.includes(`\`${type}\``))).toEqual([])
  })

  it('explains conditions that exist', () => {
    const rows = readme.split('\n').filter((line) => /^\| `[A-Z]/.test(line))
    const names = rows.flatMap((row) => row.split('|')[1]?.match(/\w+(?:\.\w+)?/g) ?? [])
    const unknown = names.filter((name) => !Object.hasOwn(errorConditions, name))
    expect(names.length).toBeGreaterThan(20)
    expect(unknown).toEqual(['Runtime.ExitError', 'Sandbox.Timedout', 'Lambda.Unknown'])
  })

  it('lists every prop of the construct', () => {
    const source = readFileSync(join(import.meta.dirname, '../../cdk/micro-batch-query.ts'), 'utf8')
    const props = /interface MicroBatchQueryProps \{([\s\S]*?)\n\}/.exec(source)?.[1] ?? ''
    const found = [...props.matchAll(/^ {2}readonly (\w+)(\??):/gm)]
    expect(found.length).toBeGreaterThan(10)
    expect(found.filter(([, name]) => !readme.includes(`\`${name}\``)).map(([, name]) => name)).toEqual([])
    // Each optional one says in its own text what holds without it.
    const described = [...props.matchAll(/\/\*\*(?:(?!\*\/)[\s\S])*\*\/\s*readonly (\w+)\?:/g)]
    const withoutDefault = described.filter(([text]) => !text.includes('@default')).map(([, name]) => name)
    expect(described).toHaveLength(found.filter(([, , optional]) => optional === '?').length)
    expect(withoutDefault).toEqual([])
  })
})
