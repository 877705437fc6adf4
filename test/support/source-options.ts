/** Parsing options in tests, and what a refusal says. */
import { isSluiceError } from '../../src/errors.ts'
import type { SluiceError } from '../../src/errors.ts'
import { parseOptions } from '../../src/options.ts'
import type { SourceOptions } from '../../src/options.ts'

export const brokers = { 'kafka.bootstrap.servers': 'a:9092,b:9092' }
export const minimal = { ...brokers, subscribe: 't' }

export const parse = (raw: Record<string, unknown>, env: Record<string, string> = {}): SourceOptions =>
  parseOptions(raw, (name) => env[name])
export const withOption = (name: string, value: unknown): SourceOptions => parse({ ...minimal, [name]: value })

export function refusal(raw: Record<string, unknown>, env: Record<string, string> = {}): SluiceError {
  try {
    parse(raw, env)
  } catch (error) {
    if (isSluiceError(error)) return error
    throw error
  }
  throw new Error('nothing was refused')
}
export const refusalOf = (name: string, value: unknown): SluiceError => refusal({ ...minimal, [name]: value })
