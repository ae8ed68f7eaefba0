package fleet

import (
	"fmt"
	"slices"
	"strings"
)

// PendingUnplug is something of a guest that runs which was taken out of its VM, and which the guest has not let go of. It goes when the guest does,
// or at the VM's next start.
type PendingUnplug struct {
	Field string `json:"field"` // of the spec: "disks", "nics", "hostDevices", "memoryMiB", "cpus"
	What  string `json:"what"`  // "network card 52:54:00:0a:00:01"
}

// StillHeld says what the guest holds on to, in a sentence for the end of a task; empty: nothing.
func (s VMStatus) StillHeld() string {
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
		return "The guest did not let go of " + all[0] + "; it goes at the next start."
	default:
		return "The guest did not let go of " + strings.Join(all[:last], ", ") + " and " + all[last] + "; they go at the next start."
	}
}

// MaxModules is how often memory comes to a guest between two of its starts.
const MaxModules = 16

// Module is memory that a running guest got since its start. It gives it back as a whole.
type Module struct {
	MiB      int `json:"mib"`
	NUMANode int `json:"cell,omitempty"` // the NUMA cell that it is in
}

// GivenBack are the modules, by their index, that together are what each cell is to have less; false: no choice of them is. Of more modules than a guest
// can have, which are a host's word alone, there is no choice: to look for one would take for ever.
func GivenBack(all []Module, less []int) (which []int, ok bool) {
	if len(all) > MaxModules {
		return nil, false
	}
	for cell, mib := range less {
		var in []int
		for i, m := range all {
			if m.NUMANode == cell {
				in = append(in, i)
			}
		}
		picked, ok := pick(all, in, mib)
		if !ok {
			return nil, false
		}
		which = append(which, picked...)
	}
	slices.Sort(which)
	return which, true
}

// pick chooses among few modules, the newest first.
func pick(all []Module, among []int, mib int) (which []int, ok bool) {
	if mib == 0 {
		return nil, true
	}
	for k, i := range slices.Backward(among) {
		if all[i].MiB > mib {
			continue
		}
		if rest, ok := pick(all, among[:k], mib-all[i].MiB); ok {
			return append(rest, i), true
		}
	}
	return nil, false
}

// Waiting says what the running guest gets or loses at its next start, each in words, with why where that is known.
func (vm VM) Waiting() []string {
	if vm.Status == nil {
		return nil
	}
	var out []string
	for _, name := range vm.Status.NextBoot {
		held := false
		for _, h := range vm.Status.PendingUnplug {
			if h.Field == name {
				out, held = append(out, h.What+" (the guest has not let go of it)"), true
			}
		}
		f, known := FieldOf(name)
		switch why := vm.whyLater(name); {
		case held: // that the guest lacks another of them shows at the devices
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

// whyLater is why a running guest has another number of vCPUs or another size than its VM, as a clause; empty: there is no more to say.
func (vm VM) whyLater(field string) string {
	s := vm.Status
	switch cpus, memory := vm.Spec.CPUs, vm.Spec.MemoryMiB; {
	case field == "cpus" && cpus > 0 && cpus < s.CPUs && s.Accelerator == "qemu":
		return "an emulated guest gives none back"
	case field == "cpus" && cpus > 0 && cpus < s.CPUs:
		return "a guest gives back those alone that came since it was started"
	case field == "memoryMiB" && memory > 0 && memory < s.MemoryMiB:
		return "a guest gives back what came since it was started, in the sizes in which it came"
	}
	return ""
}
