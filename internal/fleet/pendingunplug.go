package fleet

import (
	"fmt"
	"slices"
	"strings"
)

// PendingUnplug is a device or memory that was removed from the VM although the guest has not completed the
// hot-unplug. The unplug completes when the guest releases the device, or at the VM's next start.
type PendingUnplug struct {
	Field string `json:"field"` // spec field: "disks", "nics", "hostDevices", "memoryMiB", "cpus"
	What  string `json:"what"`  // "NIC 52:54:00:0a:00:01"
}

// PendingUnplugText returns the pending unplugs as a sentence for the task's result; empty: none are pending.
func (s VMStatus) PendingUnplugText() string {
	const most = 8
	var all []string
	for _, h := range s.PendingUnplug[:min(len(s.PendingUnplug), most)] {
		all = append(all, h.What)
	}
	if more := len(s.PendingUnplug) - most; more > 0 {
		all = append(all, fmt.Sprintf("%d more", more))
	}
	switch last := len(all) - 1; {
	case last < 0:
		return ""
	case last == 0:
		return "The guest did not release " + all[0] + "; it is removed at the next start."
	default:
		return "The guest did not release " + strings.Join(all[:last], ", ") + " and " + all[last] + "; they are removed at the next start."
	}
}

// MaxModules is the maximum number of memory hot-plugs between two starts of a guest.
const MaxModules = 16

// Module is a hot-plugged memory module. The guest can release only the complete module.
type Module struct {
	MiB      int `json:"mib"`
	NUMANode int `json:"cell,omitempty"` // guest NUMA node of the module
}

// ModulesToUnplug returns the indexes of modules that together have exactly the memory to unplug from each NUMA node,
// in MiB. ok is false if no selection fits. Lists over MaxModules are refused: they can only come from a faulty host,
// and the search is exponential.
func ModulesToUnplug(all []Module, unplug []int) (which []int, ok bool) {
	if len(all) > MaxModules {
		return nil, false
	}
	for node, mib := range unplug {
		var in []int
		for i, m := range all {
			if m.NUMANode == node {
				in = append(in, i)
			}
		}
		picked, ok := pickModules(all, in, mib)
		if !ok {
			return nil, false
		}
		which = append(which, picked...)
	}
	slices.Sort(which)
	return which, true
}

// pickModules selects modules that together have mib, newest first, from the modules at the indexes candidates. ok is
// false if no selection fits.
func pickModules(all []Module, candidates []int, mib int) (which []int, ok bool) {
	if mib == 0 {
		return nil, true
	}
	for k, i := range slices.Backward(candidates) {
		if all[i].MiB > mib {
			continue
		}
		if rest, ok := pickModules(all, candidates[:k], mib-all[i].MiB); ok {
			return append(rest, i), true
		}
	}
	return nil, false
}

// NextStartChanges lists the changes that the running guest gets only at its next start, with the reason if it is
// known.
func (vm VM) NextStartChanges() []string {
	if vm.Status == nil {
		return nil
	}
	var out []string
	for _, name := range vm.Status.NextBoot {
		pending := false
		for _, h := range vm.Status.PendingUnplug {
			if h.Field == name {
				out, pending = append(out, h.What+" (the guest has not released it)"), true
			}
		}
		f, known := FieldByName(name)
		switch why := vm.nextStartReason(name); {
		case pending: // the pending unplugs already explain the field
		case why != "":
			out = append(out, f.Type+" ("+why+")")
		case known:
			out = append(out, f.Type)
		default:
			out = append(out, name)
		}
	}
	return out
}

// nextStartReason returns, as a clause, why the running guest's vCPUs or memory differ from the spec; empty: for no
// special reason.
func (vm VM) nextStartReason(field string) string {
	s := vm.Status
	switch cpus, memory := vm.Spec.CPUs, vm.Spec.MemoryMiB; {
	case field == "cpus" && cpus > 0 && cpus < s.CPUs && s.Accelerator == "qemu":
		return "an emulated guest cannot unplug vCPUs"
	case field == "cpus" && cpus > 0 && cpus < s.CPUs:
		return "only vCPUs hot-plugged since the guest's start can be unplugged"
	case field == "memoryMiB" && memory > 0 && memory < s.MemoryMiB:
		return "only complete memory modules hot-plugged since the guest's start can be unplugged"
	}
	return ""
}
