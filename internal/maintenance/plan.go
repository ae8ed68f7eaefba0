package maintenance

import (
	"maps"
	"slices"

	"quantix/internal/fleet"
)

// Choice is a possible decision about a VM.
type Choice struct {
	fleet.MaintenanceDecision
	HostName string                `json:"hostName,omitempty"` // of a migration
	PoolName string                `json:"poolName,omitempty"`
	Mode     fleet.MigrationMode   `json:"mode,omitempty"` // of a migration: live or cold
	Method   fleet.MigrationMethod `json:"method,omitempty"`
	Allowed  bool                  `json:"allowed"`
	Reason   string                `json:"reason,omitempty"` // why the choice is not allowed
	// LacksRoom: the choice is only not allowed because the host cannot allocate the VM
	LacksRoom bool             `json:"lacksRoom,omitempty"`
	Copies    []fleet.PoolCopy `json:"copies,omitempty"` // of a migration: see MigrationTarget.Copies
}

// VM is a VM in a Plan.
type VM struct {
	ID          fleet.VMID      `json:"id"`
	Name        string          `json:"name"`
	ProjectID   fleet.ProjectID `json:"projectId,omitempty"`
	ProjectName string          `json:"projectName,omitempty"`
	Managed     bool            `json:"managed"` // false: a discovered VM
	Phase       fleet.Phase     `json:"phase"`
	Runs        bool            `json:"runs"` // the VM runs, is paused or is being started
	CPUs        int             `json:"cpus,omitempty"`
	MemoryMiB   int             `json:"memoryMiB,omitempty"`
	Choices     []Choice        `json:"choices"`
	// Proposal is the decision that applies without another one; nil: the VM needs a decision, for Reason.
	Proposal *fleet.MaintenanceDecision `json:"proposal,omitempty"`
	Reason   string                     `json:"reason,omitempty"`
	// LacksRoom: no migration is proposed because the other hosts cannot allocate the VM, too. Overcommit would allow one.
	LacksRoom bool `json:"lacksRoom,omitempty"`
}

// Plan lists what can happen to each VM of a host that enters maintenance.
type Plan struct {
	HostID   fleet.HostID `json:"hostId"`
	HostName string       `json:"hostName"`
	VMs      []VM         `json:"vms"`
	// Overcommit: migrations may exceed what the other hosts can allocate
	Overcommit bool   `json:"overcommit,omitempty"`
	Targets    []Room `json:"targets"`
	Pools      []Pool `json:"pools"` // pools of the targets to which disks can be copied
}

// WasOff reports whether the plan has the VM as one that does not run.
func (p Plan) WasOff(id fleet.VMID) bool {
	return slices.ContainsFunc(p.VMs, func(vm VM) bool { return vm.ID == id && !vm.Runs })
}

// Undecided counts the VMs without a proposal.
func (p Plan) Undecided() (n int) {
	for _, vm := range p.VMs {
		if vm.Proposal == nil {
			n++
		}
	}
	return n
}

// ApplyDefault makes shutdown or leave the proposal of each VM without one, if that is allowed for the VM; empty: no
// change.
func (p *Plan) ApplyDefault(do fleet.MaintenanceDo) error {
	switch do {
	case "":
		return nil
	case fleet.MaintenanceShutdown, fleet.MaintenanceLeave:
	default:
		var checks fleet.Checks
		checks.Add("default", "Use shutdown or leave.")
		return checks.Err()
	}
	for i, vm := range p.VMs {
		if c := vm.choice(fleet.MaintenanceDecision{Do: do}); vm.Proposal == nil && c != nil && c.Allowed {
			p.VMs[i].Proposal = &c.MaintenanceDecision
		}
	}
	return nil
}

