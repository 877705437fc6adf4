import type { Reporter, TestModule } from 'vitest/node'

const slowest = 10

/**
 * Prints the slowest test files and then, alone on the last line, `N passed, N failed`. A file that did not load and an
 * error outside of any test count as failed; skipped tests are named so that a run with some does not look complete.
 */
export default class SummaryReporter implements Reporter {
  private summary = ''

  onTestRunEnd(modules: readonly TestModule[], unhandled: readonly unknown[]): void {
    const counts = { passed: 0, failed: unhandled.length, skipped: 0, pending: 0 }
    for (const module of modules) {
      for (const test of module.children.allTests()) counts[test.result().state]++
      if (module.errors().length > 0) counts.failed++
    }
    const files = modules
      .map((module) => ({
        file: module.relativeModuleId,
        ms: module.diagnostic().duration + module.diagnostic().collectDuration,
      }))
      .toSorted((a, b) => b.ms - a.ms)
      .slice(0, slowest)
      .map(({ file, ms }) => `${(ms / 1000).toFixed(1).padStart(8)} s  ${file}\n`)
    const skipped = counts.skipped + counts.pending
    this.summary =
      `\nSlowest test files:\n${files.join('')}\n` +
      `${counts.passed} passed, ${counts.failed} failed${skipped > 0 ? `, ${skipped} skipped` : ''}\n`
    // Vitest goes on printing after this call: the last line must wait for the end of the process.
    process.once('exit', () => process.stdout.write(this.summary))
  }
}
