#!/usr/bin/env node
// Plain JavaScript: an older Node cannot even load TypeScript, and should say why in one line.
const [major] = process.versions.node.split('.')
if (Number(major) < 24) {
  process.stderr.write(
    `sluice: NODE_TOO_OLD: sluice needs Node.js 24 or later, this is ${process.versions.node}. ` +
      "Run it through npm (npx sluice, npm exec sluice), which uses the project's own.\n"
  )
  process.exit(1)
}
await import('./cli.ts')
