/** Time zones by the names that Java's ZoneId takes, and the instant of a wall-clock time in one. */

/** The seconds to add to UTC at an instant, which is in seconds since the epoch. */
export type Zone = (instant: number) => number

export const utc: Zone = () => 0

/** `ZoneId.SHORT_IDS`. */
const shortIds: Readonly<Record<string, string>> = {
  ACT: 'Australia/Darwin',
  AET: 'Australia/Sydney',
  AGT: 'America/Argentina/Buenos_Aires',
  ART: 'Africa/Cairo',
  AST: 'America/Anchorage',
  BET: 'America/Sao_Paulo',
  BST: 'Asia/Dhaka',
  CAT: 'Africa/Harare',
  CNT: 'America/St_Johns',
  CST: 'America/Chicago',
  CTT: 'Asia/Shanghai',
  EAT: 'Africa/Addis_Ababa',
  ECT: 'Europe/Paris',
  EST: '-05:00',
  HST: '-10:00',
  IET: 'America/Indiana/Indianapolis',
  IST: 'Asia/Kolkata',
  JST: 'Asia/Tokyo',
  MIT: 'Pacific/Apia',
  MST: '-07:00',
  NET: 'Asia/Yerevan',
  NST: 'Pacific/Auckland',
  PLT: 'Asia/Karachi',
  PNT: 'America/Phoenix',
  PRT: 'America/Puerto_Rico',
  PST: 'America/Los_Angeles',
  SST: 'Pacific/Guadalcanal',
  VST: 'Asia/Ho_Chi_Minh',
}

const regions = new Map<string, Zone>()

/** The zone of a name as Spark reads it: `+1:00`, `UTC+1` and region names; null where there is none. */
export function zoneOf(name: string): Zone | null {
  if (name === 'Z') return utc
  const padded = name.replace(/([+-])(\d):/, '$10$2:').replace(/([+-])(\d\d):(\d)$/, '$1$2:0$3')
  const id = (Object.hasOwn(shortIds, padded) ? shortIds[padded] : undefined) ?? padded
  if (/^(UTC|GMT|UT)$/.test(id)) return utc
  const [, offset] = /^(?:UTC|GMT|UT)?([+-].*)$/.exec(id) ?? []
  return offset === undefined ? regionOf(id) : offsetOf(offset)
}

function offsetOf(text: string): Zone | null {
  const match =
    /^([+-])(\d\d?)$/.exec(text) ??
    /^([+-])(\d\d)(\d\d)(\d\d)?$/.exec(text) ??
    /^([+-])(\d\d):(\d\d)(?::(\d\d))?$/.exec(text)
  if (match === null) return null
  const [hours, minutes, seconds] = [Number(match[2]), Number(match[3] ?? 0), Number(match[4] ?? 0)]
  const size = (hours * 60 + minutes) * 60 + seconds
  if (minutes > 59 || seconds > 59 || size > 18 * 3600) return null
  const offset = match[1] === '-' ? -size : size
  return () => offset
}

function regionOf(id: string): Zone | null {
  const known = regions.get(id)
  if (known !== undefined) return known
  if (!/^[A-Z][\w/+-]+$/.test(id)) return null
  try {
    const zone = zoneOfFormat(id)
    regions.set(id, zone)
    return zone
  } catch (error) {
    if (error instanceof RangeError) return null
    throw error
  }
}

/** @throws RangeError for a name that is unknown or differs from the known one in case */
function zoneOfFormat(id: string): Zone {
  const format = new Intl.DateTimeFormat('en-US', {
    timeZone: id,
    hourCycle: 'h23',
    era: 'short',
    year: 'numeric',
    month: 'numeric',
    day: 'numeric',
    hour: 'numeric',
    minute: 'numeric',
    second: 'numeric',
  })
  const found = format.resolvedOptions().timeZone
  if (found !== id && found.toLowerCase() === id.toLowerCase()) throw new RangeError(id)
  return (instant) => {
    // Beyond what Date can hold the rules stay as they are there.
    const within = Math.max(-8.64e12, Math.min(8.64e12, instant))
    const parts = new Map(format.formatToParts(within * 1000).map(({ type, value }) => [type, value]))
    const part = (type: Intl.DateTimeFormatPartTypes): number => Number(parts.get(type))
    const year = parts.get('era')?.startsWith('B') === true ? 1 - part('year') : part('year')
    const local = daysOf(year, part('month'), part('day')) * 86_400
    return local + (part('hour') * 60 + part('minute')) * 60 + part('second') - within
  }
}

/** Days since the epoch in the proleptic Gregorian calendar. */
export function daysOf(year: number, month: number, day: number): number {
  const y = month > 2 ? year : year - 1
  const era = Math.floor(y / 400)
  const ofEra = y - era * 400
  const ofYear = Math.floor((153 * (month > 2 ? month - 3 : month + 9) + 2) / 5) + day - 1
  return era * 146_097 + ofEra * 365 + Math.floor(ofEra / 4) - Math.floor(ofEra / 100) + ofYear - 719_468
}

/**
 * The instant of a wall-clock time, both in seconds: of a time that exists twice the first, of one that is left out the
 * one later by as much as was left out.
 */
export function instantOf(local: number, zone: Zone): number {
  const [before, after] = [zone(local - 86_400), zone(local + 86_400)]
  if (before === after || zone(local - before) === before) return local - before
  return zone(local - after) === after ? local - after : local - before
}
