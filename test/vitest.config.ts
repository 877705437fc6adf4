import { defineConfig } from 'vitest/config'

// Which suite a file belongs to is its folder: see README.md beside this file.
const services = ['test/broker/**', 'test/crash/**', 'test/readers/**', 'test/aws/**', 'test/local/**']

export default defineConfig({
  test: {
    root: new URL('..', import.meta.url).pathname,
    projects: [
      {
        extends: true,
        test: {
          name: 'unit',
          include: ['test/**/*.test.ts'],
          exclude: [...services, 'test/long/**', 'node_modules/**'],
        },
      },
    ],
  },
})
