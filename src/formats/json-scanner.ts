/** The characters of a JSON text: white space, strings, numbers and literals, from a place that moves on. */
import { Malformed } from './json-malformed.ts'

export type Token =
  | 'START_OBJECT'
  | 'END_OBJECT'
  | 'START_ARRAY'
  | 'END_ARRAY'
  | 'FIELD_NAME'
  | 'VALUE_STRING'
  | 'VALUE_NUMBER_INT'
  | 'VALUE_NUMBER_FLOAT'
  | 'VALUE_TRUE'
  | 'VALUE_FALSE'
  | 'VALUE_NULL'

/** What is taken beyond the standard. */
export interface Leniency {
  readonly comments: boolean
  readonly unquotedFieldNames: boolean
  readonly singleQuotes: boolean
  readonly leadingZeros: boolean
  readonly nonNumericNumbers: boolean
  readonly anyBackslash: boolean
  readonly controlCharacters: boolean
}

/** Digits of a number, as in Jackson's constraints. */
const MAX_DIGITS = 1000

export const QUOTE = 34
const [TAB, LF, CR, SPACE, APOSTROPHE] = [9, 10, 13, 32, 39]
const [PLUS, MINUS, SLASH, ZERO, NINE] = [43, 45, 47, 48, 57]
const [OPEN_BRACKET, BACKSLASH, OPEN_BRACE] = [91, 92, 123]

