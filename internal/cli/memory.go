package cli

import (
	"os"
	"runtime/debug"
)

// TuneMemory lets a portal's heap grow further between two collections than Go does by itself, up to a gigabyte: rendering
// pages makes much garbage that dies young. GOGC and GOMEMLIMIT in the environment are the administrator's word.
func TuneMemory() {
	if os.Getenv("GOGC") == "" && os.Getenv("GOMEMLIMIT") == "" {
		debug.SetGCPercent(400)
		debug.SetMemoryLimit(1 << 30)
	}
}
