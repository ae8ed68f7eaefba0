package fleet

import (
	"maps"
	"slices"
	"time"
)

// HostMaintenance is a requested maintenance of a host, until a user ends it. Only the portal writes it.
type HostMaintenance struct {
	Since time.Time `json:"since"`
	By    string    `json:"by"` // user name
	// TaskID is the newest task that moves or shuts down VMs; empty: no VM had to be.
	TaskID TaskID `json:"taskId,omitempty"`
	// EnteredAt: since when no VM runs on the host but those left running; nil: the host is still entering maintenance.
	EnteredAt *time.Time                   `json:"enteredAt,omitempty"`
	Decisions map[VMID]MaintenanceDecision `json:"decisions,omitempty"`
	Stopped   []VMID                       `json:"stopped,omitempty"` // VMs that Quantix shut down, to be started afterwards
	Moved     []MovedVM                    `json:"moved,omitempty"`
}

// MovedVM is a VM that was migrated away from a host in maintenance.
type MovedVM struct {
	VMID   VMID   `json:"vmId"`
	ToHost HostID `json:"toHost"`
}

// MaintenanceDo is what happens to a VM of a host that enters maintenance.
type MaintenanceDo string

const (
	MaintenanceMigrate  MaintenanceDo = "migrate"
	MaintenanceShutdown MaintenanceDo = "shutdown"
	MaintenanceLeave    MaintenanceDo = "leave" // left running, or powered off, on the host
)

// MaintenanceDecision is the decision about one VM.
type MaintenanceDecision struct {
	Do     MaintenanceDo `json:"do" enum:"migrate,shutdown,leave"`
	HostID HostID        `json:"hostId,omitempty" doc:"migrate: the target host"`
	PoolID PoolID        `json:"poolId,omitempty" doc:"migrate: the target host's pool for the disks; empty: each disk's own pool"`
}

// MaintenanceChoice is a possible decision about a VM.
type MaintenanceChoice struct {
	MaintenanceDecision
	HostName string          `json:"hostName,omitempty"` // of a migration
	PoolName string          `json:"poolName,omitempty"`
	Mode     MigrationMode   `json:"mode,omitempty"` // of a migration: live or cold
	Method   MigrationMethod `json:"method,omitempty"`
	Allowed  bool            `json:"allowed"`
	Reason   string          `json:"reason,omitempty"` // why the choice is not allowed
	// LacksRoom: the choice is only not allowed because the host cannot allocate the VM
	LacksRoom bool       `json:"lacksRoom,omitempty"`
	Copies    []PoolCopy `json:"copies,omitempty"` // of a migration: see MigrationTarget.Copies
}

// MaintenanceVM is a VM in a MaintenancePlan.
type MaintenanceVM struct {
	ID          VMID                `json:"id"`
	Name        string              `json:"name"`
	ProjectID   ProjectID           `json:"projectId,omitempty"`
	ProjectName string              `json:"projectName,omitempty"`
	Managed     bool                `json:"managed"` // false: a discovered VM
	Phase       Phase               `json:"phase"`
	Runs        bool                `json:"runs"` // the VM runs, is paused or is being started
	CPUs        int                 `json:"cpus,omitempty"`
	MemoryMiB   int                 `json:"memoryMiB,omitempty"`
	Choices     []MaintenanceChoice `json:"choices"`
	// Proposal is the decision that applies without another one; nil: the VM needs a decision, for Reason.
	Proposal *MaintenanceDecision `json:"proposal,omitempty"`
	Reason   string               `json:"reason,omitempty"`
	// LacksRoom: no migration is proposed because the other hosts cannot allocate the VM, too. Overcommit would allow one.
	LacksRoom bool `json:"lacksRoom,omitempty"`
}

// MaintenancePlan lists what can happen to each VM of a host that enters maintenance.
type MaintenancePlan struct {
	HostID   HostID          `json:"hostId"`
	HostName string          `json:"hostName"`
	VMs      []MaintenanceVM `json:"vms"`
	// Overcommit: migrations may exceed what the other hosts can allocate
	Overcommit bool              `json:"overcommit,omitempty"`
	Targets    []MaintenanceRoom `json:"targets"`
	Pools      []MaintenancePool `json:"pools"` // pools of the targets to which disks can be copied
}

// WasOff reports whether the plan has the VM as one that does not run.
func (p MaintenancePlan) WasOff(id VMID) bool {
	return slices.ContainsFunc(p.VMs, func(vm MaintenanceVM) bool { return vm.ID == id && !vm.Runs })
}

// Undecided counts the VMs without a proposal.
func (p MaintenancePlan) Undecided() (n int) {
	for _, vm := range p.VMs {
		if vm.Proposal == nil {
			n++
		}
	}
	return n
}

// ApplyDefault makes shutdown or leave the proposal of each VM without one, if that is allowed for the VM; empty: no
// change.
func (p *MaintenancePlan) ApplyDefault(do MaintenanceDo) error {
	switch do {
	case "":
		return nil
	case MaintenanceShutdown, MaintenanceLeave:
	default:
		var checks Checks
		checks.Add("default", "Use shutdown or leave.")
		return checks.Err()
	}
	for i, vm := range p.VMs {
		if c := vm.choice(MaintenanceDecision{Do: do}); vm.Proposal == nil && c != nil && c.Allowed {
			p.VMs[i].Proposal = &c.MaintenanceDecision
		}
	}
	return nil
}

