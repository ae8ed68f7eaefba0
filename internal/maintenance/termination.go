package maintenance

import (
	"cmp"
	"fmt"
	"strings"

	"quantix/internal/fleet"
)

// LocalVolumes are the volumes in a pool of a host that only this host can reach, apart from the disks of its VMs.
type LocalVolumes struct {
	PoolID   fleet.PoolID `json:"poolId"`
	PoolName string       `json:"poolName"`
	Volumes  int          `json:"volumes"`
}

// Termination is what the termination of a host does.
type Termination struct {
	Plan
	// Volumes stay on the machine's disks, out of Quantix's reach. A user must have decided so.
	Volumes []LocalVolumes `json:"volumes"`
	// PowerOff says what powers the host off: the agent, the BMC, or nothing because it is off.
	PowerOff PowerOff `json:"powerOff"`
	Entered  bool     `json:"entered,omitempty"` // the host is in maintenance already
}

// PowerOff is what powers a terminated host off.
type PowerOff string

const (
	PowerOffByAgent PowerOff = "agent"
	PowerOffByBMC   PowerOff = "bmc"
	PowerOffNone    PowerOff = "off" // the host is off already
)

// PowerOffOf returns what powers the host off.
func PowerOffOf(h fleet.HostView) PowerOff {
	switch {
	case h.Lifecycle == fleet.LifecycleOffline && !h.HasBMC:
		return PowerOffNone
	case h.Lifecycle == fleet.LifecycleOffline || !h.AgentSettings().HostPower:
		return PowerOffByBMC
	}
	return PowerOffByAgent
}

// ProposeLeaving proposes a migration for each managed VM, because a terminated host keeps none. The other hosts must be
// able to take all of them. A VM without an allowed migration has no proposal, and a reason.
func (p *Plan) ProposeLeaving() {
	space := NewSpace(p.Targets, p.Overcommit)
	leaves := func(vm VM) bool { return vm.Proposal != nil && vm.Proposal.Do == fleet.MaintenanceMigrate }
	for _, vm := range p.VMs {
		space.AddPools(vm.Choices)
		if !leaves(vm) {
			continue
		}
		if c := vm.choice(*vm.Proposal); c != nil {
			_, _ = space.Take(*c, vm.CPUs, vm.MemoryMiB)
		}
	}
	for i := range p.VMs {
		vm := &p.VMs[i]
		if !vm.Managed {
			continue
		}
		vm.Choices = migrationsOf(vm.Choices)
		if leaves(*vm) {
			continue
		}
		var why string
		if vm.Proposal, why, vm.LacksRoom = space.TakeBest(vm.Choices, vm.CPUs, vm.MemoryMiB, ""); vm.Proposal == nil {
			vm.Reason = cmp.Or(vm.Reason, why, firstReason(vm.Choices))
		}
	}
}

func firstReason(moves []Choice) string {
	for _, c := range moves {
		if c.Reason != "" {
			return c.Reason
		}
	}
	return "There is no other host."
}

func migrationsOf(all []Choice) (out []Choice) {
	for _, c := range all {
		if c.Do == fleet.MaintenanceMigrate {
			out = append(out, c)
		}
	}
	return out
}

// DecideLeaving is Decide for a termination: each managed VM migrates, and no discovered VM is left running.
func (p Plan) DecideLeaving(given map[fleet.VMID]fleet.MaintenanceDecision) (map[fleet.VMID]fleet.MaintenanceDecision, error) {
	var checks fleet.Checks
	for _, vm := range p.VMs {
		d, has := given[vm.ID]
		switch {
		case has && vm.Managed && d.Do != fleet.MaintenanceMigrate:
			checks.Add("decisions."+string(vm.ID), "%s would stay on %s, which is removed. Migrate or delete the VM.", vm.Name, p.HostName)
		case has && !vm.Managed && d.Do == fleet.MaintenanceLeave:
			checks.Add("decisions."+string(vm.ID), "%s would lose power. Let it be shut down.", vm.Name)
		}
	}
	if err := checks.Err(); err != nil {
		return nil, err
	}
	return p.Decide(given)
}

// VolumesText names the volumes: "local (3 volumes), iso (1 volume)".
func (t Termination) VolumesText() string {
	words := make([]string, len(t.Volumes))
	for i, v := range t.Volumes {
		words[i] = fmt.Sprintf("%s (%s)", v.PoolName, fleet.CountWithUnit(v.Volumes, "volume"))
	}
	return strings.Join(words, ", ")
}
