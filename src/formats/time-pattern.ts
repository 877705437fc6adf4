/** Spark's patterns of dates and timestamps (`dd/MM/yyyy HH:mm`): those letters that numbers and offsets are read by. */
import { microsOf } from './spark-time.ts'
import type { WallClock } from './spark-time.ts'
import { zoneOf } from './time-zone.ts'
import type { Zone } from './time-zone.ts'

const letters: Readonly<Record<string, string>> = {
  yyyy: '(?<year>\\d{4})',
  MM: '(?<month>\\d\\d)',
  M: '(?<month>\\d\\d?)',
  dd: '(?<day>\\d\\d)',
  d: '(?<day>\\d\\d?)',
  HH: '(?<hour>\\d\\d)',
  H: '(?<hour>\\d\\d?)',
  mm: '(?<minute>\\d\\d)',
  m: '(?<minute>\\d\\d?)',
  ss: '(?<second>\\d\\d)',
  s: '(?<second>\\d\\d?)',
  XXX: '(?<zone>Z|[+-]\\d\\d:\\d\\d)',
  XX: '(?<zone>Z|[+-]\\d{4})',
  xxx: '(?<zone>[+-]\\d\\d:\\d\\d)',
  xx: '(?<zone>[+-]\\d{4})',
}

const part = /'(?:[^']|'')*'|([A-Za-z])\1*|[^A-Za-z']/g

/** Reads a text that is written in the pattern; null for any other. */
export type PatternReader = (text: string) => { readonly wallClock: WallClock; readonly zone: Zone | null } | null

/** @throws RangeError naming the part of the pattern that is not supported */
export function patternReader(pattern: string): PatternReader {
  const parts = pattern.match(part) ?? []
  if (parts.join('') !== pattern || pattern === '') throw new RangeError(JSON.stringify(pattern))
  const source = parts.map(sourceOf).join('')
  if (new Set(source.match(/\(\?<\w+>/g)).size !== source.split('(?<').length - 1)
    throw new RangeError('a field that stands twice')
  const format = new RegExp(`^${source}$`, 'u')
  return (text) => {
    const fields = format.exec(text)?.groups
    if (fields === undefined) return null
    const zone = fields['zone'] === undefined ? null : zoneOf(fields['zone'])
    const field = (name: string, first: number): number => Number(fields[name] ?? first)
    const wallClock = {
      year: field('year', 1970),
      month: field('month', 1),
      day: field('day', 1),
      hour: field('hour', 0),
      minute: field('minute', 0),
      second: field('second', 0),
      micros: microsOf(fields['fraction'] ?? ''),
    }
    return fields['zone'] !== undefined && zone === null ? null : { wallClock, zone }
  }
}

function sourceOf(text: string): string {
  if (text === "''") return "'"
  if (text.startsWith("'")) return RegExp.escape(text.slice(1, -1).replaceAll("''", "'"))
  if (!/^[A-Za-z]/.test(text)) {
    if (/[[\]{}#]/.test(text)) throw new RangeError(text)
    return RegExp.escape(text)
  }
  if (/^S{1,9}$/.test(text)) return `(?<fraction>\\d{${text.length}})`
  const source = Object.hasOwn(letters, text) ? letters[text] : undefined
  if (source === undefined) throw new RangeError(text)
  return source
}
