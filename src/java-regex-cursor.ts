/** A Java pattern read character by character; what stands between `\Q` and `\E` comes as characters without meaning. */

export interface PatternToken {
  readonly text: string
  readonly code: number
  /** Inside `\Q...\E`. */
  readonly isQuoted: boolean
  /** In the pattern, in characters. */
  readonly index: number
}

export class PatternCursor {
  readonly #tokens: readonly PatternToken[]
  readonly #length: number
  #at = 0

  constructor(pattern: string) {
    const characters = Array.from(pattern)
    this.#tokens = tokensOf(characters)
    this.#length = characters.length
  }

  peek(ahead = 0): PatternToken | undefined {
    return this.#tokens[this.#at + ahead]
  }

  /** Whether the sign comes next, with the meaning that it has in a pattern. */
  isAt(sign: string, ahead = 0): boolean {
    const token = this.peek(ahead)
    return token?.text === sign && !token.isQuoted
  }

  /** Steps over the sign if it comes next. */
  takes(sign: string): boolean {
    const isThere = this.isAt(sign)
    if (isThere) this.#at += 1
    return isThere
  }

  next(): PatternToken {
    const token = this.peek()
    if (token === undefined) return this.refuse('an end where more is expected')
    this.#at += 1
    return token
  }

  /** So many hexadecimal or octal digits, or fewer. */
  digits(allowed: RegExp, most: number): string {
    let text = ''
    for (let token = this.peek(); token !== undefined && text.length < most; token = this.peek()) {
      if (token.isQuoted || !allowed.test(token.text)) break
      text += token.text
      this.#at += 1
    }
    return text
  }

  /** @throws SyntaxError */
  refuse(what: string): never {
    throw new SyntaxError(`${what}, at index ${this.peek()?.index ?? this.#length}, cannot be carried over from Java`)
  }
}

function tokensOf(characters: readonly string[]): PatternToken[] {
  const tokens: PatternToken[] = []
  let isQuoted = false
  for (let index = 0; index < characters.length; index += 1) {
    const [text = '', following] = characters.slice(index, index + 2)
    if (isQuoted && text === '\\' && following === 'E') {
      isQuoted = false
      index += 1
    } else if (!isQuoted && text === '\\' && following === 'Q') {
      isQuoted = true
      index += 1
    } else {
      tokens.push(tokenOf(text, isQuoted, index))
      // An escaped backslash does not begin a quotation.
      if (!isQuoted && text === '\\' && following !== undefined) tokens.push(tokenOf(following, false, ++index))
    }
  }
  return tokens
}

const tokenOf = (text: string, isQuoted: boolean, index: number): PatternToken => ({
  text,
  code: text.codePointAt(0) ?? 0,
  isQuoted,
  index,
})
