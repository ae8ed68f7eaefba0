// Package quota has the limits of what a project may use, and the arithmetic with them. It is pure. SQL counts what
// projects use and refuses what exceeds a limit: see the migration 0103.
package quota

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"quantix/internal/fleet"
)

// Limit bounds what a project may use of one resource.
type Limit struct {
	// Hard: requests that exceed the limit are refused; nil: no limit
	Hard *int64 `json:"hard,omitempty" doc:"Requests that exceed the limit are refused; absent: no limit"`
	// Soft: pages show that the limit is exceeded; nil: no limit
	Soft *int64 `json:"soft,omitempty" doc:"Pages show when the limit is exceeded; absent: no limit"`
}

// Quota has the limits of a project. Resources lists its fields.
type Quota struct {
	VMs           Limit `json:"vms,omitzero"`
	RunningVMs    Limit `json:"runningVms,omitzero" doc:"VMs that run, are paused or shall start"`
	CPUs          Limit `json:"cpus,omitzero" doc:"vCPUs of all VMs"`
	MemoryMiB     Limit `json:"memoryMiB,omitzero" doc:"Memory of all VMs in MiB"`
	DiskBytes     Limit `json:"diskBytes,omitzero" doc:"Virtual size of all disks in bytes"`
	NICs          Limit `json:"nics,omitzero" doc:"Network adapters of all VMs"`
	HostDevices   Limit `json:"hostDevices,omitzero" doc:"Devices of hosts that are passed through to VMs, with GPUs"`
	GPUs          Limit `json:"gpus,omitzero" doc:"GPUs and mediated devices that are passed through to VMs"`
	Snapshots     Limit `json:"snapshots,omitzero" doc:"Snapshots of all VMs"`
	SnapshotBytes Limit `json:"snapshotBytes,omitzero" doc:"Storage of all snapshots in bytes. No snapshot can be taken when it is used up"`
	Images        Limit `json:"images,omitzero" doc:"Images and templates of the project"`
	ImageBytes    Limit `json:"imageBytes,omitzero" doc:"Virtual size of the project's images and templates in bytes"`
	Exports       Limit `json:"exports,omitzero" doc:"Exported files that are not deleted"`
	// Pools limits the virtual size of the disks in single pools, in bytes.
	Pools map[fleet.PoolID]Limit `json:"pools,omitempty" doc:"Virtual size of the disks in single pools, in bytes, by the pool's ID"`
}

// Usage is what a project uses, in the units of Quota.
type Usage struct {
	VMs           int64                  `json:"vms"`
	RunningVMs    int64                  `json:"runningVms"`
	CPUs          int64                  `json:"cpus"`
	MemoryMiB     int64                  `json:"memoryMiB"`
	DiskBytes     int64                  `json:"diskBytes"`
	NICs          int64                  `json:"nics"`
	HostDevices   int64                  `json:"hostDevices"`
	GPUs          int64                  `json:"gpus"`
	Snapshots     int64                  `json:"snapshots"`
	SnapshotBytes int64                  `json:"snapshotBytes"`
	Images        int64                  `json:"images"`
	ImageBytes    int64                  `json:"imageBytes"`
	Exports       int64                  `json:"exports"`
	Pools         map[fleet.PoolID]int64 `json:"pools,omitempty"`
}

// Unit is the unit of a resource's numbers.
type Unit string

// Units of resources.
const (
	Count     Unit = ""
	Mebibytes Unit = "MiB"
	Bytes     Unit = "bytes"
)

// Text formats a quantity: "3", "1.5 GiB".
func (u Unit) Text(n int64) string {
	switch u {
	case Mebibytes:
		return fleet.FormatBytes(n << 20)
	case Bytes:
		return fleet.FormatBytes(n)
	}
	return fleet.FormatCount(n)
}

// Resource is one field of Quota.
type Resource struct {
	Key   string // the field's JSON name
	Label string // "Running VMs"
	Noun  string // in a sentence after a quantity: "vCPUs", "of memory"
	Field string // of a request, for errors
	Unit  Unit

	limit func(*Quota) *Limit
	used  func(*Usage) *int64
}

// PoolsKey is the key of Quota.Pools.
const PoolsKey = "pools"

