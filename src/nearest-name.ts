/** The known name that a misspelled one most likely means. */

/** The candidate with the fewest edits, if it is near enough to be a typo: up to two edits, or a third of the name. */
export function nearestName(name: string, candidates: readonly string[]): string | null {
  const [nearest] = candidates
    .map((candidate) => ({ candidate, distance: editDistance(name.toLowerCase(), candidate.toLowerCase()) }))
    .toSorted((a, b) => a.distance - b.distance)
  return nearest && nearest.distance <= Math.max(2, Math.floor(name.length / 3)) ? nearest.candidate : null
}

/** Levenshtein's distance, one row at a time. */
function editDistance(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, j) => j)
  for (let i = 1; i <= a.length; i++) {
    const next = [i]
    for (let j = 1; j <= b.length; j++) {
      const substituted = (row[j - 1] ?? 0) + (a[i - 1] === b[j - 1] ? 0 : 1)
      next.push(Math.min(substituted, (row[j] ?? 0) + 1, (next[j - 1] ?? 0) + 1))
    }
    row = next
  }
  return row[b.length] ?? 0
}
