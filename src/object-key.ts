/** Keys of an object store: relative, `/` between segments, the same on a directory and in a bucket. */
import { SluiceError } from './errors.ts'

/** What a store calls a file that is being written; no key may look like it. */
export const temporaryName = (unique: string): string => `.sluice-${unique}.tmp`
export const isTemporaryName = (name: string): boolean => /^\.sluice-[^/]*\.tmp$/.test(name)

/**
 * The key, if it stays below the store's root and names an object there.
 * @throws OBJECT_STORE_REFUSED for '..', absolute keys, empty segments and names of temporary files.
 */
export function checkedKey(root: string, key: string): string {
  const bad = key.split('/').find((s) => s === '' || s === '.' || s === '..' || s.includes('\0') || isTemporaryName(s))
  if (bad === undefined) return key
  throw new SluiceError('OBJECT_STORE_REFUSED', {
    object: `${JSON.stringify(key)} under ${root}`,
    reason: `the segment ${JSON.stringify(bad)} cannot be part of a key`,
    remedy: 'Use a relative key without empty segments or dots.',
  })
}

/** The folder part of a listing's prefix, '' or with a slash at its end. @throws OBJECT_STORE_REFUSED as `checkedKey` */
export function checkedFolder(root: string, prefix: string): string {
  const end = prefix.lastIndexOf('/')
  return end === -1 ? '' : `${checkedKey(root, prefix.slice(0, end))}/`
}

/** The order in which S3 lists: by UTF-8 bytes, which differs from that of UTF-16 code units above U+D7FF. */
export function compareKeys(a: string, b: string): number {
  return Buffer.compare(Buffer.from(a), Buffer.from(b))
}