// Resources are all fields of Quota but Pools, in the order of pages.
var Resources = []Resource{
	{"vms", "VMs", "VMs", "projectId", Count, func(q *Quota) *Limit { return &q.VMs }, func(u *Usage) *int64 { return &u.VMs }},
	{"runningVms", "Running VMs", "running VMs", "spec.power", Count, func(q *Quota) *Limit { return &q.RunningVMs }, func(u *Usage) *int64 { return &u.RunningVMs }},
	{"cpus", "vCPUs", "vCPUs", "spec.cpus", Count, func(q *Quota) *Limit { return &q.CPUs }, func(u *Usage) *int64 { return &u.CPUs }},
	{"memoryMiB", "Memory", "of memory", "spec.memoryMiB", Mebibytes, func(q *Quota) *Limit { return &q.MemoryMiB }, func(u *Usage) *int64 { return &u.MemoryMiB }},
	{"diskBytes", "Disk space", "of disk space", "spec.disks", Bytes, func(q *Quota) *Limit { return &q.DiskBytes }, func(u *Usage) *int64 { return &u.DiskBytes }},
	{"nics", "Network adapters", "network adapters", "spec.nics", Count, func(q *Quota) *Limit { return &q.NICs }, func(u *Usage) *int64 { return &u.NICs }},
	{"hostDevices", "Host devices", "host devices", "spec.hostDevices", Count, func(q *Quota) *Limit { return &q.HostDevices }, func(u *Usage) *int64 { return &u.HostDevices }},
	{"gpus", "GPUs", "GPUs", "spec.hostDevices", Count, func(q *Quota) *Limit { return &q.GPUs }, func(u *Usage) *int64 { return &u.GPUs }},
	{"snapshots", "Snapshots", "snapshots", "name", Count, func(q *Quota) *Limit { return &q.Snapshots }, func(u *Usage) *int64 { return &u.Snapshots }},
	{"snapshotBytes", "Snapshot storage", "of snapshot storage", "name", Bytes, func(q *Quota) *Limit { return &q.SnapshotBytes }, func(u *Usage) *int64 { return &u.SnapshotBytes }},
	{"images", "Images and templates", "images and templates", "name", Count, func(q *Quota) *Limit { return &q.Images }, func(u *Usage) *int64 { return &u.Images }},
	{"imageBytes", "Image storage", "of image storage", "name", Bytes, func(q *Quota) *Limit { return &q.ImageBytes }, func(u *Usage) *int64 { return &u.ImageBytes }},
	{"exports", "Exports", "exports", "poolId", Count, func(q *Quota) *Limit { return &q.Exports }, func(u *Usage) *int64 { return &u.Exports }},
}

// Limit returns the resource's limit in a quota, to read or to set.
func (r Resource) Limit(q *Quota) *Limit { return r.limit(q) }

// Used returns the used quantity of the resource.
func (r Resource) Used(u Usage) int64 { return *r.used(&u) }

// Max is the largest quantity of a limit: sums of a thousand of them do not overflow.
const Max = 1 << 53

// Check adds an error for each limit that is negative, too large, or with a soft part above the hard one.
func (q Quota) Check(c *fleet.Checks) {
	check := func(field string, l Limit) {
		for _, n := range []struct {
			name string
			at   *int64
		}{{"hard", l.Hard}, {"soft", l.Soft}} {
			if n.at != nil && (*n.at < 0 || *n.at > Max) {
				c.Add(field+"."+n.name, "Enter a number from 0 to %d, or nothing for no limit.", int64(Max))
			}
		}
		if l.Hard != nil && l.Soft != nil && *l.Soft > *l.Hard {
			c.Add(field+".soft", "The soft limit must not exceed the hard limit.")
		}
	}
	for _, r := range Resources {
		check(r.Key, *r.Limit(&q))
	}
	for _, id := range slices.Sorted(maps.Keys(q.Pools)) {
		check(PoolsKey+"."+string(id), q.Pools[id])
	}
}

// IsZero reports whether the quota has no limit.
func (q Quota) IsZero() bool {
	for _, r := range Resources {
		if *r.Limit(&q) != (Limit{}) {
			return false
		}
	}
	for _, l := range q.Pools {
		if l != (Limit{}) {
			return false
		}
	}
	return true
}

// Excess is a limit that a request exceeds, as SQL's check_quota reports it.
type Excess struct {
	Key   string       `json:"key"`
	Pool  fleet.PoolID `json:"pool"` // only of PoolsKey
	Limit int64        `json:"limit"`
	Used  int64        `json:"used"` // before the request
	More  int64        `json:"more"` // what the request adds
}

// Error returns the refusal of a request that exceeds limits, with an error at each field.
func Error(all []Excess) error {
	var c fleet.Checks
	for _, x := range all {
		r := Resource{Key: PoolsKey, Noun: "of disk space in this pool", Field: "spec.disks", Unit: Bytes}
		if i := slices.IndexFunc(Resources, func(r Resource) bool { return r.Key == x.Key }); i >= 0 {
			r = Resources[i]
		}
		c.Add(r.Field, "%s", r.excessText(x))
	}
	return c.Err()
}

// IsExcess reports whether the error of a field is from Error.
func IsExcess(text string) bool {
	for _, begin := range []string{"This project uses ", "This project has ", "The snapshots of this project use "} {
		if strings.HasPrefix(text, begin) {
			return true
		}
	}
	return false
}

func (r Resource) excessText(x Excess) string {
	if r.Key == "snapshotBytes" && x.More == 1 {
		return fmt.Sprintf("The snapshots of this project use %s of %s. Delete snapshots first.", r.Unit.Text(x.Used+1), r.Unit.Text(x.Limit))
	}
	asked := r.Unit.Text(x.More) + " more are asked for"
	if x.More == 1 && r.Unit == Count {
		asked = "one more is asked for"
	}
	if x.Used >= x.Limit {
		return fmt.Sprintf("This project uses %s of %s %s, and %s.", r.Unit.Text(x.Used), r.Unit.Text(x.Limit), r.Noun, asked)
	}
	return fmt.Sprintf("This project has %s of %s %s left, and %s.", r.Unit.Text(x.Limit-x.Used), r.Unit.Text(x.Limit), r.Noun, asked)
}
