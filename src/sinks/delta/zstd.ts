/** The compression of every page: level 1, beyond which time grows faster than files shrink. */
import { constants, zstdCompressSync } from 'node:zlib'

const level = { params: { [constants.ZSTD_c_compressionLevel]: 1 } }

export const zstd = (bytes: Uint8Array): Uint8Array => zstdCompressSync(bytes, level)
