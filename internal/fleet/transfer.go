package fleet

import (
	"fmt"
	"slices"
)

// TransferID identifies the transfer of one file between two hosts.
type TransferID string

// RelayedNote is the note of transfers through the portal.
const RelayedNote = "relayed by the portal, because the hosts cannot reach each other"

// TransferParams holds the parameters of one host's side of a transfer.
type TransferParams struct {
	ID        TransferID `json:"id"`
	Peer      HostID     `json:"peer"`
	PeerName  string     `json:"peerName"`
	RateBytes int64      `json:"rateBytes,omitempty"` // maximum bytes per second; 0: unlimited
	// Check: the receiver reads the stored file again to verify it, because the source will be deleted
	Check bool `json:"check,omitempty"`
}

// MigrationMode selects how a VM migrates to another host.
type MigrationMode string

// Migration modes.
const (
	MigrateAuto MigrationMode = "auto" // live if the VM runs, else cold
	MigrateLive MigrationMode = "live" // the VM keeps running
	MigrateCold MigrationMode = "cold" // the VM is off, and its disks are copied
)

// MigrationParams holds the parameters of a migration.
type MigrationParams struct {
	To        HostID          `json:"to"`
	ToName    string          `json:"toName"`
	RateBytes int64           `json:"rateBytes,omitempty"`
	Disks     []MigratingDisk `json:"disks"`
	// Generation is the lowest generation that the VM may have on the target host. Disk names contain generations up to
	// it, and later disks must not reuse these names.
	Generation int64      `json:"generation"`
	Stay       []Volref   `json:"stay,omitempty"` // disks on shared pools, which stay where they are and are used by the target host
	Live       TransferID `json:"live,omitempty"` // the connection of a live migration; empty: cold
	// Firmware is the transfer of the UEFI variables, the TPM state and, with Definition, the definition in a cold
	// migration; empty: the VM has none of these
	Firmware   TransferID `json:"firmware,omitempty"`
	Definition bool       `json:"definition,omitempty"` // an adopted VM keeps its host's definition
	// Options apply to a live migration.
	Options MigrationOptions `json:"options,omitzero"`
}

// Transfers returns the transfers of a cold migration, one for each file.
func (p MigrationParams) Transfers() (out []TransferID) {
	for _, d := range p.Disks {
		out = append(out, d.Transfer)
	}
	if p.Firmware != "" {
		out = append(out, p.Firmware)
	}
	return out
}

// MigrationOptions control how a live migration copies memory that the guest changes meanwhile. The zero value is the
// default.
type MigrationOptions struct {
	AutoConverge   bool              `json:"autoConverge,omitempty" doc:"Slow down the guest's processors until its memory is copied faster than it changes"`
	PostCopy       bool              `json:"postCopy,omitempty" doc:"Switch to the target host once the memory was copied once, and copy the rest while the VM runs there. The VM is lost if a host or the connection fails then"`
	Channels       int               `json:"channels,omitempty" doc:"Parallel connections (multifd), 16 at most; 0: one connection"`
	MaxDowntime    int               `json:"maxDowntimeMs,omitempty" doc:"The longest pause of the guest at the end, in milliseconds, 60,000 at most; 0: 300"`
	TimeoutSeconds int               `json:"timeoutSeconds,omitempty" doc:"The time after which onTimeout applies, one day at most; 0: no limit"`
	OnTimeout      MigrationOnExpiry `json:"onTimeout,omitempty" enum:"continue,pause,cancel" doc:"continue, the default: keep trying; pause: pause the guest, so that the migration ends; cancel: leave the VM on its host"`
}

// Limits of MigrationOptions.
const (
	maxMigrationChannels    = 16
	maxMigrationDowntime    = 60_000 // milliseconds
	maxMigrationTimeSeconds = 86_400
)

// Check adds an error below field for each value that is out of bounds.
func (o MigrationOptions) Check(c *Checks, field string) {
	if o.Channels < 0 || o.Channels > maxMigrationChannels {
		c.Add(field+".channels", "Enter 1 to %d connections, or leave the field empty.", maxMigrationChannels)
	}
	if o.MaxDowntime < 0 || o.MaxDowntime > maxMigrationDowntime {
		c.Add(field+".maxDowntimeMs", "Enter 1 to %d milliseconds, or leave the field empty.", maxMigrationDowntime)
	}
	if o.TimeoutSeconds < 0 || o.TimeoutSeconds > maxMigrationTimeSeconds {
		c.Add(field+".timeoutSeconds", "Enter 1 to %d seconds, or leave the field empty.", maxMigrationTimeSeconds)
	}
	if o.PostCopy && o.Channels > 1 {
		c.Add(field+".channels", "QEMU cannot combine post-copy with several connections. Choose one of them.")
	}
	switch o.OnTimeout {
	case "", ExpiryContinue, ExpiryPause, ExpiryCancel:
	default:
		c.Add(field+".onTimeout", "Choose continue, pause or cancel.")
	}
	if (o.OnTimeout == ExpiryPause || o.OnTimeout == ExpiryCancel) && o.TimeoutSeconds == 0 {
		c.Add(field+".timeoutSeconds", "Enter the time after which the migration is paused or cancelled.")
	}
}

