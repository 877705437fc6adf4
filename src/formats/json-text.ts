/** A value of a token stream as compact JSON, as Spark fills a string column with it. */
import { doubleText } from './java-text.ts'
import { Malformed } from './json-malformed.ts'
import type { JsonTokens } from './json-tokens.ts'

/**
 * The value at the current token, to its end: numbers re-rendered through double, whole numbers exact.
 * @throws Malformed for a lone surrogate, which cannot be written within a value
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

function quotedText(text: string): string {
  if (!text.isWellFormed()) throw new Malformed('a lone surrogate within a value')
  return JSON.stringify(text).replaceAll(/\\u00[\da-f]{2}/g, (escape) => `\\u${escape.slice(2).toUpperCase()}`)
}
