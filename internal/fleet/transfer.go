package fleet

import (
	"fmt"
)

// TransferID names the way of one file from one host to another.
type TransferID string

// TransferOrder is a host's part in a transfer: with whom, and how fast.
type TransferOrder struct {
	ID        TransferID `json:"id"`
	Peer      HostID     `json:"peer"`
	PeerName  string     `json:"peerName"`
	RateBytes int64      `json:"rateBytes,omitempty"` // a second, at most; 0: as fast as it goes
	Check     bool       `json:"check,omitempty"`     // the receiver reads it back from its storage: what it was made from will go
}

// MigrateOrder is where a VM that is off goes.
type MigrateOrder struct {
	To        HostID        `json:"to"`
	ToName    string        `json:"toName"`
	RateBytes int64         `json:"rateBytes,omitempty"`
	Disks     []LeavingDisk `json:"disks"`
	// Generation is the VM's at least once it is there: the disks' names bear numbers up to it, which no later disk is to bear.
	Generation int64    `json:"generation"`
	Stay       []Volref `json:"stay,omitempty"` // disks that the other host reads where they are: of a shared pool
}

// LeavingDisk is a disk of such a VM: one transfer.
type LeavingDisk struct {
	Disk       Volref     `json:"disk"`
	To         Volref     `json:"to"`
	Transfer   TransferID `json:"transfer"`
	TakesBytes int64      `json:"takesBytes,omitempty"`
}

// LeavingVM is such a VM on its way, or waiting for its turn.
type LeavingVM struct {
	MigrateOrder
	Task     TaskID   `json:"task"`
	State    JobState `json:"state"`
	Progress int      `json:"progress"`
	Note     string   `json:"note,omitempty"`
}

// MigrationTarget is where a VM could go: a host, with the pool there for the disks that are sent; and why not.
type MigrationTarget struct {
	HostID    HostID `json:"hostId"`
	HostName  string `json:"hostName"`
	PoolID    PoolID `json:"poolId,omitempty"` // empty: all disks stay in pools that both hosts have
	PoolName  string `json:"poolName,omitempty"`
	FreeBytes int64  `json:"freeBytes"` // promised to no volume
	Allowed   bool   `json:"allowed"`
	Reason    string `json:"reason,omitempty"` // why not
	Room      bool   `json:"room,omitempty"`   // only room is missing, which who may overcommit may wish all the same
}

// AllowsMigrate says whether the VM can go to another host now, and if not, why. moving: its disks that are on their way to another pool;
// leaving: its own way to another host. What only the host can see, such as snapshots, it says itself.
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
		return false, "Its host is not heard, so nobody knows what the VM does now."
	case v.Phase == PhaseCreating || v.Status == nil || v.Status.Power == Absent:
		return false, "The VM is not on its host yet."
	case v.Phase != PhaseStopped && v.Phase != PhaseCrashed:
		return false, "It goes to another host while it is off. Shut it down first."
	case v.missingDisk() != nil:
		return false, v.missingDisk().Text
	case len(v.Status.Drift) > 0:
		return false, "Somebody changed the VM on its host, which would be lost. Take that over, or put it back, first."
	case v.heldElsewhere() != "":
		return false, v.heldElsewhere() + " See to that first."
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
		case d.staysRaw() != "":
			return false, diskNumber(i) + " " + d.staysRaw()
		case !d.IsQcow2():
			return false, diskNumber(i) + " is no qcow2 file of a pool."
		}
	}
	return true, ""
}

func diskNumber(i int) string { return fmt.Sprintf("Disk %d", i+1) }
