import { join } from 'node:path'
import { defineConfig } from 'vitest/config'
import { maxWorkers } from './support/services.ts'

if (Number(process.versions.node.split('.')[0]) < 24) {
  throw new Error(`The tests need Node 24, this is ${process.version}: run them by npm test, which brings it.`)
}

// Which suite a file belongs to is its folder: see README.md beside this file.
const services = ['test/broker/**', 'test/crash/**', 'test/readers/**', 'test/aws/**', 'test/local/**']
// These need nothing from outside, but start stores or processes of their own: too slow for `npm run check`.
const slow = ['test/dynamodb/**', 'test/object-store/**', 'test/cli.test.ts', 'test/functions/process.test.ts']
const long = ['test/long/**']
const needsServices = { globalSetup: ['test/support/services.ts'], hookTimeout: 60_000 }
const filesIn = (folders: readonly string[]): string[] => folders.map((folder) => folder.replace('**', '**/*.test.ts'))

export default defineConfig({
  test: {
    root: join(import.meta.dirname, '..'),
    reporters: ['default', './test/support/reporter.ts'],
    maxWorkers,
    testTimeout: 30_000,
    projects: [
      {
        extends: true,
        test: {
          name: 'unit',
          include: ['test/**/*.test.ts'],
          exclude: [...services, ...slow, ...long, 'node_modules/**'],
        },
      },
      { extends: true, test: { name: 'integration', include: filesIn([...services, ...slow]), ...needsServices } },
      { extends: true, test: { name: 'long', include: filesIn(long), ...needsServices, testTimeout: 300_000 } },
    ],
  },
})