// MigrationOnExpiry selects what happens when a live migration takes longer than its time limit.
type MigrationOnExpiry string

// What happens when a live migration takes longer than its time limit.
const (
	ExpiryContinue MigrationOnExpiry = "continue" // the default
	ExpiryPause    MigrationOnExpiry = "pause"    // the guest pauses until it runs on the target host
	ExpiryCancel   MigrationOnExpiry = "cancel"   // the VM stays on its host
)

// MigratingDisk is a disk of a migrating VM. In a cold migration, one transfer sends it. In a live migration, it has no
// transfer: the connection of the migration carries it.
type MigratingDisk struct {
	Disk       Volref     `json:"disk"`
	To         Volref     `json:"to"`
	Transfer   TransferID `json:"transfer,omitempty"`
	TakesBytes int64      `json:"takesBytes,omitempty"`
}

// SpecOnTarget returns the VM's spec with its disks on the target host.
func (p MigrationParams) SpecOnTarget(spec VMSpec) VMSpec {
	spec.Disks = slices.Clone(spec.Disks)
	for i := range spec.Disks {
		d := &spec.Disks[i]
		if k := slices.IndexFunc(p.Disks, func(o MigratingDisk) bool { return o.Disk == d.Ref() }); k >= 0 {
			d.PoolID, d.Volume = p.Disks[k].To.PoolID, p.Disks[k].To.Volume
		}
	}
	return spec
}

// MigratingVM is a VM with a running or queued migration.
type MigratingVM struct {
	MigrationParams
	Task     TaskID   `json:"task"`
	State    JobState `json:"state"`
	Progress int      `json:"progress"`
	Note     string   `json:"note,omitempty"`
}

// MigrationMethod is the best way of a VM to another host.
type MigrationMethod string

// Migration methods, the best first.
const (
	MethodShared MigrationMethod = "shared" // live: the VM keeps running, and its disks stay in shared pools
	MethodCopy   MigrationMethod = "copy"   // live: the VM keeps running, and disks are copied
	MethodCold   MigrationMethod = "cold"   // the VM is off
)

// DisplayName returns the method as pages show it.
func (m MigrationMethod) DisplayName() string {
	switch m {
	case MethodShared:
		return "Live"
	case MethodCopy:
		return "Live, copies disks"
	}
	return "Cold"
}

// MigrationTarget is a possible target of a VM's migration: a host, and a pool on that host for the disks that are
// sent.
type MigrationTarget struct {
	HostID    HostID `json:"hostId"`
	HostName  string `json:"hostName"`
	PoolID    PoolID `json:"poolId,omitempty"` // empty: each sent disk goes to the pool of the same name, or no disk is sent
	PoolName  string `json:"poolName,omitempty"`
	FreeBytes int64  `json:"freeBytes"` // bytes not reserved by any volume
	Allowed   bool   `json:"allowed"`
	Reason    string `json:"reason,omitempty"` // why the migration is not allowed
	Room      bool   `json:"room,omitempty"`   // only space is missing; a user who may overcommit can ignore that
	// HostFull: only the host's memory or vCPUs are missing
	HostFull bool `json:"hostFull,omitempty"`

	Reasons   []string        `json:"reasons,omitempty"` // every reason against the target, Reason first
	Method    MigrationMethod `json:"method"`
	CopyBytes int64           `json:"copyBytes"` // disks and, if the VM runs, memory
	// Copies are the disks that are copied, by pool. It leaves out pools whose size is unknown.
	Copies []PoolCopy `json:"copies,omitempty"`
	// EstimateSeconds is the expected duration, from the measured rate of earlier transfers; 0: no rate is known.
	EstimateSeconds int64 `json:"estimateSeconds,omitempty"`
}

// PoolCopy is what a migration writes into a pool of the target host.
type PoolCopy struct {
	PoolID    PoolID `json:"poolId"`
	PoolName  string `json:"poolName"`
	Bytes     int64  `json:"bytes"`            // the disks at their full size
	FreeBytes int64  `json:"freeBytes"`        // bytes not reserved by any volume
	Shared    bool   `json:"shared,omitempty"` // the pool's hosts share the space
}

// WithReason returns the target with a further reason against it, which comes first; empty: none.
func (t MigrationTarget) WithReason(why string) MigrationTarget {
	if why != "" {
		t.Allowed, t.Room, t.HostFull, t.Reason, t.Reasons = false, false, false, why, append([]string{why}, t.Reasons...)
	}
	return t
}

