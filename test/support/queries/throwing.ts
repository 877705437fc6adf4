/** A module that fails while it is loaded. */
throw new Error('the settings file is missing')
