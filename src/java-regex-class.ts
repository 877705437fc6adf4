/** Java's character classes and escapes, as the set of those characters of a topic name that they hold. */
import type { PatternCursor } from './java-regex-cursor.ts'

export type TopicCharacters = ReadonlySet<string>

const lower = 'abcdefghijklmnopqrstuvwxyz'.split('')
const upper = lower.map((letter) => letter.toUpperCase())
const digits = '0123456789'.split('')
const others = ['.', '_', '-']
const all = [...lower, ...upper, ...digits, ...others]

const those = (predicate: (code: number) => boolean): TopicCharacters =>
  new Set(all.filter((one) => predicate(one.charCodeAt(0))))
const union = (a: TopicCharacters | null, b: TopicCharacters): TopicCharacters => new Set([...(a ?? []), ...b])
const without = (set: TopicCharacters): TopicCharacters => new Set(all.filter((one) => !set.has(one)))

/** The character itself, if a name can have it, and the other case of it. */
export const classSet = (code: number, ignoresCase: boolean): TopicCharacters => rangeSet(code, code, ignoresCase)

const rangeSet = (from: number, to: number, ignoresCase: boolean): TopicCharacters =>
  those((code) => [code, ...(ignoresCase ? otherCase(code) : [])].some((one) => one >= from && one <= to))

/** The code of the letter in the other case. */
function otherCase(code: number): number[] {
  const letter = String.fromCharCode(code)
  return [letter.toLowerCase(), letter.toUpperCase()].filter((one) => one !== letter).map((one) => one.charCodeAt(0))
}

/** What follows `[`, up to and with its `]`. @throws SyntaxError */
export function readClass(cursor: PatternCursor, ignoresCase: boolean): TopicCharacters {
  const isNegated = cursor.takes('^')
  const set = classBody(cursor, ignoresCase)
  cursor.next()
  return isNegated ? without(set) : set
}

/** Up to the `]`, which is left. One that comes first is a character. */
function classBody(cursor: PatternCursor, ignoresCase: boolean): TopicCharacters {
  let set: TopicCharacters | null = null
  while (set === null || !cursor.isAt(']')) {
    if (cursor.peek() === undefined) return cursor.refuse('a character class that is not closed')
    if (cursor.takes('[')) set = union(set, readClass(cursor, ignoresCase))
    else if (cursor.isAt('&') && cursor.isAt('&', 1)) set = intersection(cursor, set, ignoresCase)
    else set = union(set, classItem(cursor, ignoresCase))
  }
  return set
}

/**
 * What comes after `&&` is one operand: any number of classes, then all the rest. Java goes wrong where the operand is
 * empty or is followed by a single `&`.
 */
function intersection(cursor: PatternCursor, left: TopicCharacters | null, ignoresCase: boolean): TopicCharacters {
  cursor.next()
  cursor.next()
  let right: TopicCharacters | null = null
  while (!cursor.isAt(']') && !cursor.isAt('&')) {
    if (cursor.peek() === undefined) return cursor.refuse('a character class that is not closed')
    right = union(right, cursor.takes('[') ? readClass(cursor, ignoresCase) : classBody(cursor, ignoresCase))
  }
  if (right === null) return cursor.refuse('an intersection && with nothing on its right')
  if (cursor.isAt('&') && !cursor.isAt('&', 1)) return cursor.refuse('a single & after an intersection &&')
  return left === null ? right : new Set([...left].filter((one) => right.has(one)))
}

/** A character, a range, or an escape. */
function classItem(cursor: PatternCursor, ignoresCase: boolean): TopicCharacters {
  if (cursor.isAt('\\') && cursor.isAt('v', 1) && cursor.isAt('-', 2)) return cursor.refuse("\\v before a '-'") // a tab, then
  const from = cursor.takes('\\') ? escapedInClass(cursor, ignoresCase) : cursor.next().code
  if (typeof from !== 'number') return from
  if (!cursor.isAt('-') || cursor.isAt('[', 1) || cursor.isAt(']', 1)) return classSet(from, ignoresCase)
  cursor.next()
  const to = cursor.takes('\\') ? escapedInClass(cursor, ignoresCase) : cursor.next().code
  if (typeof to !== 'number' || to < from) return cursor.refuse('a character range that ends before it begins')
  return rangeSet(from, to, ignoresCase)
}

const word = those((code) => /\w/.test(String.fromCharCode(code)))
const number = new Set(digits)
const none: TopicCharacters = new Set()

