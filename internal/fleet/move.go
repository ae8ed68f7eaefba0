package fleet

// MaxMoveRate bounds how fast a move may be told to be, in bytes a second: above it, no limit is the plainer wish.
const MaxMoveRate = 100 << 30

// LeastMoveRate is the slowest that a move may be told to be.
const LeastMoveRate = 1 << 20

// MoveOrder is where a disk of a VM goes.
type MoveOrder struct {
	Disk      Volref `json:"disk"`
	To        Volref `json:"to"`
	RateBytes int64  `json:"rateBytes,omitempty"` // a second, at most; 0: as fast as it goes
	// TakesBytes is what the pool is promised to the copy meanwhile.
	TakesBytes int64 `json:"takesBytes,omitempty"`
}

// MovingDisk is a disk that is on its way, or waits for its turn.
type MovingDisk struct {
	MoveOrder
	Task     TaskID   `json:"task"`
	State    JobState `json:"state"`
	Progress int      `json:"progress"`
	Note     string   `json:"note,omitempty"`
}

// CheckMoveRate notes at field where nothing can be moved so.
func CheckMoveRate(c *Checks, field string, bytes int64) {
	if bytes != 0 && (bytes < LeastMoveRate || bytes > MaxMoveRate) {
		c.Add(field, "A limit is between 1 MiB/s and 100 GiB/s. Leave it out to move as fast as it goes.")
	}
}

// AllowsMove says whether the disk can be moved now, and if not, why. moving: the disks of the VM that are on their way.
func (v VMView) AllowsMove(disk Volref, moving []MovingDisk) (bool, string) {
	ok, why := v.Allows(ActEdit)
	d := v.Spec.diskOf(disk)
	switch {
	case !ok:
		return false, why
	case v.Phase == PhaseUnknown:
		return false, "Its host is not heard, so nobody knows what the VM does now."
	case v.Phase == PhaseCreating || v.Status == nil || v.Status.Power == Absent:
		return false, "The VM is not on its host yet."
	case v.FaultOf(disk) != nil:
		return false, v.FaultOf(disk).Text
	case v.fault(FaultUndefined) != nil:
		return false, "The VM runs without a definition. Put it back first."
	case v.changedDisks():
		return false, "Somebody changed its disks on the host. Take that over, or put it back, first."
	case v.HeldBySnapshots() != "":
		return false, v.HeldBySnapshots()
	case d.Encryption != "":
		return false, "It is encrypted with a passphrase that its host keeps for itself, so it is not copied."
	case d.staysRaw() != "":
		return false, "It " + d.staysRaw()
	case d.Shareable:
		return false, "It is shared with other VMs, so it stays in its pool."
	}
	for _, m := range moving {
		if m.Disk == disk {
			return false, "It is being moved already. Wait for it, or cancel that task."
		}
	}
	if len(moving) > 0 { // one at a time: a second order that waits would take the first one's place
		return false, "Another disk of the VM is being moved. Wait for it, or cancel that task."
	}
	return true, ""
}

func (v VMView) changedDisks() bool {
	for _, d := range v.Status.Drift {
		if d.Field == "disks" {
			return true
		}
	}
	return false
}

// MoveTarget is a pool that a disk could go to, and why not.
type MoveTarget struct {
	PoolID    PoolID `json:"poolId"`
	PoolName  string `json:"poolName"`
	FreeBytes int64  `json:"freeBytes"`        // promised to no volume
	Allowed   bool   `json:"allowed"`          //
	Reason    string `json:"reason,omitempty"` // why not
	Room      bool   `json:"room,omitempty"`   // only room is missing, which who may overcommit may wish all the same
}
