/** Texts of dates and timestamps as Spark's casts read them, which is what it reads JSON with where no format is given. */
import { daysOf, instantOf, zoneOf } from './time-zone.ts'
import type { Zone } from './time-zone.ts'

const INT32 = 2 ** 31
const surrounding = /^[\0- \x7f]+|[\0- \x7f]+$/g
const monthLengths = [31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31]
const timestamp =
  /^([+-]?)(\d{4,6})(?:-(\d\d?)(?:-(\d\d?)(?:[ T](\d\d?)(?::(\d\d?)(?::(\d\d?)(?:\.(\d*))?(\D.*)?)?)?)?)?)?$/s
const date = /^([+-]?)(\d{4,7})(?:-(\d\d?)(?:-(\d\d?)(?:[ T].*)?)?)?$/s

/** Wall-clock fields; those that a text leaves out are their first. */
export interface WallClock {
  readonly year: number
  readonly month: number
  readonly day: number
  readonly hour: number
  readonly minute: number
  readonly second: number
  readonly micros: number
}

/**
 * A timestamp as microseconds since the epoch; null where it is none. A time without a date, which Spark takes as today's,
 * is none: the same record must give the same row.
 * @param zone of texts that name none; null where a text must name none, and the wall clock counts as UTC
 */
export function timestampOf(text: string, zone: Zone | null): bigint | null {
  const [, sign, year, month, day, hour, minute, second, fraction, zoneName] =
    timestamp.exec(text.replaceAll(surrounding, '')) ?? []
  if (year === undefined || (zone === null && zoneName !== undefined)) return null
  const named = zoneName === undefined ? (zone ?? zoneOf('UTC')) : zoneOf(zoneName.trim())
  if (named === null) return null
  const wallClock = {
    year: Number(year) * (sign === '-' ? -1 : 1),
    month: Number(month ?? 1),
    day: Number(day ?? 1),
    hour: Number(hour ?? 0),
    minute: Number(minute ?? 0),
    second: Number(second ?? 0),
    micros: microsOf(fraction ?? ''),
  }
  return microsecondsAt(wallClock, named)
}

/** A date as days since the epoch; null where it is none. What follows a whole date after a space or a T is not read. */
export function dateOf(text: string): number | null {
  const [, sign, year, month, day] = date.exec(text.replaceAll(surrounding, '')) ?? []
  return year === undefined ? null : dayOf(Number(year) * (sign === '-' ? -1 : 1), Number(month ?? 1), Number(day ?? 1))
}

/** Microseconds of the digits of a fraction; further digits are cut off. */
export const microsOf = (fraction: string): number => Number(fraction.slice(0, 6).padEnd(6, '0'))

/** Null for a time that does not exist or does not fit into 64 bits. */
export function microsecondsAt(
  { year, month, day, hour, minute, second, micros }: WallClock,
  zone: Zone
): bigint | null {
  const days = dayOf(year, month, day)
  if (days === null || hour > 23 || minute > 59 || second > 59) return null
  const seconds = instantOf(days * 86_400 + (hour * 60 + minute) * 60 + second, zone)
  const all = BigInt(seconds) * 1_000_000n + BigInt(micros)
  return BigInt.asIntN(64, all) === all ? all : null
}

/** Days since the epoch; null for a date that does not exist or does not fit into 32 bits. */
export function dayOf(year: number, month: number, day: number): number | null {
  if (day < 1 || day > (monthLengths[month - 1] ?? 0)) return null
  const isLeap = year % 4 === 0 && (year % 100 !== 0 || year % 400 === 0)
  if (month === 2 && day === 29 && !isLeap) return null
  const days = daysOf(year, month, day)
  return days >= -INT32 && days < INT32 ? days : null
}
