// Preloaded into a process (node --import): it ends with a line on the peak of its memory, in megabytes.
process.on('exit', () => process.stderr.write(`peak memory ${Math.round(process.resourceUsage().maxRSS / 1024)} MB\n`))
