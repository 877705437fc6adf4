/** Decimals of a fixed precision and scale, as whole numbers of their last place. */

const syntax = /^([+-]?)(\d*)(?:\.(\d*))?(?:[eE]([+-]?\d{1,10}))?$/

/**
 * `text` in units of 10^-scale, rounded half up; null where it is no number or needs more digits than `precision`. An
 * exponent of any size costs nothing: digits are only made where they fit.
 */
export function unscaledOf(text: string, precision: number, scale: number): bigint | null {
  const [, sign = '', whole = '', fraction = '', exponent = '0'] = syntax.exec(text) ?? []
  const digits = (whole + fraction).replace(/^0+/, '')
  if (whole + fraction === '') return null
  /** How many of the digits stand before the last place. */
  const kept = digits.length - fraction.length + Number(exponent) + scale
  if (digits === '' || kept < 0) return 0n
  if (kept > precision) return null
  const size = BigInt(digits.slice(0, kept).padEnd(kept, '0') || '0') + ((digits[kept] ?? '0') >= '5' ? 1n : 0n)
  if (String(size).length > precision && size !== 0n) return null
  return sign === '-' ? -size : size
}
