package cli

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

// TuneMemory lets a portal's heap grow further between two collections than Go does by itself while it is small, for rendering pages makes much
// garbage that dies young, and less far once thousands of agents are parked: what lives then is theirs, and would be doubled for nothing.
// GOGC and GOMEMLIMIT in the environment are the administrator's word.
func TuneMemory() {
	if os.Getenv("GOGC") == "" && os.Getenv("GOMEMLIMIT") == "" {
		paceMemory(0)
	}
}

// paceMemory sets, now and after each collection, how far the heap may grow; set is what holds, in percent of what lives.
func paceMemory(set int) {
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(live)
	if percent := growth(live[0].Value.Uint64()); percent < set*9/10 || percent > set*11/10 { // each change stops the program for a moment
		debug.SetGCPercent(percent)
		set = percent
	}
	runtime.AddCleanup(&struct{ collected *int }{}, paceMemory, set)
}

// growth is by how many percent a heap of so many bytes that live may grow: four times, by 192 MiB at most, but no less than a half.
func growth(live uint64) int {
	const most, percent, least = 192 << 20, 400, 50
	return int(max(min(percent, most*100/max(live, 1)), least))
}