// Decide returns the decision for each VM of the plan: the given one, else the proposal. The error has a field
// "decisions.<id>" for each VM without a decision, for each decision that the plan does not allow, and for each VM that
// does not fit on its host together with the VMs before it.
func (p Plan) Decide(given map[fleet.VMID]fleet.MaintenanceDecision) (map[fleet.VMID]fleet.MaintenanceDecision, error) {
	var checks fleet.Checks
	out := make(map[fleet.VMID]fleet.MaintenanceDecision, len(p.VMs))
	space := NewSpace(p.Targets, p.Overcommit)
	for _, vm := range p.VMs {
		space.AddPools(vm.Choices)
	}
	for _, vm := range p.VMs {
		at := "decisions." + string(vm.ID)
		d, has := given[vm.ID]
		switch {
		case !has && vm.Proposal == nil:
			checks.Add(at, "Decide what happens to %s: %s", vm.Name, vm.Reason)
			continue
		case !has:
			d = *vm.Proposal
		}
		c := vm.choice(d)
		switch {
		case c == nil && d.Do == fleet.MaintenanceMigrate && d.HostID == "":
			checks.Add(at, "Choose the host that %s is migrated to.", vm.Name)
		case c == nil:
			checks.Add(at, "This is not possible for %s. Choose another decision.", vm.Name)
		case !c.Allowed:
			checks.Add(at, "%s: %s", vm.Name, c.Reason)
		default:
			out[vm.ID] = c.MaintenanceDecision
			if c.Do != fleet.MaintenanceMigrate {
				continue
			}
			if why, _ := space.Take(*c, vm.CPUs, vm.MemoryMiB); why != "" {
				checks.Add(at, "%s: %s", vm.Name, why)
			}
		}
	}
	for _, id := range slices.Sorted(maps.Keys(given)) {
		if !slices.ContainsFunc(p.VMs, func(vm VM) bool { return vm.ID == id }) {
			checks.Add("decisions."+string(id), "%s does not have this VM.", p.HostName)
		}
	}
	return out, checks.Err()
}

// choice returns the choice that the decision means; nil: there is none. Without a pool, the first choice of the host
// is meant.
func (vm VM) choice(d fleet.MaintenanceDecision) *Choice {
	for i, c := range vm.Choices {
		if c.Do == d.Do && c.HostID == d.HostID && (d.PoolID == "" || c.PoolID == d.PoolID) {
			return &vm.Choices[i]
		}
	}
	return nil
}

// ProposeAgain makes the earlier decision about the VM its proposal, if it is still possible. It is used when a
// maintenance continues. The proposal of a running VM's migration stays: it fits together with the others.
func (vm *VM) ProposeAgain(earlier map[fleet.VMID]fleet.MaintenanceDecision) {
	d, ok := earlier[vm.ID]
	if d.Do == fleet.MaintenanceMigrate && vm.Runs {
		return
	}
	if c := vm.choice(d); ok && c != nil && c.Allowed {
		if vm.Proposal, vm.LacksRoom = &c.MaintenanceDecision, false; vm.Runs {
			vm.Reason = ""
		}
	}
}

// OfferStart adds the choice, as proposal, to start the VM afterwards. It is for a VM that the maintenance has shut down
// already, when the maintenance continues.
func (vm *VM) OfferStart() {
	later := Choice{MaintenanceDecision: fleet.MaintenanceDecision{Do: fleet.MaintenanceShutdown}, Allowed: true}
	vm.Choices, vm.Proposal = append(vm.Choices, later), &later.MaintenanceDecision
}

// ReturningVM is a VM that maintenance migrated away, and that leaving maintenance can bring back.
type ReturningVM struct {
	ID       fleet.VMID `json:"id"`
	Name     string     `json:"name"`
	HostName string     `json:"hostName"` // the VM's host now
	Allowed  bool       `json:"allowed"`  // the VM can be brought back
	Reason   string     `json:"reason,omitempty"`
}

// Blocker is a running VM on a host that is entering or in maintenance.
type Blocker struct {
	ID      fleet.VMID `json:"id"`
	Name    string     `json:"name"`
	Managed bool       `json:"managed"` // false: a discovered VM
	Reason  string     `json:"reason,omitempty"`
}

// Progress is how far the maintenance of a host is.
type Progress struct {
	Task      *fleet.Task `json:"task,omitempty"`      // moves and shuts down VMs; nil: no VM had to be, or the task was swept
	Remaining []Blocker   `json:"remaining,omitempty"` // run without a decision to leave them running
	Left      []Blocker   `json:"left,omitempty"`      // run by decision
	// Tainted are VMs that a NoExecute taint of the host could not move; also without maintenance.
	Tainted []Blocker `json:"tainted,omitempty"`
}

// IsStuck reports whether the host cannot enter maintenance without a user: its task has ended, and VMs still run.
func (p Progress) IsStuck() bool {
	return len(p.Remaining) > 0 && (p.Task == nil || p.Task.State.IsFinal())
}

// LeavePlan is what leaving maintenance starts and offers to bring back.
type LeavePlan struct {
	Start []fleet.NamedVM `json:"start"`
	Moved []ReturningVM   `json:"moved"`
}
