package fleet

import (
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
