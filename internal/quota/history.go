package quota

import "quantix/internal/fleet"

// Day is what a project used on one day.
type Day struct {
	Day        string `json:"day" doc:"The day in UTC: 2026-01-31"`
	VMs        int64  `json:"vms"`
	RunningVMs int64  `json:"runningVms"`
	CPUs       int64  `json:"cpus"`
	MemoryMiB  int64  `json:"memoryMiB"`
	DiskBytes  int64  `json:"diskBytes"`
}

// Trends are the resources whose use is stored for each day, by the keys of Resources.
var Trends = map[string]func(Day) int64{
	"vms":        func(d Day) int64 { return d.VMs },
	"runningVms": func(d Day) int64 { return d.RunningVMs },
	"cpus":       func(d Day) int64 { return d.CPUs },
	"memoryMiB":  func(d Day) int64 { return d.MemoryMiB },
	"diskBytes":  func(d Day) int64 { return d.DiskBytes },
}

// EditableKeys are the keys of the resources whose use an edit of a VM can change.
var EditableKeys = []string{"cpus", "memoryMiB", "diskBytes", "nics", "hostDevices", "gpus", PoolsKey}

// Difference returns what after has more than before. A negative number is less.
func Difference(after, before Usage) Usage {
	var out Usage
	for _, r := range Resources {
		*r.used(&out) = r.Used(after) - r.Used(before)
	}
	out.Pools = map[fleet.PoolID]int64{}
	for id, n := range after.Pools {
		out.Pools[id] += n
	}
	for id, n := range before.Pools {
		out.Pools[id] -= n
	}
	return out
}