// MigrationPlan is the preview of a VM's migration: the possible target hosts, or why the VM cannot migrate at all.
type MigrationPlan struct {
	VMID     VMID   `json:"vmId"`
	Name     string `json:"name"`
	HostID   HostID `json:"hostId"`
	HostName string `json:"hostName"`
	Phase    Phase  `json:"phase"`
	Reason   string `json:"reason,omitempty"` // why the VM cannot migrate now
	// Best is the target that a migration without a named host chooses; nil: there is none.
	Best *MigrationTarget `json:"best,omitempty"`
	// Targets are all other hosts, each once with the best pool, the suitable hosts first.
	Targets []MigrationTarget `json:"targets"`
}

// AllowsMigration reports whether the VM can migrate to another host now; the string is the reason if not. moving lists
// the VM's disks under migration. current is the VM's running or queued migration, or nil. The host checks more, such
// as for snapshots made with virsh.
func (v VMView) AllowsMigration(moving []MovingDisk, current *MigratingVM) (bool, string) {
	ok, why := v.Allows(ActEdit)
	switch {
	case !ok:
		return false, why
	case v.Spec.Migration.Stays:
		return false, "The VM's configuration forbids migration. Allow it first, in the section Migration."
	case current != nil:
		return false, "The VM is already migrating to " + current.ToName + ". Wait for that task, or cancel it."
	case len(moving) > 0:
		return false, "A disk of the VM is being moved. Wait for that task, or cancel it."
	case v.whyUnreachable() != "":
		return false, v.whyUnreachable()
	case v.Phase == PhaseCreating || v.Status == nil || v.Status.Power == Absent:
		return false, "The VM is not on its host yet."
	case !v.MigratesLive() && v.Phase != PhaseStopped && v.Phase != PhaseCrashed:
		return false, "Only a running or a stopped VM can migrate to another host. Wait for the VM's other task, or resume the VM."
	case v.missingDiskFault() != nil:
		return false, v.missingDiskFault().Text
	case len(v.Status.Drift) > 0:
		return false, "The VM was changed on its host, and the changes would be lost. Accept the drift or reapply first."
	case v.runsElsewhereRefusal() != "":
		return false, v.runsElsewhereRefusal() + " Resolve that first."
	case v.WhySnapshotsBlockDiskJobs() != "":
		return false, v.WhySnapshotsBlockDiskJobs()
	case v.Status.Unmigratable != "":
		return false, v.Status.Unmigratable
	case v.MigratesLive():
		return v.allowsLiveMigration()
	}
	for i, d := range v.Spec.Disks {
		switch {
		case d.Encryption != "":
			return false, diskLabel(i) + " is encrypted with a passphrase that only its host has, so it cannot migrate."
		case d.Shareable:
			return false, diskLabel(i) + " is shared with other VMs, so it cannot migrate."
		case d.Existing:
			return false, diskLabel(i) + " is a LUN, so it cannot migrate."
		case d.Overlay:
			return false, diskLabel(i) + " is backed by an image in its pool, which is not transferred."
		case d.WhyRawNotCopied() != "":
			return false, diskLabel(i) + " " + d.WhyRawNotCopied()
		case !d.IsQcow2():
			return false, diskLabel(i) + " is not a qcow2 file of a pool."
		}
	}
	return true, ""
}

// HasFirmwareState reports whether the VM has UEFI variables or a TPM, whose state is in files of its host.
func (s VMSpec) HasFirmwareState() bool { return s.Firmware == UEFI || s.Security.TPM }

// MigratesLive reports whether a migration of the VM would be live now.
func (v VMView) MigratesLive() bool { return v.Phase == PhaseRunning || v.Phase == PhaseNeedsRestart }

// allowsLiveMigration reports whether the running VM could keep running on another host.
func (v VMView) allowsLiveMigration() (bool, string) {
	if len(v.Spec.HostDevices)+len(v.Spec.DeviceClasses) > 0 {
		return false, "The VM uses devices of its host, which cannot migrate. Detach the devices first."
	}
	for i, d := range v.Spec.Disks {
		switch {
		case d.Encryption != "":
			return false, diskLabel(i) + " is encrypted with a passphrase that only its host has, so it cannot migrate."
		case d.Shareable:
			return false, diskLabel(i) + " is shared with other VMs, so it cannot migrate."
		}
	}
	return true, ""
}

// WhyNotCopiedLive returns why a live migration cannot copy disk i to another host; empty: it can.
func (v VMView) WhyNotCopiedLive(i int) string {
	switch d := v.Spec.Disks[i]; {
	case d.Existing:
		return diskLabel(i) + " is a LUN, which is not copied. Use a pool that both hosts share."
	case d.Overlay:
		return diskLabel(i) + " is backed by an image in its pool, which is not transferred. Move the disk to a pool that both hosts share."
	}
	return ""
}

func diskLabel(i int) string { return fmt.Sprintf("Disk %d", i+1) }
