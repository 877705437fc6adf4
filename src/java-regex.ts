/**
 * Java's regular expressions over topic names, as JavaScript's. Only a letter, a digit, `.`, `_` or `-` can be in a name
 * (Kafka's Topic.validate), and there are no line breaks. So every character class is carried as the set of those that it
 * holds, flags for line breaks mean nothing, and case-insensitivity is written out. What the two languages match
 * differently (back-references) and what JavaScript lacks is refused by its name.
 */
import { classSet, escapedInClass, readClass } from './java-regex-class.ts'
import { PatternCursor } from './java-regex-cursor.ts'

/**
 * A regular expression that finds a match in the same topic names in which Java's `matcher(name).find()` does.
 * @throws SyntaxError naming the construct and its index
 */
export function javaRegex(pattern: string): RegExp {
  const cursor = new PatternCursor(pattern)
  const { text } = new Translation(cursor).alternation()
  if (cursor.peek() !== undefined) cursor.refuse("a ')' that closes no group")
  return new RegExp(text, 'v')
}

interface Piece {
  readonly text: string
  readonly canBeEmpty: boolean
  /** Repeats something that can be empty. The two languages leave such a loop at different moments. */
  readonly hasEmptyLoop: boolean
}

/** A piece to which a quantifier can be added. `isSet`: it matches one character and can do so in one way only. */
interface Atom extends Piece {
  readonly isSet: boolean
}

const grouped = (piece: Piece): Atom => ({ ...piece, text: `(?:${piece.text})`, isSet: false })
const anchor = (text: string): Atom => grouped({ text, canBeEmpty: true, hasEmptyLoop: false })

class Translation {
  readonly #cursor: PatternCursor
  readonly #names = new Set<string>()
  #ignoresCase = false
  #isLookbehind = false
  #atomics = 0

  constructor(cursor: PatternCursor) {
    this.#cursor = cursor
  }

