/** Where the paths of a query module lie: absolute, or against the warehouse root (decision 14). */

export interface BucketLocation {
  readonly bucket: string
  /** Without slashes at its ends; '' for the whole bucket. */
  readonly prefix: string
}

/** `s3://bucket/path` (or `s3a://`), or a path below the bucket that is the warehouse root. */
export function bucketLocation(path: string, warehouse: string): BucketLocation {
  const [, bucket, prefix] = /^s3a?:\/\/([^/]+)\/?(.*)$/.exec(path) ?? [null, warehouse, path]
  return { bucket: bucket ?? warehouse, prefix: (prefix ?? '').replaceAll(/^\/+|\/+$/g, '') }
}
