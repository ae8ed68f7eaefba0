package healthcheck

import (
	"context"
	"slices"
	"strings"
	"time"

	"quantix/internal/fleet"
	"quantix/internal/healthevent"
)

// HypervisorState is what the agent's newest read of the hypervisor has found.
type HypervisorState struct {
	Read         bool   // the hypervisor has answered since the agent's start
	Version      string // "libvirt 9.0.0, QEMU 7.2.22"
	Accelerators []string
}

// neededControllers are the cgroup controllers with which libvirt limits and counts guests.
var neededControllers = []string{"cpu", "cpuset", "io", "memory"}

// Boot returns the check of what a host needs to run guests.
func Boot(state func() HypervisorState) Check { return boot("/", state) }

func boot(root tree, state func() HypervisorState) Check {
	return Check{Name: "boot", Interval: time.Minute, Timeout: 10 * time.Second, Run: func(context.Context) ([]healthevent.Finding, error) {
		s := state()
		if !s.Read {
			return nil, NotYet("The hypervisor has not answered since the agent's start.")
		}
		var out []healthevent.Finding
		if !slices.Contains(s.Accelerators, "kvm") {
			out = append(out, finding("", "no-kvm", fleet.AlarmWarning,
				"Guests run without hardware acceleration: the hypervisor does not offer KVM. Enable virtualization in the firmware and load the module kvm_intel or kvm_amd.", "", 0))
		}
		if missing, known := root.missingControllers(); !known {
			return out, Partial{Unread: []string{"cgroup"}, Reason: "The kernel's list of cgroup controllers cannot be read."}
		} else if len(missing) > 0 {
			out = append(out, finding("cgroup", "cgroup-controllers", fleet.AlarmWarning,
				"The kernel lacks cgroup controllers, so limits and figures of guests are missing: "+strings.Join(missing, ", ")+".", "", 0))
		}
		return out, nil
	}}
}

// missingControllers returns the needed controllers that the kernel does not offer in version 2 or 1 of cgroups.
func (t tree) missingControllers() (missing []string, known bool) {
	var has []string
	if text, ok := t.line("sys/fs/cgroup/cgroup.controllers"); ok {
		known = true
		has = strings.Fields(text)
	}
	if text, ok := t.line("proc/cgroups"); ok {
		known = true
		for line := range strings.Lines(text) { // name, hierarchy, number, enabled; a controller of version 2 has hierarchy 0
			if f := strings.Fields(line); len(f) == 4 && f[3] == "1" && f[1] != "0" {
				has = append(has, strings.Replace(f[0], "blkio", "io", 1))
			}
		}
	}
	for _, c := range neededControllers {
		if !slices.Contains(has, c) {
			missing = append(missing, c)
		}
	}
	return missing, known
}