  /** Up to the end or a `)`, which is left. */
  alternation(): Piece {
    const branches = [this.#sequence()]
    while (this.#cursor.takes('|')) branches.push(this.#sequence())
    return {
      text: branches.map(({ text }) => text).join('|'),
      canBeEmpty: branches.some(({ canBeEmpty }) => canBeEmpty),
      hasEmptyLoop: branches.some(({ hasEmptyLoop }) => hasEmptyLoop),
    }
  }

  #sequence(): Piece {
    const pieces: Piece[] = []
    while (this.#cursor.peek() !== undefined && !this.#cursor.isAt('|') && !this.#cursor.isAt(')')) {
      const atom = this.#atom()
      if (atom !== null) pieces.push(this.#quantified(atom))
    }
    return {
      text: pieces.map(({ text }) => text).join(''),
      canBeEmpty: pieces.every(({ canBeEmpty }) => canBeEmpty),
      hasEmptyLoop: pieces.some(({ hasEmptyLoop }) => hasEmptyLoop),
    }
  }

  /** null for flags alone, as `(?i)`. */
  #atom(): Atom | null {
    const cursor = this.#cursor
    for (const sign of ['?', '*', '+'] as const)
      if (cursor.isAt(sign)) cursor.refuse(`a dangling '${sign}', which repeats nothing`)
    if (cursor.isAt('{')) cursor.refuse("a '{' that repeats nothing: write \\{ for the character")
    if (cursor.takes('(')) return this.#group()
    if (cursor.takes('[')) return setAtom(readClass(cursor, this.#ignoresCase))
    if (cursor.takes('.')) return { ...setAtom(new Set()), text: '.' }
    if (cursor.takes('^')) return anchor('^')
    if (cursor.takes('$')) return anchor('$')
    if (cursor.takes('\\')) return this.#escape()
    return setAtom(classSet(cursor.next().code, this.#ignoresCase))
  }

  #escape(): Atom {
    const sign = this.#cursor.peek()?.text ?? ''
    if (!'AGZzbBRXk123456789'.includes(sign)) {
      const found = escapedInClass(this.#cursor, this.#ignoresCase)
      return setAtom(typeof found === 'number' ? classSet(found, this.#ignoresCase) : found)
    }
    const cursor = this.#cursor
    if (sign === 'X') cursor.refuse('\\X (a grapheme cluster)')
    if (sign === 'k' || /\d/.test(sign))
      cursor.refuse(`the back-reference \\${sign}, which JavaScript matches differently`)
    cursor.next()
    if (sign === 'b' && cursor.isAt('{')) cursor.refuse('\\b{ (a boundary of another kind)')
    switch (sign) {
      case 'A':
      case 'G': // where the last match ended: there is no match before the first
        return anchor('^')
      case 'Z':
      case 'z':
        return anchor('$')
      case 'R':
        return setAtom(new Set())
      default:
        return anchor(`\\${sign}`)
    }
  }

  #group(): Atom | null {
    const cursor = this.#cursor
    if (!cursor.takes('?')) return this.#closed('')
    if (cursor.takes(':')) return this.#closed('')
    if (cursor.takes('=')) return this.#closed('?=')
    if (cursor.takes('!')) return this.#closed('?!')
    if (cursor.takes('>')) return this.#atomic(this.#closed(''))
    if (!cursor.takes('<')) return this.#flags()
    if (cursor.takes('=')) return this.#lookbehind('?<=')
    if (cursor.takes('!')) return this.#lookbehind('?<!')
    this.#name()
    return this.#closed('')
  }

  /** The group's content and its end. Flags that are set inside hold up to there. */
  #closed(opening: '' | '?=' | '?!' | '?<=' | '?<!'): Atom {
    const ignoresCase = this.#ignoresCase
    const content = this.alternation()
    if (!this.#cursor.takes(')')) this.#cursor.refuse('a group that is not closed')
    this.#ignoresCase = ignoresCase
    return opening === '' ? grouped(content) : anchor(`(${opening}${content.text})`)
  }

  #lookbehind(opening: '?<=' | '?<!'): Atom {
    const isNested = this.#isLookbehind
    this.#isLookbehind = true
    const atom = this.#closed(opening)
    this.#isLookbehind = isNested
    return atom
  }

  /** Nothing can refer to a name: only its form is checked. */
  #name(): void {
    const cursor = this.#cursor
    let name = ''
    while (!cursor.takes('>')) {
      if (cursor.peek() === undefined) cursor.refuse('a group name that is not closed')
      name += cursor.next().text
    }
    if (!/^[A-Za-z][A-Za-z0-9]*$/.test(name)) cursor.refuse(`the group name '${name}'`)
    if (this.#names.has(name)) cursor.refuse(`a second group named '${name}'`)
    this.#names.add(name)
  }

  /** `(?i)` up to the end of the group around it, `(?i:X)` for X. */
  #flags(): Atom | null {
    const cursor = this.#cursor
    let ignoresCase = this.#ignoresCase
    let isOn = true
    while (!cursor.isAt(')') && !cursor.isAt(':')) {
      const flag = cursor.peek()?.text ?? ''
      if (flag === '-' && isOn) isOn = false
      else if (flag === 'i') ignoresCase = isOn
      else if ('uUxc'.includes(flag) && flag !== '') cursor.refuse(`the flag (?${flag})`)
      else if (!'dms'.includes(flag) || flag === '') cursor.refuse(`the group (?${flag}`)
      cursor.next()
    }
    if (cursor.takes(')')) {
      this.#ignoresCase = ignoresCase
      return null
    }
    cursor.next()
    const outside = this.#ignoresCase
    this.#ignoresCase = ignoresCase
    const atom = this.#closed('')
    this.#ignoresCase = outside
    return atom
  }

  /** A lookahead is never entered again, so what it captured is the one match that counts. */
  #atomic(piece: Piece): Atom {
    if (this.#isLookbehind) this.#cursor.refuse('an atomic group or possessive quantifier inside a lookbehind')
    if (piece.hasEmptyLoop) this.#cursor.refuse('an atomic group that repeats what can match nothing')
    const name = `a${++this.#atomics}`
    return grouped({ ...piece, text: `(?=(?<${name}>${piece.text}))\\k<${name}>` })
  }

  #quantified(atom: Atom): Piece {
    const cursor = this.#cursor
    const count = this.#count()
    if (count === null) return atom
    const { least, most, sign } = count
    if (this.#isLookbehind && most === Infinity) cursor.refuse('an unlimited repetition inside a lookbehind')
    if (atom.canBeEmpty && least > 1) cursor.refuse(`the repetition ${sign} of what can match nothing`)
    const canBeEmpty = atom.canBeEmpty || least === 0
    const repeated = (text: string): Piece => ({ text, canBeEmpty, hasEmptyLoop: atom.hasEmptyLoop || atom.canBeEmpty })
    if (cursor.takes('?')) return repeated(`${atom.text}${sign}?`)
    if (!cursor.takes('+')) return repeated(`${atom.text}${sign}`)
    // Java gives back nothing of any repetition, also not to reach the least number of them.
    const once = atom.isSet ? atom : this.#atomic(atom)
    return this.#atomic({ text: `${once.text}${sign}`, canBeEmpty, hasEmptyLoop: false })
  }

  #count(): Count | null {
    const cursor = this.#cursor
    if (cursor.takes('?')) return { sign: '?', least: 0, most: 1 }
    if (cursor.takes('*')) return { sign: '*', least: 0, most: Infinity }
    if (cursor.takes('+')) return { sign: '+', least: 1, most: Infinity }
    if (!cursor.takes('{')) return null
    let text = ''
    while (!cursor.takes('}')) {
      if (cursor.peek() === undefined) cursor.refuse("a '{' that is not closed: write \\{ for the character")
      text += cursor.next().text
    }
    const [, from = '', comma = '', to = ''] = /^(\d+)(,?)(\d*)$/.exec(text) ?? []
    const least = Number(from)
    const most = comma === '' ? least : to === '' ? Infinity : Number(to)
    const isLimited = least <= MAX_COUNT && (most === Infinity || most <= MAX_COUNT)
    if (from === '' || most < least || !isLimited) cursor.refuse(`the repetition {${text}}`)
    return { sign: `{${text}}`, least, most }
  }
}

interface Count {
  readonly sign: string
  readonly least: number
  readonly most: number
}

/** Java's int. */
const MAX_COUNT = 0x7fffffff

/** What matches one of these characters. */
function setAtom(set: ReadonlySet<string>): Atom {
  const characters = [...set].map((one) => (one === '-' ? '\\-' : one)).join('')
  return { text: `[${characters}]`, isSet: true, canBeEmpty: false, hasEmptyLoop: false }
}
