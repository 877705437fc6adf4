/** `sasl.jaas.config`: one login module with its options, in the quoting styles that Kafka and its users write. */

export interface JaasConfig {
  /** The class without its package. */
  readonly loginModule: string
  readonly options: ReadonlyMap<string, string>
}

/** Why a text is no JAAS configuration. Never holds a piece of the text: any piece may be the password (B58). */
export class JaasSyntaxError extends Error {}

/**
 * Parses `<class> required key="value" ...;`. Values stand in double quotes, in single quotes (both with backslash
 * escapes) or bare, up to the next space. The final semicolon may be missing.
 * @throws JaasSyntaxError
 */
export function parseJaas(text: string): JaasConfig {
  const head = /^\s*([\w.$-]+)\s+([a-z]+)(?=[\s;]|$)/i.exec(text)
  if (head === null) throw new JaasSyntaxError("it does not begin with a login module and 'required'")
  const [start, className = '', flag = ''] = head
  if (!/^(required|requisite|sufficient|optional)$/i.test(flag))
    throw new JaasSyntaxError(`the word after the login module is not 'required'`)
  const options = new Map<string, string>()
  let rest = text.slice(start.length).trim()
  while (rest !== '' && rest !== ';') {
    const name = /^([\w.-]+)\s*=\s*/.exec(rest)
    if (name === null)
      throw new JaasSyntaxError(`after ${options.size} option(s) something other than name=value stands`)
    const { value, length } = readValue(rest.slice(name[0].length), name[1] ?? '')
    options.set(name[1] ?? '', value)
    rest = rest.slice(name[0].length + length).trimStart()
  }
  return { loginModule: className.slice(className.lastIndexOf('.') + 1), options }
}

function readValue(text: string, name: string): { value: string; length: number } {
  const quote = text.charAt(0)
  if (quote !== '"' && quote !== "'") return readBare(text, name)
  let value = ''
  for (let i = 1; i < text.length; i += 1) {
    const c = text.charAt(i)
    if (c === quote) return { value, length: i + 1 }
    if (c === '\\') value += unescaped(text.charAt((i += 1)))
    else value += c
  }
  throw new JaasSyntaxError(`the quotation mark before the value of '${name}' is never closed`)
}

/** A semicolon inside a bare value belongs to it; only the very last one ends the configuration. */
function readBare(text: string, name: string): { value: string; length: number } {
  const word = /^\S*/.exec(text)?.[0] ?? ''
  const isLast = text.slice(word.length).trim() === ''
  const value = isLast && word.endsWith(';') ? word.slice(0, -1) : word
  if (value === '') throw new JaasSyntaxError(`option '${name}' has no value`)
  return { value, length: value.length }
}

const escapes = new Map([
  ['n', '\n'],
  ['t', '\t'],
  ['r', '\r'],
])
const unescaped = (c: string): string => escapes.get(c) ?? c
