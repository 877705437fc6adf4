/** Text where Java's answer is another than JavaScript's: malformed UTF-8, lone surrogates, doubles. */

const decoder = new TextDecoder('utf-8', { ignoreBOM: true })

/** UTF-8 as Java decodes it: U+FFFD for what is malformed, one for an encoded surrogate. A byte order mark stays. */
export function textOf(bytes: Uint8Array): string {
  const text = decoder.decode(bytes)
  return text.includes('\ufffd') ? decoder.decode(withoutSurrogates(bytes)) : text
}

/** Each surrogate, whole or cut short, as U+FFFD: TextDecoder would make one of each of its bytes. */
function withoutSurrogates(bytes: Uint8Array): Uint8Array {
  const out: number[] = []
  for (let i = 0; i < bytes.length; i++) {
    const isSurrogate = bytes[i] === 0xed && (bytes[i + 1] ?? 0) >= 0xa0 && (bytes[i + 1] ?? 0) <= 0xbf
    if (!isSurrogate) out.push(bytes[i] ?? 0)
    else {
      out.push(0xef, 0xbf, 0xbd)
      i += ((bytes[i + 2] ?? 0) & 0xc0) === 0x80 ? 2 : 1
    }
  }
  return Uint8Array.from(out)
}

/** A string as Java encodes it: a lone surrogate is a question mark. */
export const encodable = (text: string): string =>
  text.isWellFormed() ? text : text.replaceAll(/[\ud800-\udfff]/gu, '?')

/** `Double.toString` of JDK 19 and later. */
export function doubleText(value: number): string {
  if (!Number.isFinite(value)) return String(value)
  if (value === 0) return Object.is(value, -0) ? '-0.0' : '0.0'
  const size = Math.abs(value)
  if (size >= 1e-3 && size < 1e7) {
    const text = String(value)
    return text.includes('.') ? text : `${text}.0`
  }
  const [digits = '', exponent = '0'] = shortest(value).split('e')
  return `${digits.includes('.') ? digits : `${digits}.0`}E${Number(exponent)}`
}

/** Java never writes one digit alone, and with two of them another value may be nearer: 4.9E-324, not 5.0E-324. */
function shortest(value: number): string {
  const one = value.toExponential()
  const two = value.toExponential(1)
  return !one.includes('.') && Number(two) === value ? two : one
}
