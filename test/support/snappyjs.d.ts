declare module 'snappyjs' {
  export function compress(uncompressed: Uint8Array): Uint8Array
}