/** A comment up to its end or to a control character. */
const blockComment = /(?:[\t\n\r]|[ -)+-\uffff]|\*(?!\/))*/y
const lineComment = /[\t -\uffff]*/y
const identifierStart = /[\p{L}\p{Nl}\p{Pc}\p{Sc}]/u
const identifierPart = /(?!\s)[\p{Cc}\p{L}\p{Nl}\p{Nd}\p{Mn}\p{Mc}\p{Pc}\p{Sc}\p{Cf}]/u
const unquotedNamePart = /[\p{L}\p{Nl}\p{Nd}\p{Mn}\p{Mc}\p{Pc}\p{Sc}\p{Cf}@#*+-]/u
/** With the digits of its fraction and of its exponent, of which there must be some. */
const number = /-?\d+(?:\.(\d*))?(?:[eE][+-]?(\d*))?/y

const escapes: Readonly<Record<string, string>> = {
  b: '\b',
  t: '\t',
  n: '\n',
  f: '\f',
  r: '\r',
  '"': '"',
  '/': '/',
  '\\': '\\',
}

export class JsonScanner {
  /** Of the newest number, without superfluous zeros, or string in single quotes. */
  text = ''
  readonly #input: string
  readonly #leniency: Leniency
  #at = 0

  constructor(input: string, leniency: Leniency) {
    this.#input = input
    this.#leniency = leniency
  }

  /** The first character after a separator that is to stand here. */
  after(separator: number, c: number): number {
    if (c < 0) throw this.endOfInput()
    if (c !== separator) throw this.unexpected()
    const following = this.afterSpace()
    if (following < 0) throw this.endOfInput()
    return following
  }

  /** Passes by white space and comments: the code of the character after them, -1 at the end. */
  afterSpace(): number {
    const input = this.#input
    while (this.#at < input.length) {
      const c = input.charCodeAt(this.#at++)
      if (c === SLASH) this.#comment()
      else if (c > SPACE) return c
      else if (c !== SPACE && c !== LF && c !== CR && c !== TAB) throw this.unexpected()
    }
    return -1
  }

  #comment(): void {
    if (!this.#leniency.comments) throw this.unexpected()
    const opener = this.#input[this.#at++]
    if (opener !== '*' && opener !== '/') throw this.unexpected()
    const rest = opener === '*' ? blockComment : lineComment
    rest.lastIndex = this.#at
    rest.test(this.#input)
    this.#at = rest.lastIndex
    const c = this.#input[this.#at++]
    if (c === undefined && opener === '*') throw this.endOfInput()
    if (c === '*') this.#at++
    else if (c !== undefined && c !== '\n' && c !== '\r') throw this.unexpected()
  }

  /** A field's name by its first character. @throws Malformed */
  fieldName(c: number): string {
    if (c === QUOTE) return this.quoted(QUOTE)
    if (c === APOSTROPHE && this.#leniency.singleQuotes) return this.quoted(APOSTROPHE)
    const start = --this.#at
    if (this.#leniency.unquotedFieldNames) this.#passBy(unquotedNamePart)
    if (this.#at > start) return this.#input.slice(start, this.#at)
    this.#at++
    throw this.unexpected()
  }

  #passBy(pattern: RegExp): void {
    while (this.#at < this.#input.length && pattern.test(this.#input[this.#at] ?? '')) this.#at++
  }

  /** The rest of a string, whose opening quote is read. */
  quoted(quote: number): string {
    const input = this.#input
    let [out, from] = ['', this.#at]
    while (this.#at < input.length) {
      const c = input.charCodeAt(this.#at++)
      if (c === quote) return out + input.slice(from, this.#at - 1)
      if (c === BACKSLASH) {
        out += input.slice(from, this.#at - 1) + this.#escaped()
        from = this.#at
      } else if (c < SPACE && !this.#leniency.controlCharacters) throw this.unexpected()
    }
    throw this.endOfInput()
  }

  #escaped(): string {
    const c = this.#input[this.#at++]
    if (c === undefined) throw this.endOfInput()
    if (c === 'u') return this.#hexEscaped()
    const known = Object.hasOwn(escapes, c) ? escapes[c] : undefined
    if (known !== undefined) return known
    if (this.#leniency.anyBackslash || (c === "'" && this.#leniency.singleQuotes)) return c
    throw this.unexpected()
  }

  #hexEscaped(): string {
    let value = 0
    for (let i = 0; i < 4; i++) {
      if (this.#at >= this.#input.length) throw this.endOfInput()
      // Jackson looks at the low byte of a character alone.
      const digit = String.fromCharCode(this.#input.charCodeAt(this.#at++) & 0xff)
      if (!/[\dA-Fa-f]/.test(digit)) throw this.unexpected()
      value = value * 16 + Number.parseInt(digit, 16)
    }
    return String.fromCharCode(value)
  }

  /**
   * The token of a value by its first character: a number, a literal and a string in single quotes are read whole into
   * `text`, of a string in double quotes the opening quote alone.
   * @throws Malformed
   */
  value(c: number): Token {
    if (c === QUOTE) return 'VALUE_STRING'
    if (c === OPEN_BRACE) return 'START_OBJECT'
    if (c === OPEN_BRACKET) return 'START_ARRAY'
    if (c >= ZERO && c <= NINE) return this.#number()
    return this.#oddValue(c)
  }

  #oddValue(c: number): Token {
    switch (String.fromCharCode(c)) {
      case 't':
        return this.#literal('true', 'VALUE_TRUE')
      case 'f':
        return this.#literal('false', 'VALUE_FALSE')
      case 'n':
        return this.#literal('null', 'VALUE_NULL')
      case '-':
        return this.#signed(MINUS)
      case '+':
        return this.#signed(PLUS)
      case 'N':
        return this.#nonNumeric('NaN', 'NaN')
      case 'I':
        return this.#nonNumeric('Infinity', 'Infinity')
      case "'":
        if (!this.#leniency.singleQuotes) break
        this.text = this.quoted(APOSTROPHE)
        return 'VALUE_STRING'
    }
    if (identifierStart.test(String.fromCharCode(c))) this.#passBy(identifierPart)
    throw this.unexpected()
  }

  #signed(sign: number): Token {
    const next = this.#input.charCodeAt(this.#at++)
    if (sign === MINUS && next >= ZERO && next <= NINE) {
      this.#at--
      return this.#number()
    }
    if (this.#input[this.#at - 1] !== 'I') throw this.unexpected()
    const value = sign === MINUS ? '-Infinity' : 'Infinity'
    this.#at--
    return this.#nonNumeric(this.#input[this.#at + 1] === 'N' ? 'INF' : 'Infinity', value, 0)
  }

  #nonNumeric(word: string, value: string, matched = 1): Token {
    const token = this.#literal(word, 'VALUE_NUMBER_FLOAT', matched)
    if (!this.#leniency.nonNumericNumbers) throw this.unexpected()
    this.text = value
    return token
  }

  /** A word of which the first characters are read. */
  #literal(word: string, token: Token, matched = 1): Token {
    for (let i = matched; i < word.length; i++, this.#at++) {
      if (this.#input[this.#at] === word[i]) continue
      this.#passBy(identifierPart)
      throw this.unexpected()
    }
    const following = this.#input[this.#at] ?? ''
    if (following < '0' || !identifierPart.test(following)) return token
    this.#passBy(identifierPart)
    throw this.unexpected()
  }

  /** A number whose sign or first digit is read. After an error the place is behind its point or first digit. */
  #number(): Token {
    number.lastIndex = this.#at - 1
    let [text = '', fraction, exponent] = number.exec(this.#input) ?? []
    const end = number.lastIndex
    if (fraction === '') this.#at += text.indexOf('.')
    else if (text.startsWith('-')) this.#at++
    if (fraction === '' || exponent === '') throw this.unexpected()
    if (/^-?0\d/.test(text)) {
      if (!this.#leniency.leadingZeros) throw this.unexpected()
      text = text.replace(/^(-?)0+(?=\d)/, '$1')
    }
    if (text.length > MAX_DIGITS && text.replaceAll(/\D/g, '').length > MAX_DIGITS)
      throw new Malformed(`a number of more than ${MAX_DIGITS} digits`)
    this.#at = end
    this.text = text
    return /[.eE]/.test(text) ? 'VALUE_NUMBER_FLOAT' : 'VALUE_NUMBER_INT'
  }

  unexpected(): Malformed {
    return new Malformed(`not JSON at character ${this.#at}`)
  }

  endOfInput(): Malformed {
    return new Malformed('the text ends within its value')
  }
}
