package fleet

import (
	"fmt"
)

// TransferID identifies the transfer of one file between two hosts.
type TransferID string

// TransferOrder is a host's part in a transfer.
type TransferOrder struct {
	ID        TransferID `json:"id"`
	Peer      HostID     `json:"peer"`
	PeerName  string     `json:"peerName"`
	RateBytes int64      `json:"rateBytes,omitempty"` // maximum bytes per second; 0: unlimited
	// Check: the receiver verifies the data on its storage, because the source will be deleted
	Check bool `json:"check,omitempty"`
}

// MigrateOrder holds the parameters of a cold migration.
type MigrateOrder struct {
	To        HostID        `json:"to"`
	ToName    string        `json:"toName"`
	RateBytes int64         `json:"rateBytes,omitempty"`
	Disks     []LeavingDisk `json:"disks"`
	// Generation is the VM's minimum generation on the target. Disk names contain generations up to it, which later disks
	// must not reuse.
	Generation int64    `json:"generation"`
	Stay       []Volref `json:"stay,omitempty"` // disks on shared pools, which the target host uses in place
}

// LeavingDisk is a disk of a migrating VM, sent by one transfer.
type LeavingDisk struct {
	Disk       Volref     `json:"disk"`
	To         Volref     `json:"to"`
	Transfer   TransferID `json:"transfer"`
	TakesBytes int64      `json:"takesBytes,omitempty"`
}

// LeavingVM is a VM with a running or queued migration.
type LeavingVM struct {
	MigrateOrder
	Task     TaskID   `json:"task"`
	State    JobState `json:"state"`
	Progress int      `json:"progress"`
	Note     string   `json:"note,omitempty"`
}

// MigrationTarget is a possible target of a VM's migration: a host, with a pool there for the disks that are sent.
type MigrationTarget struct {
	HostID    HostID `json:"hostId"`
	HostName  string `json:"hostName"`
	PoolID    PoolID `json:"poolId,omitempty"` // empty: all disks are on pools that both hosts share
	PoolName  string `json:"poolName,omitempty"`
	FreeBytes int64  `json:"freeBytes"` // bytes not reserved by any volume
	Allowed   bool   `json:"allowed"`
	Reason    string `json:"reason,omitempty"` // why it is not allowed
	Room      bool   `json:"room,omitempty"`   // only space is missing, which a user who may overcommit can ignore
}

// AllowsMigrate reports whether the VM can migrate to another host now; the string is the reason if not. moving lists
// its disks under migration, leaving its own migration. The host itself checks what only it can see, such as snapshots
// made with virsh.
func (v VMView) AllowsMigrate(moving []MovingDisk, leaving *LeavingVM) (bool, string) {
	ok, why := v.Allows(ActEdit)
	switch {
	case !ok:
		return false, why
	case v.Spec.Migration.Stays:
		return false, "It is to stay on its host. Take that back in its configuration, under Moves, first."
	case leaving != nil:
		return false, "It is on its way to " + leaving.ToName + " already. Wait for it, or cancel that task."
	case len(moving) > 0:
		return false, "A disk of the VM is being moved. Wait for it, or cancel that task."
	case v.Phase == PhaseUnknown:
		return false, "Its host is offline, so the VM's state is unknown."
	case v.Phase == PhaseCreating || v.Status == nil || v.Status.Power == Absent:
		return false, "The VM is not on its host yet."
	case v.Phase != PhaseStopped && v.Phase != PhaseCrashed:
		return false, "It goes to another host while it is off. Shut it down first."
	case v.missingDisk() != nil:
		return false, v.missingDisk().Text
	case len(v.Status.Drift) > 0:
		return false, "Somebody changed the VM on its host, which would be lost. Accept the drift or reapply first."
	case v.whyRunsElsewhere() != "":
		return false, v.whyRunsElsewhere() + " See to that first."
	case v.HeldBySnapshots() != "":
		return false, v.HeldBySnapshots()
	case v.Spec.Firmware != BIOS:
		return false, "Its firmware keeps its settings in a file of the host (NVRAM), which is not sent. Only VMs with BIOS go to another host."
	}
	for i, d := range v.Spec.Disks {
		switch {
		case d.Encryption != "":
			return false, diskNumber(i) + " is encrypted with a passphrase that its host keeps for itself, so it stays there."
		case d.Shareable:
			return false, diskNumber(i) + " is shared with other VMs, so it goes nowhere without them."
		case d.Existing:
			return false, diskNumber(i) + " is a LUN, which its storage alone moves."
		case d.Overlay:
			return false, diskNumber(i) + " stands on an image in its pool, which is not sent with it."
		case d.whyRawNotCopied() != "":
			return false, diskNumber(i) + " " + d.whyRawNotCopied()
		case !d.IsQcow2():
			return false, diskNumber(i) + " is no qcow2 file of a pool."
		}
	}
	return true, ""
}

func diskNumber(i int) string { return fmt.Sprintf("Disk %d", i+1) }
