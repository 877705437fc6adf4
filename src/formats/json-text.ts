/** A value of a token stream as compact JSON, as Spark fills a string column with it. */
import { doubleText } from './java-text.ts'
import { Malformed } from './json-malformed.ts'
import type { JsonTokens } from './json-tokens.ts'

/**
 * The value at the current token, to its end: numbers re-rendered through double, whole numbers exact.
 * @throws Malformed where no value begins or its text is broken
 */
export function compactText(tokens: JsonTokens): string {
  switch (tokens.token) {
    case 'START_OBJECT':
      return objectText(tokens)
    case 'START_ARRAY':
      return arrayText(tokens)
    case 'VALUE_STRING':
      return quotedText(tokens.text)
    case 'VALUE_NUMBER_INT':
      return tokens.text === '-0' ? '0' : tokens.text
    case 'VALUE_NUMBER_FLOAT': {
      const value = Number(tokens.text)
      return Number.isFinite(value) ? doubleText(value) : `"${value}"`
    }
    case 'VALUE_TRUE':
      return 'true'
    case 'VALUE_FALSE':
      return 'false'
    case 'VALUE_NULL':
      return 'null'
    default:
      throw new Malformed('no value where one was expected')
  }
}

function objectText(tokens: JsonTokens): string {
  const fields: string[] = []
  while (tokens.next() === 'FIELD_NAME') {
    const name = quotedText(tokens.name ?? '')
    tokens.next()
    fields.push(`${name}:${compactText(tokens)}`)
  }
  return `{${fields.join(',')}}`
}

function arrayText(tokens: JsonTokens): string {
  const elements: string[] = []
  while (tokens.next() !== 'END_ARRAY') elements.push(compactText(tokens))
  return `[${elements.join(',')}]`
}

/** As Jackson's UTF-8 generator escapes it: also each half of a character beyond U+FFFF, alone or not; digits in upper case. */
const quotedText = (text: string): string =>
  JSON.stringify(text).replaceAll(/\\\\|\\u[\da-f]{4}|[\ud800-\udfff]/g, (part) => {
    if (part === '\\\\') return part
    const digits = part.length === 1 ? part.charCodeAt(0).toString(16) : part.slice(2)
    return `\\u${digits.toUpperCase()}`
  })