const classEscapes = new Map<string, TopicCharacters>([
  ['d', number],
  ['D', without(number)],
  ['w', word],
  ['W', without(word)],
  ...['s', 'h', 'v'].map((blank): [string, TopicCharacters] => [blank, none]),
  ...['S', 'H', 'V'].map((visible): [string, TopicCharacters] => [visible, without(none)]),
])

const controlEscapes = new Map([
  ['t', 0x09],
  ['n', 0x0a],
  ['r', 0x0d],
  ['f', 0x0c],
  ['a', 0x07],
  ['e', 0x1b],
])

/** What follows a backslash, wherever it stands: a character's code or a set. @throws SyntaxError */
export function escapedInClass(cursor: PatternCursor, ignoresCase: boolean): number | TopicCharacters {
  const { text, code, isQuoted } = cursor.peek() ?? cursor.next()
  const set = isQuoted ? undefined : (classEscapes.get(text) ?? controlEscapes.get(text))
  if (set === undefined && (isQuoted || /[A-Zabd-z1-9]/.test(text)) && !/[pPxu]/.test(text))
    return cursor.refuse(`the escape \\${text}`)
  cursor.next()
  if (set !== undefined) return set
  switch (text) {
    case 'p':
    case 'P':
      return property(cursor, text === 'P', ignoresCase)
    case 'x':
      return hexadecimal(cursor)
    case 'u':
      return codeOf(cursor, cursor.digits(/[\da-f]/i, 4), /^.{4}$/, 16)
    case '0':
      return octal(cursor)
    case 'c':
      return cursor.next().code ^ 64
    default:
      return code
  }
}

function hexadecimal(cursor: PatternCursor): number {
  if (!cursor.takes('{')) return codeOf(cursor, cursor.digits(/[\da-f]/i, 2), /^.{2}$/, 16)
  const code = codeOf(cursor, cursor.digits(/[\da-f]/i, 8), /./, 16)
  if (code > 0x10ffff || !cursor.takes('}')) return cursor.refuse('the code point after \\x{')
  return code
}

/** `\0n`, `\0nn`, `\0mnn` with m up to 3. */
function octal(cursor: PatternCursor): number {
  const most = /[0-3]/.test(cursor.peek()?.text ?? '') ? 3 : 2
  return codeOf(cursor, cursor.digits(/[0-7]/, most), /./, 8)
}

const codeOf = (cursor: PatternCursor, text: string, form: RegExp, base: number): number =>
  form.test(text) ? parseInt(text, base) : cursor.refuse('an escape with too few digits')

const letters = new Set([...lower, ...upper])
const [lowerSet, upperSet, otherSet] = [new Set(lower), new Set(upper), new Set(others)]

const properties = new Map<string, TopicCharacters>([
  ...['Lower', 'Ll', 'IsLowercase'].map((name): [string, TopicCharacters] => [name, lowerSet]),
  ...['Upper', 'Lu', 'IsUppercase'].map((name): [string, TopicCharacters] => [name, upperSet]),
  ...['Alpha', 'L', 'IsAlphabetic'].map((name): [string, TopicCharacters] => [name, letters]),
  ...['Digit', 'N', 'Nd', 'IsDigit'].map((name): [string, TopicCharacters] => [name, number]),
  ...['Punct', 'P', 'IsPunctuation'].map((name): [string, TopicCharacters] => [name, otherSet]),
  ...['ASCII', 'Graph', 'Print'].map((name): [string, TopicCharacters] => [name, new Set(all)]),
  ...['Blank', 'Cntrl', 'Space'].map((name): [string, TopicCharacters] => [name, none]),
  ['Alnum', union(letters, number)],
  ['XDigit', those((code) => /[\da-f]/i.test(String.fromCharCode(code)))],
])

/** `\p{Name}` or `\pL`. */
function property(cursor: PatternCursor, isNegated: boolean, ignoresCase: boolean): TopicCharacters {
  let name = ''
  if (cursor.takes('{')) while (!cursor.takes('}')) name += cursor.next().text
  else name = cursor.next().text
  const set = properties.get(name)
  if (set === undefined) return cursor.refuse(`the property \\p{${name}}`)
  // Releases of Java differ here.
  if (ignoresCase && (set === lowerSet || set === upperSet))
    return cursor.refuse(`the property \\p{${name}} under the flag (?i)`)
  return isNegated ? without(set) : set
}
