package quota

import (
	"maps"
	"slices"
	"strings"

	"quantix/internal/fleet"
)

// Line is what a project uses of one resource, beside its limit.
type Line struct {
	Resource
	Pool  fleet.PoolID // of a limit of one pool
	Used  int64
	After int64 // after a change that is not made yet; Used without one
	Limit
}

// State is how use compares with the limits.
type State string

// States of a line.
const (
	Within   State = ""
	OverSoft State = "soft"
	Full     State = "full" // exactly the hard limit
	OverHard State = "hard"
)

// State returns the state after the change.
func (l Line) State() State {
	switch {
	case l.Hard != nil && l.After > *l.Hard:
		return OverHard
	case l.Soft != nil && l.After > *l.Soft:
		return OverSoft
	case l.Hard != nil && l.After == *l.Hard && *l.Hard > 0:
		return Full
	}
	return Within
}

// IsRefused reports whether the change is refused: it takes more than the hard limit allows.
func (l Line) IsRefused() bool { return l.Hard != nil && l.After > l.Used && l.After > *l.Hard }

// ProjectUsage is what a project may use and what it uses.
type ProjectUsage struct {
	Quota Quota `json:"quota"`
	Usage Usage `json:"usage"`
}

// Lines returns all resources, before and after a change that adds more.
func (p ProjectUsage) Lines(more Usage) []Line { return Lines(p.Quota, p.Usage, more) }

// Lines returns all resources with what the project uses, before and after a change that adds more. Single pools are
// listed if they have a limit.
func Lines(q Quota, u, more Usage) []Line {
	var out []Line
	for _, r := range Resources {
		out = append(out, Line{Resource: r, Used: r.Used(u), After: r.Used(u) + r.Used(more), Limit: *r.Limit(&q)})
	}
	for _, id := range slices.Sorted(maps.Keys(q.Pools)) {
		out = append(out, Line{
			Resource: Resource{Key: PoolsKey, Label: "Disk space", Noun: "of disk space in this pool", Field: "spec.disks", Unit: Bytes},
			Pool:     id, Used: u.Pools[id], After: u.Pools[id] + more.Pools[id], Limit: q.Pools[id],
		})
	}
	return out
}

// OfVM returns what a VM with the spec uses, as far as the spec says it: a disk without a size counts as zero, and a PCI
// device does not count as a GPU.
func OfVM(s fleet.VMSpec) Usage {
	u := Usage{
		VMs: 1, CPUs: int64(s.CPUs), MemoryMiB: int64(s.MemoryMiB), NICs: int64(len(s.NICs)), HostDevices: int64(s.NumberOfHostDevices()),
		Pools: map[fleet.PoolID]int64{},
	}
	if s.Power == fleet.Running || s.Power == fleet.Paused {
		u.RunningVMs = 1
	}
	for _, d := range s.Disks {
		u.DiskBytes += d.SizeBytes
		u.Pools[d.PoolID] += d.SizeBytes
	}
	for _, d := range s.HostDevices {
		if k, _ := d.Kind(); k.Prefix == "mdev/" {
			u.GPUs++
		}
	}
	return u
}

// ChangeText lists the changed limits for the audit log: "vCPUs 8 → 16 (soft 6 → 12)".
func ChangeText(was, to Quota) string {
	var out []string
	note := func(name string, u Unit, was, to Limit) {
		hard, soft := changeOf(u, was.Hard, to.Hard), changeOf(u, was.Soft, to.Soft)
		switch {
		case hard != "" && soft != "":
			out = append(out, name+" "+hard+" (soft "+soft+")")
		case hard != "":
			out = append(out, name+" "+hard)
		case soft != "":
			out = append(out, name+" soft "+soft)
		}
	}
	for _, r := range Resources {
		note(r.Label, r.Unit, *r.Limit(&was), *r.Limit(&to))
	}
	pools := maps.Clone(was.Pools)
	if pools == nil {
		pools = map[fleet.PoolID]Limit{}
	}
	maps.Copy(pools, to.Pools)
	for _, id := range slices.Sorted(maps.Keys(pools)) {
		note("pool "+string(id), Bytes, was.Pools[id], to.Pools[id])
	}
	if len(out) == 0 {
		return "no change"
	}
	const most = 20
	if len(out) > most {
		out = append(out[:most], "and more")
	}
	return strings.Join(out, ", ")
}

// changeOf returns the change of a limit: "8 → none"; empty: none.
func changeOf(u Unit, was, to *int64) string {
	text := func(n *int64) string {
		if n == nil {
			return "none"
		}
		return u.Text(*n)
	}
	if text(was) == text(to) {
		return ""
	}
	return text(was) + " → " + text(to)
}
