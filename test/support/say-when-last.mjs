/** Loaded before a program (`--import`): when it ends it says how many milliseconds ago it had written its last line. */
let last = performance.now()
for (const stream of [process.stdout, process.stderr]) {
  const write = stream.write.bind(stream)
  stream.write = (...args) => {
    last = performance.now()
    return write(...args)
  }
}
process.on('exit', () => process.stdout.write(`\nsince last line: ${Math.round(performance.now() - last)}\n`))
