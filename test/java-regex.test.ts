/** Patterns against what Java found in the same topic names (spark/JavaRegex.java), and what is refused by its name. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { javaRegex } from '../src/java-regex.ts'

const [names = '', ...lines] = readFileSync(join(import.meta.dirname, 'spark', 'java-regex.txt'), 'utf8')
  .trimEnd()
  .split('\n')
const topics = names.split(' ')
const cases = lines.map((line) => {
  const at = line.indexOf(' ')
  return { found: line.slice(0, at), pattern: line.slice(at + 1) }
})

const find = (pattern: string): string => {
  const regex = javaRegex(pattern)
  return topics.map((topic) => (regex.test(topic) ? '1' : '0')).join('')
}

/** Patterns that Java takes, and the construct that a refusal names. */
const refused: readonly (readonly [string, string])[] = [
  ['(a)\\1', 'the back-reference \\1, which JavaScript matches differently, at index 4'],
  ['(?<n>a)\\k<n>', 'the back-reference \\k'],
  ['(?u)a', 'the flag (?u), at index 2'],
  ['(?iU)a', 'the flag (?U)'],
  ['(?x)a b', 'the flag (?x)'],
  ['\\X', '\\X (a grapheme cluster)'],
  ['\\N{DIGIT ONE}', 'the escape \\N'],
  ['\\p{IsLatin}', 'the property \\p{IsLatin}'],
  ['\\p{javaLowerCase}', 'the property \\p{javaLowerCase}'],
  ['(?i)\\p{Lower}', 'the property \\p{Lower} under the flag (?i)'],
  ['[\\v-a]', "\\v before a '-'"],
  ['[a&&]', 'an intersection && with nothing on its right'],
  ['[a&&b&&]', 'an intersection && with nothing on its right'],
  ['[a&&[b]&c]', 'a single & after an intersection &&'],
  ['{2}', "a '{' that repeats nothing"],
  ['a{2}{3}', "a '{' that repeats nothing"],
  ['(?:a?){2}', 'the repetition {2} of what can match nothing'],
  ['(?>(|a)*)b', 'an atomic group that repeats what can match nothing'],
  ['(?<=a?+)b', 'an atomic group or possessive quantifier inside a lookbehind'],
]

describe('what Java finds is found', () => {
  const carried = cases.filter(({ found, pattern }) => found !== 'error' && !refused.some(([one]) => one === pattern))
  test(`in ${carried.length} patterns over ${topics.length} names`, () => {
    expect(carried.length).toBeGreaterThan(400)
    const ours = carried.map(({ pattern }) => `${find(pattern)} ${pattern}`)
    expect(ours).toEqual(carried.map(({ found, pattern }) => `${found} ${pattern}`))
  })

  test('what Java does not take is refused', () => {
    const errors = cases.filter(({ found }) => found === 'error')
    expect(errors.length).toBeGreaterThan(30)
    for (const { pattern } of errors) expect(() => javaRegex(pattern)).toThrow(SyntaxError)
  })
})

describe('what would mean something else is refused by its name', () => {
  test.each(refused)('%s', (pattern, construct) => {
    expect(() => javaRegex(pattern)).toThrow(SyntaxError)
    expect(() => javaRegex(pattern)).toThrow(construct)
  })
})

test('a match is found anywhere in a name, each time', () => {
  const regex = javaRegex('rder')
  expect(['orders', 'orders', 'my-orders', 'payments'].map((name) => regex.test(name))).toEqual([
    true,
    true,
    true,
    false,
  ])
})
