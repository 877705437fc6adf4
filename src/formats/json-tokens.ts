/**
 * JSON as a stream of tokens, by the rules of the parser that Spark's from_json reads with (Jackson, from characters): what
 * it takes beyond RFC 8259, what it refuses, and where it stands after an error, since a reader goes on from there. Strings
 * are only looked into when they are asked for or passed by; numbers and literals at once.
 */

import { Malformed } from './json-malformed.ts'
import { JsonScanner, QUOTE } from './json-scanner.ts'
import type { Leniency, Token } from './json-scanner.ts'

/** Levels of objects and arrays, as in Jackson's constraints. */
const MAX_DEPTH = 1000

const [COMMA, COLON, CLOSE_BRACKET, CLOSE_BRACE] = [44, 58, 93, 125]

interface Scope {
  readonly kind: 'root' | 'object' | 'array'
  readonly parent: Scope | null
  readonly depth: number
  /** Of the newest entry; a comma stands before each but the first, which is 0. */
  index: number
  /** Of the newest field. */
  name: string | null
}

export class JsonTokens {
  token: Token | null = null
  readonly #scanner: JsonScanner
  #scope: Scope = { kind: 'root', parent: null, depth: 0, index: -1, name: null }
  #isIncomplete = false
  /** The value after a name, found together with it. */
  #pending: Token | null = null

  constructor(input: string, leniency: Leniency) {
    this.#scanner = new JsonScanner(input, leniency)
  }

  /** The field that the current token belongs to; null in arrays. */
  get name(): string | null {
    const isStart = this.token === 'START_OBJECT' || this.token === 'START_ARRAY'
    return (isStart ? this.#scope.parent : this.#scope)?.name ?? null
  }

  /** The text of a string or of a number without superfluous zeros. @throws Malformed */
  get text(): string {
    if (this.#isIncomplete) {
      this.#isIncomplete = false
      this.#scanner.text = this.#scanner.quoted(QUOTE)
    }
    return this.#scanner.text
  }

  /** The next token; null at the end. @throws Malformed */
  next(): Token | null {
    if (this.token === 'FIELD_NAME') return this.#afterName()
    if (this.#isIncomplete) {
      this.#isIncomplete = false
      this.#scanner.quoted(QUOTE)
    }
    let c = this.#scanner.afterSpace()
    if (c < 0) {
      if (this.#scope.kind !== 'root') throw this.#scanner.endOfInput()
      return (this.token = null)
    }
    if (c === CLOSE_BRACKET || c === CLOSE_BRACE) return this.#close(c)
    const scope = this.#scope
    if (++scope.index > 0 && scope.kind !== 'root') c = this.#scanner.after(COMMA, c)
    if (scope.kind !== 'object') {
      const token = this.#value(c)
      this.#enter(token)
      return (this.token = token)
    }
    scope.name = this.#scanner.fieldName(c)
    this.token = 'FIELD_NAME'
    this.#pending = this.#value(this.#scanner.after(COLON, this.#scanner.afterSpace()))
    return this.token
  }

  /** Passes by the object or array that the current token starts. @throws Malformed */
  skipChildren(): void {
    if (this.token !== 'START_OBJECT' && this.token !== 'START_ARRAY') return
    for (let depth = 1; depth > 0;) {
      const token = this.next()
      if (token === null && this.#scope.kind !== 'root') throw this.#scanner.endOfInput()
      if (token === null) return
      if (token === 'START_OBJECT' || token === 'START_ARRAY') depth++
      else if (token === 'END_OBJECT' || token === 'END_ARRAY') depth--
    }
  }

  #afterName(): Token | null {
    const token = this.#pending
    this.#pending = null
    this.token = token
    this.#enter(token)
    return token
  }

  #enter(token: Token | null): void {
    if (token !== 'START_OBJECT' && token !== 'START_ARRAY') return
    const parent = this.#scope
    const depth = parent.depth + 1
    this.#scope = { kind: token === 'START_OBJECT' ? 'object' : 'array', parent, depth, index: -1, name: null }
    if (depth > MAX_DEPTH) throw new Malformed(`more than ${MAX_DEPTH} levels`)
  }

  #close(c: number): Token {
    const { kind, parent } = this.#scope
    if (parent === null || kind !== (c === CLOSE_BRACKET ? 'array' : 'object')) throw this.#scanner.unexpected()
    this.#scope = parent
    return (this.token = kind === 'array' ? 'END_ARRAY' : 'END_OBJECT')
  }

  #value(c: number): Token {
    this.#isIncomplete = c === QUOTE
    return this.#scanner.value(c)
  }
}
