/** Base64 as Jackson decodes it: padding required, white space between groups of four only. */

const alphabet = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/'
const sextets = new Map(Array.from(alphabet, (c, i) => [c, i]))

/** The bytes; null if the text is not Base64. */
export function base64Bytes(text: string): Uint8Array | null {
  const out: number[] = []
  for (let i = 0; i < text.length; i += 4) {
    while (i < text.length && text.charCodeAt(i) <= 32) i++
    if (i === text.length) break
    const [a, b, c, d] = [text[i], text[i + 1], text[i + 2], text[i + 3]].map(sextetOf)
    if (a === undefined || b === undefined || c === undefined || d === undefined) return null
    if (a < 0 || b < 0 || (c < 0 && d >= 0)) return null
    out.push((a << 2) | (b >> 4))
    if (c >= 0) out.push(((b & 15) << 4) | (c >> 2))
    if (c >= 0 && d >= 0) out.push(((c & 3) << 6) | d)
  }
  return Uint8Array.from(out)
}

const sextetOf = (c: string | undefined): number | undefined => (c === '=' ? -1 : sextets.get(c ?? ''))
