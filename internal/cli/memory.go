package cli

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

// TuneGarbageCollector adapts GOGC to the size of the live heap. A small heap may grow more than Go's default of 100 %, because
// rendered pages are mostly short-lived garbage. A large heap, with thousands of waiting agent requests, may grow less,
// because 100 % would only waste memory. GOGC or GOMEMLIMIT in the environment disables this.
func TuneGarbageCollector() {
	if os.Getenv("GOGC") == "" && os.Getenv("GOMEMLIMIT") == "" {
		adaptGC(0)
	}
}

// adaptGC sets GOGC now and after each collection. set is the current value in percent.
func adaptGC(set int) {
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(live)
	// Small differences are ignored, because each change of GOGC stops all goroutines for a moment.
	if percent := gcPercent(live[0].Value.Uint64()); percent < set*9/10 || percent > set*11/10 {
		debug.SetGCPercent(percent)
		set = percent
	}
	runtime.AddCleanup(&struct{ collected *int }{}, adaptGC, set)
}

// gcPercent returns the value of GOGC in percent. live is the size of the live heap in bytes. The value is 400, or less
// so that the heap grows by at most 192 MiB, but at least 50.
func gcPercent(live uint64) int {
	const most, percent, least = 192 << 20, 400, 50
	return int(max(min(percent, most*100/max(live, 1)), least))
}