// Decide returns the decision for each VM of the plan: the given one, else the proposal. The error has a field
// "decisions.<id>" for each VM without a decision, for each decision that the plan does not allow, and for each VM that
// does not fit on its host together with the VMs before it.
func (p MaintenancePlan) Decide(given map[VMID]MaintenanceDecision) (map[VMID]MaintenanceDecision, error) {
	var checks Checks
	out := make(map[VMID]MaintenanceDecision, len(p.VMs))
	space := NewMaintenanceSpace(p.Targets, p.Overcommit)
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
		case c == nil && d.Do == MaintenanceMigrate && d.HostID == "":
			checks.Add(at, "Choose the host that %s is migrated to.", vm.Name)
		case c == nil:
			checks.Add(at, "This is not possible for %s. Choose another decision.", vm.Name)
		case !c.Allowed:
			checks.Add(at, "%s: %s", vm.Name, c.Reason)
		default:
			out[vm.ID] = c.MaintenanceDecision
			if c.Do != MaintenanceMigrate {
				continue
			}
			if why, _ := space.Take(*c, vm.CPUs, vm.MemoryMiB); why != "" {
				checks.Add(at, "%s: %s", vm.Name, why)
			}
		}
	}
	for _, id := range slices.Sorted(maps.Keys(given)) {
		if !slices.ContainsFunc(p.VMs, func(vm MaintenanceVM) bool { return vm.ID == id }) {
			checks.Add("decisions."+string(id), "%s does not have this VM.", p.HostName)
		}
	}
	return out, checks.Err()
}

// choice returns the choice that the decision means; nil: there is none. Without a pool, the first choice of the host
// is meant.
func (vm MaintenanceVM) choice(d MaintenanceDecision) *MaintenanceChoice {
	for i, c := range vm.Choices {
		if c.Do == d.Do && c.HostID == d.HostID && (d.PoolID == "" || c.PoolID == d.PoolID) {
			return &vm.Choices[i]
		}
	}
	return nil
}

// ProposeAgain makes the earlier decision about the VM its proposal, if it is still possible. It is used when a
// maintenance continues. The proposal of a running VM's migration stays: it fits together with the others.
func (vm *MaintenanceVM) ProposeAgain(earlier map[VMID]MaintenanceDecision) {
	d, ok := earlier[vm.ID]
	if d.Do == MaintenanceMigrate && vm.Runs {
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
func (vm *MaintenanceVM) OfferStart() {
	later := MaintenanceChoice{MaintenanceDecision: MaintenanceDecision{Do: MaintenanceShutdown}, Allowed: true}
	vm.Choices, vm.Proposal = append(vm.Choices, later), &later.MaintenanceDecision
}

// WithdrawStart records that the VM is not started afterwards.
func (m *HostMaintenance) WithdrawStart(id VMID) {
	m.Stopped = slices.DeleteFunc(m.Stopped, func(of VMID) bool { return of == id })
}

// LeavesRunning reports whether the VM was left running by decision.
func (m HostMaintenance) LeavesRunning(id VMID) bool { return m.Decisions[id].Do == MaintenanceLeave }

// AddStopped records that Quantix shut down the VM.
func (m *HostMaintenance) AddStopped(id VMID) {
	if !slices.Contains(m.Stopped, id) {
		m.Stopped = append(m.Stopped, id)
	}
}

// AddMoved records that the VM was migrated to the host.
func (m *HostMaintenance) AddMoved(id VMID, to HostID) {
	m.Moved = slices.DeleteFunc(m.Moved, func(v MovedVM) bool { return v.VMID == id })
	m.Moved = append(m.Moved, MovedVM{id, to})
}

// ReturningVM is a VM that maintenance migrated away, and that leaving maintenance can bring back.
type ReturningVM struct {
	ID       VMID   `json:"id"`
	Name     string `json:"name"`
	HostName string `json:"hostName"` // the VM's host now
	Allowed  bool   `json:"allowed"`  // the VM can be brought back
	Reason   string `json:"reason,omitempty"`
}

// MaintenanceBlocker is a running VM on a host that is entering or in maintenance.
type MaintenanceBlocker struct {
	ID      VMID   `json:"id"`
	Name    string `json:"name"`
	Managed bool   `json:"managed"` // false: a discovered VM
	Reason  string `json:"reason,omitempty"`
}

// MaintenanceProgress is how far the maintenance of a host is.
type MaintenanceProgress struct {
	Task      *Task                `json:"task,omitempty"`      // moves and shuts down VMs; nil: no VM had to be, or the task was swept
	Remaining []MaintenanceBlocker `json:"remaining,omitempty"` // run without a decision to leave them running
	Left      []MaintenanceBlocker `json:"left,omitempty"`      // run by decision
	// Tainted are VMs that a NoExecute taint of the host could not move; also without maintenance.
	Tainted []MaintenanceBlocker `json:"tainted,omitempty"`
}

// IsStuck reports whether the host cannot enter maintenance without a user: its task has ended, and VMs still run.
func (p MaintenanceProgress) IsStuck() bool {
	return len(p.Remaining) > 0 && (p.Task == nil || p.Task.State.IsFinal())
}

// LeavePlan is what leaving maintenance starts and offers to bring back.
type LeavePlan struct {
	Start []NamedVM     `json:"start"`
	Moved []ReturningVM `json:"moved"`
}
